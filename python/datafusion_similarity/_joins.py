"""Joins of two frames: by a condition, and by the nearest rows."""

from __future__ import annotations

import re
from typing import Any, Literal

from ._expressions import Condition, Expr, Rule, condition_sql, rule_sql
from ._frames import Frame, To, check_to, convert, kind_of
from ._plans import join_keyword, one_of, plan, score_columns, share, side_by_side, with_recall
from ._session import Session, check_session
from ._text import identifier, only_call, text
from ._workspace import Table, Workspace, workspace
from .measures import DISTANCES, SIMILARITIES

#: Types of joins, and their words in SQL. pandas says "outer" for "full".
_HOW = {
    "inner": "INNER",
    "left": "LEFT",
    "right": "RIGHT",
    "full": "FULL",
    "outer": "FULL",
    "semi": "LEFT SEMI",
    "anti": "LEFT ANTI",
}

#: A quoted name that needs no quotes to be read.
_QUOTED_WORD = re.compile(r'"(\w+)"')


def fuzzy_join(
    left: Frame,
    right: Frame,
    on: Rule,
    how: Literal["inner", "left", "right", "full", "outer", "semi", "anti"] = "inner",
    *,
    suffix: str = "_right",
    score: Any = None,
    recall: float | None = None,
    allow_nested_loop: bool = False,
    maintain_order: bool = True,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Joins the rows of two frames that are alike.

    >>> import polars as pl
    >>> from datafusion_similarity import fuzzy_join, l, r
    >>> from datafusion_similarity.measures import levenshtein
    >>> people = pl.DataFrame({"name": ["Anna Miller", "Bob Stone"], "city": ["Bonn", "Kiel"]})
    >>> guests = pl.DataFrame({"name": ["Ana Miller", "Rob Stone"], "city": ["Bonn", "Ulm"]})
    >>> fuzzy_join(people, guests, (levenshtein(l.name, r.name) <= 2) & (l.city == r.city)).rows()
    [('Anna Miller', 'Bonn', 'Ana Miller', 'Bonn')]

    Args:
        left: The frame whose rows are ``l`` in conditions.
        right: The frame whose rows are ``r``.
        on: A condition: SQL text such as ``"levenshtein(l.name, r.name) <= 2"``, or an expression. Of a list of
            conditions, one has to hold. The name of a matching rule of ``session`` is taken, too.
        how: ``"inner"``, ``"left"``, ``"right"``, ``"full"`` (or ``"outer"``), ``"semi"`` for left rows with a
            partner, each once, ``"anti"`` for left rows without one.
        suffix: What is added to a column of the right frame, if the left one has a column of that name.
        score: Scores as further columns: one expression as the column ``score``, a dict of expressions by column, or
            True for every measure in ``on``, named like ``levenshtein(name)``.
        recall: The share of pairs to find, such as 0.95, for a join that may miss some. Without it none is missed.
        allow_nested_loop: Whether a join that no index serves runs all the same. It may compare all pairs of rows. A
            condition of equalities alone needs this, too, and runs as a hash join.
        maintain_order: Whether pairs come in the order of the left rows, then of the right rows. Without it the order
            is open, which saves a sort.
        to: The kind of the result, if it is not that of ``left``: ``"pandas"``, ``"polars"``, ``"lazy"``, ``"arrow"``,
            ``"duckdb"``, ``"datafusion"``, ``"query"`` for one that has not run, or ``"rows"``.
        session: The session whose settings and matching rules count.

    Returns:
        The columns of the left frame, then those of the right one, then scores. ``"semi"`` and ``"anti"`` give the
        columns of the left frame alone. NULL matches nothing.

    Raises:
        SimilarityError: SQL that is wrong, and a condition that no index serves.
        TypeError, ValueError: Another argument that is wrong.
    """
    how_sql = _HOW[one_of(how, "how", tuple(_HOW))]
    kind = _kind(left, to)
    check_session(session)
    with workspace(session) as work:
        tables = work.add(left, "left"), work.add(right, "right")
        one_sided = how in ("semi", "anti")
        if one_sided and score:
            raise ValueError(f"score is of pairs, and how={how!r} gives left rows without their partners")
        named = isinstance(on, str) and on.strip().isidentifier()
        condition = f"match_rule({work.rule(on, 'on')}, l, r)" if named else rule_sql(on, "on")
        scores = _scores_of_rule(work, tables, on) if score is True else score_columns(score)
        columns = (
            [f"l.{identifier(name)}" for name in tables[0].columns]
            if one_sided
            else side_by_side(*tables, suffix, list(scores))
        )
        columns += [f"{sql} AS {identifier(name)}" for name, sql in scores.items()]
        query = (
            f"SELECT {', '.join(columns)} FROM {tables[0].sql} AS l {join_keyword(how_sql, allow_nested_loop)} "
            f"{tables[1].sql} AS r ON {with_recall(condition, recall)}"
        )
        if maintain_order:
            order = [_order("l", tables[0])] + ([] if one_sided else [_order("r", tables[1])])
            query += f" ORDER BY {', '.join(order)}"
        planned = plan(work, query, allow_nested_loop)
    return convert(planned, kind)


def nearest(
    left: Frame,
    right: Frame,
    by: Condition,
    k: int = 1,
    *,
    how: Literal["left", "inner"] = "left",
    on: Rule | None = None,
    then_by: str | list[str] | None = None,
    ties: bool = False,
    direction: Literal["distance", "similarity"] | None = None,
    suffix: str = "_right",
    score: Any = True,
    recall: float | None = None,
    maintain_order: bool = True,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Joins each left row with its ``k`` best rows of the right frame.

    >>> import polars as pl
    >>> from datafusion_similarity import l, nearest, r
    >>> from datafusion_similarity.measures import jaro_winkler_similarity
    >>> typed = pl.DataFrame({"typed": ["Micheal", "Jon"]})
    >>> names = pl.DataFrame({"name": ["Michael", "Michelle", "John"]})
    >>> found = nearest(typed, names, by=jaro_winkler_similarity(l.typed, r.name))
    >>> found.select("typed", "name", pl.col("score").round(3)).rows()
    [('Micheal', 'Michael', 0.971), ('Jon', 'John', 0.933)]

    Args:
        left: The frame whose rows are ``l``.
        right: The frame whose rows are ``r``, the candidates.
        by: The number that ranks candidates: SQL text over ``l`` and ``r``, or an expression.
        k: How many rows of the right frame each left row gets.
        how: ``"left"`` keeps left rows that have no candidate, with NULL; ``"inner"`` drops them.
        on: Which right rows are candidates of a left row, as in :func:`fuzzy_join`. All are without it.
        then_by: The column of the right frame, or the columns, that decide between equal scores, in ascending order.
            SQL such as ``"r.name DESC"`` is taken, too. Without it the first of them in the right frame is best.
        ties: Whether rows that tie with the last one come out as well.
        direction: Whether the smallest number is best (``"distance"``) or the largest (``"similarity"``). It may be
            left out where ``by`` is one measure of this package.
        suffix: As in :func:`fuzzy_join`.
        score: True for the column ``score``, False for none, or scores as in :func:`fuzzy_join`.
        recall: The share of neighbours to find, such as 0.95, for a ranking that may miss some.
        maintain_order: Whether rows come in the order of the left frame, the best one of each left row first.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        The columns of the left frame, then those of the right one, then scores. A pair whose score is NULL is never
        joined.

    Raises:
        SimilarityError: SQL that is wrong.
        TypeError, ValueError: Another argument that is wrong.
    """
    one_of(how, "how", ("left", "inner"))
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k is how many rows each left row gets, a whole number from 1 on, not {k!r}")
    ranking = condition_sql(by, "by")
    best = _direction(by, direction)
    kind = _kind(left, to)
    check_session(session)
    with workspace(session) as work:
        tables = work.add(left, "left"), work.add(right, "right")
        scores = {"score": ranking} if score is True else score_columns(score)
        columns = side_by_side(*tables, suffix, list(scores))
        columns += [f"{sql} AS {identifier(name)}" for name, sql in scores.items()]
        approximate = "" if recall is None else "APPROXIMATE "
        query = (
            f"SELECT {', '.join(columns)} FROM {tables[0].sql} AS l {how.upper()} JOIN {tables[1].sql} AS r "
            f"{approximate}NEAREST {k} BY {best.upper()} {ranking}"
        )
        order = _ties(then_by, tables[1])
        query += f" THEN BY {order}"
        if on is not None:
            query += f" ON {rule_sql(on, 'on')}"
        if ties:
            query += " WITH TIES"
        if recall is not None:
            query += f" WITH RECALL {share(recall)}"
        if maintain_order:
            way = "ASC" if best == "distance" else "DESC"
            query += f" ORDER BY {_order('l', tables[0])}, {ranking} {way} NULLS LAST, {order}"
        planned = plan(work, query)
    return convert(planned, kind)


def _kind(frame: Frame, to: To) -> Any:
    check_to(to)
    return to or kind_of(frame, "left")


def _order(alias: str, table: Table) -> str:
    return f"{alias}.{identifier(table.row)} NULLS LAST"


def _scores_of_rule(work: Workspace, tables: tuple[Table, Table], on: Rule) -> dict[str, str]:
    """The value of each measure of a condition."""
    scores = f"match_scores({work.rule(on, 'on')}, l, r)"
    planned = work.core.sql(f"SELECT unnest({scores}) FROM {tables[0].sql} AS l, {tables[1].sql} AS r")
    names = [column.rsplit(").", 1)[-1] for column in planned.columns]
    # parts that are equalities have no number
    measures = [name for name in names if not name.endswith(" =")]
    plain = [_QUOTED_WORD.sub(r"\1", name) for name in measures]
    shown = plain if len(set(plain)) == len(plain) else measures
    return {name: f"{scores}[{text(measure)}]" for name, measure in zip(shown, measures, strict=True)}


def _direction(by: Condition, direction: str | None) -> str:
    if direction is not None:
        return one_of(direction, "direction", ("distance", "similarity"))
    function = by.function if isinstance(by, Expr) else only_call(by)
    if function in DISTANCES:
        return "distance"
    if function in SIMILARITIES:
        return "similarity"
    raise ValueError(
        "by is no single measure, so say which number is best: direction='distance' for the smallest, or "
        "direction='similarity' for the largest"
    )


def _ties(then_by: str | list[str] | None, right: Table) -> str:
    if then_by is None:
        return f"r.{identifier(right.row)}"
    wanted = [then_by] if isinstance(then_by, str) else list(then_by)
    return ", ".join(f"r.{identifier(item)}" if item in right.columns else item for item in wanted)

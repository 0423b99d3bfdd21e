"""Pairs of rows that describe the same thing, within a frame and between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ._expressions import Rule
from ._frames import Frame, To, check_to, convert, kind_of
from ._plans import check_distinct, join_keyword, links, one_of, plan, score_columns, with_recall
from ._session import Session, check_session
from ._text import identifier
from ._workspace import Table, Workspace, workspace

#: Which links come out, and the query of the ids and the score that leaves only those.
_WHICH = {
    "all": None,
    "best": "best_matches({}, 'left')",
    "mutual": "best_matches({}, 'both')",
    "one-to-one": "one_to_one({}, 'greedy')",
    "optimal": "one_to_one({}, 'optimal')",
}


def pairs(
    frame: Frame,
    rule: Rule,
    *,
    id: str | None = None,
    score: Any = None,
    columns: Sequence[str] = (),
    recall: float | None = None,
    allow_nested_loop: bool = False,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Finds the pairs of rows of a frame for which a rule holds, one way round or the other.

    >>> import polars as pl
    >>> from datafusion_similarity import l, pairs, r
    >>> from datafusion_similarity.measures import jaro_winkler_similarity, levenshtein
    >>> people = pl.DataFrame({
    ...     "id": [1, 2, 3],
    ...     "name": ["Anna Miller", "Ana Miller", "Anna Mueller"],
    ...     "born": [1970, 1971, 1970],
    ... })
    >>> alike = [
    ...     levenshtein(l.name, r.name) <= 1,
    ...     (l.born == r.born) & (jaro_winkler_similarity(l.name, r.name) >= 0.9),
    ... ]
    >>> pairs(people, alike, id="id", columns=["name"]).rows()
    [(1, 2, 1, 'Anna Miller', 'Ana Miller'), (1, 3, 2, 'Anna Miller', 'Anna Mueller')]

    Args:
        frame: The frame. Both rows of a pair, ``l`` and ``r``, are of it.
        rule: A condition, or a list of which one has to hold, as ``on`` of :func:`fuzzy_join`.
        id: A column whose values differ. Without it rows are numbered from 0, and the ids are ``row_l``, ``row_r``.
        score: A score as the column ``score``, or a dict of expressions by column.
        columns: Columns of the frame that come along, with ``_l`` and ``_r`` behind their names.
        recall: As in :func:`fuzzy_join`.
        allow_nested_loop: As in :func:`fuzzy_join`.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        One row for each pair: ``<id>_l`` and ``<id>_r``, of which the first is smaller, scores, ``clause``, and
        columns. ``clause`` is the number of the first condition of the rule that holds, from 1. If a rule holds both
        ways round with different scores, the larger one counts. Rows come in the order of their ids.

    Raises:
        SimilarityError: SQL that is wrong, and a rule that no index serves.
        TypeError, ValueError: Another argument that is wrong.
    """
    check_to(to)
    kind = to or kind_of(frame, "frame")
    check_session(session)
    with workspace(session) as work:
        table = work.add(frame, "frame")
        key = Key.of(table, id, "id")
        scores = score_columns(score)
        sides = _columns(columns, table, table)
        check_distinct([f"{key.name}_l", f"{key.name}_r", *scores, "clause", *sides], "columns")
        found = _found(work, table, key, rule, scores, recall, allow_nested_loop)
        listed = [f"p.l AS {identifier(key.name + '_l')}", f"p.r AS {identifier(key.name + '_r')}"]
        listed += [f"p.{identifier(name)}" for name in scores] + ["p.clause"]
        query = f"SELECT {', '.join(listed + _select(sides))} FROM ({found}) AS p"
        if sides:
            query += f" JOIN {table.sql} AS l ON l.{key.sql} = p.l JOIN {table.sql} AS r ON r.{key.sql} = p.r"
        planned = plan(work, query + " ORDER BY p.l, p.r", allow_nested_loop)
    return convert(planned, kind)


def link(
    left: Frame,
    right: Frame,
    rule: Rule,
    *,
    which: Literal["all", "best", "mutual", "one-to-one", "optimal"] = "all",
    left_id: str | None = None,
    right_id: str | None = None,
    score: Any = None,
    columns: Sequence[str] = (),
    recall: float | None = None,
    allow_nested_loop: bool = False,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Finds the pairs of a left and a right row for which a rule holds.

    >>> import polars as pl
    >>> from datafusion_similarity import l, link, r
    >>> from datafusion_similarity.measures import jaccard
    >>> shop = pl.DataFrame({"sku": [1, 2], "title": ["Canon EOS 80D", "Canon EOS 90D"]})
    >>> offers = pl.DataFrame({"offer": [7, 8], "title": ["Canon EOS 80D camera", "Canon EOS 90D"]})
    >>> likeness = jaccard(l.title, r.title, 3)
    >>> link(shop, offers, likeness >= 0.4, which="one-to-one", score=likeness, left_id="sku", right_id="offer").rows()
    [(1, 7, 0.6111111111111112, 1), (2, 8, 1.0, 1)]

    Args:
        left: The frame of the rows ``l``.
        right: The frame of the rows ``r``.
        rule: A condition, or a list of which one has to hold, as ``on`` of :func:`fuzzy_join`.
        which: ``"all"`` pairs; the ``"best"`` right row of each left row; ``"mutual"`` pairs, which are the best of
            both rows; ``"one-to-one"``, which takes the best pair first; ``"optimal"``, one-to-one with the largest sum
            of scores. Equal scores are decided by the smaller ids.
        left_id: A column of the left frame whose values differ. Without it rows are numbered from 0, as ``row``.
        right_id: The same of the right frame.
        score: A score as the column ``score``. A larger one is better. All but ``"all"`` need it. With ``"all"`` it
            may be a dict of expressions by column.
        columns: Columns of both frames that come along, with ``_l`` and ``_r`` behind their names.
        recall: As in :func:`fuzzy_join`.
        allow_nested_loop: As in :func:`fuzzy_join`.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        One row for each pair: ``<left id>_l``, ``<right id>_r``, scores, ``clause`` (the number of the first condition
        that holds, from 1) and columns. Rows come in the order of the left frame, then of the right one.

    Raises:
        SimilarityError: SQL that is wrong, and a rule that no index serves.
        TypeError, ValueError: Another argument that is wrong.
    """
    one_of(which, "which", tuple(_WHICH))
    if which != "all" and (score is None or isinstance(score, dict)):
        raise ValueError(f"which={which!r} ranks the pairs, so it needs one expression as score")
    check_to(to)
    kind = to or kind_of(left, "left")
    check_session(session)
    with workspace(session) as work:
        tables = work.add(left, "left"), work.add(right, "right")
        keys = Key.of(tables[0], left_id, "left_id"), Key.of(tables[1], right_id, "right_id")
        scores = score_columns(score)
        sides = _columns(columns, *tables)
        names = [f"{keys[0].name}_l", f"{keys[1].name}_r"]
        check_distinct([*names, *scores, "clause", *sides], "columns")
        called = work.rule(rule, "rule")
        condition = with_recall(f"match_rule({called}, l, r)", recall)
        ids = [f"l.{keys[0].sql} AS {identifier(names[0])}", f"r.{keys[1].sql} AS {identifier(names[1])}"]
        of_left, of_right = f"{tables[0].sql} AS l", f"{tables[1].sql} AS r"
        rows = [f"{alias}.{identifier(table.row)}" for alias, table in zip("lr", tables, strict=True)]
        choice = _WHICH[which]
        if choice is None:
            listed = [f"{sql} AS {identifier(name)}" for name, sql in scores.items()]
            source = f"{of_left} {join_keyword('INNER', allow_nested_loop)} {of_right} ON {condition}"
        else:
            listed = ["m.score"]
            number = f"CAST({scores['score']} AS DOUBLE) AS score"
            before = f"SELECT {rows[0]} AS l, {rows[1]} AS r, {number} FROM {of_left}"
            linked = links(work, before, f"{of_right} ON {condition}", allow_nested_loop)
            source = (
                f"{choice.format(linked)} AS m JOIN {of_left} ON {rows[0]} = m.l JOIN {of_right} ON {rows[1]} = m.r"
            )
        listed = [*ids, *listed, f"matched_clause({called}, l, r) AS clause", *_select(sides)]
        order = ", ".join(rows)
        planned = plan(work, f"SELECT {', '.join(listed)} FROM {source} ORDER BY {order}", allow_nested_loop)
    return convert(planned, kind)


class Key:
    """What tells the rows of a table apart: a column of the frame, or the number of the row."""

    __slots__ = ("name", "sql")

    def __init__(self, name: str, sql: str) -> None:
        #: The name for users, which is ``row`` for numbers.
        self.name = name
        #: The column in SQL.
        self.sql = sql

    @classmethod
    def of(cls, table: Table, column: str | None, argument: str) -> Key:
        """The key of a table. Raises TypeError or ValueError that names the argument."""
        if column is None:
            return cls("row", identifier(table.row))
        return cls(column, identifier(table.require(column, argument)))


def _found(
    work: Workspace,
    table: Table,
    key: Key,
    rule: Rule,
    scores: dict[str, str],
    recall: float | None,
    allow_nested_loop: bool,
) -> str:
    """The query of pairs: ``l`` and ``r``, scores and ``clause``.

    A rule may hold for two rows one way round only, so both ways are asked, and a pair is kept once.
    """
    name = work.rule(rule, "rule")
    condition = with_recall(f"match_rule({name}, l, r) AND l.{key.sql} <> r.{key.sql}", recall)
    listed = "".join(f", {sql} AS {identifier(score)}" for score, sql in scores.items())
    largest = "".join(f", max({identifier(score)}) AS {identifier(score)}" for score in scores)
    return (
        f"SELECT least(l, r) AS l, greatest(l, r) AS r{largest}, min(clause) AS clause FROM "
        f"(SELECT l.{key.sql} AS l, r.{key.sql} AS r{listed}, matched_clause({name}, l, r) AS clause FROM "
        f"{table.sql} AS l {join_keyword('INNER', allow_nested_loop)} {table.sql} AS r ON {condition}) GROUP BY 1, 2"
    )


def _columns(columns: Sequence[str], left: Table, right: Table) -> dict[str, str]:
    """Columns of both sides as SQL, by the name that they get."""
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names, not a str; write [{columns!r}]")
    sides = {}
    for column in columns:
        tables = [("l", left), ("r", right)]
        having = [(alias, table) for alias, table in tables if column in table.columns]
        if not having:
            left.require(column, "columns")
        for alias, _ in having:
            sides[f"{column}_{alias}"] = f"{alias}.{identifier(column)}"
    return sides


def _select(sides: dict[str, str]) -> list[str]:
    return [f"{sql} AS {identifier(name)}" for name, sql in sides.items()]

"""Entities: from pairs to clusters, and from a frame to its clusters."""

from __future__ import annotations

from typing import Any, Literal

from ._expressions import Condition, Rule, condition_sql
from ._frames import Frame, To, check_to, convert, kind_of
from ._pairs import Key
from ._plans import links, one_of, plan, with_recall
from ._session import Session, check_session
from ._text import identifier, text
from ._workspace import workspace

_METHODS = ("components", "center", "star", "split")
Method = Literal["components", "center", "star", "split"]


def dedupe(
    frame: Frame,
    rule: Rule,
    *,
    id: str | None = None,
    method: Method = "components",
    score: Condition | None = None,
    largest: int | None = None,
    recall: float | None = None,
    allow_nested_loop: bool = False,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Gives each row of a frame the cluster of rows that describe the same thing.

    >>> import polars as pl
    >>> from datafusion_similarity import dedupe
    >>> people = pl.DataFrame({"name": ["Anna Miller", "Zoe Weber", "Ana Miller"]})
    >>> dedupe(people, "levenshtein(l.name, r.name) <= 1").rows()
    [('Anna Miller', 0), ('Zoe Weber', 1), ('Ana Miller', 0)]

    Args:
        frame: The frame.
        rule: When two rows ``l`` and ``r`` are the same thing: a condition, or a list of which one has to hold, as
            ``on`` of :func:`fuzzy_join`. It has to hold one way round only.
        id: A column whose values differ. Without it rows are numbered from 0.
        method: ``"components"``: all rows that a chain of pairs connects. ``"center"``, ``"star"``: rows around a
            centre. ``"split"``: components, cut at the pairs of the lowest score until none is too large.
        score: A number for two rows, larger for better pairs. ``"split"`` needs it, and ``"center"`` goes by it.
        largest: The most rows of a cluster, for ``"split"``.
        recall: As in :func:`fuzzy_join`.
        allow_nested_loop: As in :func:`fuzzy_join`.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        The frame in its order, with a new last column ``cluster_id``. It is the smallest id of the cluster, or the
        smallest number of a row. A pandas frame keeps its index.

    Raises:
        SimilarityError: SQL that is wrong, and a rule that no index serves.
        TypeError, ValueError: Another argument that is wrong, and a frame that has a column ``cluster_id``.
    """
    chosen = _method(method, score, largest)
    check_to(to)
    kind = to or kind_of(frame, "frame")
    check_session(session)
    with workspace(session) as work:
        table = work.add(frame, "frame")
        if "cluster_id" in table.columns:
            raise ValueError("frame has a column 'cluster_id' already; drop or rename it")
        key = Key.of(table, id, "id")
        condition = f"match_rule({work.rule(rule, 'rule')}, l, r) AND l.{key.sql} <> r.{key.sql}"
        # components look at no score, and a pair without one is a pair
        listed = "" if score is None or method == "components" else f", {condition_sql(score, 'score')}"
        before = f"SELECT l.{key.sql}, r.{key.sql}{listed} FROM {table.sql} AS l"
        after = f"{table.sql} AS r ON {with_recall(condition, recall)}"
        linked = links(work, before, after, allow_nested_loop)
        columns = ", ".join(f"t.{identifier(name)}" for name in table.columns)
        query = (
            f"SELECT {columns}, coalesce(c.cluster_id, t.{key.sql}) AS cluster_id FROM {table.sql} AS t "
            f"LEFT JOIN clusters({linked}{chosen}) AS c ON c.id = t.{key.sql} ORDER BY t.{identifier(table.row)}"
        )
        planned = plan(work, query)
    result = convert(planned, kind)
    if kind == "pandas" and kind_of(frame, "frame") == "pandas":
        result.index = frame.index
    return result


def cluster(
    pairs: Frame,
    *,
    left: str | None = None,
    right: str | None = None,
    score: str | None = None,
    method: Method = "components",
    largest: int | None = None,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Makes clusters of pairs.

    >>> import polars as pl
    >>> from datafusion_similarity import cluster
    >>> cluster(pl.DataFrame({"id_l": [1, 2, 7], "id_r": [2, 3, 8]})).rows()
    [(1, 1), (2, 1), (3, 1), (7, 7), (8, 7)]

    Args:
        pairs: A frame of pairs, such as :func:`pairs` gives.
        left: The column of the first id, the first column of the frame if it is not given.
        right: The column of the second id, the second column if it is not given.
        score: The column of the score, for the methods that go by it. A pair whose score is NULL links nothing.
        method: As in :func:`dedupe`.
        largest: As in :func:`dedupe`.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        The columns ``id`` and ``cluster_id``, the smallest id of the cluster, in the order of ids. An id whose partner
        is NULL is alone, unless another pair has it.

    Raises:
        SimilarityError: Ids of two types that cannot be compared.
        TypeError, ValueError: Another argument that is wrong.
    """
    chosen = _method(method, score, largest)
    check_to(to)
    kind = to or kind_of(pairs, "pairs")
    check_session(session)
    with workspace(session) as work:
        table = work.add(pairs, "pairs")
        if len(table.columns) < 2:
            raise ValueError(f"pairs has {len(table.columns)} columns; two ids are needed at least")
        ids = [
            table.require(table.columns[at] if name is None else name, argument)
            for at, (name, argument) in enumerate([(left, "left"), (right, "right")])
        ]
        scored = [] if score is None else [table.require(score, "score")]
        columns = ", ".join(identifier(name) for name in ids + scored)
        linked = text(f"SELECT {columns} FROM {table.sql}")
        planned = plan(work, f"SELECT id, cluster_id FROM clusters({linked}{chosen}) ORDER BY id")
    return convert(planned, kind)


def _method(method: Any, score: Any, largest: Any) -> str:
    """What follows the links in a call of ``clusters``."""
    one_of(method, "method", _METHODS)
    if method != "split":
        if largest is not None:
            raise ValueError("largest is for method='split'")
        return f", {text(method)}"
    if score is None:
        raise ValueError("method='split' cuts clusters at their weakest pairs, so it needs a score")
    if isinstance(largest, bool) or not isinstance(largest, int) or largest < 1:
        raise ValueError(f"method='split' needs largest, the most rows of a cluster, from 1 on, not {largest!r}")
    return f", 'split', {largest}"

"""How good pairs and clusters are, and what a rule would find and take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ._expressions import Rule
from ._frames import Frame, To, check_to, convert, kind_of, records
from ._plans import one_of
from ._session import Session, check_session
from ._text import identifier, text
from ._workspace import Table, workspace

#: What pairs are, and whether a pair that is not in the truth is false.
_KINDS = ("duplicates", "links", "known duplicates", "known links")
Pairs = Literal["duplicates", "links", "known duplicates", "known links"]


def evaluate(
    pairs: Frame,
    truth: Frame,
    *,
    kind: Pairs = "duplicates",
    columns: Sequence[str] | None = None,
    truth_columns: Sequence[str] | None = None,
    rows: int | tuple[int, int] | None = None,
    session: Session | None = None,
) -> dict[str, Any]:
    """Compares pairs that were found with pairs that are known to be true.

    >>> import polars as pl
    >>> from datafusion_similarity import evaluate
    >>> found = pl.DataFrame({"id_l": [1, 3, 1], "id_r": [2, 4, 5]})
    >>> truth = pl.DataFrame({"one": [2, 3, 6], "other": [1, 4, 7]})
    >>> measures = evaluate(found, truth, rows=10)
    >>> measures["tp"], measures["fp"], measures["fn"], round(measures["f1"], 3)
    (2, 1, 1, 0.667)

    Args:
        pairs: A frame of pairs, whose first two columns are ids.
        truth: The true pairs, whose first two columns are ids of the same types.
        kind: ``"duplicates"`` are pairs of one table, either way round; ``"links"`` of two, left id first. A pair that
            is not in the truth is false. With ``"known "`` in front it may be true, and precision is None.
        columns: The two columns of ids in ``pairs``, if they are not the first ones.
        truth_columns: The two columns of ids in ``truth``, if they are not the first ones.
        rows: How many rows the table has, or a tuple for two tables: for the ratios.
        session: As in :func:`fuzzy_join`.

    Returns:
        ``tp``, ``fp``, ``fn``, ``precision``, ``recall``, ``f1``, ``pairs``, ``reduction_ratio`` and
        ``candidate_ratio``. What cannot be told is None.

    Raises:
        SimilarityError: Ids of two types that cannot be compared.
        TypeError, ValueError: Another argument that is wrong.
    """
    one_of(kind, "kind", _KINDS)
    numbers = [] if rows is None else [rows] if isinstance(rows, int) else list(rows)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers) or len(numbers) > 2:
        raise TypeError(f"rows is a number of rows, or two of them for two tables, not {rows!r}")
    check_session(session)
    with workspace(session) as work:
        found = _ids(work.add(pairs, "pairs"), columns, "columns")
        true = _ids(work.add(truth, "truth"), truth_columns, "truth_columns")
        given = "".join(f", {number}" for number in numbers)
        query = f"SELECT * FROM evaluate_pairs({text(found)}, {text(true)}, {text(kind)}{given})"
        return records(work.core.sql(query))[0]


def evaluate_clusters(
    clusters: Frame,
    truth: Frame,
    *,
    columns: Sequence[str] | None = None,
    truth_columns: Sequence[str] | None = None,
    session: Session | None = None,
) -> dict[str, Any]:
    """Compares clusters with those that are known to be true, pair by pair and row by row (B-cubed).

    >>> import polars as pl
    >>> from datafusion_similarity import evaluate_clusters
    >>> found = pl.DataFrame({"id": [1, 2, 3, 4, 5], "cluster_id": [1, 1, 3, 3, 3]})
    >>> truth = pl.DataFrame({"id": [1, 2, 3, 4, 5], "person": [1, 1, 3, 3, 5]})
    >>> round(evaluate_clusters(found, truth)["b_cubed_f1"], 3)
    0.846

    Args:
        clusters: A frame whose first two columns are an id and its cluster.
        truth: A frame whose first two columns are an id and its true cluster. Only ids of both frames count.
        columns: The columns of the id and the cluster in ``clusters``, if they are not the first ones.
        truth_columns: The same in ``truth``.
        session: As in :func:`fuzzy_join`.

    Returns:
        Measures by name, each None where it cannot be told.

    Raises:
        SimilarityError: Ids of two types that cannot be compared.
        TypeError, ValueError: Another argument that is wrong.
    """
    check_session(session)
    with workspace(session) as work:
        found = _ids(work.add(clusters, "clusters"), columns, "columns")
        true = _ids(work.add(truth, "truth"), truth_columns, "truth_columns")
        return records(work.core.sql(f"SELECT * FROM evaluate_clusters({text(found)}, {text(true)})"))[0]


def threshold_sweep(
    pairs: Frame,
    truth: Frame,
    *,
    score: str = "score",
    kind: Pairs = "duplicates",
    columns: Sequence[str] | None = None,
    truth_columns: Sequence[str] | None = None,
    steps: int = 20,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """The measures of :func:`evaluate` for each threshold of a score from 0 to 1.

    >>> import polars as pl
    >>> from datafusion_similarity import threshold_sweep
    >>> found = pl.DataFrame({"id_l": [1, 3, 1], "id_r": [2, 4, 5], "score": [0.95, 0.8, 0.4]})
    >>> truth = pl.DataFrame({"one": [2, 3], "other": [1, 4]})
    >>> threshold_sweep(found, truth, steps=2).select("threshold", "pairs", "precision").rows()
    [(0.0, 3, 0.6666666666666666), (0.5, 2, 1.0), (1.0, 0, None)]

    Args:
        pairs: A frame of pairs with a score.
        truth: As in :func:`evaluate`.
        score: The column of the score. A pair counts at a threshold where its score is at least that.
        kind: As in :func:`evaluate`.
        columns: As in :func:`evaluate`.
        truth_columns: As in :func:`evaluate`.
        steps: How many steps there are from 0 to 1.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        One row for each threshold, the lowest one first.

    Raises:
        SimilarityError: Ids of two types that cannot be compared.
        TypeError, ValueError: Another argument that is wrong.
    """
    one_of(kind, "kind", _KINDS)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps is how many steps there are from 0 to 1, a whole number from 1 on, not {steps!r}")
    check_to(to)
    of = to or kind_of(pairs, "pairs")
    check_session(session)
    with workspace(session) as work:
        table = work.add(pairs, "pairs")
        found = _ids(table, columns, "columns", [table.require(score, "score")])
        true = _ids(work.add(truth, "truth"), truth_columns, "truth_columns")
        query = f"SELECT * FROM threshold_sweep({text(found)}, {text(true)}, {text(kind)}, {steps}) ORDER BY threshold"
        planned = work.core.sql(query)
    return convert(planned, of)


def estimate(
    left: Frame,
    right: Frame | None,
    rule: Rule,
    *,
    sample: int | None = None,
    seed: int | None = None,
    to: To = None,
    session: Session | None = None,
) -> Frame:
    """Says from a sample how many pairs a rule would find, and how long that would take.

    >>> import polars as pl
    >>> from datafusion_similarity import estimate
    >>> people = pl.DataFrame({"name": ["Anna Miller", "Ana Miller", "Zoe Weber"]})
    >>> estimate(people, None, "levenshtein(l.name, r.name) <= 1")["matches"].to_list()
    [1]

    Args:
        left: The frame of the rows ``l``.
        right: The frame of the rows ``r``, or None for pairs within the left frame.
        rule: As in :func:`fuzzy_join`.
        sample: How many rows are drawn, 200,000 without it.
        seed: The same seed draws the same rows again. It needs ``sample``.
        to: As in :func:`fuzzy_join`.
        session: As in :func:`fuzzy_join`.

    Returns:
        A row for each condition of the rule, and a last one for the whole if there are several: ``clause``,
        ``condition``, ``candidates``, ``matches``, bounds of both, rows that match nothing, ``seconds`` and ``bytes``.
        The number of a small frame is exact. Of a large one the bounds say how far it may be off.

    Raises:
        SimilarityError: SQL that is wrong.
        TypeError, ValueError: Another argument that is wrong.
    """
    if sample is None and seed is not None:
        raise ValueError("seed is for a sample: give sample, too")
    check_to(to)
    kind = to or kind_of(left, "left")
    check_session(session)
    with workspace(session) as work:
        tables = [work.add(left, "left").sql]
        if right is not None:
            tables.append(work.add(right, "right").sql)
        given = [*(text(table) for table in tables), work.rule(rule, "rule")]
        given += [str(int(number)) for number in (sample, seed) if number is not None]
        planned = work.core.sql(f"SELECT * FROM estimate_join({', '.join(given)}) ORDER BY clause NULLS LAST")
    return convert(planned, kind)


def _ids(table: Table, columns: Sequence[str] | None, argument: str, more: Sequence[str] = ()) -> str:
    """The query of two columns of a table, and of more."""
    if columns is None:
        columns = table.columns[:2]
    if isinstance(columns, str) or len(columns) != 2:
        raise ValueError(f"{argument} are two names of columns, not {columns!r}")
    names = [*(table.require(column, argument) for column in columns), *more]
    return f"SELECT {', '.join(identifier(name) for name in names)} FROM {table.sql}"

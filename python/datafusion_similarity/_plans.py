"""Pieces of SQL that the functions over frames share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._expressions import condition_sql
from ._text import identifier, text
from ._workspace import Table, Workspace


def plan(work: Workspace, query: str, allow_nested_loop: bool = True) -> _core.Query:
    """Plans a query. An error about a join without an index says which argument allows it."""
    try:
        return work.core.sql(query)
    except _core.SimilarityError as error:
        if not allow_nested_loop and "SIMILARITY JOIN cannot be accelerated" in str(error):
            _add_note(
                error,
                "allow_nested_loop=True joins all the same: by hash where the condition is an equality, and else by "
                "comparing every pair of rows",
            )
        raise


def links(work: Workspace, before: str, after: str, allow_nested_loop: bool) -> str:
    """A join as a constant for a table function: what stands before and after JOIN, once an index is known to serve it.

    Text within SQL is read by DataFusion's own parser, which does not know SIMILARITY JOIN.
    """
    plan(work, f"{before} {join_keyword('INNER', allow_nested_loop)} {after}", allow_nested_loop)
    return text(f"{before} JOIN {after}")


def join_keyword(how: str, allow_nested_loop: bool) -> str:
    """What stands between the tables of a join."""
    return f"{how} JOIN" if allow_nested_loop else f"{how} SIMILARITY JOIN"


def with_recall(condition: str, recall: float | None) -> str:
    """A condition that may miss pairs, but finds this share of them."""
    return condition if recall is None else f"with_recall({condition}, {share(recall)})"


def share(recall: object) -> str:
    """A recall in SQL. Raises ValueError, unless it is above 0 and at most 1."""
    if isinstance(recall, bool) or not isinstance(recall, (int, float)) or not 0 < recall <= 1:
        raise ValueError(f"recall is a share above 0 and up to 1, not {recall!r}")
    return repr(float(recall))


def score_columns(score: Any, argument: str = "score") -> dict[str, str]:
    """Scores by the name of their column: one expression is the column ``score``, a dict names its columns."""
    if score is None or score is False:
        return {}
    if isinstance(score, Mapping):
        return {_column_name(name): condition_sql(value, f"{argument}[{name!r}]") for name, value in score.items()}
    return {"score": condition_sql(score, argument)}


def side_by_side(left: Table, right: Table, suffix: str, scores: Sequence[str]) -> list[str]:
    """The columns of both tables in SELECT: those of the left one, then those of the right one, which get the suffix
    where the left one has the name.

    Raises ValueError, where two columns have one name in spite of it.
    """
    if not isinstance(suffix, str):
        raise TypeError(f"suffix is text such as '_right', not {suffix!r} of type {type(suffix).__name__}")
    names = {name: name + suffix if name in left.columns else name for name in right.columns}
    check_distinct([*left.columns, *names.values(), *scores], f"suffix={suffix!r}")
    of_left = [f"l.{identifier(name)}" for name in left.columns]
    of_right = [f"r.{identifier(name)} AS {identifier(named)}" for name, named in names.items()]
    return of_left + of_right


def check_distinct(names: Sequence[str], argument: str) -> None:
    """Raises ValueError, where two columns of a result have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the result would have two columns {name!r}; change {argument}, or rename the column")
        seen.add(name)


def one_of(value: Any, argument: str, known: Sequence[str]) -> str:
    """Raises ValueError that names the argument, unless the value is a known one."""
    if isinstance(value, str) and value in known:
        return value
    raise ValueError(f"{argument}={value!r} is unknown; known are {', '.join(map(repr, known))}")


def _column_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a score is a str, not {name!r} of type {type(name).__name__}")
    return name


def _add_note(error: BaseException, note: str) -> None:
    # Python 3.10 has no notes
    if hasattr(error, "add_note"):
        error.add_note(note)

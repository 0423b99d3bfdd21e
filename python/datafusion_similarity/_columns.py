"""Functions of SQL over columns: elementwise over series and arrays, or over two plain values."""

from __future__ import annotations

from typing import Any

from . import _core
from ._expressions import Expr, Row, call
from ._frames import _import, records
from ._text import identifier, literal
from ._workspace import Workspace


def apply(function: str, *arguments: Any) -> Any:
    """Calls a function of SQL.

    Over expressions it gives an expression. Over pandas, polars or pyarrow columns it gives a column of their kind, row
    by row, where plain values count for every row. Over plain values alone it gives a value.
    """
    if any(isinstance(argument, (Expr, Row)) for argument in arguments):
        return call(function, *arguments)
    kinds = {kind for argument in arguments if (kind := _kind(argument)) is not None}
    if len(kinds) > 1:
        raise TypeError(f"{function} takes columns of one library, not of {' and '.join(sorted(kinds))}")
    if not kinds:
        given = ", ".join(literal(argument) for argument in arguments)
        return records(_core.Session().sql(f"SELECT {function}({given}) AS value"))[0]["value"]
    return _over_columns(function, arguments, kinds.pop())


def _over_columns(function: str, arguments: tuple[Any, ...], kind: str) -> Any:
    columns = {f"c{at}": column for at, column in enumerate(arguments) if _kind(column) is not None}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"{function} takes columns of one length, not of {' and '.join(map(str, sorted(lengths)))}")
    work = Workspace(_core.Session())
    table = work.add(_frame_of(columns, kind), function)
    given = ", ".join(
        identifier(f"c{at}") if f"c{at}" in columns else literal(argument) for at, argument in enumerate(arguments)
    )
    query = f"SELECT {function}({given}) AS {identifier(function)} FROM {table.sql} ORDER BY {identifier(table.row)}"
    return _column_of(work.core.sql(query).collect(), function, kind, next(iter(columns.values())))


def _kind(value: Any) -> str | None:
    """The library of a column, None for a plain value."""
    library, name = type(value).__module__.partition(".")[0], type(value).__name__
    if library in ("pandas", "polars") and name == "Series":
        return library
    if library == "pyarrow" and (hasattr(value, "__arrow_c_array__") or name == "ChunkedArray"):
        return library
    return None


def _frame_of(columns: dict[str, Any], kind: str) -> Any:
    if kind == "pandas":
        # rows go together by their place, not by their label
        return _import("pandas", "a column").DataFrame({name: column.array for name, column in columns.items()})
    if kind == "polars":
        return _import("polars", "a column").DataFrame({name: column for name, column in columns.items()})
    return _import("pyarrow", "a column").table(columns)


def _column_of(rows: Any, name: str, kind: str, first: Any) -> Any:
    if kind == "polars":
        return _import("polars", "the result").DataFrame(rows)[name]
    table = _import("pyarrow", "the result").table(rows)
    if kind == "pyarrow":
        return table[name]
    column = table.to_pandas()[name]
    column.index = first.index
    return column

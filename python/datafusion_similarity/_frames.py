"""Frames of other libraries: what they are, how their rows come in, and how results go out.

A frame is any object with Arrow's stream, ``__arrow_c_stream__``. No library is imported before a frame of it comes.

==========  =========================================================  ==============================
kind        comes in as                                                goes out as
==========  =========================================================  ==============================
pandas      ``DataFrame``; its index is left out, and NaN is NULL      ``DataFrame``
polars      ``DataFrame``                                              ``DataFrame``
lazy        polars ``LazyFrame``, which is collected                   ``LazyFrame``
arrow       pyarrow ``Table``, ``RecordBatch``, ``RecordBatchReader``  ``Table``
duckdb      ``DuckDBPyRelation``                                       ``DuckDBPyRelation``
datafusion  ``DataFrame``                                              ``DataFrame`` of a new context
query       :class:`~datafusion_similarity.Query`                      ``Query``, which has not run
rows        anything else with Arrow's stream                          ``Rows``
==========  =========================================================  ==============================
"""

from __future__ import annotations

import sys
from typing import Any, Literal, Union

from . import _core

#: Any frame. There is no common type: see the table above.
Frame = Any
#: The kinds of frames that results may have.
Kind = Literal["pandas", "polars", "lazy", "arrow", "duckdb", "datafusion", "query", "rows"]
#: What the argument ``to`` takes.
To = Union[Kind, None]

KINDS = ("pandas", "polars", "lazy", "arrow", "duckdb", "datafusion", "query", "rows")
_EXPECTED = "a pandas, polars, pyarrow or DuckDB frame, or any object with __arrow_c_stream__"


def kind_of(frame: Frame, argument: str) -> Kind:
    """The kind of a frame.

    Raises TypeError that names the argument, if it is no frame.
    """
    library = type(frame).__module__.partition(".")[0]
    name = type(frame).__name__
    if library == "pandas" and name == "DataFrame":
        return "pandas"
    if library == "polars" and name == "DataFrame":
        return "polars"
    if library == "polars" and name == "LazyFrame":
        return "lazy"
    if library == "pyarrow" and hasattr(frame, "__arrow_c_stream__"):
        return "arrow"
    if name == "RecordBatch" and library == "pyarrow":
        return "arrow"
    if name == "DuckDBPyRelation":
        return "duckdb"
    if library == "datafusion" and name == "DataFrame":
        return "datafusion"
    if library == "datafusion_similarity" and name == "Query":
        return "query"
    if hasattr(frame, "__arrow_c_stream__") and name not in ("Series", "ChunkedArray"):
        return "rows"
    raise TypeError(f"{argument} is {_article(name)} {name} of {library}, not a frame; give {_EXPECTED}")


def check_to(to: object) -> None:
    """Raises ValueError, unless ``to`` is a kind of frames or None."""
    if to is not None and to not in KINDS:
        raise ValueError(f"to={to!r} is no kind of frames; known are {', '.join(map(repr, KINDS))}")


def stream_of(frame: Frame, argument: str) -> Any:
    """An object with Arrow's stream of all rows of ``frame``. Values are not copied where the library allows.

    Raises TypeError for what is no frame, and ValueError for columns that Arrow cannot hold.
    """
    kind = kind_of(frame, argument)
    if kind == "pandas":
        return _from_pandas(frame, argument)
    if kind == "lazy":
        return frame.collect()
    if kind == "query":
        # unlike its stream, this ends at Ctrl-C
        return frame.collect()
    if kind == "arrow" and not hasattr(frame, "__arrow_c_stream__"):
        return _import("pyarrow", argument).Table.from_batches([frame])
    return frame


def convert(query: _core.Query, to: Kind) -> Frame:
    """Runs ``query`` and gives its rows as a frame. The kind ``"query"`` is given without running it."""
    from ._session import Query, Rows

    return Query(query) if to == "query" else _convert_rows(query.collect(), to, Rows)


def convert_rows(rows: Any, to: Kind) -> Frame:
    """Rows as a frame."""
    from ._session import Rows

    return _convert_rows(rows, to, Rows)


def records(query: _core.Query) -> list[dict[str, Any]]:
    """Runs ``query`` and gives its rows as dictionaries.

    It needs pyarrow, polars or duckdb, and takes one that is imported already.
    """
    rows = query.collect()
    library = _reader()
    found: list[dict[str, Any]]
    if library == "pyarrow":
        found = _import(library, "the result").table(rows).to_pylist()
        return found
    if library == "polars":
        found = _import(library, "the result").DataFrame(rows).to_dicts()
        return found
    relation = _import(library, "the result").from_arrow(rows)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def _convert_rows(rows: _core.Rows, to: Kind, wrapper: Any) -> Frame:
    if to == "pandas":
        return _import("pyarrow", "a pandas frame").table(rows).to_pandas()
    if to == "polars":
        return _import("polars", "the result").DataFrame(rows)
    if to == "lazy":
        return _import("polars", "the result").DataFrame(rows).lazy()
    if to == "arrow":
        return _import("pyarrow", "the result").table(rows)
    if to == "duckdb":
        return _import("duckdb", "the result").from_arrow(rows)
    if to == "datafusion":
        return _import("datafusion", "the result").SessionContext().from_arrow(rows)
    return wrapper(rows)


def _from_pandas(frame: Frame, argument: str) -> Any:
    """The columns of a pandas frame as an Arrow table, without the index."""
    pyarrow = _import("pyarrow", f"{argument}, a pandas frame,")
    other = [name for name in frame.columns if not isinstance(name, str)]
    if other:
        raise ValueError(
            f"{argument} has a column whose name is {other[0]!r}, of type {type(other[0]).__name__}; "
            "names are str: rename it, as in frame.rename(columns=str)"
        )
    check_names(list(frame.columns), argument)
    try:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise ValueError(
            f"{argument} has a column that Arrow cannot hold, because its values are of several types or of an unknown "
            f"one: {_first_line(error)}; convert it, as in frame.astype({{'column': str}}), or leave it out"
        ) from error


def check_names(names: list[str], argument: str) -> None:
    """Raises ValueError, where two columns have one name."""
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"{argument} has two columns {twice!r}; rename one of them")


def _import(library: str, needed_by: str) -> Any:
    """A library, once a frame of it is needed."""
    try:
        return __import__(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ImportError(f"{needed_by} needs {library}: pip install {library}") from error


def _reader() -> str:
    libraries = ("pyarrow", "polars", "duckdb")
    loaded = [library for library in libraries if library in sys.modules]
    for library in (*loaded, *libraries):
        try:
            __import__(library)
        except ImportError:
            continue
        return library
    raise ImportError("to read a single result, pyarrow, polars or duckdb is needed: pip install pyarrow")


def _first_line(error: BaseException) -> str:
    return ", ".join(str(part) for part in error.args) if error.args else type(error).__name__


def _article(name: str) -> str:
    return "an" if name[:1].lower() in "aeiou" else "a"

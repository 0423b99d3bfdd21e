"""Sessions and queries, for those who write SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from ._frames import Frame, convert_rows, stream_of
from ._text import identifier


class Session:
    """Tables by name, and SQL with similarity joins over them.

    ``settings`` are options by name, such as ``{"similarity.engine": "cpu"}``. Their values are text, numbers or
    booleans. A setting that does not exist raises :class:`SimilarityError`.

    >>> import polars as pl
    >>> session = Session({"datafusion.execution.target_partitions": 2})
    >>> session.register("people", pl.DataFrame({"id": [1, 2], "name": ["Anna Miller", "Ana Miller"]}))
    >>> query = session.sql(
    ...     "SELECT a.name, b.name AS other FROM people a SIMILARITY JOIN people b "
    ...     "ON levenshtein(a.name, b.name) <= 2 AND a.id < b.id"
    ... )
    >>> query.to_polars().rows()
    [('Anna Miller', 'Ana Miller')]
    """

    __slots__ = ("core",)

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        if settings is not None and not isinstance(settings, Mapping):
            raise TypeError(f"settings is a dict such as {{'similarity.engine': 'cpu'}}, not {type(settings).__name__}")
        values = {name: _setting(value) for name, value in (settings or {}).items()}
        self.core = _core.Session(values)

    def register(self, name: str, frame: Frame) -> None:
        """Makes a frame the table ``name``, in place of a table that has the name.

        All rows are read now, and values are not copied where the library allows. The name is taken as it is: in SQL,
        quote one with capitals, as in ``SELECT * FROM "People"``.

        Raises TypeError for what is no frame.
        """
        self.core.register(_table_name(name), stream_of(frame, "frame"))

    def deregister(self, name: str) -> bool:
        """Removes a table, and says whether there was one."""
        return self.core.deregister(_table_name(name))

    def sql(self, query: str) -> Query:
        """Plans a query, or runs a statement such as CREATE TABLE, SET or CREATE MATCHING RULE.

        The rows of a query are computed when they are asked for. Raises :class:`SimilarityError`, in the words of the
        shell.
        """
        return Query(self.core.sql(query))

    def __repr__(self) -> str:
        return "<Session of datafusion_similarity>"


class _Readable:
    """What has rows that can be read."""

    __slots__ = ()

    def _collected(self) -> _core.Rows:
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The rows as a pandas frame. It needs pyarrow."""
        return convert_rows(self._collected(), "pandas")

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        return convert_rows(self._collected(), "polars")

    def to_arrow(self) -> Any:
        """The rows as a pyarrow table."""
        return convert_rows(self._collected(), "arrow")

    def to_duckdb(self) -> Any:
        """The rows as a relation of DuckDB's default connection.

        For another connection, write ``connection.from_arrow(query.collect())``.
        """
        return convert_rows(self._collected(), "duckdb")


class Query(_Readable):
    """A query that runs each time that its rows are asked for. It is a frame for every function of this package.

    It has Arrow's stream: ``polars.DataFrame(query)`` or ``duckdb.from_arrow(query)`` read it batch by batch.
    Ctrl-C ends a query that ``to_pandas()`` and its like wait for. A library that reads the stream by itself may only
    report that the stream has failed.
    """

    __slots__ = ("core",)

    def __init__(self, core: _core.Query) -> None:
        self.core = core

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.core.columns

    def collect(self) -> Rows:
        """Runs the query to its end and keeps the rows, which may then be read any number of times."""
        return Rows(self.core.collect())

    def __arrow_c_schema__(self) -> object:
        return self.core.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.core.__arrow_c_stream__(requested_schema)

    def _collected(self) -> _core.Rows:
        return self.core.collect()

    def __repr__(self) -> str:
        return f"<Query of {', '.join(self.columns) or 'no columns'}>"


class Rows(_Readable):
    """Rows of a query that has run. They have Arrow's stream, any number of times, and a length."""

    __slots__ = ("core",)

    def __init__(self, core: _core.Rows) -> None:
        self.core = core

    def __len__(self) -> int:
        return len(self.core)

    def __arrow_c_schema__(self) -> object:
        return self.core.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.core.__arrow_c_stream__(requested_schema)

    def _collected(self) -> _core.Rows:
        return self.core

    def __repr__(self) -> str:
        return f"<{len(self)} Rows>"


def check_session(session: object) -> None:
    """Raises TypeError, unless ``session`` is a session or None."""
    if session is not None and not isinstance(session, Session):
        raise TypeError(f"session is a datafusion_similarity.Session, not {type(session).__name__}")


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a table is a str that is not empty, not {name!r}")
    return identifier(name)

"""Frames as tables of a session, for as long as one call lasts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._expressions import Rule, rule_sql
from ._frames import Frame, check_names, stream_of
from ._text import identifier, text

if TYPE_CHECKING:
    from ._session import Session

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Table:
    """A frame as a table."""

    #: The name of the table in SQL.
    sql: str
    #: The columns of the frame.
    columns: tuple[str, ...]
    #: A column of the table that numbers its rows from 0 in the order of the frame.
    row: str

    def require(self, column: Any, argument: str) -> str:
        """The name of a column of the frame.

        Raises TypeError or ValueError that names the argument.
        """
        if not isinstance(column, str):
            raise TypeError(f"{argument} is the name of a column, not {column!r} of type {type(column).__name__}")
        if column not in self.columns:
            raise ValueError(f"{argument}={column!r} is no column; there are {', '.join(map(repr, self.columns))}")
        return column


@dataclass
class Workspace:
    """A session in which the frames of one call are tables. Its plans outlive it, as they hold the tables."""

    core: _core.Session
    #: What names begin with, where the session has tables of others.
    prefix: str = ""
    _tables: dict[int, Table] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _rules: list[str] = field(default_factory=list)

    def add(self, frame: Frame, argument: str) -> Table:
        """Makes a frame a table with numbered rows. A frame that is a table already is read no second time."""
        known = self._tables.get(id(frame))
        if known is not None:
            return known
        rows, columns, row = _numbered(stream_of(frame, argument), argument)
        name = self._new_name(argument)
        self.core.register(name, rows)
        table = Table(name, columns, row)
        self._tables[id(frame)] = table
        return table

    def rule(self, rule: Rule, argument: str) -> str:
        """The name of a matching rule as a constant of SQL: of one that is made here, or that the session has.

        Raises TypeError or ValueError that names the argument.
        """
        if isinstance(rule, str) and rule.strip().isidentifier():
            return text(rule.strip().lower())
        condition = rule_sql(rule, argument)
        name = f"{self.prefix}rule_{next(_NUMBERS)}"
        self.core.sql(f"CREATE MATCHING RULE {name} ON l, r AS {condition}").collect()
        self._rules.append(name)
        return text(name)

    def close(self) -> None:
        """Takes the tables and rules out of the session. Plans that read them go on to."""
        for name in self._names:
            self.core.deregister(name)
        for name in self._rules:
            self.core.sql(f"DROP MATCHING RULE {name}").collect()

    def _new_name(self, name: str) -> str:
        quoted = identifier(f"{self.prefix}{name}")
        self._names.append(quoted)
        return quoted


def _numbered(stream: Any, argument: str) -> tuple[_core.Rows, tuple[str, ...], str]:
    """The rows of a stream with a further column that numbers them from 0, the columns of the stream, and that one."""
    # a table that is read by one thread is read in its order
    session = _core.Session({"datafusion.execution.target_partitions": "1"})
    session.register("rows", stream)
    columns = session.sql("SELECT * FROM rows").columns
    check_names(columns, argument)
    row = "__row"
    while row in columns:
        row += "_"
    number = f"CAST(row_number() OVER () AS BIGINT) - 1 AS {identifier(row)}"
    return session.sql(f"SELECT *, {number} FROM rows").collect(), tuple(columns), row


@contextmanager
def workspace(session: Session | None) -> Iterator[Workspace]:
    """A workspace in a session of its own, or in that of the caller under names that nobody else has."""
    if session is None:
        yield Workspace(_core.Session())
        return
    opened = Workspace(session.core, f"datafusion_similarity_{next(_NUMBERS)}_")
    try:
        yield opened
    finally:
        opened.close()

"""Conditions over two rows, built in Python.

``l`` is a row of the left frame and ``r`` one of the right frame. Their attributes are columns, functions of
:mod:`datafusion_similarity.measures` compare them, and operators make conditions of that:

>>> from datafusion_similarity import l, r
>>> from datafusion_similarity.measures import levenshtein
>>> (levenshtein(l.name, r.name) <= 2) & (l.city == r.city)
<Expr ((levenshtein(l."name", r."name") <= 2) AND (l."city" = r."city"))>

A column whose name is no Python name is written in brackets: ``l["first name"]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

from ._text import identifier, literal

#: A condition or a value over two rows: SQL text over the aliases ``l`` and ``r``, or an expression.
Condition = Union[str, "Expr"]
#: One condition, or several of which one is enough.
Rule = Union[Condition, Sequence[Condition]]


class Expr:
    """A value over two rows, as SQL.

    Comparisons (``==``, ``<=``, ..) and ``&``, ``|``, ``~`` give conditions; ``+ - * / %`` and ``abs()`` give numbers.
    NULL on either side of a comparison gives NULL, which does not hold.
    """

    __slots__ = ("function", "sql")

    def __init__(self, sql: str, function: str | None = None) -> None:
        #: The expression in SQL, over the aliases ``l`` and ``r``.
        self.sql = sql
        #: The function that is called, where the expression is one call.
        self.function = function

    def __repr__(self) -> str:
        return f"<Expr {self.sql}>"

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression over rows is neither true nor false; combine conditions by & and | and ~, each in "
            "parentheses, instead of by and, or, not or a chain such as 1 < x < 2"
        )

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: Any) -> Expr:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Expr:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Expr:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Expr:
        return self._compare(">=", other)

    def __and__(self, other: Any) -> Expr:
        return _infix(self, "AND", other)

    def __rand__(self, other: Any) -> Expr:
        return _infix(other, "AND", self)

    def __or__(self, other: Any) -> Expr:
        return _infix(self, "OR", other)

    def __ror__(self, other: Any) -> Expr:
        return _infix(other, "OR", self)

    def __invert__(self) -> Expr:
        return Expr(f"(NOT {self.sql})")

    def __add__(self, other: Any) -> Expr:
        return _infix(self, "+", other)

    def __radd__(self, other: Any) -> Expr:
        return _infix(other, "+", self)

    def __sub__(self, other: Any) -> Expr:
        return _infix(self, "-", other)

    def __rsub__(self, other: Any) -> Expr:
        return _infix(other, "-", self)

    def __mul__(self, other: Any) -> Expr:
        return _infix(self, "*", other)

    def __rmul__(self, other: Any) -> Expr:
        return _infix(other, "*", self)

    def __truediv__(self, other: Any) -> Expr:
        return _infix(self, "/", other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _infix(other, "/", self)

    def __mod__(self, other: Any) -> Expr:
        return _infix(self, "%", other)

    def __neg__(self) -> Expr:
        return Expr(f"(- {self.sql})")

    def __abs__(self) -> Expr:
        return call("abs", self)

    def between(self, low: Any, high: Any) -> Expr:
        """Whether the value lies between two others, both included."""
        return Expr(f"({self.sql} BETWEEN {operand(low)} AND {operand(high)})")

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Whether the value is one of ``values``. No value is in an empty list."""
        values = list(values)
        if not values:
            return Expr("FALSE")
        return Expr(f"({self.sql} IN ({', '.join(operand(value) for value in values)}))")

    def is_null(self) -> Expr:
        """Whether there is no value."""
        return Expr(f"({self.sql} IS NULL)")

    def is_not_null(self) -> Expr:
        """Whether there is a value."""
        return Expr(f"({self.sql} IS NOT NULL)")

    def _compare(self, operator: str, other: Any) -> Expr:
        if other is None:
            raise TypeError("None equals nothing in SQL; write .is_null() or .is_not_null()")
        return _infix(self, operator, other)


class Row:
    """One of two rows. Its attributes and items are columns, as in ``l.name`` and ``l["first name"]``."""

    __slots__ = ("_alias",)

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def __getattr__(self, name: str) -> Expr:
        # names of Python's own protocols are no columns
        if name.startswith("_"):
            raise AttributeError(f'a column of that name is written {self._alias}["{name}"]')
        return self[name]

    def __getitem__(self, name: str) -> Expr:
        if not isinstance(name, str):
            raise TypeError(f"the name of a column is a str, not {name!r} of type {type(name).__name__}")
        return Expr(f"{self._alias}.{identifier(name)}")

    def __repr__(self) -> str:
        return f"<the {'left' if self._alias == 'l' else 'right'} row>"


#: A row of the left frame.
l = Row("l")
#: A row of the right frame.
r = Row("r")


def call(function: str, *arguments: Any) -> Expr:
    """A call of any function of SQL, of DataFusion's own ones too.

    >>> from datafusion_similarity import l
    >>> call("lower", l.name)
    <Expr lower(l."name")>
    """
    if not function.isidentifier():
        raise ValueError(f"{function!r} is no name of a function")
    return Expr(f"{function}({', '.join(operand(argument) for argument in arguments)})", function)


def operand(value: Any) -> str:
    """An expression as it is, and any other value as a constant."""
    if isinstance(value, Row):
        raise TypeError(f"{value!r} has no value of its own; name a column, as in l.name")
    return value.sql if isinstance(value, Expr) else literal(value)


def condition_sql(value: Any, argument: str) -> str:
    """A condition or a value over two rows as SQL in parentheses.

    Raises TypeError that names the argument.
    """
    if isinstance(value, Expr):
        return value.sql
    if isinstance(value, str):
        if not value.strip():
            raise ValueError(f"{argument} is empty; write a condition such as 'levenshtein(l.name, r.name) <= 2'")
        # a line of its own, as the text may end in a comment
        return f"(\n{value}\n)"
    raise TypeError(
        f"{argument} is SQL text over l and r, as in 'levenshtein(l.name, r.name) <= 2', or an expression such as "
        f"l.city == r.city, not {value!r} of type {type(value).__name__}"
    )


def rule_sql(rule: Any, argument: str) -> str:
    """A rule as SQL: one condition, or the OR of several."""
    if not isinstance(rule, (list, tuple)):
        return condition_sql(rule, argument)
    if not rule:
        raise ValueError(f"{argument} is an empty list; give one condition at least")
    clauses = [condition_sql(clause, f"{argument}[{at}]") for at, clause in enumerate(rule)]
    return " OR ".join(f"({clause})" for clause in clauses)


def _infix(left: Any, operator: str, right: Any) -> Expr:
    return Expr(f"({operand(left)} {operator} {operand(right)})")

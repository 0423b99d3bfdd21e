"""Names and values as they stand in SQL."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any


def identifier(name: str) -> str:
    """The name of a column or a table in SQL, whatever characters it has.

    >>> identifier('Full "legal" name')
    '"Full ""legal"" name"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A Python value as a constant of SQL.

    It takes None, bool, int, float, Decimal, str, bytes, dates, times, and lists of them. NumPy scalars and arrays
    are taken as what they hold.

    >>> literal("O'Neil"), literal([1, 2.5]), literal(None)
    ("'O''Neil'", '[1, 2.5]', 'NULL')

    Raises TypeError for any other value.
    """
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    raise TypeError(
        f"{value!r} of type {type(value).__name__} cannot stand in a condition; "
        "numbers, text, dates, None and lists of them can"
    )


def text(value: str) -> str:
    """A string as a constant of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        return f"CAST('{value}' AS DOUBLE)"
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return f"CAST('{value:f}' AS DECIMAL(38, {scale}))"


_TOKENS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | [A-Za-z_]\w* | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)


def tokens(sql: str) -> list[str]:
    """SQL cut into strings, quoted names, comments, words, blanks and single characters."""
    return _TOKENS.findall(sql)


def only_call(sql: str) -> str | None:
    """The function in lower case, if the text is one call of a function and nothing else.

    >>> only_call("levenshtein(l.name, r.name)"), only_call("1 - jaro_similarity(l.a, r.a)")
    ('levenshtein', None)
    """
    words = [token for token in tokens(sql) if not token.isspace()]
    if len(words) < 3 or not words[0].isidentifier() or words[1] != "(":
        return None
    depth = 0
    for at, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and at > 0:
            return words[0].lower() if at == len(words) - 1 else None
    return None


def with_aliases(sql: str, left: str, right: str) -> str:
    """SQL over the rows ``l`` and ``r`` as SQL over two other aliases.

    >>> with_aliases("l.r = r.l AND r.note <> 'l.x'", "a", "b")
    "a.r = b.l AND b.note <> 'l.x'"
    """
    names = {"l": left, "r": right, '"l"': left, '"r"': right}
    words = tokens(sql)
    solid = [at for at, word in enumerate(words) if not word.isspace()]
    for place, at in enumerate(solid):
        before = words[solid[place - 1]] if place > 0 else ""
        after = words[solid[place + 1]] if place + 1 < len(solid) else ""
        name = words[at] if words[at].startswith('"') else words[at].lower()
        if after == "." and before != "." and name in names:
            words[at] = names[name]
    return "".join(words)

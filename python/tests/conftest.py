"""Frames of every kind, and strings with typos."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KINDS = ("pandas", "polars", "lazy", "arrow", "duckdb", "datafusion", "query", "rows")


def make(kind: str, columns: dict[str, list[Any]]) -> Any:
    """A frame of a kind with these columns. Their types are those that pyarrow sees in them."""
    pyarrow = pytest.importorskip("pyarrow")
    table = columns if isinstance(columns, pyarrow.Table) else pyarrow.table(columns)
    if kind == "arrow":
        return table
    if kind == "pandas":
        pytest.importorskip("pandas")
        return table.to_pandas()
    if kind in ("polars", "lazy"):
        frame = pytest.importorskip("polars").from_arrow(table)
        return frame.lazy() if kind == "lazy" else frame
    if kind == "duckdb":
        return pytest.importorskip("duckdb").from_arrow(table)
    if kind == "datafusion":
        return pytest.importorskip("datafusion").SessionContext().from_arrow(table)
    from datafusion_similarity import Session

    session = Session()
    session.register("frame", table)
    query = session.sql("SELECT * FROM frame")
    return query if kind == "query" else query.collect()


def kind_of(frame: Any) -> str:
    """The kind of a result, found without the package."""
    module, name = type(frame).__module__.partition(".")[0], type(frame).__name__
    return {
        ("pandas", "DataFrame"): "pandas",
        ("polars", "DataFrame"): "polars",
        ("polars", "LazyFrame"): "lazy",
        ("pyarrow", "Table"): "arrow",
        ("duckdb", "DuckDBPyRelation"): "duckdb",
        ("datafusion", "DataFrame"): "datafusion",
        ("datafusion_similarity", "Query"): "query",
        ("datafusion_similarity", "Rows"): "rows",
    }.get((module, name), f"{module}.{name}")


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a frame of any kind, where NaN and NaT are None."""
    import pyarrow

    if kind_of(frame) == "pandas":
        frame = pyarrow.Table.from_pandas(frame, preserve_index=False)
    elif kind_of(frame) == "lazy":
        frame = frame.collect()
    elif kind_of(frame) == "duckdb":
        return [tuple(row) for row in frame.fetchall()]
    columns = pyarrow.table(frame).to_pydict()
    return list(zip(*columns.values(), strict=True))


def names(frame: Any) -> list[str]:
    """The columns of a frame of any kind."""
    if kind_of(frame) == "lazy":
        return frame.collect_schema().names()
    if kind_of(frame) == "datafusion":
        return frame.schema().names
    if kind_of(frame) == "rows":
        import pyarrow

        return pyarrow.table(frame).column_names
    if kind_of(frame) == "arrow":
        return frame.column_names
    return list(frame.columns)


def texts(number: int, seed: int, alphabet: str = "aeinrstlö ", missing: bool = True) -> list[str | None]:
    """Strings of which many are alike: some are typed wrong, some are there twice, empty or missing."""
    choose = random.Random(seed)
    found: list[str | None] = [None, "", "a"] if missing else []
    while len(found) < number:
        if len(found) % 3 or not any(found):
            found.append("".join(choose.choice(alphabet) for _ in range(choose.randint(4, 14))))
        else:
            found.append(mistyped(choose.choice([text for text in found if text]), choose, alphabet))
    return found[:number]


def mistyped(text: str, choose: random.Random, alphabet: str) -> str:
    """A string after up to two edits."""
    for _ in range(choose.randint(0, 2)):
        at = choose.randint(0, len(text))
        text = text[:at] + choose.choice(["", choose.choice(alphabet)]) + text[at + choose.randint(0, 1) :]
    return text


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder of the shared data sets."""
    folder = os.environ.get("SIMILARITY_DATA")
    if not folder:
        pytest.skip("SIMILARITY_DATA does not name the folder of the shared data sets")
    return pathlib.Path(folder)

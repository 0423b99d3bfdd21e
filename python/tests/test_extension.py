"""Similarity joins in a session of the package ``datafusion``."""

from __future__ import annotations

import random

import pytest
from conftest import texts

from datafusion_similarity import Similarity, _core, _extension

datafusion = pytest.importorskip("datafusion")
pyarrow = pytest.importorskip("pyarrow")


def session(*extensions):
    context = datafusion.SessionContext().with_extensions(*extensions)
    values = random.Random(5)
    names = texts(300, 5)
    table = pyarrow.table(
        {
            "id": list(range(len(names))),
            "name": names,
            "born": [values.choice([1970, 1971, None]) for _ in names],
            "v": [[values.random(), values.random()] for _ in names],
        }
    )
    context.from_arrow(table, name="t")
    return context


# conditions that stock DataFusion knows, too, and the operator that runs them here
CONDITIONS = [
    ("levenshtein(a.name, b.name) <= 2", "SimilarityJoinExec"),
    ("array_distance(a.v, b.v) <= 0.02 AND a.born = b.born", "EpsilonJoinExec"),
    ("(levenshtein(a.name, b.name) <= 1 AND a.born = b.born) OR array_distance(a.v, b.v) < 0.01", "Matching"),
]


@pytest.mark.parametrize(("condition", "operator"), CONDITIONS)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
def test_joins_have_the_rows_of_the_session_without_it(condition: str, operator: str, join: str) -> None:
    columns = "a.id" if "ANTI" in join else "a.id, b.id AS other"
    query = f"SELECT {columns} FROM t a {join} t b ON {condition} AND a.id <> b.id"
    ours, stock = session(Similarity({"similarity.engine": "cpu"})), session()
    assert operator in str(ours.sql(query).execution_plan())
    assert operator not in str(stock.sql(query).execution_plan())

    def found(context):
        table = context.sql(query).to_arrow_table()
        return sorted(map(str, zip(*(column.to_pylist() for column in table.columns))))

    assert found(ours) == found(stock)
    assert len(found(stock)) > 20


def test_measures_become_functions_of_the_session() -> None:
    context = session(Similarity())
    query = "SELECT count(*) AS n FROM t a JOIN t b ON jaccard(a.name, b.name, 2) >= 0.5 AND a.id < b.id"
    assert "SimilarityJoinExec" in str(context.sql(query).execution_plan())
    loop = "SELECT count(*) AS n FROM t a, t b WHERE a.id < b.id AND jaccard(a.name, b.name, 2) + 0 * a.id >= 0.5"
    assert context.sql(query).to_pydict() == context.sql(loop).to_pydict()


def test_a_wrong_setting_names_itself() -> None:
    with pytest.raises(Exception, match="similarity.engine takes one of"):
        session(Similarity({"similarity.engine": "fast"}))


def test_another_major_version_names_both() -> None:
    with pytest.raises(ImportError, match=rf"works with datafusion 55, and this is datafusion 54\.1\.0"):
        _extension._check_version("54.1.0")
    _extension._check_version(_core.DATAFUSION_VERSION)

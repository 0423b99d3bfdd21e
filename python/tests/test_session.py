"""Sessions, queries and errors."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import kind_of, make, rows

import datafusion_similarity as ds
from datafusion_similarity import l, r
from datafusion_similarity.measures import levenshtein

PEOPLE = {"id": [1, 2, 3], "name": ["Anna Miller", "Ana Miller", "Zoe Weber"]}
JOIN = (
    "SELECT a.id, b.id AS other FROM people a SIMILARITY JOIN people b "
    "ON levenshtein(a.name, b.name) <= 2 AND a.id < b.id"
)


@pytest.fixture
def session() -> ds.Session:
    session = ds.Session()
    session.register("people", make("arrow", PEOPLE))
    return session


def test_results_of_every_kind(session: ds.Session) -> None:
    query = session.sql(JOIN)
    assert query.columns == ["id", "other"]
    for method in ("to_pandas", "to_polars", "to_arrow", "to_duckdb"):
        pytest.importorskip(method.removeprefix("to_").replace("arrow", "pyarrow"))
        frame = getattr(query, method)()
        assert kind_of(frame) == method.removeprefix("to_")
        assert rows(frame) == [(1, 2)]
    collected = query.collect()
    assert len(collected) == 1
    assert [rows(collected.to_polars()), rows(collected.to_arrow())] == [[(1, 2)]] * 2


def test_a_query_is_a_stream_that_runs_each_time(session: ds.Session) -> None:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    query = session.sql(JOIN)
    assert polars.DataFrame(query).rows() == pyarrow.table(query).to_pandas().to_records(index=False).tolist()
    assert pyarrow.schema(query).names == ["id", "other"]
    assert repr(query) == "<Query of id, other>"


def test_tables_are_replaced_and_removed(session: ds.Session) -> None:
    session.register("people", make("polars", {"id": [9], "name": ["x"]}))
    assert rows(session.sql("SELECT * FROM people")) == [(9, "x")]
    assert session.deregister("people")
    assert not session.deregister("people")
    with pytest.raises(ds.SimilarityError, match="people"):
        session.sql("SELECT * FROM people")


def test_names_are_taken_as_they_are(session: ds.Session) -> None:
    for name in ("People", "a.b", 'the "real" one', "x; DROP TABLE people"):
        session.register(name, make("arrow", {"one": [1]}))
        quoted = name.replace('"', '""')
        assert rows(session.sql(f'SELECT * FROM "{quoted}"')) == [(1,)]
        assert session.deregister(name)
    for wrong in ("", None, 3):
        with pytest.raises(TypeError, match="the name of a table is a str"):
            session.register(wrong, make("arrow", PEOPLE))  # type: ignore[arg-type]


def test_settings() -> None:
    session = ds.Session({"similarity.engine": "cpu", "similarity.enabled": False, "similarity.max_clauses": 7})
    shown = rows(session.sql("SHOW similarity.enabled")) + rows(session.sql("SHOW similarity.max_clauses"))
    assert [row[1] for row in shown] == ["false", "7"]
    with pytest.raises(ds.SimilarityError, match="similarity.engin"):
        ds.Session({"similarity.engin": "cpu"})
    with pytest.raises(TypeError, match="settings is a dict"):
        ds.Session("cpu")  # type: ignore[arg-type]


def test_functions_use_the_session_and_leave_nothing_in_it(session: ds.Session) -> None:
    before = rows(session.sql("SHOW TABLES"))
    session.sql("CREATE MATCHING RULE alike ON t, s AS levenshtein(t.name, s.name) <= 1").collect()
    people = make("arrow", PEOPLE)
    assert rows(ds.pairs(people, "alike", session=session)) == [(0, 1, 1)]
    assert len(rows(ds.fuzzy_join(people, people, "alike", session=session))) == 5
    assert rows(ds.dedupe(people, levenshtein(l.name, r.name) <= 1, session=session))[1][2] == 0
    with pytest.raises(ds.SimilarityError):
        ds.pairs(people, "l.nam = r.nam", session=session)
    assert rows(session.sql("SHOW TABLES")) == before
    assert len(rows(session.sql("SHOW MATCHING RULES"))) == 1
    limited = ds.Session({"similarity.max_candidates": 1})
    with pytest.raises(ds.SimilarityError, match="similarity.max_candidates"):
        ds.fuzzy_join(people, people, "jaccard(l.name, r.name, 2) >= 0.2", session=limited)


def test_a_lazy_result_outlives_the_call(session: ds.Session) -> None:
    people = make("arrow", PEOPLE)
    query = ds.pairs(people, levenshtein(l.name, r.name) <= 1, to="query", session=session)
    of_its_own = ds.pairs(people, levenshtein(l.name, r.name) <= 1, to="query")
    session.deregister("people")
    assert rows(query) == rows(of_its_own) == [(0, 1, 1)]
    assert rows(ds.cluster(query)) == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT levenshtein(1)",
        "SELECT * FROM nobody",
        "SELEC 1",
        "SELECT 1 FROM (VALUES (1)) a(x) SIMILARITY JOIN (VALUES (1)) b(x) ON a.x = b.x",
        "SELECT CAST('x' AS INT)",
        "SET similarity.engine = 'fast'",
        "CREATE MATCHING RULE r ON a, b AS",
    ],
)
def test_errors_have_the_words_of_the_shell(query: str) -> None:
    with pytest.raises(ds.SimilarityError) as refused:
        ds.Session().sql(query).collect()
    command = [sys.executable, "-m", "datafusion_similarity", "-q", "-c", query]
    shell = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shell.returncode == 1
    said = (shell.stdout + shell.stderr).strip()
    assert " ".join(str(refused.value).split()) in " ".join(said.split())


def test_the_shell_is_a_module_and_a_program() -> None:
    command = [
        sys.executable,
        "-m",
        "datafusion_similarity",
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT soundex('Anne') AS s",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "s\nA500\n"

"""The same pairs as other libraries, on real data where SIMILARITY_DATA names their folder and on generated data."""

from __future__ import annotations

import pathlib

import pytest
from conftest import REPOSITORY, make, rows, texts

import datafusion_similarity as ds
from datafusion_similarity import call, l, r
from datafusion_similarity.measures import jaccard, jaro_winkler_similarity, l2_distance, levenshtein

pyarrow = pytest.importorskip("pyarrow")


def read(path: pathlib.Path, columns: list[str]):
    return pytest.importorskip("pyarrow.parquet").read_table(path, columns=columns)


def names(a, b, column: str) -> tuple[list, list]:
    return a[column].to_pylist(), b[column].to_pylist()


def check_texts(a: list, b: list, least: int) -> None:
    """Compares every pair of texts by RapidFuzz, and joins them."""
    numpy, process = pytest.importorskip("numpy"), pytest.importorskip("rapidfuzz.process")
    distance = pytest.importorskip("rapidfuzz.distance")
    left, right = pyarrow.table({"name": a}), pyarrow.table({"name": b})
    known_a = [i for i, name in enumerate(a) if name is not None]
    known_b = [j for j, name in enumerate(b) if name is not None]
    given = [a[i] for i in known_a], [b[j] for j in known_b]
    edits = process.cdist(*given, scorer=distance.Levenshtein.distance, score_cutoff=2)
    alike = process.cdist(*given, scorer=distance.JaroWinkler.similarity, dtype=numpy.float64, score_cutoff=0.9)
    for condition, holds in (
        (levenshtein(l.name, r.name) <= 2, edits <= 2),
        (jaro_winkler_similarity(l.name, r.name) >= 0.9, alike >= 0.9),
    ):
        expected = [(known_a[i], known_b[j]) for i, j in zip(*numpy.nonzero(holds), strict=True)]
        found = [row[:2] for row in rows(ds.link(left, right, condition))]
        assert found == expected
        assert len(found) >= least


def test_generated_texts_as_rapidfuzz() -> None:
    check_texts(texts(3000, 21), texts(3000, 22), 300)


def test_companies_as_rapidfuzz() -> None:
    companies = read(REPOSITORY / "sql-examples/data/companies.parquet", ["name"])["name"].to_pylist()
    check_texts(companies[::9], companies[4::9], 500)


@pytest.mark.parametrize(
    ("data", "column", "least"),
    [
        ("fodors_zagat", "name", 100),
        ("restaurants_oaei", "name", 80),
        ("abt_buy", "name", 1),
        ("dblp_acm", "title", 1000),
        ("beer", "beer_name", 100),
        ("febrl4", "surname", 1000),
    ],
)
def test_shared_texts_as_rapidfuzz(shared: pathlib.Path, data: str, column: str, least: int) -> None:
    a, b = (read(shared / data / f"{side}.parquet", [column]) for side in "ab")
    check_texts(*names(a.slice(0, 3000), b.slice(0, 3000), column), least)


def check_vectors(vectors: list, radius: float) -> None:
    numpy, scipy = pytest.importorskip("numpy"), pytest.importorskip("scipy.spatial.distance")
    frame = make("arrow", {"v": vectors})
    matrix = scipy.cdist(vectors, vectors)
    expected = [(i, j) for i, j in zip(*numpy.nonzero(matrix <= radius), strict=True) if i < j]
    assert [row[:2] for row in rows(ds.pairs(frame, l2_distance(l.v, r.v) <= radius))] == expected
    assert len(expected) > 100
    numpy.fill_diagonal(matrix, numpy.inf)
    best = ds.nearest(frame, frame, l2_distance(l.v, r.v), 2)
    assert [row[2] for row in rows(best)][1::2] == pytest.approx(list(matrix.min(axis=1)))


def test_generated_vectors_as_scipy() -> None:
    import random

    choose = random.Random(3)
    check_vectors([[choose.gauss(0, 1) for _ in range(5)] for _ in range(1500)], 0.7)


def test_shared_vectors_as_scipy(shared: pathlib.Path) -> None:
    path = next(iter(sorted((shared / "vec_digits").glob("*.parquet"))))
    check_vectors([[float(x) for x in v] for v in read(path, ["v"])["v"].to_pylist()], 15.01)


class TestStringsimjoin:
    """py_stringsimjoin takes pandas frames, and has joins by sets that are exact."""

    def frames(self) -> tuple:
        pandas = pytest.importorskip("pandas")
        a, b = (texts(1500, seed, alphabet="abc de ", missing=False) for seed in (31, 32))
        return tuple(pandas.DataFrame({"id": range(len(side)), "name": side}) for side in (a, b))

    @pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
    def test_jaccard_of_words(self, threshold: float) -> None:
        ssj, tokens = pytest.importorskip("py_stringsimjoin"), pytest.importorskip("py_stringmatching")
        a, b = self.frames()
        tokenizer = tokens.WhitespaceTokenizer(return_set=True)
        theirs = ssj.jaccard_join(
            a, b, "id", "id", "name", "name", tokenizer, threshold, allow_empty=False, show_progress=False
        )
        expected = sorted((row[1], row[2]) for row in theirs.itertuples(index=False))
        split = [call("array_remove_all", call("string_to_array", side.name, " "), "") for side in (l, r)]
        found = ds.link(a, b, jaccard(*split) >= threshold, left_id="id", right_id="id")
        assert list(zip(found["id_l"], found["id_r"], strict=True)) == expected
        assert len(expected) > 20

    def test_edit_distance_finds_all_that_it_finds(self) -> None:
        ssj = pytest.importorskip("py_stringsimjoin")
        a, b = self.frames()
        theirs = ssj.edit_distance_join(a, b, "id", "id", "name", "name", 1, show_progress=False)
        expected = {(row[1], row[2]) for row in theirs.itertuples(index=False)}
        found = ds.link(a, b, levenshtein(l.name, r.name) <= 1, left_id="id", right_id="id")
        assert expected <= set(zip(found["id_l"], found["id_r"], strict=True))
        assert len(expected) > 100

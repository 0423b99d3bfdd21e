"""Every function takes frames of every kind and gives back the kind that came in."""

from __future__ import annotations

import datetime
import decimal

import pytest
from conftest import KINDS, kind_of, make, names, rows

import datafusion_similarity as ds
from datafusion_similarity import l, r
from datafusion_similarity.measures import jaro_winkler_similarity, levenshtein

PEOPLE = {"id": [1, 2, 3], "name": ["Anna Miller", "Ana Miller", "Zoe Weber"], "born": [1970, 1970, 1985]}
GUESTS = {"guest": [7, 8], "name": ["Anna Muller", "Zoé Weber"]}
ALIKE = levenshtein(l.name, r.name) <= 1


def test_fuzzy_join(kind: str) -> None:
    found = ds.fuzzy_join(make(kind, PEOPLE), make(kind, GUESTS), ALIKE)
    assert kind_of(found) == kind
    assert names(found) == ["id", "name", "born", "guest", "name_right"]
    assert rows(found) == [(1, "Anna Miller", 1970, 7, "Anna Muller"), (3, "Zoe Weber", 1985, 8, "Zoé Weber")]


def test_nearest(kind: str) -> None:
    found = ds.nearest(make(kind, PEOPLE), make(kind, GUESTS), levenshtein(l.name, r.name))
    assert kind_of(found) == kind
    assert names(found) == ["id", "name", "born", "guest", "name_right", "score"]
    assert [(row[0], row[3], row[5]) for row in rows(found)] == [(1, 7, 1), (2, 7, 2), (3, 8, 1)]


def test_pairs(kind: str) -> None:
    found = ds.pairs(make(kind, PEOPLE), ALIKE, id="id", columns=["name"])
    assert kind_of(found) == kind
    assert names(found) == ["id_l", "id_r", "clause", "name_l", "name_r"]
    assert rows(found) == [(1, 2, 1, "Anna Miller", "Ana Miller")]


def test_link(kind: str) -> None:
    score = jaro_winkler_similarity(l.name, r.name)
    found = ds.link(make(kind, PEOPLE), make(kind, GUESTS), score >= 0.8, which="one-to-one", score=score)
    assert kind_of(found) == kind
    assert names(found) == ["row_l", "row_r", "score", "clause"]
    assert [(row[0], row[1], row[3]) for row in rows(found)] == [(0, 0, 1), (2, 1, 1)]


def test_dedupe(kind: str) -> None:
    found = ds.dedupe(make(kind, PEOPLE), ALIKE, id="id")
    assert kind_of(found) == kind
    assert names(found) == ["id", "name", "born", "cluster_id"]
    assert [row[3] for row in rows(found)] == [1, 1, 3]


def test_cluster(kind: str) -> None:
    found = ds.cluster(make(kind, {"id_l": [1, 2, 7], "id_r": [2, 3, 8]}))
    assert kind_of(found) == kind
    assert rows(found) == [(1, 1), (2, 1), (3, 1), (7, 7), (8, 7)]


def test_evaluation(kind: str) -> None:
    found = make(kind, {"id_l": [1, 3, 1], "id_r": [2, 4, 5], "score": [0.95, 0.8, 0.4]})
    truth = make(kind, {"one": [2, 3, 6], "other": [1, 4, 7]})
    measures = ds.evaluate(found, truth, rows=10)
    assert (measures["tp"], measures["fp"], measures["fn"]) == (2, 1, 1)
    sweep = ds.threshold_sweep(found, truth, steps=2)
    assert kind_of(sweep) == kind
    assert len(rows(sweep)) == 3
    clusters = make(kind, {"id": [1, 2, 3], "cluster_id": [1, 1, 3]})
    assert ds.evaluate_clusters(clusters, clusters)["pairwise_f1"] == 1.0


def test_estimate(kind: str) -> None:
    found = ds.estimate(make(kind, PEOPLE), None, ALIKE)
    assert kind_of(found) == kind
    assert [row[names(found).index("matches")] for row in rows(found)] == [1]
    between = ds.estimate(make(kind, PEOPLE), make(kind, GUESTS), ALIKE, to="arrow")
    assert between["matches"].to_pylist() == [2]


@pytest.mark.parametrize("to", KINDS)
def test_to_overrides_the_kind(kind: str, to: str) -> None:
    make(to, PEOPLE)  # without the library of that kind there is nothing to test
    found = ds.fuzzy_join(make(kind, PEOPLE), make("arrow", GUESTS), ALIKE, to=to)
    assert kind_of(found) == to
    assert len(rows(found)) == 2


def test_kinds_may_be_mixed() -> None:
    found = ds.fuzzy_join(make("polars", PEOPLE), make("duckdb", GUESTS), ALIKE)
    assert kind_of(found) == "polars"
    assert len(rows(found)) == 2


def test_batches_and_readers_of_pyarrow() -> None:
    table = make("arrow", PEOPLE)
    for frame in (table.to_batches()[0], table.to_reader()):
        assert kind_of(ds.dedupe(frame, ALIKE)) == "arrow"


def test_a_reader_that_is_both_sides_is_read_once() -> None:
    reader = make("arrow", PEOPLE).to_reader()
    found = ds.fuzzy_join(reader, reader, (levenshtein(l.name, r.name) <= 1) & (l.id < r.id))
    assert [(row[0], row[3]) for row in rows(found)] == [(1, 2)]


def test_empty_frames(kind: str) -> None:
    import pyarrow

    schema = pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string())])
    nothing = make(kind, schema.empty_table())
    people = make(kind, PEOPLE)
    assert rows(ds.fuzzy_join(nothing, people, ALIKE)) == []
    assert rows(ds.fuzzy_join(people, nothing, ALIKE)) == []
    assert len(rows(ds.fuzzy_join(people, nothing, ALIKE, how="left"))) == 3
    assert rows(ds.nearest(nothing, people, levenshtein(l.name, r.name))) == []
    assert len(rows(ds.nearest(people, nothing, levenshtein(l.name, r.name)))) == 3
    assert rows(ds.pairs(nothing, ALIKE)) == []
    assert rows(ds.link(nothing, people, ALIKE)) == []
    assert rows(ds.dedupe(nothing, ALIKE)) == []


def test_null_matches_nothing(kind: str) -> None:
    import pyarrow

    name = pyarrow.array(["Anna", None, None, "Ana"], pyarrow.string())
    frame = make(kind, pyarrow.table({"id": [1, 2, 3, 4], "name": name}))
    assert rows(ds.pairs(frame, ALIKE, id="id")) == [(1, 4, 1)]
    assert [row[2] for row in rows(ds.dedupe(frame, ALIKE, id="id"))] == [1, 2, 3, 1]
    joined = ds.fuzzy_join(frame, frame, ALIKE, how="left")
    assert [(row[0], row[2]) for row in rows(joined)] == [(1, 1), (1, 4), (2, None), (3, None), (4, 1), (4, 4)]


ODD = ["Full Name", 'the "real" one', "a.b", "Größe", "select", "UPPER", " ", "l", "__row", "semi;colon -- x"]


@pytest.mark.parametrize("odd", ODD)
def test_odd_column_names(kind: str, odd: str) -> None:
    left = make(kind, {odd: ["Anna", "Bob"], "x": [1, 2]})
    right = make(kind, {odd: ["Ana", "Zoe"], "x": [3, 4]})
    alike = levenshtein(l[odd], r[odd]) <= 1
    found = ds.fuzzy_join(left, right, alike, score={f"{odd}!": levenshtein(l[odd], r[odd])})
    assert names(found) == [odd, "x", f"{odd}_right", "x_right", f"{odd}!"]
    assert rows(found) == [("Anna", 1, "Ana", 3, 1)]
    assert rows(ds.nearest(left, right, levenshtein(l[odd], r[odd]), then_by=odd))[0][:4] == ("Anna", 1, "Ana", 3)
    assert rows(ds.link(left, right, alike, left_id=odd, right_id=odd)) == [("Anna", "Ana", 1)]
    assert rows(ds.pairs(left, alike, id=odd, columns=[odd][1:])) == []
    assert [row[2] for row in rows(ds.dedupe(left, alike, id=odd))] == ["Anna", "Bob"]


def test_columns_keep_their_types() -> None:
    import pyarrow

    columns = {
        "name": pyarrow.array(["Anna", "Ana"]),
        "kind": pyarrow.array(["a", "b"]).dictionary_encode(),
        "day": pyarrow.array([datetime.date(2020, 1, 2), None]),
        "at": pyarrow.array([datetime.datetime(2020, 1, 2, 3), None], pyarrow.timestamp("us", "UTC")),
        "price": pyarrow.array([decimal.Decimal("1.50"), None]),
        "tags": pyarrow.array([["x", "y"], []]),
        "flag": pyarrow.array([True, None]),
        "vector": pyarrow.array([[0.5, 1.5], [2.5, 3.5]], pyarrow.list_(pyarrow.float32(), 2)),
    }
    table = pyarrow.table(columns)
    found = ds.fuzzy_join(table, table.select(["name"]), (levenshtein(l.name, r.name) == 1) & (l.name != r.name))
    assert found.drop_columns(["name_right"]).schema == table.schema
    assert found.drop_columns(["name_right"]).to_pydict() == table.to_pydict()


def test_dictionaries_and_views_are_strings() -> None:
    import pyarrow

    plain = pyarrow.array(["Anna", "Bob", None])
    others = [plain.dictionary_encode(), plain.cast(pyarrow.large_string())]
    if int(pyarrow.__version__.partition(".")[0]) >= 26:
        # older ones crash as they export views, whoever reads them
        others.append(plain.cast(pyarrow.string_view()))
    for other in others:
        found = ds.fuzzy_join(pyarrow.table({"name": other}), pyarrow.table({"name": ["Ana"]}), ALIKE)
        assert found["name"].to_pylist() == ["Anna"]


class TestPandas:
    def test_the_index_is_left_out_of_joins_and_kept_by_dedupe(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"name": ["Anna", "Bob", "Ana"]}, index=["x", "y", "z"])
        assert list(ds.fuzzy_join(frame, frame, ALIKE).index) == [0, 1, 2, 3, 4]
        deduped = ds.dedupe(frame, ALIKE)
        assert list(deduped.index) == ["x", "y", "z"]
        assert list(deduped["cluster_id"]) == [0, 1, 0]
        assert list(frame.columns) == ["name"]

    def test_nan_and_none_are_null(self) -> None:
        pandas = pytest.importorskip("pandas")
        for missing in (None, float("nan"), pandas.NA):
            frame = pandas.DataFrame({"name": pandas.Series(["Anna", missing, missing, "Ana"], dtype=object)})
            assert rows(ds.pairs(frame, ALIKE)) == [(0, 3, 1)]

    def test_categories_are_strings(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"name": pandas.Categorical(["Anna", "Bob", None, "Ana"])})
        assert rows(ds.pairs(frame, ALIKE)) == [(0, 3, 1)]

    def test_columns_that_arrow_cannot_hold(self) -> None:
        pandas = pytest.importorskip("pandas")
        mixed = pandas.DataFrame({"name": ["Anna", 1, object()]})
        with pytest.raises(ValueError, match=r"left has a column that Arrow cannot hold.*name.*astype"):
            ds.fuzzy_join(mixed, mixed, ALIKE)

    def test_names_of_columns(self) -> None:
        pandas = pytest.importorskip("pandas")
        with pytest.raises(ValueError, match=r"frame has a column whose name is 0, of type int.*rename"):
            ds.dedupe(pandas.DataFrame([["Anna"]]), ALIKE)
        twice = pandas.DataFrame([["Anna", "x"]], columns=["name", "name"])
        with pytest.raises(ValueError, match="frame has two columns 'name'"):
            ds.dedupe(twice, ALIKE)


class TestRefusals:
    @pytest.mark.parametrize("wrong", [None, 1, "people", [("Anna",)], {"name": ["Anna"]}])
    def test_what_is_no_frame(self, wrong: object) -> None:
        with pytest.raises(TypeError, match=f"right is an? {type(wrong).__name__} of builtins, not a frame; give a "):
            ds.fuzzy_join(make("arrow", PEOPLE), wrong, ALIKE)
        with pytest.raises(TypeError, match="left is"):
            ds.fuzzy_join(wrong, make("arrow", PEOPLE), ALIKE)

    def test_a_series_is_no_frame(self) -> None:
        polars = pytest.importorskip("polars")
        with pytest.raises(TypeError, match="frame is a Series of polars, not a frame"):
            ds.dedupe(polars.Series(["Anna"]), ALIKE)

    def test_an_unknown_kind(self) -> None:
        with pytest.raises(ValueError, match="to='numpy' is no kind of frames; known are 'pandas', 'polars'"):
            ds.dedupe(make("arrow", PEOPLE), ALIKE, to="numpy")  # type: ignore[arg-type]

    def test_an_unknown_column(self) -> None:
        with pytest.raises(ValueError, match="id='ident' is no column; there are 'id', 'name', 'born'"):
            ds.dedupe(make("arrow", PEOPLE), ALIKE, id="ident")
        with pytest.raises(TypeError, match="id is the name of a column, not 3 of type int"):
            ds.dedupe(make("arrow", PEOPLE), ALIKE, id=3)  # type: ignore[arg-type]

    def test_a_cluster_id_that_is_there(self) -> None:
        with pytest.raises(ValueError, match="frame has a column 'cluster_id' already"):
            ds.dedupe(make("arrow", {"name": ["Anna"], "cluster_id": [1]}), ALIKE)

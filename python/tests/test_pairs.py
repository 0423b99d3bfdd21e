"""Pairs, links and clusters."""

from __future__ import annotations

import itertools

import pytest
from conftest import make, rows, texts

import datafusion_similarity as ds
from datafusion_similarity import l, r
from datafusion_similarity.measures import containment, jaccard, jaro_winkler_similarity, levenshtein, word_tokens

rapidfuzz = pytest.importorskip("rapidfuzz")
from rapidfuzz.distance import JaroWinkler, Levenshtein  # noqa: E402

NAMES = texts(400, 3)
ID = [1000 - 2 * at for at in range(len(NAMES))]
NEAR = levenshtein(l.name, r.name) <= 1


def people(kind: str = "arrow") -> object:
    return make(kind, {"id": ID, "name": NAMES, "group": [at % 3 for at in range(len(NAMES))]})


def alike(i: int, j: int, edits: int = 1) -> bool:
    return NAMES[i] is not None and NAMES[j] is not None and Levenshtein.distance(NAMES[i], NAMES[j]) <= edits


def expected(edits: int = 1) -> list[tuple[int, int]]:
    return [(i, j) for i, j in itertools.combinations(range(len(NAMES)), 2) if alike(i, j, edits)]


class TestPairs:
    def test_rows_are_numbered_in_the_order_of_the_frame(self) -> None:
        found = ds.pairs(people(), NEAR)
        assert found.column_names == ["row_l", "row_r", "clause"]
        assert [row[:2] for row in rows(found)] == expected()
        assert len(expected()) > 20

    def test_the_smaller_id_is_left(self) -> None:
        found = ds.pairs(people(), NEAR, id="id", columns=["name"])
        assert [row[:2] for row in rows(found)] == sorted((ID[j], ID[i]) for i, j in expected())
        for row in found.to_pylist():
            assert row["name_l"] == NAMES[(1000 - row["id_l"]) // 2]
            assert row["name_r"] == NAMES[(1000 - row["id_r"]) // 2]

    def test_a_condition_that_holds_one_way_round(self) -> None:
        frame = make("arrow", {"name": ["a b c", "a b", "c", "x"]})
        part = containment(word_tokens(l.name), word_tokens(r.name)) >= 1
        assert [row[:2] for row in rows(ds.pairs(frame, part))] == [(0, 1), (0, 2)]
        reverse = containment(word_tokens(r.name), word_tokens(l.name)) >= 1
        assert [row[:2] for row in rows(ds.pairs(frame, reverse))] == [(0, 1), (0, 2)]

    def test_clauses_and_scores(self) -> None:
        score = jaro_winkler_similarity(l.name, r.name)
        found = ds.pairs(people(), [NEAR, (l.group == r.group) & (score >= 0.9)], score=score).to_pylist()
        assert {row["clause"] for row in found} == {1, 2}
        for row in found:
            a, b = NAMES[row["row_l"]], NAMES[row["row_r"]]
            assert row["clause"] == (1 if Levenshtein.distance(a, b) <= 1 else 2)
            assert row["score"] == pytest.approx(JaroWinkler.similarity(a, b), abs=1e-12)

    def test_text_has_clauses_too(self) -> None:
        text = 'levenshtein(l.name, r.name) <= 1 OR (l."group" = r."group" AND jaccard(l.name, r.name, 2) >= 0.4)'
        listed = [NEAR, (l.group == r.group) & (jaccard(l.name, r.name, 2) >= 0.4)]
        assert rows(ds.pairs(people(), text)) == rows(ds.pairs(people(), listed))

    def test_an_equality_alone_is_asked_for(self) -> None:
        with pytest.raises(ds.SimilarityError):
            ds.pairs(people(), l.group == r.group)
        found = ds.pairs(people(), l.group == r.group, allow_nested_loop=True)
        assert found.num_rows == sum(i % 3 == j % 3 for i, j in itertools.combinations(range(len(NAMES)), 2))

    def test_columns_are_a_list_of_names(self) -> None:
        with pytest.raises(TypeError, match=r"columns is a list of names, not a str; write \['name'\]"):
            ds.pairs(people(), NEAR, columns="name")
        with pytest.raises(ValueError, match="columns='nam' is no column"):
            ds.pairs(people(), NEAR, columns=["nam"])
        with pytest.raises(ValueError, match="two columns 'id_l'"):
            ds.pairs(people(), NEAR, id="id", columns=["id"])


class TestLink:
    A = make("arrow", {"sku": [10, 20, 30], "title": ["canon eos 80d", "canon eos 90d", "tripod"]})
    B = make("arrow", {"offer": [1, 2, 3], "title": ["canon eos 80d camera", "canon eos 80d", "canon eos 90d kit"]})
    LIKENESS = jaccard(word_tokens(l.title), word_tokens(r.title))

    def link(self, **more) -> list[tuple]:
        return rows(ds.link(self.A, self.B, self.LIKENESS >= 0.4, left_id="sku", right_id="offer", **more))

    def test_which(self) -> None:
        ids = lambda found: [row[:2] for row in found]
        assert ids(self.link()) == [(10, 1), (10, 2), (10, 3), (20, 1), (20, 2), (20, 3)]
        scored = {"score": self.LIKENESS}
        assert ids(self.link(which="best", **scored)) == [(10, 2), (20, 3)]
        assert ids(self.link(which="mutual", **scored)) == [(10, 2), (20, 3)]
        assert ids(self.link(which="one-to-one", **scored)) == [(10, 2), (20, 3)]
        assert ids(self.link(which="optimal", **scored)) == [(10, 2), (20, 3)]

    def test_columns_of_both_frames(self) -> None:
        found = ds.link(self.A, self.B, self.LIKENESS >= 0.9, columns=["title", "sku", "offer"])
        assert found.column_names == ["row_l", "row_r", "clause", "title_l", "title_r", "sku_l", "offer_r"]
        assert rows(found) == [(0, 1, 1, "canon eos 80d", "canon eos 80d", 10, 2)]

    def test_a_ranking_needs_a_score(self) -> None:
        with pytest.raises(ValueError, match="which='best' ranks the pairs, so it needs one expression as score"):
            self.link(which="best")
        with pytest.raises(ValueError, match="which='some' is unknown"):
            self.link(which="some")

    def test_ids_of_any_type(self) -> None:
        a = make("arrow", {"id": ["x", "y"], "title": ["one", "two"]})
        found = ds.link(a, self.B, levenshtein(l.title, r.title) <= 99, left_id="id", which="best", score=self.LIKENESS)
        assert [row[0] for row in rows(found)] == ["x", "y"]


class TestDedupe:
    def test_clusters_are_components(self) -> None:
        number = list(range(len(NAMES)))
        for i, j in expected():
            old, new = max(number[i], number[j]), min(number[i], number[j])
            number = [new if at == old else at for at in number]
        found = ds.dedupe(people(), NEAR)
        assert found["cluster_id"].to_pylist() == number
        assert found["id"].to_pylist() == ID

    def test_ids_name_clusters(self) -> None:
        found = ds.dedupe(people(), NEAR, id="id")
        smallest = {}
        for row in found.to_pylist():
            smallest[row["cluster_id"]] = min(row["id"], smallest.get(row["cluster_id"], row["id"]))
        assert all(cluster == id for cluster, id in smallest.items())
        numbers = {}
        for row, number in zip(found.to_pylist(), ds.dedupe(people(), NEAR)["cluster_id"].to_pylist(), strict=True):
            assert numbers.setdefault(number, row["cluster_id"]) == row["cluster_id"]

    def test_methods(self) -> None:
        chain = make("arrow", {"name": ["abcd", "abce", "abff", "affg"]})
        rule, score = levenshtein(l.name, r.name) <= 2, -levenshtein(l.name, r.name)
        clusters = lambda **more: ds.dedupe(chain, rule, **more)["cluster_id"].to_pylist()
        assert clusters() == [0, 0, 0, 0]
        assert clusters(method="split", score=score, largest=2)[:2] == [0, 0]
        assert len(set(clusters(method="split", score=score, largest=2))) > 1
        assert len(set(clusters(method="center", score=score))) == 2
        assert clusters(method="star") == [0, 0, 0, 0]

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="method='best' is unknown"):
            ds.dedupe(people(), NEAR, method="best")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="needs a score"):
            ds.dedupe(people(), NEAR, method="split", largest=3)
        with pytest.raises(ValueError, match="needs largest"):
            ds.dedupe(people(), NEAR, method="split", score="1")
        with pytest.raises(ValueError, match="largest is for method='split'"):
            ds.dedupe(people(), NEAR, largest=3)

    def test_the_same_clusters_from_pairs(self) -> None:
        deduped = ds.dedupe(people(), NEAR, id="id")
        in_pairs = dict(rows(ds.cluster(ds.pairs(people(), NEAR, id="id"))))
        for row in deduped.to_pylist():
            assert in_pairs.get(row["id"], row["id"]) == row["cluster_id"]


class TestCluster:
    LINKS = make("arrow", {"weight": [0.9, 0.6, 0.8], "a": [1, 2, 3], "b": [2, 3, 4]})

    def test_columns_by_name(self) -> None:
        found = ds.cluster(self.LINKS, left="a", right="b")
        assert rows(found) == [(1, 1), (2, 1), (3, 1), (4, 1)]
        split = ds.cluster(self.LINKS, left="a", right="b", score="weight", method="split", largest=2)
        assert rows(split) == [(1, 1), (2, 1), (3, 3), (4, 3)]

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="left='x' is no column"):
            ds.cluster(self.LINKS, left="x")
        with pytest.raises(ValueError, match="pairs has 1 columns"):
            ds.cluster(make("arrow", {"a": [1]}))


class TestEvaluation:
    FOUND = make("arrow", {"score": [0.95, 0.8, 0.4], "id_l": [1, 3, 1], "id_r": [2, 4, 5]})
    TRUTH = make("arrow", {"one": [2, 3, 6], "other": [1, 4, 7]})

    def test_columns_by_name(self) -> None:
        measures = ds.evaluate(self.FOUND, self.TRUTH, columns=["id_l", "id_r"])
        assert (measures["precision"], measures["recall"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
        assert measures["reduction_ratio"] is None

    def test_a_truth_that_knows_some_pairs(self) -> None:
        measures = ds.evaluate(self.FOUND, self.TRUTH, columns=["id_l", "id_r"], kind="known duplicates")
        assert measures["precision"] is None
        assert measures["recall"] == pytest.approx(2 / 3)

    def test_links_have_a_direction(self) -> None:
        measures = ds.evaluate(self.FOUND, self.TRUTH, columns=["id_l", "id_r"], kind="links", rows=(5, 7))
        assert measures["tp"] == 1
        assert measures["reduction_ratio"] == pytest.approx(1 - 3 / 35)

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="kind='pairs' is unknown"):
            ds.evaluate(self.FOUND, self.TRUTH, kind="pairs")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="columns are two names of columns"):
            ds.evaluate(self.FOUND, self.TRUTH, columns=["id_l"])
        with pytest.raises(TypeError, match="rows is a number of rows"):
            ds.evaluate(self.FOUND, self.TRUTH, rows="10")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="steps is"):
            ds.threshold_sweep(self.FOUND, self.TRUTH, steps=0)


def test_report(tmp_path) -> None:
    page = tmp_path / "names.html"
    score = "jaro_winkler_similarity(l.name, r.name)"
    summary = ds.report(
        people(), NEAR, page, id="id", score=score, name="names", truth=ds.pairs(people(), NEAR, id="id")
    )
    assert summary.startswith("400 rows, ")
    assert "Duplicates in names.parquet" in page.read_text(encoding="utf-8")
    with pytest.raises(ds.SimilarityError, match="names.html"):
        ds.report(people(), NEAR, page, id="id")
    ds.report(people(), NEAR, page, id="id", overwrite=True)
    linked = tmp_path / "links.html"
    assert "links" in ds.report(
        people(), NEAR, linked, right=people(), id="id", right_id="id", which="one-to-one", score=score
    )
    with pytest.raises(ds.SimilarityError, match="nam"):
        ds.report(people(), "l.nam = r.nam", tmp_path / "x.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["links.html", "names.html"]

"""Joins give the pairs that every pair of rows, compared one by one in Python, gives."""

from __future__ import annotations

import pytest
from conftest import make, rows, texts

import datafusion_similarity as ds
from datafusion_similarity import l, r
from datafusion_similarity.measures import jaccard, jaro_winkler_similarity, l2_distance, levenshtein

rapidfuzz = pytest.importorskip("rapidfuzz")
from rapidfuzz.distance import JaroWinkler, Levenshtein  # noqa: E402

LEFT = texts(300, 1)
RIGHT = texts(250, 2) + LEFT[100:120]
CITY_L = [at % 7 if at % 11 else None for at in range(len(LEFT))]
CITY_R = [at % 5 if at % 13 else None for at in range(len(RIGHT))]


def left(kind: str = "arrow") -> object:
    return make(kind, {"id": list(range(len(LEFT))), "name": LEFT, "city": CITY_L})


def right(kind: str = "arrow") -> object:
    return make(kind, {"id": list(range(len(RIGHT))), "name": RIGHT, "city": CITY_R})


def expected(holds) -> list[tuple[int, int]]:
    """The pairs of rows for which a condition holds."""
    return [(i, j) for i in range(len(LEFT)) for j in range(len(RIGHT)) if holds(i, j)]


def named(i: int, j: int) -> bool:
    return LEFT[i] is not None and RIGHT[j] is not None


def near(i: int, j: int) -> bool:
    return named(i, j) and Levenshtein.distance(LEFT[i], RIGHT[j]) <= 2


def same_city(i: int, j: int) -> bool:
    return CITY_L[i] is not None and CITY_L[i] == CITY_R[j]


def found(on, **more) -> list[tuple[int, int]]:
    joined = ds.fuzzy_join(left(), right(), on, **more)
    return list(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True))


def test_levenshtein_as_rapidfuzz() -> None:
    pairs = expected(near)
    assert len(pairs) > 100
    assert found(levenshtein(l.name, r.name) <= 2) == pairs
    assert found("levenshtein(l.name, r.name) <= 2") == pairs


def test_jaro_winkler_as_rapidfuzz() -> None:
    pairs = expected(lambda i, j: named(i, j) and JaroWinkler.similarity(LEFT[i], RIGHT[j]) >= 0.85)
    assert len(pairs) > 50
    assert found(jaro_winkler_similarity(l.name, r.name) >= 0.85) == pairs


def test_and_or_and_lists() -> None:
    alike = lambda i, j: named(i, j) and JaroWinkler.similarity(LEFT[i], RIGHT[j]) >= 0.8
    both = expected(lambda i, j: near(i, j) and same_city(i, j))
    either = expected(lambda i, j: near(i, j) or (alike(i, j) and same_city(i, j)))
    assert 0 < len(both) < len(either)
    name, city = levenshtein(l.name, r.name) <= 2, l.city == r.city
    similar = (jaro_winkler_similarity(l.name, r.name) >= 0.8) & city
    assert found(name & city) == both
    assert found([name, similar]) == either
    assert found(name | similar) == either
    assert found(["levenshtein(l.name, r.name) <= 2 -- a comment", similar]) == either


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "outer", "semi", "anti"])
def test_types_of_joins(how: str) -> None:
    pairs: list[tuple[int | None, int | None]] = list(expected(near))
    of_left = {i for i, _ in pairs}
    of_right = {j for _, j in pairs}
    alone_left = [(i, None) for i in range(len(LEFT)) if i not in of_left]
    alone_right = [(None, j) for j in range(len(RIGHT)) if j not in of_right]
    joined = ds.fuzzy_join(left(), right(), levenshtein(l.name, r.name) <= 2, how)  # type: ignore[arg-type]
    ids = joined["id"].to_pylist()
    if how == "semi":
        assert ids == sorted(of_left)
        assert joined.column_names == ["id", "name", "city"]
    elif how == "anti":
        assert ids == [i for i, _ in alone_left]
    else:
        wanted = (
            pairs + alone_left * (how in ("left", "full", "outer")) + alone_right * (how in ("right", "full", "outer"))
        )
        last = len(LEFT) + len(RIGHT)
        order = lambda pair: tuple(last if end is None else end for end in pair)
        assert list(zip(ids, joined["id_right"].to_pylist(), strict=True)) == sorted(wanted, key=order)


def test_an_open_order_has_the_same_pairs() -> None:
    condition = levenshtein(l.name, r.name) <= 2
    assert sorted(found(condition, maintain_order=False)) == expected(near)


def test_scores() -> None:
    distance = levenshtein(l.name, r.name)
    joined = ds.fuzzy_join(left(), right(), distance <= 2, score=distance)
    assert joined["score"].to_pylist() == [Levenshtein.distance(LEFT[i], RIGHT[j]) for i, j in expected(near)]
    twice = ds.fuzzy_join(
        left(), right(), distance <= 2, score={"edits": distance, "jw": "jaro_similarity(l.name, r.name)"}
    )
    assert twice.column_names[-2:] == ["edits", "jw"]
    assert twice["edits"].to_pylist() == joined["score"].to_pylist()


@pytest.mark.parametrize(
    "on",
    [
        (levenshtein(l.name, r.name) <= 1) & (l.city == r.city) | (jaccard(l.name, r.name, 2) >= 0.7),
        "(levenshtein(l.name, r.name) <= 1 AND l.city = r.city) OR jaccard(l.name, r.name, 2) >= 0.7",
    ],
)
def test_scores_of_all_measures(on) -> None:
    joined = ds.fuzzy_join(left(), right(), on, score=True)
    assert joined.column_names[6:] == ["levenshtein(name)", "jaccard(name, 2)"]
    for row in joined.to_pylist():
        assert row["levenshtein(name)"] == Levenshtein.distance(row["name"], row["name_right"])


def test_a_join_without_an_index_is_an_error_that_says_how_to_allow_it() -> None:
    dissimilar = jaccard(l.name, r.name, 2) < 0.1
    with pytest.raises(ds.SimilarityError, match="SIMILARITY JOIN cannot be accelerated") as refused:
        ds.fuzzy_join(left(), right(), dissimilar)
    notes = getattr(refused.value, "__notes__", ["allow_nested_loop=True"])
    assert "allow_nested_loop=True" in notes[0]
    assert len(found(dissimilar, allow_nested_loop=True)) > 1000
    with pytest.raises(ds.SimilarityError):
        ds.fuzzy_join(left(), right(), l.city == r.city)
    assert found(l.city == r.city, allow_nested_loop=True) == expected(same_city)


def test_suffix() -> None:
    joined = ds.fuzzy_join(left(), right(), levenshtein(l.name, r.name) <= 0, suffix=" (2)")
    assert joined.column_names == ["id", "name", "city", "id (2)", "name (2)", "city (2)"]
    with pytest.raises(ValueError, match="two columns 'id'; change suffix=''"):
        ds.fuzzy_join(left(), right(), levenshtein(l.name, r.name) <= 0, suffix="")
    taken = make("arrow", {"name": ["x"], "name_right": ["y"]})
    with pytest.raises(ValueError, match="two columns 'name_right'"):
        ds.fuzzy_join(taken, right(), levenshtein(l.name, r.name) <= 0)
    with pytest.raises(ValueError, match="two columns 'city'"):
        ds.fuzzy_join(left(), right(), levenshtein(l.name, r.name) <= 0, score={"city": "1"})


def test_recall_finds_most_pairs_and_no_others() -> None:
    alike = jaccard(l.name, r.name, 2) >= 0.5
    exact = set(found(alike))
    most = set(found(alike, recall=0.9))
    assert most <= exact
    assert len(most) >= 0.8 * len(exact)
    for wrong in (0, 1.5, "0.9", True):
        with pytest.raises(ValueError, match="recall is a share above 0 and up to 1"):
            found(alike, recall=wrong)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="how='cross' is unknown; known are 'inner', 'left'"):
        found(levenshtein(l.name, r.name) <= 1, how="cross")
    with pytest.raises(ValueError, match="score is of pairs, and how='semi'"):
        found(levenshtein(l.name, r.name) <= 1, how="semi", score=True)
    with pytest.raises(TypeError, match="on is SQL text over l and r.*not 3 of type int"):
        found(3)
    with pytest.raises(TypeError, match=r"on\[1\] is SQL text over l and r"):
        found([levenshtein(l.name, r.name) <= 1, True])
    with pytest.raises(ValueError, match="on is an empty list"):
        found([])
    with pytest.raises(ValueError, match="on is empty"):
        found(" ")
    with pytest.raises(ds.SimilarityError, match="No field named l.nam"):
        found(levenshtein(l.nam, r.name) <= 1)
    with pytest.raises(TypeError, match="session is a datafusion_similarity.Session, not str"):
        found(levenshtein(l.name, r.name) <= 1, session="x")


def test_values_are_quoted() -> None:
    people = make("arrow", {"name": ["O'Neil", 'a"b', "x\\'; DROP TABLE y; --", "Anna"]})
    for at, name in enumerate(rows(people)):
        same = (l.name == name[0]) & (levenshtein(l.name, r.name) <= 0)
        assert rows(ds.fuzzy_join(people, people, same)) == [rows(people)[at] * 2]
    among = l.name.is_in(["O'Neil", "x\\'; DROP TABLE y; --"]) & (levenshtein(l.name, r.name) <= 0)
    assert len(rows(ds.fuzzy_join(people, people, among))) == 2


class TestNearest:
    def best(self, k: int) -> list[tuple[int, int]]:
        found = []
        for i, name in enumerate(LEFT):
            if name is None:
                continue
            ranked = sorted(
                (Levenshtein.distance(name, other), j) for j, other in enumerate(RIGHT) if other is not None
            )
            found += [(i, j) for _, j in ranked[:k]]
        return found

    @pytest.mark.parametrize("k", [1, 3])
    def test_best_rows_and_the_first_of_equal_ones(self, k: int) -> None:
        joined = ds.nearest(left(), right(), levenshtein(l.name, r.name), k, how="inner")
        assert list(zip(joined["id"].to_pylist(), joined["id_right"].to_pylist(), strict=True)) == self.best(k)

    def test_left_rows_without_a_candidate(self) -> None:
        joined = ds.nearest(left(), right(), "levenshtein(l.name, r.name)")
        assert joined["id"].to_pylist() == list(range(len(LEFT)))
        assert joined["id_right"].to_pylist()[0] is None
        near = ds.nearest(left(), right(), levenshtein(l.name, r.name), on=levenshtein(l.name, r.name) <= 1)
        alone = [row["id"] for row in near.to_pylist() if row["id_right"] is None]
        assert alone == [i for i in range(len(LEFT)) if not any(near_by_one(i, j) for j in range(len(RIGHT)))]

    def test_within_groups(self) -> None:
        joined = ds.nearest(left(), right(), levenshtein(l.name, r.name), on=l.city == r.city, how="inner")
        assert all(row["city"] == row["city_right"] for row in joined.to_pylist())
        assert joined.num_rows > 100

    def test_vectors(self) -> None:
        points = make("arrow", {"id": [1, 2], "v": [[0.0, 5.5], [2.0, 0.0]]})
        shops = make("arrow", {"shop": ["North", "Centre", "South"], "v": [[0.0, 9.0], [1.0, 1.0], [0.0, -7.0]]})
        joined = ds.nearest(points, shops, l2_distance(l.v, r.v), score=False)
        assert joined["shop"].to_pylist() == ["North", "Centre"]
        assert "score" not in joined.column_names

    def test_recall(self) -> None:
        exact = ds.nearest(left(), right(), levenshtein(l.name, r.name), 2)
        assert ds.nearest(left(), right(), levenshtein(l.name, r.name), 2, recall=0.9) == exact
        with pytest.raises(ValueError, match="recall is a share"):
            ds.nearest(left(), right(), levenshtein(l.name, r.name), recall=2)

    def test_ties_and_their_order(self) -> None:
        one = make("arrow", {"x": ["a"]})
        many = make("arrow", {"y": ["c", "b", "a", "d"], "z": [3, 2, 9, 1]})
        distance = levenshtein(l.x, r.y)
        assert ds.nearest(one, many, distance, 2)["y"].to_pylist() == ["a", "c"]
        assert ds.nearest(one, many, distance, 2, then_by="z")["y"].to_pylist() == ["a", "d"]
        assert ds.nearest(one, many, distance, 2, then_by=["r.z DESC"])["y"].to_pylist() == ["a", "c"]
        tied = ds.nearest(one, many, distance, 2, then_by=["length(r.y)"], ties=True)
        assert sorted(tied["y"].to_pylist()) == ["a", "b", "c", "d"]

    def test_direction(self) -> None:
        best = ds.nearest(
            left(), right(), 1 - jaro_winkler_similarity(l.name, r.name), direction="distance", how="inner"
        )
        same = ds.nearest(left(), right(), jaro_winkler_similarity(l.name, r.name), how="inner")
        assert best["id_right"].to_pylist() == same["id_right"].to_pylist()
        with pytest.raises(ValueError, match="by is no single measure.*direction='distance'"):
            ds.nearest(left(), right(), 1 - jaro_winkler_similarity(l.name, r.name))
        with pytest.raises(ValueError, match="direction='up' is unknown"):
            ds.nearest(left(), right(), levenshtein(l.name, r.name), direction="up")  # type: ignore[arg-type]

    @pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
    def test_wrong_numbers(self, k) -> None:
        with pytest.raises(ValueError, match="k is how many rows"):
            ds.nearest(left(), right(), levenshtein(l.name, r.name), k)


def near_by_one(i: int, j: int) -> bool:
    return named(i, j) and Levenshtein.distance(LEFT[i], RIGHT[j]) <= 1

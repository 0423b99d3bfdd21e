"""Measures over columns, row by row, as rapidfuzz and scipy have them."""

from __future__ import annotations

import random

import pytest
from conftest import texts

import datafusion_similarity as ds
from datafusion_similarity import l, measures, r
from datafusion_similarity.measures import jaro_winkler_similarity, l2_distance, levenshtein

A = texts(3000, 5, alphabet="abcdeéü😀 ")
B = [a if at % 7 == 0 else b for at, (a, b) in enumerate(zip(A, texts(3000, 6, alphabet="abcdeéü😀 "), strict=True))]
LIBRARIES = ("pandas", "polars", "pyarrow")


def column(library: str, values: list) -> object:
    module = pytest.importorskip(library)
    return module.array(values) if library == "pyarrow" else module.Series(values)


def values(column) -> list:
    listed = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
    return [None if value != value else value for value in listed]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("measure", "reference"),
    [
        ("levenshtein", "Levenshtein.distance"),
        ("levenshtein_similarity", "Levenshtein.normalized_similarity"),
        ("osa_distance", "OSA.distance"),
        ("damerau_levenshtein", "DamerauLevenshtein.distance"),
        ("jaro_similarity", "Jaro.similarity"),
        ("jaro_winkler_similarity", "JaroWinkler.similarity"),
    ],
)
def test_as_rapidfuzz(library: str, measure: str, reference: str) -> None:
    distance = pytest.importorskip("rapidfuzz.distance")
    owner, name = reference.split(".")
    scorer = getattr(getattr(distance, owner), name)
    expected = [None if a is None or b is None else scorer(a, b) for a, b in zip(A, B, strict=True)]
    found = values(getattr(measures, measure)(column(library, A), column(library, B)))
    assert found == pytest.approx(expected, abs=1e-12)
    assert len(set(expected)) > 5


@pytest.mark.parametrize("library", LIBRARIES)
def test_token_sort_ratio_as_rapidfuzz(library: str) -> None:
    fuzz = pytest.importorskip("rapidfuzz.fuzz")
    a, b = ["fuzzy wuzzy", "new york mets", ""], ["wuzzy fuzzy", "mets of new york", "x"]
    expected = [fuzz.token_sort_ratio(x, y) for x, y in zip(a, b, strict=True)]
    assert values(measures.token_sort_ratio(column(library, a), column(library, b))) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "reference"),
    [
        ("l2_distance", "euclidean"),
        ("l1_distance", "cityblock"),
        ("linf_distance", "chebyshev"),
        ("cosine_distance", "cosine"),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_vectors_as_scipy(library: str, measure: str, reference: str) -> None:
    distance = pytest.importorskip("scipy.spatial.distance")
    choose = random.Random(7)
    a, b = ([[choose.gauss(0, 1) for _ in range(8)] for _ in range(500)] for _ in range(2))
    expected = [getattr(distance, reference)(x, y) for x, y in zip(a, b, strict=True)]
    assert values(getattr(measures, measure)(column(library, a), column(library, b))) == pytest.approx(expected)


def test_the_order_of_many_rows_is_kept() -> None:
    polars = pytest.importorskip("polars")
    number = polars.Series(range(300_000)).cast(polars.String)
    assert levenshtein(number, "")[-1] == 6
    assert measures.unaccent(number).to_list() == number.to_list()


def test_results_have_a_name_and_the_index_of_the_first_column() -> None:
    pandas = pytest.importorskip("pandas")
    a = pandas.Series(["anna", "bob"], index=["x", "y"], name="a")
    b = pandas.Series(["ana", "bob"], index=["y", "z"])
    found = levenshtein(a, b)
    assert list(found.items()) == [("x", 1), ("y", 0)]
    assert found.name == "levenshtein"
    assert pandas.DataFrame({"a": a}).assign(edits=levenshtein(a, "anna"))["edits"].to_list() == [0, 4]


def test_a_chunked_array() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    chunks = pyarrow.chunked_array([["anna"], ["bob", None]])
    assert levenshtein(chunks, chunks).to_pylist() == [0, 0, None]


def test_plain_values_and_expressions() -> None:
    assert levenshtein("kitten", "sitting") == 3
    assert levenshtein("kitten", None) is None
    assert l2_distance([0.0, 0.0], (3, 4)) == 5.0
    assert jaro_winkler_similarity("a", "b") == 0.0
    expression = jaro_winkler_similarity(l["first name"], "Anna", prefix_weight=0.2)
    assert expression.sql == "jaro_winkler_similarity(l.\"first name\", 'Anna', 0.2, 0.7)"


def test_every_measure_has_a_direction_or_is_none() -> None:
    public = [name for name in vars(measures) if name[0].islower() and name not in ("apply", "annotations")]
    others = {
        "word_tokens", "qgrams", "multiset_qgrams", "soundex", "metaphone", "dmetaphone", "dmetaphone_alt",
        "daitch_mokotoff", "unaccent", "normalize", "casefold", "minhash", "simhash",
    }  # fmt: skip
    assert set(public) - others <= measures.DISTANCES | measures.SIMILARITIES
    assert not measures.DISTANCES & measures.SIMILARITIES


class TestExpressions:
    def test_operators(self) -> None:
        condition = (abs(l.price - r.price) / 2 <= 1.5) | ~(l.city == r.city)
        assert condition.sql == '(((abs((l."price" - r."price")) / 2) <= 1.5) OR (NOT (l."city" = r."city")))'
        assert (2 * l.x + 1 > -r.y).sql == '(((2 * l."x") + 1) > (- r."y"))'
        assert l.x.between(r.a, r.b).sql == '(l."x" BETWEEN r."a" AND r."b")'
        assert l.x.is_in([]).sql == "FALSE"
        assert (l.x.is_null() & l.y.is_not_null()).sql == '((l."x" IS NULL) AND (l."y" IS NOT NULL))'

    def test_python_keywords_are_refused(self) -> None:
        for wrong in (
            lambda: (l.a == r.a) and (l.b == r.b),
            lambda: not (l.a == r.a),
            lambda: 1 < l.a < 2,
            lambda: l.a in [1, 2],
        ):
            with pytest.raises(TypeError, match="combine conditions by & and | and ~"):
                wrong()

    def test_values_that_cannot_stand_in_a_condition(self) -> None:
        with pytest.raises(TypeError, match=r"None equals nothing in SQL; write .is_null\(\)"):
            l.a == None  # noqa: B015, E711
        with pytest.raises(TypeError, match="of type object cannot stand in a condition"):
            l.a == object()  # noqa: B015
        with pytest.raises(TypeError, match="the left row.* has no value of its own"):
            levenshtein(l, r.a)
        with pytest.raises(AttributeError, match=r'l\["_x"\]'):
            l._x
        with pytest.raises(ValueError, match="is no name of a function"):
            ds.call("f(x) --", l.a)

    def test_constants_have_their_values(self) -> None:
        import datetime
        import decimal

        pyarrow = pytest.importorskip("pyarrow")
        numpy = pytest.importorskip("numpy")
        for value in (
            0, -5, 2**62, 1.5, -1e-300, 1e300, True, "", "O'Neil", "\\n", "ü😀", "line\nbreak", b"\x00\xff",
            datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30, 1, 250), decimal.Decimal("-12.340"),
            [1.5, 2.5], ["a", "b'c"],
        ):  # fmt: skip
            query = ds.Session().sql(f"SELECT {ds.call('coalesce', value).sql} AS value")
            assert query.to_arrow()["value"].to_pylist() == [value], value
        assert ds.call("f", numpy.float32(0.5), numpy.array([1, 2]), numpy.str_("x")).sql == "f(0.5, [1, 2], 'x')"
        assert pyarrow


class TestRefusals:
    def test_lengths(self) -> None:
        with pytest.raises(ValueError, match="levenshtein takes columns of one length, not of 1 and 2"):
            levenshtein(column("polars", ["a"]), column("polars", ["a", "b"]))

    def test_libraries(self) -> None:
        with pytest.raises(TypeError, match="levenshtein takes columns of one library, not of pandas and polars"):
            levenshtein(column("polars", ["a"]), column("pandas", ["a"]))

    def test_types(self) -> None:
        with pytest.raises(ds.SimilarityError, match="jaccard"):
            measures.jaccard(column("polars", [1.5]), column("polars", [2.5]))
        with pytest.raises(TypeError, match="an attribute is"):
            measures.weighted_similarity(0.5)
        with pytest.raises(ValueError, match="match_count has 2 conditions and 1 weights"):
            measures.match_count(True, False, weights=[1])

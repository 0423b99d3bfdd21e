"""Measures and other functions of strings, sets and vectors.

Each function takes three kinds of arguments:

* columns of rows, as ``l.name``: it gives an expression for :func:`fuzzy_join` and its like;
* pandas or polars series, or pyarrow arrays: it gives a column of their kind, row by row;
* plain values: it gives a value.

>>> levenshtein("kitten", "sitting")
3
>>> import polars as pl
>>> levenshtein(pl.Series(["anna", None]), "ana").to_list()
[1, None]

NULL gives NULL. Strings are compared with their case, character by character. A measure whose name ends in
``_similarity`` is 1 for equal arguments, one whose name ends in ``_distance`` is 0. Errors of SQL raise
:class:`SimilarityError`.
"""

from __future__ import annotations

from typing import Any

from ._columns import apply

#: Measures of which the smallest value is best.
DISTANCES = frozenset({
    "levenshtein", "levenshtein_less_equal", "osa_distance", "damerau_levenshtein", "hamming", "bit_hamming",
    "l1_distance", "l2_distance", "linf_distance", "lp_distance", "array_distance", "list_distance", "cosine_distance",
})  # fmt: skip

#: Measures of which the largest value is best.
SIMILARITIES = frozenset({
    "levenshtein_similarity", "jaro_similarity", "jaro_winkler_similarity", "token_sort_ratio", "jaccard", "dice",
    "set_cosine", "overlap_coefficient", "overlap_count", "containment", "tversky", "similarity", "word_similarity",
    "strict_word_similarity", "difference", "weighted_similarity", "match_count", "minhash_similarity",
    "cosine_similarity", "inner_product", "dot_product",
})  # fmt: skip


def levenshtein(a: Any, b: Any) -> Any:
    """The number of insertions, deletions and substitutions of characters that make one string the other.

    >>> levenshtein("kitten", "sitting")
    3
    """
    return apply("levenshtein", a, b)


def levenshtein_less_equal(a: Any, b: Any, k: int) -> Any:
    """The Levenshtein distance, or ``k + 1`` where it exceeds ``k``. It is faster for a small ``k``.

    >>> levenshtein_less_equal("kitten", "sitting", 1)
    2
    """
    return apply("levenshtein_less_equal", a, b, k)


def levenshtein_similarity(a: Any, b: Any) -> Any:
    """1 less the Levenshtein distance over the length of the longer string, from 0 to 1.

    >>> levenshtein_similarity("abcd", "abce")
    0.75
    """
    return apply("levenshtein_similarity", a, b)


def osa_distance(a: Any, b: Any) -> Any:
    """Optimal string alignment: edits and swaps of neighbours, where no part is edited twice.

    >>> osa_distance("ca", "abc")
    3
    """
    return apply("osa_distance", a, b)


def damerau_levenshtein(a: Any, b: Any) -> Any:
    """Edits and swaps of neighbours, without restriction.

    >>> damerau_levenshtein("ca", "abc")
    2
    """
    return apply("damerau_levenshtein", a, b)


def hamming(a: Any, b: Any) -> Any:
    """In how many places two strings of one length differ, and None for two lengths.

    >>> hamming("karolin", "kathrin")
    3
    """
    return apply("hamming", a, b)


def jaro_similarity(a: Any, b: Any) -> Any:
    """Jaro's similarity, from 0 to 1: common characters near each other, less their transpositions.

    >>> round(jaro_similarity("martha", "marhta"), 3)
    0.944
    """
    return apply("jaro_similarity", a, b)


def jaro_winkler_similarity(a: Any, b: Any, prefix_weight: float = 0.1, boost_above: float = 0.7) -> Any:
    """Jaro's similarity, raised by a common prefix of up to 4 characters where it is above ``boost_above``.

    >>> round(jaro_winkler_similarity("martha", "marhta"), 3)
    0.961
    """
    if (prefix_weight, boost_above) == (0.1, 0.7):
        return apply("jaro_winkler_similarity", a, b)
    return apply("jaro_winkler_similarity", a, b, prefix_weight, boost_above)


def token_sort_ratio(a: Any, b: Any) -> Any:
    """RapidFuzz's ``token_sort_ratio``, from 0 to 100: the likeness of two strings once their words are sorted.

    >>> token_sort_ratio("wuzzy fuzzy", "fuzzy wuzzy")
    100.0
    """
    return apply("token_sort_ratio", a, b)


def jaccard(a: Any, b: Any, q: int | None = None) -> Any:
    """The share of the union that both sets hold, from 0 to 1. It is 0 where either set is empty.

    The sets are two lists, or the q-grams of two strings. Without ``q`` strings are sets of characters.

    >>> jaccard(["a", "b"], ["b", "c", "d"])
    0.25
    """
    return apply("jaccard", a, b, *_given(q))


def dice(a: Any, b: Any, q: int | None = None) -> Any:
    """Twice the overlap over the sum of the sizes, of sets as in :func:`jaccard`.

    >>> dice(["a", "b"], ["b", "c"])
    0.5
    """
    return apply("dice", a, b, *_given(q))


def set_cosine(a: Any, b: Any, q: int | None = None) -> Any:
    """The overlap over the geometric mean of the sizes, of sets as in :func:`jaccard`.

    >>> set_cosine(["a", "b"], ["b", "c"])
    0.5
    """
    return apply("set_cosine", a, b, *_given(q))


def overlap_coefficient(a: Any, b: Any, q: int | None = None) -> Any:
    """The overlap over the size of the smaller set, of sets as in :func:`jaccard`.

    >>> overlap_coefficient(["a"], ["a", "b", "c"])
    1.0
    """
    return apply("overlap_coefficient", a, b, *_given(q))


def overlap_count(a: Any, b: Any, q: int | None = None) -> Any:
    """How many elements two sets share, of sets as in :func:`jaccard`.

    >>> overlap_count(["a", "b"], ["b", "c"])
    1
    """
    return apply("overlap_count", a, b, *_given(q))


def containment(a: Any, b: Any, q: int | None = None) -> Any:
    """The share of ``a`` that ``b`` holds, of sets as in :func:`jaccard`.

    >>> containment(["a", "b"], ["b", "c", "d"])
    0.5
    """
    return apply("containment", a, b, *_given(q))


def tversky(a: Any, b: Any, alpha: float, beta: float, q: int | None = None) -> Any:
    """The overlap over itself, ``alpha`` of what only ``a`` holds and ``beta`` of what only ``b`` holds.

    >>> tversky(["a", "b"], ["b", "c"], 0.5, 0.5)
    0.5
    """
    return apply("tversky", a, b, alpha, beta, *_given(q))


def word_tokens(s: Any) -> Any:
    """The words of a string in lower case, split at whatever is neither letter nor digit.

    >>> word_tokens("Miller & Sons")
    ['miller', 'sons']
    """
    return apply("word_tokens", s)


def qgrams(s: Any, q: int, pad: str | None = None) -> Any:
    """The substrings of ``q`` characters. With ``pad``, ``q - 1`` copies of it stand on each side.

    >>> qgrams("abc", 2, "#")
    ['#a', 'ab', 'bc', 'c#']
    """
    return apply("qgrams", s, q, *_given(pad))


def multiset_qgrams(s: Any, q: int, pad: str | None = None) -> Any:
    """The q-grams of a string, where each further occurrence of a gram has its number behind it.

    >>> multiset_qgrams("banana", 2)
    ['ba', 'an', 'na', 'an2', 'na2']
    """
    return apply("multiset_qgrams", s, q, *_given(pad))


def similarity(a: Any, b: Any) -> Any:
    """PostgreSQL's ``similarity``: the Jaccard similarity of the trigrams of the words.

    >>> round(similarity("word", "two words"), 3)
    0.364
    """
    return apply("similarity", a, b)


def word_similarity(a: Any, b: Any) -> Any:
    """PostgreSQL's ``word_similarity``. No index serves it.

    >>> round(word_similarity("word", "two words"), 3)
    0.8
    """
    return apply("word_similarity", a, b)


def strict_word_similarity(a: Any, b: Any) -> Any:
    """PostgreSQL's ``strict_word_similarity``. No index serves it.

    >>> round(strict_word_similarity("word", "two words"), 3)
    0.571
    """
    return apply("strict_word_similarity", a, b)


def soundex(s: Any) -> Any:
    """The Soundex code, as PostgreSQL has it.

    >>> soundex("Anne")
    'A500'
    """
    return apply("soundex", s)


def difference(a: Any, b: Any) -> Any:
    """In how many of four places two Soundex codes agree.

    >>> difference("Anne", "Andrew")
    2
    """
    return apply("difference", a, b)


def metaphone(s: Any, max_length: int = 255) -> Any:
    """The Metaphone code, as PostgreSQL has it.

    >>> metaphone("GUMBO")
    'KM'
    """
    return apply("metaphone", s, max_length)


def dmetaphone(s: Any) -> Any:
    """The primary Double Metaphone code, as PostgreSQL has it.

    >>> dmetaphone("gumbo")
    'KMP'
    """
    return apply("dmetaphone", s)


def dmetaphone_alt(s: Any) -> Any:
    """The alternate Double Metaphone code, as PostgreSQL has it.

    >>> dmetaphone_alt("gumbo")
    'KMP'
    """
    return apply("dmetaphone_alt", s)


def daitch_mokotoff(s: Any) -> Any:
    """The Daitch-Mokotoff codes, as PostgreSQL has them.

    >>> daitch_mokotoff("Peters")
    ['739400', '734000']
    """
    return apply("daitch_mokotoff", s)


def unaccent(s: Any) -> Any:
    """The string without accents.

    >>> unaccent("Hôtel Straße")
    'Hotel Strasse'
    """
    return apply("unaccent", s)


def normalize(s: Any, form: str = "NFC") -> Any:
    """The string in a Unicode normal form: ``"NFC"``, ``"NFD"``, ``"NFKC"`` or ``"NFKD"``.

    >>> normalize("ﬁn", "NFKC")
    'fin'
    """
    return apply("normalize", s, form)


def casefold(s: Any) -> Any:
    """The string folded for comparison without case.

    >>> casefold("Straße")
    'strasse'
    """
    return apply("casefold", s)


def l1_distance(a: Any, b: Any) -> Any:
    """The sum of the absolute differences of two vectors, which are lists of numbers.

    >>> l1_distance([0, 0], [3, 4])
    7.0
    """
    return apply("l1_distance", a, b)


def l2_distance(a: Any, b: Any) -> Any:
    """The Euclidean distance of two vectors.

    >>> l2_distance([0, 0], [3, 4])
    5.0
    """
    return apply("l2_distance", a, b)


def linf_distance(a: Any, b: Any) -> Any:
    """The greatest absolute difference of two vectors.

    >>> linf_distance([0, 0], [3, 4])
    4.0
    """
    return apply("linf_distance", a, b)


def lp_distance(a: Any, b: Any, p: float) -> Any:
    """The distance of order ``p`` of two vectors.

    >>> lp_distance([0, 0], [3, 4], 2)
    5.0
    """
    return apply("lp_distance", a, b, p)


def cosine_similarity(a: Any, b: Any) -> Any:
    """The cosine of the angle between two vectors, None for a vector of length 0.

    >>> cosine_similarity([1, 0], [1, 0])
    1.0
    """
    return apply("cosine_similarity", a, b)


def cosine_distance(a: Any, b: Any) -> Any:
    """1 less the cosine of the angle between two vectors.

    >>> cosine_distance([1.0, 0.0], [1.0, 0.0])
    0.0
    """
    return apply("cosine_distance", a, b)


def inner_product(a: Any, b: Any) -> Any:
    """The inner product of two vectors.

    >>> inner_product([1.0, 2.0], [3.0, 4.0])
    11.0
    """
    return apply("inner_product", a, b)


def weighted_similarity(*attributes: Any, mode: str = "zero") -> Any:
    """The average of similarities by weight: ``(similarity, threshold, weight)`` for each attribute.

    A similarity below its threshold counts as 0. One that is missing counts as 0 too, or with ``mode="skip"`` its
    weight leaves the average.

    >>> weighted_similarity((0.75, 0.5, 60), (0.25, 0.5, 40))
    0.45
    """
    for attribute in attributes:
        if not isinstance(attribute, (tuple, list)) or len(attribute) != 3:
            raise TypeError(f"an attribute is (similarity, threshold, weight), not {attribute!r}")
    flat = [value for attribute in attributes for value in attribute]
    return apply("weighted_similarity", *flat, mode)


def match_count(*conditions: Any, weights: list[float] | None = None) -> Any:
    """How many of some conditions hold, or the sum of the weights of those that hold.

    >>> match_count(True, False, True), match_count(True, False, weights=[2.5, 1])
    (2, 2.5)
    """
    if weights is None:
        return apply("match_count", *conditions)
    if len(weights) != len(conditions):
        raise ValueError(f"match_count has {len(conditions)} conditions and {len(weights)} weights")
    flat = [value for pair in zip(conditions, weights, strict=True) for value in pair]
    return apply("match_count", *flat)


def minhash(tokens: Any, length: int, seed: int = 1) -> Any:
    """A signature of so many numbers. Two agree in a place with the probability of their Jaccard similarity.

    >>> minhash(["a", "b"], 4) == minhash(["b", "a", "b"], 4)
    True
    """
    return apply("minhash", tokens, length, seed)


def minhash_similarity(a: Any, b: Any) -> Any:
    """The share of places in which two signatures agree. pandas has no type for signatures; polars and pyarrow have.

    >>> import polars as pl
    >>> signatures = minhash(pl.Series([["a", "b"], ["c"]]), 64)
    >>> minhash_similarity(signatures, signatures.reverse()).to_list()
    [0.0, 0.0]
    """
    return apply("minhash_similarity", a, b)


def simhash(tokens: Any, seed: int = 1) -> Any:
    """64 bits of a set of tokens, of which similar sets share many.

    >>> simhash(["a", "b"]) == simhash(["b", "a"])
    True
    """
    return apply("simhash", tokens, seed)


def bit_hamming(a: Any, b: Any) -> Any:
    """The number of bits in which two whole numbers of 64 bits, or two lists of them, differ.

    >>> bit_hamming(5, 6)
    2
    """
    return apply("bit_hamming", a, b)


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)

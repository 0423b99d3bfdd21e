"""Our joins and those that PyPI offers, in turn, on the same strings: counts, seconds and ratios as CSV.

    pip install "cython<3" "numpy<2" "pandas<2.2" "setuptools<60" wheel six joblib pyprind
    pip install --no-build-isolation py_stringsimjoin
    pip install duckdb rapidfuzz SetSimilaritySearch "pyarrow<18"
    cargo build --release
    python benches/peers.py target/release/similarity-cli strings.parquet > docs/bench/<date>-peers.csv

The file has a column `id` from 0 on and a column `s`. Ours is the median of five runs after one more in the same
process, from the file through SQL to a count, tokenising included. A peer runs once, on strings that are in memory
already; where it compares all pairs it gets the first rows only, as many as it can do in reasonable time, and so do we.
"""

import re
import statistics
import subprocess
import sys
import time

import duckdb
import numpy
import pandas
import pyarrow.parquet
import py_stringsimjoin
from py_stringmatching import QgramTokenizer, WhitespaceTokenizer
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler, Levenshtein
from SetSimilaritySearch import all_pairs

THREADS = 2
shell, path = sys.argv[1:]
strings = pyarrow.parquet.read_table(path).column("s").to_pylist()


def ours(condition, rows):
    table = f"(SELECT * FROM t WHERE id < {rows})"
    query = f"SELECT count(*) FROM {table} a SIMILARITY JOIN {table} b ON {condition} AND a.id < b.id"
    command = [shell, "-c", f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'"]
    command += ["-c", query] * 6
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = [float(s) for s in re.findall(r"Elapsed ([0-9.]+) seconds", out)]
    counts = [int(c) for c in re.findall(r"\| (\d+) +\|", out)]
    return statistics.median(seconds[2:]), counts[-1]


def timed(join, *arguments):
    start = time.perf_counter()
    count = join(*arguments)
    return time.perf_counter() - start, count


def stringsimjoin(tokenizer, threshold, rows):
    frame = pandas.DataFrame({"id": range(rows), "s": strings[:rows]})
    pairs = py_stringsimjoin.jaccard_join(
        frame, frame, "id", "id", "s", "s", tokenizer, threshold, n_jobs=THREADS, show_progress=False
    )
    return int((pairs["l_id"] < pairs["r_id"]).sum())


def set_similarity_search(threshold, rows):
    words = [set(s.split(" ")) for s in strings[:rows]]
    return sum(1 for _ in all_pairs(words, similarity_func_name="jaccard", similarity_threshold=threshold))


def rapidfuzz(scorer, accepts, cutoff, dtype, rows):
    count = 0
    for start in range(0, rows, 1_000):
        part = strings[start : min(start + 1_000, rows)]
        scores = process.cdist(
            part, strings[:rows], scorer=scorer, score_cutoff=cutoff, dtype=dtype, workers=THREADS
        )
        later = numpy.arange(rows)[None, :] > numpy.arange(start, start + len(part))[:, None]
        count += int((accepts(scores) & later).sum())
    return count


def duck(condition, rows):
    connection = duckdb.connect()
    connection.execute(f"SET threads = {THREADS}")
    connection.execute(f"CREATE TABLE t AS SELECT * FROM '{path}' WHERE id < {rows}")
    return connection.execute(f"SELECT count(*) FROM t a, t b WHERE a.id < b.id AND {condition}").fetchone()[0]


words = WhitespaceTokenizer(return_set=True)
grams = QgramTokenizer(qval=3, return_set=True)
WORDS = "jaccard(word_tokens(a.s), word_tokens(b.s))"
GRAMS = "jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#'))"
LEVENSHTEIN = "levenshtein(a.s, b.s) <= 2"
JARO_WINKLER = "jaro_winkler_similarity(a.s, b.s) >= 0.9"
all_rows = len(strings)
within_2 = (Levenshtein.distance, lambda d: d <= 2, 2, numpy.uint8)
from_09 = (JaroWinkler.similarity, lambda s: s >= 0.9, 0.9, numpy.float64)

# condition, rows, name and version of the peer, its join
joins = [
    (f"{WORDS} >= 0.8", all_rows, "py_stringsimjoin", stringsimjoin, (words, 0.8)),
    (f"{WORDS} >= 0.5", all_rows, "py_stringsimjoin", stringsimjoin, (words, 0.5)),
    (f"{WORDS} >= 0.8", all_rows, "SetSimilaritySearch", set_similarity_search, (0.8,)),
    (f"{GRAMS} >= 0.9", all_rows, "py_stringsimjoin", stringsimjoin, (grams, 0.9)),
    (f"{GRAMS} >= 0.8", 20_000, "py_stringsimjoin", stringsimjoin, (grams, 0.8)),
    (LEVENSHTEIN, 20_000, "rapidfuzz", rapidfuzz, within_2),
    (LEVENSHTEIN, 5_000, "DuckDB", duck, ("abs(length(a.s) - length(b.s)) <= 2 AND " + LEVENSHTEIN,)),
    (JARO_WINKLER, 20_000, "rapidfuzz", rapidfuzz, from_09),
    (JARO_WINKLER, 5_000, "DuckDB", duck, (JARO_WINKLER,)),
]

print("condition,rows,ours_seconds,ours_pairs,peer,peer_seconds,peer_pairs,ratio")
for condition, rows, peer, join, arguments in joins:
    our_seconds, our_pairs = ours(condition, rows)
    seconds, pairs = timed(join, *arguments, rows)
    ratio = seconds / our_seconds
    print(f'"{condition}",{rows},{our_seconds:.3f},{our_pairs},{peer},{seconds:.2f},{pairs},{ratio:.0f}', flush=True)

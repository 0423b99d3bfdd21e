"""Joins by one measure, and DBLP with ACM, on the CPU and on a device: milliseconds as CSV, from tables in memory.

    cargo build --release
    python benches/engines/joins.py target/release/similarity-cli strings.parquet million.parquet data > docs/bench/<date>-engines.csv

Both files have a column `id` from 0 on and a column `s`, the first for joins of up to 100,000 rows, the other for those of a million;
`data` is the folder that holds `dblp_acm`. Points are made from their number, so that every engine has the same. A fifth argument
names the joins to run, by a regular expression over what the CSV says. What the columns are is said in timed.py. A join that takes the CPU many
seconds runs once there.
"""

import itertools
import pathlib
import re
import sys

from timed import COLUMNS, timed

shell, small, large, data = sys.argv[1:5]
shell, data = str(pathlib.Path(shell).resolve()), pathlib.Path(data).resolve()
wanted = re.compile(sys.argv[5] if len(sys.argv) > 5 else "")
RUNS, RUNS_OF_SMALL, RUNS_OF_MANY_PAIRS = 7, 15, 3
ENGINES = ["cpu", "cuda", "auto"]

WORDS = "jaccard(word_tokens(a.s), word_tokens(b.s)) >= {}"
GRAMS = "jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= {}"
LEVENSHTEIN = "levenshtein(a.s, b.s) <= {}"
JARO_WINKLER = "jaro_winkler_similarity(a.s, b.s) >= {}"
WITHIN = "l2_distance(a.s, b.s) <= {}"
PAIRS = "SELECT count(*) AS pairs, coalesce(sum(a.id * 31 + b.id), 0) AS checksum FROM"


def strings(rows):
    path = large if rows > 100_000 else small
    file = f"CREATE EXTERNAL TABLE file STORED AS PARQUET LOCATION '{pathlib.Path(path).resolve()}'"
    return [file, f"CREATE TABLE t AS SELECT id, s FROM file WHERE id < {rows}"]


def points(dimensions):
    """Uniform points in the unit cube: the digits behind what a large multiple of a sine has before its point."""
    numbers = [f"sin(id * {1 + 0.61803398875 * d} + {d}) * 43758.5453" for d in range(1, dimensions + 1)]
    coordinates = ", ".join(f"{number} - floor({number})" for number in numbers)
    vector = f"arrow_cast(make_array({coordinates}), 'FixedSizeList({dimensions}, Float32)')"
    made = "SELECT id, {} AS s FROM (SELECT value AS id FROM generate_series(0, {}))"
    return lambda rows: [f"CREATE TABLE t AS {made.format(vector, rows - 1)}"]


def self_joins():
    """What is joined, its threshold, how many rows, the tables, the condition, whether the CPU takes many seconds."""
    for rows, threshold in itertools.product([100_000, 1_000_000], [0.9, 0.8, 0.7, 0.6, 0.5]):
        yield "jaccard words", threshold, rows, strings, WORDS, False
        yield "jaccard 3-grams", threshold, rows, strings, GRAMS, rows > 100_000
    yield "levenshtein", 2, 100_000, strings, LEVENSHTEIN, False
    yield "levenshtein", 2, 1_000_000, strings, LEVENSHTEIN, False
    yield "osa_distance", 2, 100_000, strings, "osa_distance(a.s, b.s) <= {}", False
    yield "damerau_levenshtein", 2, 1_000_000, strings, "damerau_levenshtein(a.s, b.s) <= {}", False
    yield "levenshtein_similarity", 0.8, 100_000, strings, "levenshtein_similarity(a.s, b.s) >= {}", False
    yield "jaro_winkler", 0.9, 100_000, strings, JARO_WINKLER, False
    yield "jaro_winkler", 0.95, 1_000_000, strings, JARO_WINKLER, True
    yield "l2 16-D", 0.6, 100_000, points(16), WITHIN, False
    yield "l2 16-D", 0.6, 1_000_000, points(16), WITHIN, True
    yield "l2 2-D", 0.000564, 10_000_000, points(2), WITHIN, False
    for rows in [1_000, 10_000, 30_000]:
        yield "jaccard words", 0.8, rows, strings, WORDS, False
        yield "jaccard 3-grams", 0.5, rows, strings, GRAMS, False
        yield "levenshtein", 2, rows, strings, LEVENSHTEIN, False
        yield "jaro_winkler", 0.9, rows, strings, JARO_WINKLER, False
        yield "l2 16-D", 0.6, rows, points(16), WITHIN, False
    for rows in [1_000, 10_000, 30_000, 100_000]:
        yield "l2 2-D", 0.002, rows, points(2), WITHIN, False


def publications():
    """Tables of DBLP and ACM as the script of rules prepares them, and its ten rules and one of Jaro-Winkler."""
    script = (pathlib.Path(__file__).parents[2] / "sql-examples/rules/dblp_acm.sql").read_text()
    tables = [script[: script.index("-- How good")]]
    tables += [f"CREATE TABLE {name}_rows AS SELECT * FROM {name}" for name in ["dblp", "acm", "dblp_raw", "acm_raw"]]
    of_one = "a.year = b.year AND jaro_winkler_similarity(a.title, b.title) >= 0.81 AND jaro_winkler_similarity(a.authors, b.authors) >= 0.79"
    yield "one rule", f"{PAIRS} dblp_raw_rows a SIMILARITY JOIN acm_raw_rows b ON {of_one}", tables
    yield "ten rules", f"{PAIRS} dblp_rows a SIMILARITY JOIN acm_rows b ON match_rule('dblp_acm', a, b)", tables


print(f"condition,threshold,rows,engine,{COLUMNS}")
for name, threshold, rows, tables, condition, is_slow in self_joins():
    for engine in ENGINES:
        said = f"{name},{threshold},{rows},{engine}"
        if wanted.search(said):
            runs = RUNS_OF_SMALL if rows < 100_000 else RUNS if rows <= 1_000_000 else RUNS_OF_MANY_PAIRS
            runs = 0 if is_slow and engine == "cpu" else runs
            query = f"{PAIRS} t a SIMILARITY JOIN t b ON {condition.format(threshold)} AND a.id < b.id"
            print(f"{said},{timed(shell, engine, tables(rows), query, runs)}", flush=True)
for name, query, tables in publications():
    for engine in ENGINES:
        said = f"DBLP-ACM {name},,4910,{engine}"
        if wanted.search(said):
            print(f"{said},{timed(shell, engine, tables, query, RUNS_OF_SMALL, data)}", flush=True)

#!/usr/bin/env python3
"""Precision, recall and F1 of a weighted similarity: python3 benches/quality.py DATA target/release/similarity-cli [set ..]

DATA has a folder for each set, with a.parquet and truth.parquet. Entities are halved by a hash of their smallest id. The
threshold is the best one of one half, and the measures are those of the other.
"""
import subprocess
import sys
import tempfile

import pyarrow.parquet


def jaro_winkler(column):
    return f"jaro_winkler_similarity(a.{column}, b.{column})"


def levenshtein(column):
    return f"levenshtein_similarity(a.{column}, b.{column})"


def equal(column):
    return f"CASE WHEN a.{column} = b.{column} THEN 1.0 ELSE 0.0 END"


YEARS = """CASE WHEN CAST(a.by AS INT) = CAST(b.by AS INT) THEN 1.0
    WHEN abs(CAST(a.by AS INT) - CAST(b.by AS INT)) <= 1 THEN 0.5 ELSE 0.0 END"""
# similarity, the threshold below which it counts nothing, weight
FEBRL = [
    (jaro_winkler("given_name"), 0.6, 20),
    (jaro_winkler("surname"), 0.6, 20),
    (levenshtein("date_of_birth"), 0.6, 20),
    (levenshtein("soc_sec_id"), 0.5, 20),
    (jaro_winkler("address_1"), 0.6, 10),
    (jaro_winkler("suburb"), 0.6, 10),
]
RLDATA = [
    (jaro_winkler("fname_c1"), 0.6, 25),
    (jaro_winkler("lname_c1"), 0.6, 30),
    (YEARS, 0, 15),
    (equal("bm"), 0, 15),
    (equal("bd"), 0, 15),
]
CORA = [
    ("jaccard(qgrams(lower(a.title), 3), qgrams(lower(b.title), 3))", 0.3, 60),
    ("jaccard(word_tokens(a.author), word_tokens(b.author))", 0.1, 25),
    (equal("year"), 0, 15),
]
FAKE = [
    (jaro_winkler("first_name"), 0.6, 20),
    (jaro_winkler("surname"), 0.6, 20),
    (levenshtein("dob"), 0.5, 25),
    (jaro_winkler("city"), 0.6, 10),
    (levenshtein("email"), 0.5, 25),
]
# attributes, what a NULL counts, the least average that is looked at
SETS = {
    "febrl1": (FEBRL, "skip", 0.5),
    "febrl2": (FEBRL, "skip", 0.5),
    "febrl3": (FEBRL, "skip", 0.5),
    "rldata500": (RLDATA, "zero", 0.5),
    "rldata10000": (RLDATA, "zero", 0.6),
    "cora": (CORA, "skip", 0.3),
    "fake_20000": (FAKE, "skip", 0.5),
}


def script(folder, attributes, mode, least):
    triples = ", ".join(f"{score}, {threshold}, {weight}" for score, threshold, weight in attributes)
    score = f"weighted_similarity({triples}, '{mode}')"
    left, right = pyarrow.parquet.read_schema(f"{folder}/truth.parquet").names[:2]
    return f"""
CREATE TABLE records AS SELECT * FROM '{folder}/a.parquet';
CREATE TABLE truth AS SELECT "{left}" AS l, "{right}" AS r FROM '{folder}/truth.parquet';
CREATE TABLE scored AS SELECT a.id AS l, b.id AS r, {score} AS score
FROM records a JOIN records b ON {score} >= {least} AND a.id < b.id;
CREATE TABLE halves AS SELECT id, ascii(md5(CAST(cluster_id AS VARCHAR))) % 2 AS half
FROM clusters('SELECT l, r FROM truth UNION ALL SELECT id, NULL FROM records');
CREATE VIEW found AS SELECT l, r, score, half FROM scored JOIN halves ON halves.id = l;
CREATE VIEW true_pairs AS SELECT l, r, half
FROM (SELECT least(l, r) AS l, greatest(l, r) AS r FROM truth) t JOIN halves ON halves.id = l;
CREATE TABLE best AS SELECT threshold FROM threshold_sweep('SELECT l, r, score FROM found WHERE half = 0',
  'SELECT l, r FROM true_pairs WHERE half = 0', 'duplicates', 100) ORDER BY f1 DESC NULLS LAST, threshold LIMIT 1;
SELECT (SELECT threshold FROM best) AS threshold, round(100 * precision, 1) AS precision,
  round(100 * recall, 1) AS recall, round(100 * f1, 1) AS f1
FROM evaluate_pairs('SELECT l, r FROM found WHERE half = 1 AND score >= (SELECT threshold FROM best)',
  'SELECT l, r FROM true_pairs WHERE half = 1');
"""


def main(data, shell, names):
    for name in names or SETS:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(script(f"{data}/{name}", *SETS[name]))
            file.flush()
            done = subprocess.run([shell, "-q", "--format", "csv", "-f", file.name], capture_output=True, text=True)
        print(name, done.stdout.strip().replace("\n", " "), done.stderr.strip())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

#!/usr/bin/env python3
"""Precision, recall and F1 of a weighted similarity: python3 benches/quality.py DATA target/release/similarity-cli [set ..]

DATA has a folder for each set, with a.parquet and truth.parquet. Entities are halved by a hash of their smallest id. The
threshold is the best one of one half, and the measures are those of the other. For cddb_tracks, dirty_persons and
listed_companies, attributes and weights were chosen on the first half, too.
"""
import subprocess
import sys
import tempfile

import pyarrow.parquet


def jaro_winkler(column):
    return f"jaro_winkler_similarity(a.{column}, b.{column})"


def levenshtein(column):
    return f"levenshtein_similarity(a.{column}, b.{column})"


def overlap(column, q):
    return f"overlap_coefficient(a.{column}, b.{column}, {q})"


def equal(column):
    return f"CASE WHEN a.{column} = b.{column} THEN 1.0 ELSE 0.0 END"


def no_other(column):
    """1 unless both rows have a value, and it is another one."""
    return f"CASE WHEN a.{column} <> b.{column} THEN 0.0 ELSE 1.0 END"


def missing(column):
    """1 where one of the rows has no value."""
    return f"CASE WHEN a.{column} IS NULL OR b.{column} IS NULL THEN 1.0 ELSE 0.0 END"


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
DISCS = [
    ("jaccard(a.name, b.name, 3)", 0.15, 15),
    (overlap("name", 3), 0.4, 20),
    (overlap("artist", 3), 0, 20),
    ("jaccard(a.tracks, b.tracks, 4)", 0.02, 20),
    (overlap("tracks", 4), 0.25, 20),
    ("CASE WHEN abs(a.year - b.year) > 10 THEN 0.0 ELSE 1.0 END", 0, 10),
    ("CASE WHEN a.category = b.category THEN 0.0 ELSE 1.0 END", 0, 5),
    (missing("artist"), 0, 10),
    (missing("tracks"), 0, 20),
]
# The name is artist and title together, since they change places. Of names and tracks the Latin letters count. Where
# most are not Latin, all characters count but ã and â, which a wrong encoding has put before each letter. Various
# artists are like nobody. An artist without Latin letters is missing. So are tracks without titles, such as "Track 1",
# of which less than two letters a track are left. What is missing counts half its weight. freedb holds one disc a
# number and category, so that the same disc tends to be in another category.
DISC_RECORDS = r"""
SELECT id, year, category,
  CASE WHEN regexp_like(artist, '^(various|varius|varios|divers|sampler|va$)') THEN ''
    WHEN length(artist) > 1 THEN artist END AS artist,
  CASE WHEN length(letters) > 2 * length(latin) THEN regexp_replace(name, '[ãâ\s[:punct:]]', '', 'g')
    ELSE regexp_replace(name, '[^a-z0-9]', '', 'g') END AS name,
  CASE WHEN length(letters) > 2 * length(latin) THEN letters WHEN length(titles) >= 2 * n THEN latin END AS tracks
FROM (SELECT id, year, category, n, name, regexp_replace(lower(artist), '[^a-z0-9]', '', 'g') AS artist,
    regexp_replace(tracks, '[^a-z]', '', 'g') AS latin,
    regexp_replace(tracks, '[ãâ\s0-9[:punct:]]', '', 'g') AS letters,
    regexp_replace(regexp_replace(tracks, '[^a-z]+', ' ', 'g'), '\b(audiotrack|track|piste|pista|plage|faixa|traccia'
      || '|skladba|titel|spur|onbekend|unbekannt|unknown|untitled)\b|\s', '', 'g') AS titles
  FROM (SELECT id, TRY_CAST(year AS INT) AS year, category, artist, array_length(tracks) AS n,
      lower(concat_ws(' ', artist, title)) AS name, lower(array_to_string(tracks, ' ')) AS tracks
    FROM '{file}'))
"""
EDITS = "osa_distance(a.name, b.name)"
PERSONS = [(f"CASE WHEN {EDITS} <= 4 THEN 1 - ({EDITS} + 0.7 * (a.crowd + b.crowd)) / 10 END", 0, 1)]
# Letters of the name. A near name says less in a crowd, which is the logarithm of how many names are near.
PERSON_RECORDS = """
WITH names AS (SELECT id, regexp_replace(lower(text), '[^a-z]', '', 'g') AS name FROM '{file}')
SELECT id, name, ln(1 + coalesce(near, 0)) AS crowd FROM names LEFT JOIN (SELECT a.id AS other, count(*) AS near
  FROM names a JOIN names b ON osa_distance(a.name, b.name) <= 3 AND a.id <> b.id GROUP BY a.id) ON other = id
"""
COMPANIES = [
    (jaro_winkler("name"), 0.8, 70),
    (overlap("name", 2), 0, 30),
    (no_other("country"), 0, 10),
    (no_other("sector"), 0, 5),
    (no_other("website"), 0, 15),
    ("CASE WHEN a.exchange = b.exchange THEN 0.0 ELSE 1.0 END", 0, 20),
]
# Letters of the name without legal forms, kinds of shares, and words of one or two letters
COMPANY_RECORDS = r"""
SELECT id, country, sector, website, exchange,
  replace(CASE WHEN trim(short) = '' THEN long ELSE short END, ' ', '') AS name
FROM (SELECT *, regexp_replace(long, '\b([a-z]{{1,2}}|inc|corp|corporation|company|ltd|limited|plc|asa|oyj|spa'
    || '|holdings?|hldgs?|group|grp|adr|ads|sponsored|spons|ord|shs|regs?|registered|the|class)\b', ' ', 'g') AS short
  FROM (SELECT *, regexp_replace(lower(unaccent(name)), '[^a-z]+', ' ', 'g') AS long FROM '{file}'))
"""
# attributes, what a NULL counts, the least average that is looked at, and how the records are made, unless as they are
SETS = {
    "febrl1": (FEBRL, "skip", 0.5),
    "febrl2": (FEBRL, "skip", 0.5),
    "febrl3": (FEBRL, "skip", 0.5),
    "rldata500": (RLDATA, "zero", 0.5),
    "rldata10000": (RLDATA, "zero", 0.6),
    "cora": (CORA, "skip", 0.3),
    "fake_20000": (FAKE, "skip", 0.5),
    "cddb_tracks": (DISCS, "zero", 0.5, DISC_RECORDS),
    "dirty_persons": (PERSONS, "zero", 0.2, PERSON_RECORDS),
    "listed_companies": (COMPANIES, "zero", 0.85, COMPANY_RECORDS),
}


def script(folder, attributes, mode, least, records="SELECT * FROM '{file}'"):
    triples = ", ".join(f"{score}, {threshold}, {weight}" for score, threshold, weight in attributes)
    score = f"weighted_similarity({triples}, '{mode}')"
    left, right = pyarrow.parquet.read_schema(f"{folder}/truth.parquet").names[:2]
    return f"""
CREATE TABLE records AS {records.format(file=f"{folder}/a.parquet")};
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

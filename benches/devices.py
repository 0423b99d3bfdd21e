"""Joins that several GPUs share, beside one of them: seconds as CSV, from generated tables in memory.

    cargo build --release
    python3 benches/devices.py target/release/similarity-cli 0 all 10000000 > devices.csv

The arguments are the shell, two or more values of `similarity.device`, and how many rows there are. Each join runs twice for each
set of devices, in a process of its own, and the second time counts. A tenth of the strings, and of the people, are near-copies
of others. All sets of devices have to find the same pairs.
"""

import re
import subprocess
import sys
import tempfile

shell, *sets, rows = sys.argv[1:]
rows = int(rows)
NUMBERED = f"SELECT value AS id, CASE WHEN value % 10 = 9 THEN value - 7 ELSE value END AS b FROM generate_series(1, {rows})"
PAIRS = "SELECT count(*) AS pairs, coalesce(sum(a.id * 31 + b.id), 0) AS checksum FROM t a SIMILARITY JOIN t b ON {} AND a.id < b.id"
RANKED = "SELECT count(*) AS pairs, sum(b.id) AS checksum FROM t a JOIN t b NEAREST 10 BY DISTANCE l2_distance(a.s, b.s) THEN BY b.id"


def word(number, shortest, lengths):
    """Letters that a number always gives."""
    return f"substr(md5(CAST({number} AS VARCHAR)), 1, {shortest} + b % {lengths})"


def uniform(seed, number="b"):
    """Numbers from 0 up to 1: the digits behind the point of a large multiple of a sine."""
    sine = f"sin({number} * (1 + 0.61803398875 * {seed}) + {seed}) * 43758.5453"
    return f"({sine} - floor({sine}))"


def strings():
    words = ", ".join(word(f"b * 5 + {n}", n, lengths) for n, lengths in [(2, 9), (3, 7), (4, 5), (5, 11)])
    text = f"SELECT id, concat_ws(' ', {words}) AS s FROM ({NUMBERED})"
    return f"CREATE TABLE t AS SELECT id, CASE WHEN id % 10 = 9 THEN replace(s, '7', '8') ELSE s END AS s FROM ({text})"


def points(dimensions):
    coordinates = ", ".join(uniform(seed, "value") for seed in range(1, dimensions + 1))
    vector = f"arrow_cast(make_array({coordinates}), 'FixedSizeList({dimensions}, Float32)')"
    return f"CREATE TABLE t AS SELECT value AS id, {vector} AS s FROM generate_series(1, {rows})"


def people():
    def below(count, seed, power=1):
        return f"CAST({count} * pow({uniform(seed)}, {power}) AS BIGINT)"

    columns = f"""id, {word(below(5_000, 11, 3), 5, 1)} AS first_name, {word(below(50_000, 13, 2), 6, 1)} AS surname,
        {word(below(3_000, 43), 6, 1)} AS middle_name, {word(below(2_000, 47, 2), 7, 1)} AS city,
        {word(below(30_000, 31), 7, 1)} AS street, {word(below(100_000, 41), 8, 1)} AS employer, {below(10_000, 17)} AS postcode,
        {below(90, 19)} AS birth_year, CAST({below(33_000, 23)} AS VARCHAR) AS birth_date, CAST({below(10_000_000, 29)} AS VARCHAR) AS phone,
        md5(CAST(b AS VARCHAR)) AS email, CAST(b % 2 AS VARCHAR) AS sex, {below(200, 37)} AS house_number"""
    changed = "CASE WHEN id % 10 = 9 THEN replace(first_name, 'a', 'b') ELSE first_name END AS first_name"
    return f"CREATE TABLE t AS SELECT {changed}, * EXCEPT (first_name) FROM (SELECT {columns} FROM ({NUMBERED}))"


def rules(count):
    lines = open(__file__.replace("devices.py", f"people/rules_{count}.sql")).read().splitlines()
    return "(" + " OR ".join(line for line in lines if not line.startswith("--")) + ")"


JOINS = [
    ("jaccard 3-grams 0.5", strings(), PAIRS.format("jaccard(qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')) >= 0.5")),
    ("levenshtein 2", strings(), PAIRS.format("levenshtein(a.s, b.s) <= 2")),
    ("l2 16-D 0.3", points(16), PAIRS.format("l2_distance(a.s, b.s) <= 0.3")),
    ("ten rules", people(), PAIRS.format(rules(10))),
    ("fifty rules", people(), PAIRS.format(rules(50))),
    ("nearest 10 l2 32-D", points(32), RANKED),
]

print("join,rows,devices,pairs,checksum,seconds,device_join_time")
for name, table, query in JOINS:
    found = set()
    for devices in sets:
        settings = f"SET similarity.engine = 'cuda'; SET similarity.device = '{devices}'"
        script = f"{settings}; {table}; {query}; {query}; EXPLAIN ANALYZE {query};"
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(script)
            file.flush()
            done = subprocess.run([shell, "--format", "csv", "-f", file.name], capture_output=True, text=True, check=False)
        seconds = re.findall(r"Elapsed ([0-9.]+) seconds", done.stdout)
        results = re.findall(r"^(\d+),(\d+)$", done.stdout, re.MULTILINE)
        if done.returncode or len(results) != 2:
            sys.exit(f"{name} on {devices}: {done.stderr or done.stdout}")
        found.update(results)
        on_device = re.findall(r"device_join_time=([^,\]]+)", done.stdout) or [""]
        print(f"{name},{rows},{devices.replace(',', ' ')},{results[1][0]},{results[1][1]},{seconds[-2]},{on_device[0]}", flush=True)
    if len(found) > 1:
        sys.exit(f"{name}: the devices have found different pairs: {found}")

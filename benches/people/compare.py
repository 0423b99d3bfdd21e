"""The rules of a file over generated people: our one join, and DuckDB's UNION of a join per clause.

    pip install duckdb
    cargo build --release
    python benches/people/compare.py target/release/similarity-cli people.parquet benches/people/rules_10.sql [runs]

Prints counts, seconds (medians, from Parquet to a count) and the ratio; both with two threads.
"""

import re
import statistics
import subprocess
import sys
import time

shell, path, rules = sys.argv[1:4]
runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
clauses = [line.strip() for line in open(rules) if line.strip() and not line.startswith("--")]

condition = " OR ".join(f"({clause})" for clause in clauses)
query = f"SELECT count(*) FROM people a SIMILARITY JOIN people b ON a.id < b.id AND ({condition})"
command = [shell, "-c", f"CREATE EXTERNAL TABLE people STORED AS PARQUET LOCATION '{path}'"]
command += ["-c", "SET datafusion.execution.target_partitions = 2"] + ["-c", query] * runs
measured = subprocess.run(["/usr/bin/time", "-v", *command], capture_output=True, text=True, check=True)
seconds = [float(s) for s in re.findall(r"Elapsed ([0-9.]+) seconds", measured.stdout)][-runs:]
count = int(re.findall(r"\| (\d+) +\|", measured.stdout)[-1])
memory = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", measured.stderr)[1]) // 1024
ours = statistics.median(seconds)
print(f"ours: {count} pairs, {ours:.2f} s of {[round(s, 2) for s in seconds]}, {memory} MB at most")

if runs > 0 and "--alone" not in sys.argv:
    import duckdb

    database = duckdb.connect(config={"threads": 2})
    join = "SELECT a.id AS l, b.id AS r FROM '{}' a JOIN '{}' b ON a.id < b.id AND {}"
    union = " UNION ".join(join.format(path, path, clause) for clause in clauses)
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        other = database.execute(f"SELECT count(*) FROM ({union})").fetchone()[0]
        seconds.append(time.perf_counter() - start)
    theirs = statistics.median(seconds)
    print(f"DuckDB {duckdb.__version__}: {other} pairs, {theirs:.2f} s of {[round(s, 2) for s in seconds]}")
    print(f"ratio {theirs / ours:.1f}")

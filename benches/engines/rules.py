"""The rules of a file over generated people, on the CPU and on a device: milliseconds as CSV, warm, from a table in memory.

    cargo build --release
    python benches/engines/rules.py target/release/similarity-cli people.parquet benches/people/rules_10.sql [rows] [runs] [two]

It joins the people with themselves, or with `two` those of even and of odd ids, two inputs of half as many rows. What the columns
are is said in timed.py.
"""

import sys

from timed import COLUMNS, timed

shell, path, rules = sys.argv[1:4]
rows = int(sys.argv[4]) if len(sys.argv) > 4 else 1_000_000
runs = int(sys.argv[5]) if len(sys.argv) > 5 else 7
two = sys.argv[6:] == ["two"]

clauses = [line.strip() for line in open(rules) if line.strip() and not line.startswith("--")]
condition = " OR ".join(f"({clause})" for clause in clauses)
left, right, distinct = ("even", "odd", "") if two else ("people", "people", "a.id < b.id AND ")
query = f"SELECT count(*) AS pairs, coalesce(sum(a.id * 31 + b.id), 0) AS checksum FROM {left} a SIMILARITY JOIN {right} b ON {distinct}({condition})"
tables = [f"CREATE EXTERNAL TABLE file STORED AS PARQUET LOCATION '{path}'"]
sides = [("even", "AND id % 2 = 0"), ("odd", "AND id % 2 = 1")] if two else [("people", "")]
tables += [f"CREATE TABLE {name} AS SELECT * FROM file WHERE id < {rows} {some}" for name, some in sides]

print(f"engine,rows,clauses,{COLUMNS}")
for engine in ["cpu", "cuda", "auto"]:
    print(f"{engine},{rows},{len(clauses)},{timed(shell, engine, tables, query, runs)}", flush=True)

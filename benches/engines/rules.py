"""The rules of a file over generated people, on the CPU and on a device: milliseconds as CSV, warm, from a table in memory.

    cargo build --release
    python benches/people/engines.py target/release/similarity-cli people.parquet benches/people/rules_10.sql [rows] [runs] [two]

It joins the people with themselves, or with `two` those of even and of odd ids, two inputs of half as many rows.
`sql` is a query to a count and a checksum, `join` what its operator takes of it (EXPLAIN ANALYZE VERBOSE says when each partition
starts and ends), `plan` an EXPLAIN. `auto` finds the device open.
"""

import re
import statistics
import subprocess
import sys

shell, path, rules = sys.argv[1:4]
rows = int(sys.argv[4]) if len(sys.argv) > 4 else 1_000_000
runs = int(sys.argv[5]) if len(sys.argv) > 5 else 7
two = sys.argv[6:] == ["two"]
PLANS, ANALYSED = 3, 5

clauses = [line.strip() for line in open(rules) if line.strip() and not line.startswith("--")]
condition = " OR ".join(f"({clause})" for clause in clauses)
left, right, distinct = ("even", "odd", "") if two else ("people", "people", "a.id < b.id AND ")
query = f"SELECT count(*) AS pairs, sum(a.id * 31 + b.id) AS checksum FROM {left} a SIMILARITY JOIN {right} b ON {distinct}({condition})"
tables = [f"CREATE EXTERNAL TABLE file STORED AS PARQUET LOCATION '{path}'"]
sides = [("even", "AND id % 2 = 0"), ("odd", "AND id % 2 = 1")] if two else [("people", "")]
tables += [f"CREATE TABLE {name} AS SELECT * FROM file WHERE id < {rows} {some}" for name, some in sides]
opens = ["SET similarity.engine = 'cuda'", query]


def seconds(stamp):
    hours, minutes, rest = stamp.split(":")
    return (int(hours) * 60 + int(minutes)) * 60 + float(rest)


print("engine,rows,clauses,pairs,checksum,sql,join,plan")
for engine in ["cpu", "cuda", "auto"]:
    statements = tables + (opens if engine == "auto" else []) + [f"SET similarity.engine = '{engine}'"]
    statements += [query] * (runs + 2) + [f"EXPLAIN {query}"] * PLANS + [f"EXPLAIN ANALYZE VERBOSE {query}"] * ANALYSED
    command = [part for statement in statements for part in ("-c", statement)]
    output = subprocess.run([shell, *command], capture_output=True, text=True, check=True).stdout
    elapsed = [float(s) for s in re.findall(r"Elapsed ([0-9.]+) seconds", output)]
    planned, timed = elapsed[-PLANS - ANALYSED : -ANALYSED], elapsed[-runs - PLANS - ANALYSED : -PLANS - ANALYSED]
    joins = []
    for line in re.findall(r"MatchingDependencyBlockExec[^\n]*start_timestamp[^\n]*", output):
        starts = re.findall(r"start_timestamp\{[^}]*\}=\S+ ([0-9:.]+)", line)
        ends = re.findall(r"end_timestamp\{[^}]*\}=\S+ ([0-9:.]+)", line)
        joins.append(max(map(seconds, ends)) - min(map(seconds, starts)))
    pairs, checksum = re.findall(r"\| (\d+) +\| (\d+) +\|", output)[-1]
    sql, join, plan = (1e3 * statistics.median(times) for times in (timed, joins, planned))
    print(f"{engine},{rows},{len(clauses)},{pairs},{checksum},{sql:.0f},{join:.1f},{plan:.0f}", flush=True)

"""Queries by the shell, timed: what `joins.py` and `rules.py` have in common."""

import re
import statistics
import subprocess
import sys

OPERATORS = "SimilarityJoinExec|EpsilonJoinExec|MatchingDependencyBlockExec"
UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
PLANS, ANALYSED = 3, 5
COLUMNS = "pairs,checksum,first,sql,join,plan,device,arrange,kernels"


def _seconds(stamp):
    hours, minutes, rest = stamp.split(":")
    return (int(hours) * 60 + int(minutes)) * 60 + float(rest)


def _metric(output, name):
    """The median over EXPLAIN ANALYZE of a metric of the join, empty where it has none."""
    found = re.findall(rf"(?:{OPERATORS})[^\n]*\b{name}=([0-9.]+)(ns|µs|ms|s)\b", output)
    return f"{statistics.median(float(number) * UNITS[unit] for number, unit in found):.2f}" if found else ""


def timed(shell, engine, tables, query, runs, folder=None):
    """The values of COLUMNS, milliseconds: a query that gives pairs and a checksum runs once, is `first`, and `runs` times more.

    `sql` is their median, `join` what the operator takes of it (EXPLAIN ANALYZE VERBOSE says when each partition starts and ends), `plan`
    an EXPLAIN, `device` the time from keys in the host's memory, tokens with their ranks, to the last pair there, `arrange` and `kernels`
    other metrics of a device. `auto` finds the device open. With no runs the first query is all.
    """
    statements = tables + (["SET similarity.engine = 'cuda'", query] if engine == "auto" else [])
    statements += [f"SET similarity.engine = '{engine}'"] + [query] * (runs + 1)
    more = PLANS + ANALYSED if runs else 0
    if runs:
        statements += [f"EXPLAIN {query}"] * PLANS + [f"EXPLAIN ANALYZE VERBOSE {query}"] * ANALYSED
    command = [shell, *(f"--command={statement}" for statement in statements)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    if ran.returncode:
        sys.exit(f"the shell stopped with {ran.returncode} at: {query}")
    output = ran.stdout
    elapsed = [float(seconds) for seconds in re.findall(r"Elapsed ([0-9.]+) seconds", output)]
    queries, rest = elapsed[len(elapsed) - more - runs - 1 : len(elapsed) - more], elapsed[len(elapsed) - more :]
    pairs, checksum = re.findall(r"\| (\d+) +\| (\d+) +\|", output)[-1]
    joins = []
    for line in re.findall(rf"(?:{OPERATORS})[^\n]*start_timestamp[^\n]*", output):
        starts = re.findall(r"start_timestamp\{[^}]*\}=\S+ ([0-9:.]+)", line)
        ends = re.findall(r"end_timestamp\{[^}]*\}=\S+ ([0-9:.]+)", line)
        joins.append(max(map(_seconds, ends)) - min(map(_seconds, starts)))
    milliseconds = lambda times, digits: f"{1e3 * statistics.median(times):.{digits}f}" if times else ""
    figures = [milliseconds(queries[:1], 0), milliseconds(queries[1:] or queries, 0), milliseconds(joins, 1)]
    figures += [milliseconds(rest[:PLANS], 0)]
    figures += [_metric(output, name) for name in ["device_join_time", "arrange_time", "kernel_time"]]
    return ",".join([pairs, checksum, *figures])

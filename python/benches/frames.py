"""Joins from a frame to a frame, against the shell and other libraries.

    python python/benches/frames.py [rows]

It makes two frames of so many names, 100,000 by default, and joins them by two conditions. Each time is the best of
three runs. RapidFuzz and py_stringsimjoin get some of the left rows, and their time is scaled up.

py_stringsimjoin 0.3.6 needs NumPy 1 and pandas 2.0. To have its figures, give a Python that has it:

    PY_STRINGSIMJOIN=/path/to/python python python/benches/frames.py
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import pandas
import polars
import pyarrow
import pyarrow.parquet
import rapidfuzz
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler, Levenshtein

import datafusion_similarity as ds

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
RUNS = 3
#: Left rows that RapidFuzz and py_stringsimjoin join with all right rows.
SAMPLE = 500
SAMPLE_OF_STRINGSIMJOIN = 5_000
SYLLABLES = [
    first + vowel + last for first in "bdfghklmnprstvwz" for vowel in "aeiou" for last in ("", "n", "r", "s", "l")
]
CONDITIONS = {
    "levenshtein <= 2": ("levenshtein(l.name, r.name) <= 2", Levenshtein.distance, 2),
    "jaro_winkler >= 0.9": ("jaro_winkler_similarity(l.name, r.name) >= 0.9", JaroWinkler.similarity, 0.9),
}
STRINGSIMJOIN = """
import sys, time, pandas, py_stringsimjoin
a, b = (pandas.read_parquet(path) for path in sys.argv[1:3])
some = a.iloc[:: max(1, len(a) // int(sys.argv[3]))]
started = time.perf_counter()
found = py_stringsimjoin.edit_distance_join(some, b, "id", "id", "name", "name", 2, n_jobs=-1, show_progress=False)
scale = len(a) / len(some)
print((time.perf_counter() - started) * scale, round(len(found) * scale))
"""


def names(number: int, seed: int, known: list[str]) -> list[str]:
    """Names of two to three words, one in ten of them a known one with up to two typos."""
    choose = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"

    def word() -> str:
        return "".join(choose.choices(SYLLABLES, k=choose.randint(2, 3))).capitalize()

    def typed(name: str) -> str:
        for _ in range(choose.randint(0, 2)):
            at = choose.randrange(len(name))
            name = name[:at] + choose.choice(["", choose.choice(letters)]) + name[at + choose.randint(0, 1) :]
        return name

    return [
        typed(choose.choice(known))
        if known and choose.random() < 0.1
        else " ".join(word() for _ in range(choose.randint(2, 3)))
        for _ in range(number)
    ]


def best(work) -> tuple[float, int]:
    """The time of the fastest run, and how many pairs it found."""
    times, pairs = [], 0
    for _ in range(RUNS):
        started = time.perf_counter()
        pairs = work()
        times.append(time.perf_counter() - started)
    return min(times), pairs


def shell(folder: pathlib.Path, condition: str) -> tuple[float, int]:
    """The shell in a process of its own, from Parquet to Parquet; the time of the statement by its own clock."""
    script = f"""
        CREATE TABLE a AS SELECT * FROM '{folder}/a.parquet';
        CREATE TABLE b AS SELECT * FROM '{folder}/b.parquet';
        CREATE TABLE found AS SELECT l.id, l.name, r.id AS id_right, r.name AS name_right
            FROM a AS l SIMILARITY JOIN b AS r ON {condition};
        SELECT count(*) AS pairs FROM found;
    """
    times, pairs = [], 0
    for _ in range(RUNS):
        command = [sys.executable, "-m", "datafusion_similarity", "--format", "csv", "-c", script]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = said.splitlines()
        elapsed = [float(line.split("Elapsed ")[1].split()[0]) for line in lines if "Elapsed " in line]
        times.append(elapsed[2])
        pairs = int(lines[lines.index("pairs") + 1])
    return min(times), pairs


def in_full(scorer, cutoff: float, a: list[str], b: list[str]) -> tuple[float, int]:
    """RapidFuzz on all cores, scaled up from some rows."""
    some = a[:: max(1, len(a) // SAMPLE)][:SAMPLE]
    started = time.perf_counter()
    scores = process.cdist(some, b, scorer=scorer, score_cutoff=cutoff, workers=-1)
    took = (time.perf_counter() - started) * len(a) / len(some)
    hits = (scores <= cutoff) if scorer is Levenshtein.distance else (scores >= cutoff)
    return took, round(int(hits.sum()) * len(a) / len(some))


def main() -> None:
    a = names(ROWS, 1, [])
    b = names(ROWS, 2, a)
    columns = [{"id": list(range(ROWS)), "name": name} for name in (a, b)]
    print(f"{ROWS} x {ROWS} rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print(f"pandas {pandas.__version__}, polars {polars.__version__}, rapidfuzz {rapidfuzz.__version__}\n")
    print("| condition | from and to | seconds | pairs | times the shell |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, side in zip("ab", columns, strict=True):
            pyarrow.parquet.write_table(pyarrow.table(side), folder / f"{name}.parquet")
        for label, (condition, scorer, cutoff) in CONDITIONS.items():
            of_shell, pairs = shell(folder, condition)
            line(label, "the shell", of_shell, pairs, of_shell)
            for library in (pandas, polars):
                frames = [library.DataFrame(side) for side in columns]
                for order in (True, False):
                    work = lambda: len(ds.fuzzy_join(*frames, condition, maintain_order=order))  # noqa: B023
                    open_order = "" if order else ", order open"
                    line(label, library.__name__ + open_order, *best(work), of_shell)
            line(label, "rapidfuzz cdist, scaled up", *in_full(scorer, cutoff, a, b), of_shell)
            other = os.environ.get("PY_STRINGSIMJOIN")
            if scorer is Levenshtein.distance and other:
                command = [other, "-c", STRINGSIMJOIN, str(folder / "a.parquet"), str(folder / "b.parquet")]
                command.append(str(SAMPLE_OF_STRINGSIMJOIN))
                said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
                line(label, "py_stringsimjoin, scaled up", float(said[-2]), int(said[-1]), of_shell)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


def line(condition: str, how: str, seconds: float, pairs: int, of_shell: float) -> None:
    print(f"| {condition} | {how} | {seconds:.2f} | {pairs} | {seconds / of_shell:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws docs/bench/cuda.svg from 2026-11-25-engines.csv and 2026-11-21-cuda-peers.csv: seconds over thresholds and over rows. All axes
but that of thresholds are logarithmic.

Ours are from tables in memory through SQL to a count and a checksum, warm, and of 100,000 strings on the device also the join alone; so are
the peers, on token ids prepared beforehand.
"""

import collections
import csv
import math
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 60, 200, 40, 50
COLOURS = ["#1b6ca8", "#c0504d", "#4f8f4f", "#8064a2", "#d08a2e", "#555555"]
MACHINES = {"cuda": "H200", "cpu": "16 cores"}
DASHES = {"cuda": "", "cpu": "6 4"}
PEERS = {"fgssjoin": ("#7f7f7f", "2 3"), "sf-gSSJoin": ("#a0a0a0", "8 3 2 3")}
LETTERS = 11


def table(name):
    with open(FOLDER / name, newline="") as file:
        yield from csv.DictReader(file)


def measured():
    """Of each self-join: what is joined, its threshold, rows, engine, seconds of SQL, and of the join alone on a device."""
    for row in table("2026-11-25-engines.csv"):
        if row["threshold"] and row["engine"] != "auto":
            seconds = [float(row[time] or "nan") / 1e3 for time in ("sql", "device")]
            yield row["condition"], float(row["threshold"]), int(row["rows"]), row["engine"], *seconds


def by_threshold(wanted, work):
    """The lines of a join over thresholds, which peers call `work`: name -> (colour, dash, [(threshold, seconds)])."""
    lines = {}

    def add(name, style, *point):
        lines.setdefault(name, (*style, []))[2].append(point)

    for join, threshold, rows, engine, seconds, alone in measured():
        if join == wanted and rows >= 100_000:
            colour = COLOURS[0 if rows == 100_000 else 1]
            add(f"{MACHINES[engine]}, {rows:,} strings", (colour, DASHES[engine]), threshold, seconds)
            if engine == "cuda" and rows == 100_000:
                add(f"{MACHINES[engine]}, {rows:,} (join alone)", (COLOURS[2], DASHES[engine]), threshold, alone)
    for row in table("2026-11-21-cuda-peers.csv"):
        if row["work"] == work:
            name = f"{row['peer']}, H200, {int(row['rows']):,} (join alone)"
            add(name, PEERS[row["peer"]], float(row["threshold"]), float(row["seconds"]))
    return {name: (colour, dash, sorted(points, reverse=True)) for name, (colour, dash, points) in lines.items()}


def by_rows():
    """The lines over rows: name -> (colour, dash, [(rows, seconds)])."""
    rows_of = collections.defaultdict(set)
    for join, threshold, rows, *_ in measured():
        rows_of[join, threshold].add(rows)
    conditions = [condition for condition, rows in rows_of.items() if len(rows) > 2]
    lines = {}
    for (join, threshold), colour in zip(conditions, COLOURS, strict=True):
        for engine, machine in MACHINES.items():
            points = sorted(
                (rows, seconds) for *condition, rows, on, seconds, _ in measured() if (*condition, on) == (join, threshold, engine)
            )
            lines[f"{machine}, {join} {threshold:g}"] = (colour, DASHES[engine], points)
    return lines


def text(x, y, words, anchor="start", size=LETTERS, colour="black"):
    words = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{words}</text>'


def panel(top, title, lines, ticks, share_of, powers):
    """One chart from `top` on: `share_of` says how far to the right something stands, `powers` of ten bound the seconds."""
    least, most = powers

    def x_of(at):
        return LEFT + share_of(at) * (WIDTH - LEFT - RIGHT)

    def y_of(seconds):
        return top + HEIGHT - BOTTOM - (math.log10(seconds) - least) / (most - least) * (HEIGHT - TOP - BOTTOM)

    parts = [text(LEFT, top + 20, title, size=13)]
    for power in range(least, most + 1):
        y = y_of(10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, y + 4, f"{10.0**power:g} s", "end"))
    parts += [text(x_of(tick), top + HEIGHT - BOTTOM + 18, f"{tick:,}", "middle") for tick in ticks]
    below = math.inf
    # names at the heights where their lines end, from the lowest up, none over another
    for name, (colour, dash, points) in sorted(lines.items(), key=lambda line: -y_of(line[1][2][-1][1])):
        path = " ".join(f"{x_of(at):.1f},{y_of(seconds):.1f}" for at, seconds in points)
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{path}" {style}/>')
        below = min(y_of(points[-1][1]) + 4, below - LETTERS)
        parts.append(text(WIDTH - RIGHT + 8, below, name, size=9, colour=colour))
    return parts


def main():
    thresholds = (0.9, 0.8, 0.7, 0.6, 0.5)
    parts = []
    for number, (name, join, work) in enumerate([("padded 3-grams", "jaccard 3-grams", "q3"), ("words", "jaccard words", "words")]):
        title = f"Jaccard over {name}, self-join: seconds by threshold"
        lines = by_threshold(join, work)
        parts += panel(number * HEIGHT, title, lines, thresholds, lambda threshold: (0.9 - threshold) / 0.4, (-3, 2))
    counts = (1000, 10_000, 100_000, 1_000_000)
    title = "Self-joins: seconds by rows"
    parts += panel(2 * HEIGHT, title, by_rows(), counts, lambda rows: (math.log10(rows) - 3) / 3, (-3, 2))
    body = "\n".join(parts)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {3 * HEIGHT}" font-family="sans-serif">\n'
    (FOLDER / "cuda.svg").write_text(svg + '<rect width="100%" height="100%" fill="white"/>\n' + body + "\n</svg>\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws docs/bench/cuda.svg from 2026-11-22-cuda.csv and 2026-11-21-cuda-peers.csv: seconds over thresholds, logarithmic.

Ours are from Parquet through SQL to a count; the peers are the join alone, on token ids prepared beforehand.
"""

import csv
import math
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 60, 200, 40, 50
LEAST, MOST = 0.01, 100.0
COLOURS = ["#1b6ca8", "#1b6ca8", "#c0504d", "#c0504d", "#7f7f7f", "#a0a0a0"]
DASHES = ["", "6 4", "", "6 4", "2 3", "8 3 2 3"]


def series():
    """The lines of the chart: name -> [(threshold, seconds)]."""
    lines = {}
    with open(FOLDER / "2026-11-22-cuda.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["work"] == "q3":
                machine = "H200" if row["engine"] == "cuda" else "16 cores"
                name = f"{machine}, {int(row['rows']):,} strings"
                lines.setdefault(name, []).append((float(row["threshold"]), float(row["sql_warm_s"])))
    with open(FOLDER / "2026-11-21-cuda-peers.csv", newline="") as file:
        for row in csv.DictReader(file):
            name = f"{row['peer']}, H200, {int(row['rows']):,} (join alone)"
            lines.setdefault(name, []).append((float(row["threshold"]), float(row["seconds"])))
    return lines


def x_of(threshold):
    return LEFT + (0.9 - threshold) / 0.4 * (WIDTH - LEFT - RIGHT)


def y_of(seconds):
    share = (math.log10(seconds) - math.log10(LEAST)) / (math.log10(MOST) - math.log10(LEAST))
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="start", size=11):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def axes():
    parts = [text(LEFT, 20, "Jaccard over padded 3-grams, self-join: seconds by threshold", size=13)]
    for power in range(-2, 3):
        y = y_of(10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, y + 4, f"{10.0**power:g} s", "end"))
    for threshold in (0.9, 0.8, 0.7, 0.6, 0.5):
        parts.append(text(x_of(threshold), HEIGHT - BOTTOM + 18, f"{threshold}", "middle"))
    return parts


def main():
    parts = axes()
    for (name, points), colour, dash in zip(series().items(), COLOURS, DASHES):
        points.sort(reverse=True)
        path = " ".join(f"{x_of(t):.1f},{y_of(s):.1f}" for t, s in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(text(WIDTH - RIGHT + 8, y_of(points[-1][1]) + 4, name, size=9))
    body = "\n".join(parts)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
    (FOLDER / "cuda.svg").write_text(svg + '<rect width="100%" height="100%" fill="white"/>\n' + body + "\n</svg>\n")


if __name__ == "__main__":
    main()

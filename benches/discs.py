#!/usr/bin/env python3
"""Discs after the distributions of a table of real ones: python3 benches/discs.py discs.parquet 1792000 out.parquet

Words, lengths and repeated artists are drawn from the real discs. One disc in ten is a copy of an earlier one, with a
typo in some values and a value that is missing in some others. The same arguments give the same file.
"""
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["artist", "title", "track01", "track02"]
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def typo(value, draw):
    if not value:
        return value
    at = draw.randrange(len(value))
    letter = draw.choice(LETTERS)
    return draw.choice([value[:at] + value[at + 1 :], value[:at] + letter + value[at:], value[:at] + letter + value[at + 1 :]])


def main(source, count, target):
    draw = random.Random(2013)
    real = pq.read_table(source, columns=COLUMNS).to_pydict()
    values = {name: [value or "" for value in real[name]] for name in COLUMNS}
    words = {name: [word for value in values[name] for word in value.split()] for name in COLUMNS}
    lengths = {name: [len(value.split()) for value in values[name]] for name in COLUMNS}
    discs = {name: [] for name in COLUMNS}
    for disc in range(count):
        if disc and draw.random() < 0.1:
            original = draw.randrange(disc)
            for name in COLUMNS:
                value = discs[name][original]
                chance = draw.random()
                discs[name].append("" if chance < 0.02 else typo(value, draw) if chance < 0.3 else value)
            continue
        for name in COLUMNS:
            # an artist makes several discs, and a third of all artists are real ones
            if name == "artist" and draw.random() < 0.6:
                known = discs["artist"] if discs["artist"] and draw.random() < 0.5 else values["artist"]
                discs[name].append(draw.choice(known))
            else:
                discs[name].append(" ".join(draw.choice(words[name]) for _ in range(draw.choice(lengths[name]))))
    table = pa.table({"id": pa.array(range(count), pa.int64()), **discs})
    pq.write_table(table, target)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

#!/usr/bin/env python3
"""Documents of which one in ten is a near-duplicate: python3 benches/documents.py 10000000 out.parquet

A document has 20 to 80 words (50 on average) of a vocabulary of 300,000, drawn after Zipf's law. A near-duplicate is an
earlier document of the same million in which up to a fifth of the words are other ones. The same arguments give the same
file.
"""
import sys

import numpy
import pyarrow
import pyarrow.parquet

VOCABULARY = 300_000
PART = 1_000_000
LETTERS = numpy.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=numpy.uint8)


def vocabulary(draw):
    """Words of seven letters and a space, so that a document is an array of numbers of eight bytes."""
    words = numpy.full((2 * VOCABULARY, 8), ord(" "), dtype=numpy.uint8)
    words[:, :7] = draw.choice(LETTERS, size=(2 * VOCABULARY, 7))
    return draw.permutation(numpy.unique(words.view(numpy.uint64).ravel()))[:VOCABULARY]


def part(draw, words, shares, count):
    lengths = draw.integers(20, 81, size=count)
    copies = numpy.flatnonzero((draw.random(count) < 0.1) & (numpy.arange(count) > 0))
    originals = (draw.random(len(copies)) * copies).astype(numpy.int64)
    # of a copy that was copied, too, the original is what it was before
    lengths[copies] = lengths[originals]
    ends = numpy.cumsum(lengths)
    text = words[numpy.searchsorted(shares, draw.random(ends[-1]))]
    for copy, original in zip(copies, originals):
        length = lengths[copy]
        if lengths[original] != length:
            continue
        source, target = ends[original] - length, ends[copy] - length
        kept = draw.random(length) >= draw.random() * 0.2
        text[target : target + length][kept] = text[source : source + length][kept]
    offsets = numpy.concatenate([[0], ends]) * 8
    buffers = [None, pyarrow.py_buffer(offsets.astype(numpy.int64)), pyarrow.py_buffer(text)]
    return pyarrow.Array.from_buffers(pyarrow.large_string(), count, buffers)


def main(count, target):
    draw = numpy.random.default_rng(36)
    words = vocabulary(draw)
    weights = 1 / (numpy.arange(VOCABULARY) + 10)
    shares = numpy.cumsum(weights) / weights.sum()
    schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.large_string())])
    with pyarrow.parquet.ParquetWriter(target, schema, use_dictionary=False, compression="zstd") as writer:
        for start in range(0, count, PART):
            rows = min(PART, count - start)
            ids = pyarrow.array(numpy.arange(start, start + rows))
            writer.write_table(pyarrow.table([ids, part(draw, words, shares, rows)], schema=schema))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

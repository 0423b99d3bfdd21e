#!/usr/bin/env python3
"""Recall and seconds of MinHash in datatrove and text-dedup, on documents of which the near-duplicates are known.

    pip install datatrove tokenizers regex "xxhash<4" spacy text-dedup numpy pyarrow
    python3 benches/documents.py 1000000 documents.parquet
    python3 benches/near_duplicates.py documents.parquet pairs.csv > near_duplicates.csv

The documents have columns `id` and `text`. The pairs, in CSV with a header or in Parquet, are two columns of ids. They
are what the exact join finds: `jaccard(word_tokens(a.text), word_tokens(b.text)) >= 0.8 AND a.id < b.id`.

A setting is bands x rows: 14x8 has 14 buckets of 8 hashes each. Hashes have 32 bits, and words are compared one by one.
Both tools give clusters, not pairs that were verified. Recall is the share of the pairs of which both documents are in
one cluster. `clustered` counts the documents that share a cluster with another one.

- `loading` is what text-dedup takes to copy Parquet into its cache. datatrove reads while it makes signatures.
- `buckets` is what datatrove takes to find equal bands. text-dedup does so as part of `clusters`.
- `seconds` ends at the clusters. The removal of duplicates, which both tools offer, does not count.

datatrove splits English by spaCy. Rows with `split` have str.split in place of that, which gives the same words here.
Its normalisation of text is off, as there is nothing to normalise. Its seconds include the start of its processes, and
those of text-dedup leave out Python's imports. Documents are split into a file for each process beforehand.
"""

import argparse
import csv
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.utils.hashing import HashConfig
from datatrove.utils.text import TextNormConfig

COLUMNS = "tool setting words documents loading signatures buckets clusters seconds recall clustered".split()
STEPS = ["lowercase", "norm_whitespace", "remove_punctuation", "norm_unicode_diacritics", "norm_numbers"]
# records that datatrove reads at once: by default, five
BUFFERED = 10_000


class Split:
    """A tokenizer for datatrove that splits at white space alone."""

    word_tokenize = staticmethod(str.split)


def setting(text):
    bands, rows = text.split("x")
    return int(bands), int(rows)


def prepare(documents, folder, processes):
    """Writes a file for each process, and gives the ids and where files start."""
    table = pyarrow.parquet.read_table(documents, columns=["id", "text"])
    # to text-dedup, an empty word follows the last blank
    table = table.set_column(1, "text", pyarrow.compute.utf8_rtrim_whitespace(table["text"]))
    starts = [table.num_rows * part // processes for part in range(processes + 1)]
    os.mkdir(folder)
    for part, (start, end) in enumerate(zip(starts, starts[1:])):
        pyarrow.parquet.write_table(table.slice(start, end - start), f"{folder}/{part:05}.parquet")
    return table["id"].to_numpy(), starts


def true_pairs(path, ids):
    """Row numbers of the two documents of each pair."""
    table = (pyarrow.parquet.read_table if path.endswith(".parquet") else pyarrow.csv.read_csv)(path)
    order = numpy.argsort(ids)
    return [order[numpy.searchsorted(ids, table.column(side).to_numpy(), sorter=order)] for side in (0, 1)]


def timed(pipeline, tasks, workers, logs):
    start = time.perf_counter()
    LocalPipelineExecutor([*pipeline], tasks=tasks, workers=workers, logging_dir=logs).run()
    return time.perf_counter() - start


def datatrove(parts, folder, starts, bands, rows, words, processes):
    as_it_is = TextNormConfig(**dict.fromkeys(STEPS, False))
    config = MinhashConfig(1, bands, rows, norm_config=as_it_is, hash_config=HashConfig(32, "xxhash"))
    signatures, pairs, clusters = (f"{folder}/{name}" for name in ("signatures", "pairs", "clusters"))
    reader = ParquetReader(parts, read_metadata=False)
    signature = MinhashDedupSignature(signatures, config)
    if words == "split":
        signature.word_tokenizer = Split()
    buckets = MinhashDedupBuckets(signatures, pairs, config=config, lines_to_buffer=BUFFERED)
    cluster = MinhashDedupCluster(pairs, clusters, config, save_cluster_id=True, lines_to_buffer=BUFFERED)
    seconds = {
        "signatures": timed([reader, signature], processes, processes, f"{folder}/1"),
        # each bucket is a task of its own
        "buckets": timed([buckets], bands, processes, f"{folder}/2"),
        "clusters": timed([cluster], 1, 1, f"{folder}/3"),
    }
    labels = -1 - numpy.arange(starts[-1])
    for part, start in enumerate(starts[:-1]):
        path = f"{clusters}/{part:06}.clusters"
        if os.path.exists(path):
            of_part = numpy.fromfile(path, dtype="<u4").reshape(-1, 2).astype(numpy.int64)
            labels[start + of_part[:, 0]] = of_part[:, 1]
    return labels, seconds


def text_dedup(parts, folder, starts, bands, rows, words, processes):
    options = {
        "path": "parquet",
        "data_files": f"{parts}/*.parquet",
        "split": "train",
        "column": "text",
        "cache_dir": f"{folder}/cache",
        "output": f"{folder}/output",
        "num_proc": processes,
    }
    options |= {"ngram": 1, "min_length": 1, "num_perm": bands * rows, "b": bands, "r": rows}
    options |= {"hash_func": "xxh3", "hash_bits": 32}
    command = [sys.executable, "-m", "text_dedup.minhash", "--debug"]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    # its log breaks lines after so many columns
    changed = {"COLUMNS": "200", "HF_HOME": f"{folder}/home", "HF_HUB_OFFLINE": "1"}
    changed |= {"TQDM_DISABLE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    log = subprocess.run(command, env=os.environ | changed, stdout=subprocess.PIPE, text=True, check=True).stdout
    stages = {"Loading": "loading", "MinHashing": "signatures", "Clustering": "clusters"}
    seconds = {ours: float(re.search(rf"{theirs}\s*: ([\d.]+)s", log)[1]) for theirs, ours in stages.items()}
    with open(f"{folder}/output/uf.pkl", "rb") as file:
        found = pickle.load(file)
    labels = -1 - numpy.arange(starts[-1])
    for row in list(found.parent):
        labels[row] = found.find(row)
    return labels, seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("documents")
    parser.add_argument("pairs")
    parser.add_argument("--datatrove", type=setting, nargs="*", default=[(14, 8), (9, 5), (8, 4)])
    parser.add_argument("--words", nargs="+", default=["spacy", "split"], help="tokenizers of datatrove: spacy, split")
    parser.add_argument("--text-dedup", type=setting, nargs="*", default=[(14, 8), (9, 5), (8, 4)])
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    runs = [(datatrove, *bands_rows, words) for words in asked.words for bands_rows in asked.datatrove]
    runs += [(text_dedup, *bands_rows, "its own") for bands_rows in asked.text_dedup]
    output = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    output.writeheader()
    with tempfile.TemporaryDirectory() as folder:
        ids, starts = prepare(asked.documents, f"{folder}/parts", asked.processes)
        left, right = true_pairs(asked.pairs, ids)
        for tool, bands, rows, words in runs:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                labels, seconds = tool(f"{folder}/parts", own, starts, bands, rows, words, asked.processes)
            sizes = numpy.unique(labels, return_counts=True)[1]
            row = {"tool": tool.__name__, "setting": f"{bands}x{rows}", "words": words, "documents": len(ids)}
            row |= {name: f"{value:.2f}" for name, value in {**seconds, "seconds": sum(seconds.values())}.items()}
            row |= {"recall": f"{(labels[left] == labels[right]).mean():.4f}", "clustered": sizes[sizes > 1].sum()}
            output.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""APPROXIMATE NEAREST and approximate indexes that PyPI offers, on the same vectors, build included.

    pip install numpy faiss-cpu hnswlib
    cargo build --release -p similarity-engine --example approximate
    python benches/approximate.py vectors.bin queries.bin neighbours.bin

Makes a million vectors of 128 dimensions around 2,000 centres, and 10,000 queries, unless the files are there. The exact
neighbours come from our exact ranking. Of faiss and hnswlib, the least setting is taken that reaches the recall.
"""

import os
import subprocess
import sys
import time

import faiss
import hnswlib
import numpy

ROWS, QUERIES, DIMENSION, CENTRES = 1_000_000, 10_000, 128, 2_000
K, RECALL, THREADS = 10, 0.95, 2
base_path, queries_path, neighbours_path = sys.argv[1:]


def make(path, rows, seed):
    if os.path.exists(path):
        return
    shared, own = numpy.random.default_rng(1), numpy.random.default_rng(seed)
    centres = shared.normal(0, 1, (CENTRES, DIMENSION))
    of_rows = own.choice(CENTRES, rows, p=shared.dirichlet(numpy.ones(CENTRES)))
    with open(path, "wb") as file:
        for some in numpy.array_split(of_rows, 10):
            vectors = centres[some] + own.normal(0, 0.7, (len(some), DIMENSION))
            vectors.astype("float32").tofile(file)


def recall(found, exact):
    return numpy.mean([len(set(one) & set(other)) / K for one, other in zip(found, exact)])


def run(name, build, settings, search, exact):
    start = time.time()
    index = build()
    built = time.time() - start
    for setting in settings:
        start = time.time()
        found = search(index, setting)
        searched = time.time() - start
        share = recall(found, exact)
        if share >= RECALL:
            break
    print(f"{name}, {setting}: build {built:.1f} s, search {searched:.1f} s, recall {share:.4f}", flush=True)


make(base_path, ROWS, 2)
make(queries_path, QUERIES, 3)
ours = [base_path, queries_path, DIMENSION, K, RECALL, THREADS, neighbours_path]
subprocess.run(["target/release/examples/approximate", *map(str, ours)], check=True)
base, queries = (numpy.fromfile(path, "float32").reshape(-1, DIMENSION) for path in [base_path, queries_path])
exact = numpy.fromfile(neighbours_path, "int32").reshape(-1, K)
faiss.omp_set_num_threads(THREADS)


def inverted_file(lists):
    index = faiss.index_factory(DIMENSION, f"IVF{lists},Flat")
    index.train(base[numpy.random.default_rng(0).choice(ROWS, 64 * lists, replace=False)])
    index.add(base)
    return index


def visit(index, lists):
    index.nprobe = lists
    return index.search(queries, K)[1]


def graph():
    index = hnswlib.Index("l2", DIMENSION)
    index.init_index(ROWS, M=16, ef_construction=100)
    index.set_num_threads(THREADS)
    index.add_items(base)
    return index


def walk(index, candidates):
    index.set_ef(candidates)
    return index.knn_query(queries, K)[0]


for lists in [256, 512, 1024, 4096]:
    visits = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    run(f"faiss IVF{lists}", lambda: inverted_file(lists), visits, visit, exact)
run("hnswlib", graph, [10, 20, 40, 80, 160, 320], walk, exact)

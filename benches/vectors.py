"""Epsilon and nearest joins of vectors, and those of scipy and faiss, in turn: counts, seconds and ratios as CSV.

    pip install numpy scipy pyarrow faiss-cpu
    cargo build --release
    python benches/vectors.py target/release/similarity-cli points_2d.parquet points_8d.parquet points_16d.parquet RUNS

The files have a column `id` from 0 on and a column `v` of so many numbers. Points in 128 dimensions are made here: half of
them in 200 clusters around the unit sphere, half uniform on it. Ours is one query of a process of its own, from the file
through SQL to a count and a sum; a peer has its points in memory and, where it has an index, has built it, and runs in between.
Medians of RUNS; peers that take more than five seconds run once.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time

import faiss
import numpy
import pyarrow
import pyarrow.parquet
from scipy.spatial import cKDTree

shell, *files, runs = sys.argv[1:]
runs = int(runs)
faiss.omp_set_num_threads(2)


def read(path):
    vectors = pyarrow.parquet.read_table(path).column("v").combine_chunks()
    return vectors.values.to_numpy().reshape(len(vectors), -1)


def embeddings(rows, folder):
    rng = numpy.random.default_rng(42)
    unit = lambda x: x / numpy.linalg.norm(x, axis=1, keepdims=True)
    centres = unit(rng.standard_normal((200, 128)))
    near = centres[rng.integers(200, size=rows // 2)] + 0.05 * rng.standard_normal((rows // 2, 128))
    points = numpy.concatenate([near, unit(rng.standard_normal((rows - rows // 2, 128)))]).astype(numpy.float32)
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(points.ravel()), 128)
    path = f"{folder}/embeddings_{rows}.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": numpy.arange(rows), "v": lists}), path)
    return path


def ours(path, join):
    query = f"SELECT count(*), sum(a.id * 7 + b.id) FROM t a {join}"
    command = [shell, "-c", f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'", "-c", query]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = float(re.findall(r"Elapsed ([0-9.]+) seconds", out)[-1])
    return seconds, int(re.findall(r"\| +(\d+) +\| +-?\d+", out)[-1])


def timed(work):
    start = time.perf_counter()
    count = work()
    return time.perf_counter() - start, count


def query_pairs(points, eps):
    tree = cKDTree(points.astype(float))
    return lambda: len(tree.query_pairs(eps, output_type="ndarray"))


def query(points, k):
    tree = cKDTree(points.astype(float))
    return lambda: tree.query(points.astype(float), k=k, workers=2)[1].size


def flat(points):
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    return index


def range_search(points, eps):
    index = flat(points)
    return lambda: (int(index.range_search(points, eps * eps)[0][-1]) - len(points)) // 2


def search(points, k):
    index = flat(points)
    return lambda: index.search(points, k)[1].size


def compare(what, path, join, peer, work):
    first = timed(work)
    own, others = [ours(path, join)], [first]
    for _ in range(runs):
        own.append(ours(path, join))
        if first[0] < 5:
            others.append(timed(work))
    seconds = [statistics.median(s for s, _ in each[1:] or each) for each in (own, others)]
    spread = f"{min(s for s, _ in own[1:]):.3f}-{max(s for s, _ in own[1:]):.3f}"
    row = [what, own[0][1], f"{seconds[0]:.3f}", spread, peer, first[1], f"{seconds[1]:.3f}", f"{seconds[0] / seconds[1]:.2f}"]
    print(*row, sep=",", flush=True)


print("join,pairs,seconds,spread,peer,peer_pairs,peer_seconds,ratio")
two, eight, sixteen = files
within = "SIMILARITY JOIN t b ON l2_distance(a.v, b.v) <= {} AND a.id < b.id".format
nearest = "JOIN t b NEAREST 10 BY DISTANCE l2_distance(a.v, b.v)"
for name, path, bounds in [("2-D", two, [0.0068, 0.0273]), ("8-D", eight, [0.081, 0.1124]), ("16-D", sixteen, [0.1315, 0.1631])]:
    for eps in bounds:
        compare(f"{name} {eps}", path, within(eps), "query_pairs", query_pairs(read(path), eps))
with tempfile.TemporaryDirectory() as folder:
    path = embeddings(50_000, folder)
    compare("128-D 0.776", path, within(0.776), "range_search", range_search(read(path), 0.776))
    compare("nearest 10 2-D", two, nearest, "cKDTree.query", query(read(two), 10))
    path = embeddings(20_000, folder)
    compare("nearest 10 128-D", path, nearest, "faiss search", search(read(path), 10))
    compare("nearest 10 16-D", sixteen, nearest, "faiss search", search(read(sixteen), 10))

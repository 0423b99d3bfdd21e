"""Queries of generated people on a cluster of this machine, against the same queries in one process.

    pip install numpy pyarrow
    python benches/people/generate.py people.parquet 1000000
    cargo build --release -p similarity-cli --features cluster
    python benches/cluster.py target/release/similarity-cli people.parquet --executors 1 2 --cores 2

The table has, for each number of executors, the medians of the runs of one shell, and the ratio to one process with as
many cores. Each process has its cores for itself, by `taskset`, as far as the machine has enough of them. The column
`sent` has the bytes that tasks have written for others to read. The column `balance` has the longest task of the
longest stage, over the mean of its tasks.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("shell")
parser.add_argument("people")
parser.add_argument("--executors", type=int, nargs="+", default=[1])
parser.add_argument("--cores", type=int, default=2, help="cores of each executor")
parser.add_argument("--memory", default="4g", help="memory of each process")
parser.add_argument("--engine", default="cpu", choices=["cpu", "cuda", "auto"])
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--queries", nargs="+", default=["grams", "rules"])
options = parser.parse_args()

here = os.path.dirname(os.path.abspath(__file__))
clauses = [line.strip() for line in open(os.path.join(here, "people", "rules_10.sql"))]
clauses = [f"({clause})" for clause in clauses if clause and not clause.startswith("--")]
QUERIES = {
    "grams": "jaccard(qgrams(a.name, 3), qgrams(b.name, 3)) >= 0.8",
    "rules": "(" + " OR ".join(clauses) + ")",
}
TABLES = [
    f"SET similarity.engine = '{options.engine}'",
    f"CREATE EXTERNAL TABLE people_file STORED AS PARQUET LOCATION '{os.path.abspath(options.people)}'",
    "CREATE VIEW people AS SELECT *, concat_ws(' ', surname, city, phone) AS name FROM people_file",
]


def on_cores(first, count):
    """What starts a process on so many cores of its own."""
    return ["taskset", "-c", ",".join(str(core % os.cpu_count()) for core in range(first, first + count))]


def seconds(start, arguments, query):
    """The count and the seconds of each run."""
    command = [*start, options.shell, "-m", options.memory, *arguments]
    for statement in TABLES + [query] * options.runs:
        command += ["-c", statement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    elapsed = [float(s) for s in re.findall(r"Elapsed ([0-9.]+) seconds", done.stdout)][-options.runs :]
    return int(re.findall(r"\| (\d+) +\|", done.stdout)[-1]), elapsed


class Cluster:
    """A scheduler and executors, with the files and the logs of the executors."""

    def __init__(self, executors):
        self.folder = tempfile.TemporaryDirectory()
        self.processes = [self.start("scheduler", [], ["scheduler", "--bind", "127.0.0.1:0"])]
        self.scheduler = self.processes[0].stdout.readline().split()[-1]
        for number in range(executors):
            name = f"executor{number}"
            arguments = ["-m", options.memory, "executor", "--scheduler", self.scheduler]
            arguments += ["--port", str(42000 + 10 * number), "--cores", str(options.cores)]
            os.mkdir(os.path.join(self.folder.name, name))
            arguments += ["--work-folder", os.path.join(self.folder.name, name)]
            cores = on_cores(number * options.cores, options.cores)
            self.processes.append(self.start(name, cores, arguments))
        time.sleep(2)

    def start(self, name, cores, arguments):
        log = open(os.path.join(self.folder.name, f"{name}.log"), "w")
        environment = {**os.environ, "RUST_LOG": "info"}
        command = [*cores, options.shell, "-q", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)

    def bytes(self):
        """What the tasks have written until now."""
        sizes = 0
        for folder, _, files in os.walk(self.folder.name):
            for file in files:
                if not file.endswith(".log"):
                    try:
                        sizes += os.path.getsize(os.path.join(folder, file))
                    except FileNotFoundError:
                        pass
        return sizes

    def balance(self):
        """Tasks, and the longest over the mean, of the stage whose tasks took longest in all."""
        stages = {}
        units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
        for number in range(len(self.processes) - 1):
            for line in open(os.path.join(self.folder.name, f"executor{number}.log")):
                found = re.search(r"Finished task : \[TID ([^/]+)/(\d+)\..*\] in ([0-9.]+)(s|ms|µs|ns)$", line.strip())
                if found:
                    stages.setdefault(found.group(1, 2), []).append(float(found[3]) * units[found[4]])
        longest = max(stages.values(), key=sum)
        return len(longest), max(longest) / statistics.mean(longest)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()


def watched(cluster, run):
    """What `run` gives, and the most bytes that a query has written."""
    written, over = [0], threading.Event()

    def watch():
        while not over.wait(0.05):
            written[0] = max(written[0], cluster.bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        return run(), written[0]
    finally:
        over.set()
        watching.join()


print("| query | executors x cores | pairs | one process | cluster | ratio | sent | tasks | balance |")
print("|---|---|---|---|---|---|---|---|---|")
for name in options.queries:
    query = f"SELECT count(*) FROM people a SIMILARITY JOIN people b ON {QUERIES[name]} AND a.id < b.id"
    for executors in options.executors:
        alone, of_process = seconds(on_cores(0, executors * options.cores), [], query)
        partitions = f"SET datafusion.execution.target_partitions = {executors * options.cores}"
        cluster = Cluster(executors)
        try:
            (together, of_cluster), written = watched(
                cluster, lambda: seconds([], ["--scheduler", cluster.scheduler, "-c", partitions], query)
            )
            tasks, balance = cluster.balance()
        finally:
            cluster.stop()
        if alone != together:
            raise SystemExit(f"{name}: {alone} pairs in one process and {together} on the cluster")
        one, many = statistics.median(of_process), statistics.median(of_cluster)
        print(
            f"| {name} | {executors} x {options.cores} | {alone} | {one:.2f} s | {many:.2f} s | {many / one:.2f} "
            f"| {written / 1e6:.1f} MB | {tasks} | {balance:.2f} |",
            flush=True,
        )

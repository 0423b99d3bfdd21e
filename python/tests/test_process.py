"""Threads, forks, memory, Ctrl-C and the time that an import takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import make, rows, texts

import datafusion_similarity as ds
from datafusion_similarity import l, r
from datafusion_similarity.measures import levenshtein

NAMES = texts(500, 9)


def join() -> int:
    frame = make("arrow", {"name": NAMES})
    return len(rows(ds.fuzzy_join(frame, frame, levenshtein(l.name, r.name) <= 1)))


def test_eight_threads_at_once() -> None:
    expected, found = join(), []
    shared = ds.Session()
    shared.register("names", make("arrow", {"name": NAMES}))

    def work() -> None:
        text = "SELECT count(*) AS n FROM names l SIMILARITY JOIN names r ON levenshtein(l.name, r.name) <= 1"
        for _ in range(3):
            found.append(join())
            found.append(rows(shared.sql(text))[0][0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 48


def test_other_threads_run_during_a_query() -> None:
    ticks = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            ticks.append(time.perf_counter())

    ticking = threading.Thread(target=tick)
    ticking.start()
    started = time.perf_counter()
    ds.Session().sql("SELECT count(*) FROM range(30000) a, range(30000) b WHERE a.value * b.value % 7 = 3").collect()
    ended = time.perf_counter()
    done.set()
    ticking.join()
    # a query that held the interpreter would let none through
    assert sum(started < at < ended for at in ticks) > (ended - started) / 0.01 / 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("parent", ["pass", "join()"], ids=["alone", "after a query of its parent"])
def test_a_forked_child_runs_queries_or_says_why_not(parent: str) -> None:
    program = f"""
        import multiprocessing, os, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import datafusion_similarity as ds
        from conftest import make, rows, texts

        frame = make("arrow", {{"name": texts(20_000, 9)}})

        def join():
            return len(rows(ds.pairs(frame, "levenshtein(l.name, r.name) <= 1")))

        def child(queue):
            try:
                queue.put(join())
            except ds.SimilarityError as refused:
                queue.put(str(refused))

        {parent}
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        children = [context.Process(target=child, args=(queue,), daemon=True) for _ in range(2)]
        for process in children:
            process.start()
        try:
            found = {{queue.get(timeout=30) for _ in children}}
            print("ran" if found == {{join()}} else found, flush=True)
        finally:
            for process in children:
                process.kill()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if parent == "pass":
        assert done.stdout == "ran\n", done.stderr
    else:
        assert "forked from one that has run a query" in done.stdout, done.stderr


def resident() -> int:
    """The bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system does not say")
def test_a_hundred_sessions_leave_no_memory_behind() -> None:
    few, many = make("arrow", {"name": NAMES}), make("arrow", {"name": texts(100_000, 10)})

    def use() -> None:
        session = ds.Session()
        session.register("names", few)
        session.register("rows", many)
        session.sql("CREATE TABLE kept AS SELECT name || 'x' AS name FROM rows").collect()
        text = "SELECT count(*) FROM names a SIMILARITY JOIN names b ON levenshtein(a.name, b.name) <= 1"
        assert rows(session.sql(text))[0][0] > 0

    for _ in range(50):
        use()
    before = resident()
    for _ in range(100):
        use()
    # a session holds a copy of the many names: a quarter of the sessions would be seen
    assert resident() - before < 25 * many.nbytes


def interrupted(program: str) -> float:
    """How many seconds a program takes to print "interrupted", or to end by itself, once it got Ctrl-C."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(1.5)
        started = time.perf_counter()
        process.send_signal(signal.SIGINT)
        # a program that does not end is not waited for
        watch = threading.Timer(10, process.kill)
        watch.start()
        said = process.stdout.readline()
        took = time.perf_counter() - started
        watch.cancel()
        process.kill()
    assert said in ("interrupted\n", "")
    return took


JOINS = {
    "an index": 'ds.fuzzy_join(names, names, "levenshtein(l.name, r.name) <= 18")',
    "a nested loop": 'ds.fuzzy_join(names, names, "levenshtein(l.name, r.name) > 3", "semi", allow_nested_loop=True)',
    "a ranking": 'ds.nearest(names, names, "jaro_similarity(l.name, r.name)", k=50)',
}


@pytest.mark.parametrize("join", JOINS)
def test_ctrl_c_ends_a_long_join_within_a_second(join: str) -> None:
    program = f"""
        import pyarrow, random
        import datafusion_similarity as ds
        choose = random.Random(1)
        names = pyarrow.table({{"name": ["".join(choose.choices("ab", k=40)) for _ in range(100_000)]}})
        print("running", flush=True)
        try:
            {JOINS[join]}
            print("done", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    assert interrupted(program) < 1


def test_ctrl_c_ends_a_stream() -> None:
    # pyarrow only sees that it has failed, and the interrupt comes after that
    program = """
        import pyarrow, random
        import datafusion_similarity as ds
        choose = random.Random(1)
        names = pyarrow.table({"name": ["".join(choose.choices("ab", k=40)) for _ in range(100_000)]})
        query = ds.fuzzy_join(names, names, "levenshtein(l.name, r.name) <= 18", to="query")
        print("running", flush=True)
        pyarrow.table(query)
        print("done", flush=True)
    """
    assert interrupted(program) < 1


def test_ctrl_c_ends_a_query_that_never_lets_go() -> None:
    program = """
        import datafusion_similarity as ds
        text = "SELECT count(*) AS n FROM range(3000000) a, range(3000000) b WHERE a.value * b.value % 7 = 3"
        query = ds.Session().sql(text)
        print("running", flush=True)
        try:
            query.collect()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    assert interrupted(program) < 1


def test_an_import_takes_less_than_a_third_of_a_second() -> None:
    program = """
        import sys, time
        started = time.perf_counter()
        import datafusion_similarity
        print(time.perf_counter() - started, *(set(sys.modules) & {"pandas", "polars", "pyarrow", "duckdb", "numpy"}))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    assert min(float(line[0]) for line in said) < 0.3
    assert all(len(line) == 1 for line in said)

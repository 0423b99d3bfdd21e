"""A page about the duplicates of a frame, written by the shell."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from . import _core
from ._clusters import Method, _method
from ._expressions import Condition, Rule, condition_sql, rule_sql
from ._frames import Frame, stream_of
from ._text import identifier, text, with_aliases


def report(
    frame: Frame,
    rule: Rule,
    path: str | os.PathLike[str],
    *,
    right: Frame | None = None,
    id: str | None = None,
    right_id: str | None = None,
    score: Condition | None = None,
    method: Method = "components",
    largest: int | None = None,
    which: str = "all",
    truth: Frame | None = None,
    name: str = "frame",
    right_name: str = "right",
    show_values: bool = False,
    overwrite: bool = False,
) -> str:
    """Finds the duplicates of a frame, or the links to a right frame, and writes an HTML page about them.

    The page has the pairs by condition and by score, the sizes of clusters, and why pairs match. With a truth it has
    precision and recall by threshold. It loads nothing and runs no script. No value of a row is in it unless
    ``show_values`` is true.

    >>> import polars as pl, pathlib, tempfile
    >>> from datafusion_similarity import report
    >>> people = pl.DataFrame({"id": [1, 2, 3], "name": ["Anna Miller", "Ana Miller", "Zoe Weber"]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = pathlib.Path(folder.name) / "people.html"
    >>> report(people, "levenshtein(l.name, r.name) <= 1", page, id="id", name="people")
    '3 rows, 1 pair, 2 clusters, 2 rows in clusters of more than one'

    Args:
        frame: The frame, the left one where there is a right one.
        rule: As in :func:`dedupe` or :func:`link`.
        path: The page to write.
        right: The right frame of links.
        id: As in :func:`dedupe`, and the column of ids of the left frame of links.
        right_id: The column of ids of the right frame.
        score: As in :func:`dedupe` or :func:`link`.
        method: As in :func:`dedupe`.
        largest: As in :func:`dedupe`.
        which: As in :func:`link`.
        truth: The true pairs in two columns of ids.
        name: What the page calls the frame.
        right_name: What the page calls the right frame.
        show_values: Whether the page shows values of rows.
        overwrite: Whether a page that exists is replaced.

    Returns:
        The summary: how many rows, pairs and clusters there are.

    Raises:
        SimilarityError: What the shell refuses, a page that exists among it.
        TypeError, ValueError: Another argument that is wrong.
    """
    _method(method, score, largest)
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        rule_file = files / "rule.sql"
        rule_file.write_text(f"CREATE MATCHING RULE rule ON l, r AS {rule_sql(rule, 'rule')}", encoding="utf-8")
        inputs = [_write(frame, "frame", files / f"{_file_name(name, 'name')}.parquet")]
        arguments: list[Any] = ["--rule", rule_file]
        if right is None:
            command = "dedupe"
            arguments += ["--method", method]
            arguments += ["--id", id] if id is not None else []
            arguments += ["--largest", largest] if largest is not None else []
        else:
            command = "link"
            inputs.append(_write(right, "right", files / f"{_file_name(right_name, 'right_name')}.parquet"))
            arguments += ["--which", which]
            arguments += ["--left-id", id] if id is not None else []
            arguments += ["--right-id", right_id] if right_id is not None else []
        if score is not None:
            arguments += ["--score", with_aliases(condition_sql(score, "score"), "a", "b")]
        if truth is not None:
            arguments += ["--truth", _write(truth, "truth", files / "truth.parquet")]
        arguments += ["--report", os.path.abspath(os.fspath(path)), "--out", files / "result.parquet"]
        arguments += ["--show-values"] * show_values + ["--overwrite"] * overwrite
        return _run([command, *inputs, *arguments])


def _run(arguments: list[Any]) -> str:
    """Runs a command of the shell, and returns what it has said last.

    A process of its own is ended by Ctrl-C, and what it prints is its own.
    """
    command = [sys.executable, "-m", "datafusion_similarity", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise _core.SimilarityError(said.removeprefix("Error: "))
    return said.splitlines()[-1].rpartition("; ")[0] if said else ""


def _write(frame: Frame, argument: str, path: pathlib.Path) -> pathlib.Path:
    session = _core.Session()
    session.register(identifier(argument), stream_of(frame, argument))
    session.sql(f"COPY (SELECT * FROM {identifier(argument)}) TO {text(str(path))} STORED AS PARQUET").collect()
    return path


def _file_name(name: str, argument: str) -> str:
    if not isinstance(name, str) or not name or pathlib.PurePath(name).name != name or name == "truth":
        raise ValueError(f"{argument}={name!r} names a file, so it has no separators of folders")
    return name

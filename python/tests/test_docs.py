"""Everything that documents show runs: docstrings, pages of the book, the notebook. The types are right, too."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import REPOSITORY

import datafusion_similarity

PAGES = [*sorted((REPOSITORY / "docs/src/python").glob("*.md")), REPOSITORY / "python/README.md"]
MODULES = sorted(
    f"datafusion_similarity.{module.name}"
    for module in pkgutil.iter_modules(datafusion_similarity.__path__)
    if module.name not in ("_core", "__main__")
)


@pytest.mark.parametrize("name", ["datafusion_similarity", *MODULES])
def test_docstrings(name: str) -> None:
    pytest.importorskip("polars")
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, verbose=False)
    assert failed == 0


def test_some_docstrings_have_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) > 50


def test_public_names_are_documented() -> None:
    for name in datafusion_similarity.__all__:
        if name not in ("l", "r", "__version__", "DATAFUSION_VERSION"):
            assert getattr(datafusion_similarity, name).__doc__, name
    for name, function in vars(datafusion_similarity.measures).items():
        if callable(function) and not name.startswith("_") and name not in ("apply", "Any"):
            assert ">>>" in function.__doc__, name


BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Libraries that people come from, which need not be there.
PEERS = {"dedupe", "py_stringmatching", "py_stringsimjoin", "rapidfuzz", "recordlinkage", "splink"}


def blocks(page: pathlib.Path) -> list[tuple[str, str, str | None]]:
    """The Python of a page, and what it prints if the page says so."""
    found = [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    outputs = [text if kind == "text" else None for kind, text in found[1:]] + [None]
    return [
        (f"{page.name}, block {at}", code, output)
        for at, ((kind, code), output) in enumerate(zip(found, outputs, strict=True), 1)
        if kind == "python"
    ]


def peers_in(nodes: list[ast.AST]) -> set[str]:
    """The other libraries that code imports."""
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return PEERS & {name.partition(".")[0] for name in names}


def names_in(nodes: list[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """The names that code reads or sets; what it imports is set, too."""
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) and context is ast.Store]
    return names | {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(library)
    monkeypatch.chdir(REPOSITORY)
    names: dict[str, object] = {"__name__": page.stem}
    absent: set[str] = set()
    unset: set[str] = set()
    ran = 0
    for place, code, output in blocks(page):
        nodes = list(ast.walk(ast.parse(code)))
        missing = {library for library in peers_in(nodes) if importlib.util.find_spec(library) is None}
        absent |= missing
        # what needs the result of a block that has not run does not run either
        if missing or names_in(nodes, ast.Load) & unset:
            unset |= names_in(nodes, ast.Store)
            continue
        unset -= names_in(nodes, ast.Store)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, place, "exec"), names)
        if output is not None:
            assert printed.getvalue() == output, place
        ran += 1
    assert ran > 0
    if absent:
        pytest.skip(f"all blocks ran but those of {', '.join(sorted(absent))}")


def test_the_notebook(tmp_path: pathlib.Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    path = REPOSITORY / "python/examples/companies.ipynb"
    notebook = nbformat.read(path, as_version=4)
    shown = [cell.get("outputs") for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    for before, cell in zip(shown, notebook.cells, strict=True):
        if cell.cell_type == "code":
            assert printed(cell.outputs) == printed(before)


def printed(outputs: list[dict]) -> str:
    """The text of the outputs of a cell of a notebook, without what libraries warn of."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in outputs
        if output.get("name") != "stderr"
    ]
    return "".join(texts)


def test_types(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    # a copy, as mypy checks nothing that is installed
    package = tmp_path / "datafusion_similarity"
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(pathlib.Path(datafusion_similarity.__file__).parent, package, ignore=ignored)
    user = tmp_path / "user.py"
    user.write_text(
        textwrap.dedent(
            """
            from datafusion_similarity import Query, Session, SimilarityError, dedupe, fuzzy_join, l, nearest, r
            from datafusion_similarity.measures import levenshtein

            session: Session = Session({"similarity.engine": "cpu"})
            query: Query = session.sql("SELECT 1")
            columns: list[str] = query.columns
            fuzzy_join(query, query, (levenshtein(l.a, r.a) <= 2) & (l.b == r.b), how="left", to="pandas")
            dedupe(query, [l.a == r.a, "l.b = r.b"], method="split", score=l.a * 2.0, largest=3)
            error: type[Exception] = SimilarityError
            fuzzy_join(query, query, l.a == r.a, how="diagonal")  # type: ignore[arg-type]
            nearest(query, query, 3)  # type: ignore[arg-type]
            """
        )
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--ignore-missing-imports",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    environment = {**os.environ, "MYPYPATH": str(package.parent)}
    done = subprocess.run(
        [*command, str(package), str(user)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_what_the_core_has() -> None:
    core = importlib.import_module("datafusion_similarity._core")
    stub = (pathlib.Path(datafusion_similarity.__file__).parent / "_core.pyi").read_text()
    declared = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", stub, re.MULTILINE))
    named = {first or second for first, second in declared}
    public = {name for name in dir(core) if not name.startswith("__") or name == "__version__"}
    assert public <= named
    for owner in ("Session", "Query"):
        body = stub.split(f"class {owner}", 1)[1].split("@final")[0]
        methods = {name for name in dir(getattr(core, owner)) if not name.startswith("_") or "arrow" in name}
        assert methods == {name for name in re.findall(r"def (\w+)\(", body) if name != "__new__"}

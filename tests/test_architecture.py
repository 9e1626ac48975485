"""The order of the rooms, and what may never be in them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dvisr

PACKAGE = Path(dvisr.__file__).parent
ROOT = PACKAGE.parent.parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def rooms() -> list[str]:
    """The first column of the table in docs/design.md, from top to bottom."""
    listed = []
    for line in (ROOT / "docs" / "design.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 3 and cells[1].startswith("`") and cells[0] == "":
            names = [name.strip().strip("`").rstrip("/") for name in cells[1].split(",")]
            listed += names
        elif listed:
            break
    return listed


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "dvisr":
                found |= {alias.name for alias in node.names}
            elif node.module.startswith("dvisr."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("dvisr.")}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return found


def test_tests_mirror_the_rooms() -> None:
    """A folder or files of tests for each room that has any, by its name."""
    names = {room.removesuffix("s") for room in rooms()} | set(rooms())
    tests = ROOT / "tests"
    folders = {path.name for path in tests.iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(rooms()), folders - set(rooms())
    across = {
        "architecture",
        "benchmarks",
        "docstrings",
        "extending",
        "notebooks",
        "pages",
        "readme",
    }
    for path in tests.glob("test_*.py"):
        name = path.stem.removeprefix("test_")
        assert name in across or any(name.startswith(room) for room in names), path.name


def test_the_list_names_every_room_once() -> None:
    listed = rooms()
    assert len(listed) == len(set(listed)) > 15
    existing = {room_of(path) for path in MODULES} - {"__init__"}
    assert existing <= set(listed), existing - set(listed)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    order = {name: place for place, name in enumerate(rooms())}
    for imported in imports(path) - {room}:
        assert order[imported] < order[room], f"{room} must not import {imported}"


BANNED = {"eval", "exec", "compile", "__import__", "sympify", "parse_expr", "lambdify"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_executes_text_or_unpickles(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            is_regex = name == "compile" and isinstance(called, ast.Attribute)
            assert name not in BANNED or is_regex, f"{path}:{node.lineno} calls {name}"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def lines_of_inner(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of the functions that a function makes: each is measured by itself."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in function.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_stay_small_enough_to_see(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            documentation = (ast.get_docstring(node, clean=False) or "").count("\n")
            lines = node.end_lineno - node.lineno + 1 - documentation - lines_of_inner(node)
            assert lines <= 70, f"{path}:{node.lineno} {node.name}"


def test_importing_changes_no_setting_and_compiles_nothing() -> None:
    code = """
import jax, warnings
before = dict(jax.config.values)
import logging
jax.config.update("jax_log_compiles", True)
records = []
handler = logging.Handler()
handler.emit = lambda record: records.append(record.getMessage())
logging.getLogger("jax").addHandler(handler)
before = dict(jax.config.values)
import numpy
errors = numpy.geterr()
import dvisr, dvisr.cli, dvisr.constraints.masking, dvisr.evaluation.device
assert dict(jax.config.values) == before
assert numpy.geterr() == errors
assert not [text for text in records if "ompil" in text], records
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "room", ["policy", "sampling", "objective", "optim", "training", "recipes"]
)
def test_training_does_not_reach_the_oracle(room: str) -> None:
    for path in MODULES:
        if room_of(path) == room:
            assert "exact" not in imports(path), path


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if room_of(path) in ("checks", "fitting", "posterior", "estimator")],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_what_all_readers_see_names_no_option_of_the_command(path: Path) -> None:
    """Of a sentence that is read in Python too: `noise`, not `--noise`. Docstrings aside."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_shown = id(node) not in docstrings
            assert not (is_shown and re.search(r"(^|\W)--[a-z]", node.value)), node.value

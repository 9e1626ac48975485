"""The Python text of a formula computes what the formula does, and holds nothing of its columns'
names that Python would obey."""

from __future__ import annotations

import ast
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.evaluation import evaluate
from dvisr.expression import parse, python_arguments, python_source
from dvisr.library import OPERATORS, Library, new_operator
from tests import strategies

X = np.array([[0.7, -1.3], [2.1, 0.4], [1.0, 3.0], [0.2, 0.0]])
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


def imported(source: str, folder: Path) -> ModuleType:
    name = f"formula_{next(NUMBERS)}"
    path = folder / f"{name}.py"
    path.write_text("import numpy as np\n\n\n" + source + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_it_computes_the_same(data: st.DataObject, folder: Path) -> None:
    # A cube is rounded otherwise than three factors, and a sine of 1e20 shows it.
    operators = [name for name in OPERATORS if name != "cube"]
    library = Library.create([*operators, "2", "-1", "pi"], ["x", "x y"], constants=True)
    expression = data.draw(strategies.expressions(library))
    number = st.sampled_from([-3.5, -0.25, 0.75, 6.5, 0.1])
    expression = expression.with_constants(
        [data.draw(number) for _ in range(expression.num_constants)]
    )
    function = imported(python_source(expression, "formula"), folder).formula
    values, defined = evaluate(expression, X)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(function(X[:, 0], X[:, 1]), len(X))
    defined = np.broadcast_to(defined, len(X))
    np.testing.assert_allclose(
        found[defined], np.broadcast_to(values, len(X))[defined], rtol=1e-9, atol=1e-12
    )


def test_cubes(folder: Path) -> None:
    library = Library.create(["cube", "-", "*"], ["x", "x y"], constants=True)
    expression = parse("cube(x) * c - cube(`x y` - c)", library).with_constants([-0.5, 2.0])
    function = imported(python_source(expression, "formula"), folder).formula
    expected = -0.5 * X[:, 0] ** 3 - (X[:, 1] - 2.0) ** 3
    np.testing.assert_allclose(function(X[:, 0], X[:, 1]), expected)


HOSTILE = ["__import__('os')", "x\n    import os", "lambda", "np", "x y", "=cmd()", '"""', "__a__"]


def test_names_of_columns_are_never_code() -> None:
    library = Library.create(["+"], HOSTILE)
    text = "`np` + `x y` + lambda + `=cmd()`"
    expression = parse(text, library).with_constants([])
    arguments = python_arguments(expression)
    assert [name for _, name in arguments] == HOSTILE
    assert len({argument for argument, _ in arguments}) == len(HOSTILE)
    (function,) = ast.parse(python_source(expression, "formula")).body
    assert isinstance(function, ast.FunctionDef)
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert names == {"np", "column_2", "np_", "column_4", "column_5"}


def test_what_has_no_python_text() -> None:
    own = new_operator("bell", 1, lambda np, x: np.exp(-x * x))
    expression = parse("bell(x)", Library.create([own], ["x"]))
    with pytest.raises(ValueError, match="'bell' is code of your own"):
        python_source(expression, "formula")
    with pytest.raises(ValueError, match="need values"):
        python_source(parse("x * c", Library.create(["*"], ["x"], constants=True)), "formula")

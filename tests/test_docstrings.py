"""Docstrings: examples give what they say, and every parameter of what users call is described."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest

import dvisr
from dvisr import DVISRRegressor, compare, exact_posterior, load

ROOMS = ["checks", "comparing", "estimator", "exact", "noise", "posterior", "settings"]
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(dvisr.__path__, "dvisr.")
    if name.split(".")[1] in ROOMS
)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner()
    for found in finder.find(module, name):
        runner.run(found)
    assert runner.summarize(verbose=False).failed == 0


def test_what_users_call_has_examples() -> None:
    for thing in (
        DVISRRegressor,
        compare,
        exact_posterior,
        dvisr.FitSettings,
        dvisr.checks.Verdict,
    ):
        assert ">>>" in (inspect.getdoc(thing) or ""), thing


def documented(thing: Any) -> list[str]:
    """The names in the section Parameters; one line may hold several."""
    text = inspect.getdoc(thing) or ""
    section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    lines = [line for line in section.splitlines() if not line.startswith(" ")]
    assert all(re.match(r"[\w, ]+ : \S", line) for line in lines), lines
    return [name.strip() for line in lines for name in line.split(" : ")[0].split(",")]


def parameters(thing: Any) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name != "self"
    ]


@pytest.mark.parametrize(
    "thing", [DVISRRegressor, DVISRRegressor.fit, compare, exact_posterior, load]
)
def test_parameters_are_described(thing: Any) -> None:
    assert documented(thing) == parameters(thing)


def test_defaults_of_the_estimator_are_as_described() -> None:
    text = inspect.getdoc(DVISRRegressor) or ""
    for parameter in inspect.signature(DVISRRegressor).parameters.values():
        shown = re.search(rf"^{parameter.name} : .*default=(.+)$", text, flags=re.MULTILINE)
        assert shown is not None, parameter.name
        default = repr(parameter.default).replace("'", '"')
        assert re.sub(r" +", " ", shown.group(1)) == default  # it may go over two lines


METHODS = [
    name
    for name, _ in inspect.getmembers(DVISRRegressor, inspect.isfunction)
    if not name.startswith("_") and "dvisr" in getattr(DVISRRegressor, name).__module__
]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "latex"])
def test_methods_have_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(DVISRRegressor, name))


def test_attributes_are_described() -> None:
    import numpy as np

    x = np.linspace(1.0, 2.0, 8)
    model = DVISRRegressor(operators=("+",), max_tokens=3, random_state=0)
    model.fit(x[:, None], 2.0 * x + 0.01 * np.cos(9.0 * x))
    section = (inspect.getdoc(DVISRRegressor) or "").split("Attributes\n----------\n")[1]
    described = set(re.findall(r"\b\w+_\b", section.split("Examples")[0]))
    kept = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert kept <= described

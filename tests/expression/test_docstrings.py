"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "dvisr.library.tokens",
    "dvisr.library.collection",
    "dvisr.expression.canonical",
    "dvisr.expression.parsing",
    "dvisr.expression.printing",
    "dvisr.expression.python_source",
    "dvisr.expression.symbolic",
    "dvisr.expression.tree",
    "dvisr.noise",
    "dvisr.noise.gaussian",
    "dvisr.noise.relative",
    "dvisr.noise.student",
    "dvisr.settings",
    "dvisr.exact",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
    assert results.attempted > 0

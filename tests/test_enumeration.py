"""The list of all legal trees against brute force; with rules, in constraints/test_grammar.py."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr import enumeration
from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from tests import reference

LIBRARY = Library.create(["+", "-", "sin"], ["x", "y"], constants=True)


@pytest.mark.parametrize("max_tokens", [1, 2, 5])
def test_every_tree_once_by_size_and_then_by_tokens(max_tokens: int) -> None:
    trees = enumerate_trees(Grammar(LIBRARY, max_tokens, "none"))
    assert trees.dtype == np.int8
    assert trees.shape[1] == max_tokens
    everything = [reference.prefix(tree) for tree in reference.all_trees(LIBRARY, max_tokens)]
    rows = [tuple(row) + (-1,) * (max_tokens - len(row)) for row in everything]
    ordered = sorted(rows, key=lambda row: (sum(token >= 0 for token in row), row))
    assert [tuple(row) for row in trees.tolist()] == ordered


def test_too_many_trees_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = Grammar(LIBRARY, 4)
    count = count_trees(grammar)
    monkeypatch.setattr(enumeration, "MAX_TREES", count)
    assert len(enumerate_trees(grammar)) == count
    monkeypatch.setattr(enumeration, "MAX_TREES", count - 1)
    with pytest.raises(ValueError, match=f"there are {count:,} expressions.*lower max_tokens"):
        enumerate_trees(grammar)

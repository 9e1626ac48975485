"""Legality on the host against the enumeration and against the mask under jit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dvisr.constraints import Constraints, Grammar, masking
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.search.legality import Legality
from tests import strategies

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "none": (["+", "sin"], ["x", "y"], True, 5, "none"),
    "paper": (["+", "*", "cos"], ["x0"], True, 5, "paper"),
    "default": (["-", "*", "exp", "log"], ["a", "b"], True, 5, "default"),
    "max-constants": (["+", "*", "sin"], ["x"], True, 6, ["default", "max-constants=1"]),
    "max-depth": (["exp", "log", "+", "2"], ["x"], True, 6, ["no-inverse", "max-depth=3"]),
    "counts": (["+", "^"], ["x", "y"], False, 7, ["min-tokens=3", "max-repeats:x=2"]),
    "leaves": ([], ["x", "y"], True, 3, "none"),
}


def made(name: str) -> Grammar:
    operators, variables, constants, size, constraints = CASES[name]
    library = Library.create(operators, variables, constants=constants)
    return Grammar(library, size, constraints)


def rows(trees: np.ndarray) -> set[bytes]:
    return {tree.tobytes() for tree in trees}


@pytest.mark.parametrize("name", CASES)
def test_the_legal_trees_are_those_of_the_enumeration(name: str) -> None:
    grammar = made(name)
    every, legal = enumerate_trees(grammar.unconstrained), rows(enumerate_trees(grammar))
    found = Legality(grammar)(every)
    assert found.tolist() == [tree.tobytes() in legal for tree in every]
    assert found.sum() == len(legal)
    assert name in ("none", "leaves") or not found.all()


@settings(max_examples=60)
@given(data=st.data())
def test_any_rules(data: st.DataObject) -> None:
    library = data.draw(strategies.small_libraries())
    rules = data.draw(st.lists(strategies.checked_rules(library), max_size=4))
    try:
        grammar = Grammar(library, 4, [checked.rule for checked in rules])
    except ValueError:
        assume(False)
    every, legal = enumerate_trees(grammar.unconstrained), rows(enumerate_trees(grammar))
    assert Legality(grammar)(every).tolist() == [tree.tobytes() in legal for tree in every]


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_the_mask_on_any_row(name: str) -> None:
    """Rows of noise, and legal trees in which one or two tokens are replaced by noise."""
    grammar = made(name)
    rng = np.random.default_rng(7)
    num_tokens, size = len(grammar.library), grammar.max_tokens
    noise = rng.integers(-2, num_tokens + 2, (3000, size)).astype(np.int8)
    spoilt = rng.permutation(np.resize(enumerate_trees(grammar), (3000, size)))
    for _ in range(2):
        places = rng.integers(0, size, 3000)
        spoilt[np.arange(3000), places] = rng.integers(-2, num_tokens + 1, 3000)
    tried = np.concatenate([noise, spoilt])
    check = jax.jit(jax.vmap(masking.is_allowed, (None, 0)))
    expected = np.asarray(check(masking.make_mask(grammar), jnp.asarray(tried, jnp.int32)))
    np.testing.assert_array_equal(Legality(grammar)(tried), expected)
    assert 0 < expected.sum() < len(tried)


def test_corrupted_rows_are_refused() -> None:
    grammar = made("default")
    is_legal, num_tokens = Legality(grammar), len(grammar.library)
    trees = enumerate_trees(grammar)
    lengths = (trees >= 0).sum(axis=1)
    lines = np.arange(len(trees))
    cut = trees.copy()
    cut[lines, lengths - 1] = -1
    assert not is_legal(cut).any()
    for stranger in (-2, -128, num_tokens, 127):
        strange = trees.copy()
        strange[lines, lines % lengths] = stranger
        assert not is_legal(strange).any()
    short = lengths < grammar.max_tokens
    for more in (-2, 0, num_tokens - 1, 127):
        longer = trees[short].copy()
        longer[np.arange(len(longer)), lengths[short]] = more
        assert not is_legal(longer).any()
        longer[np.arange(len(longer)), lengths[short]] = -1
        assert is_legal(longer).all()


def test_rows_may_be_longer_than_trees() -> None:
    grammar = made("max-constants")
    trees = enumerate_trees(grammar)
    padded = np.pad(trees, ((0, 0), (0, 4)), constant_values=-1)
    assert Legality(grammar)(padded).all()
    assert Legality(grammar)(np.asfortranarray(padded)).all()
    assert Legality(grammar)(trees[:0]).shape == (0,)


def test_other_types_are_refused() -> None:
    is_legal = Legality(made("paper"))
    with pytest.raises(ValueError, match="tokens must be int8"):
        is_legal(np.zeros((2, 5), dtype=np.int64))
    with pytest.raises(ValueError, match=r"not int8 of \(5,\)"):
        is_legal(np.zeros(5, dtype=np.int8))

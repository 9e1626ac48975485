"""Refinements against brute force: every legal one of a tree, and nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dvisr.constraints import Constraints, Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import tree_prior
from dvisr.search.legality import Legality
from dvisr.search.likeliest import of_subtrees
from dvisr.search.refining import Refiner
from dvisr.settings import SearchSettings
from tests import reference

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "none": (["+", "sin"], ["x", "y"], False, 5, "none"),
    "paper": (["+", "*", "cos"], ["x0"], True, 5, "paper"),
    "default": (["-", "*", "exp"], ["a"], True, 6, "default"),
    "max-constants": (["+", "*", "sin"], ["x"], True, 6, ["default", "max-constants=1"]),
    "max-depth": (["exp", "log", "+", "2"], ["x"], True, 6, ["no-inverse", "max-depth=3"]),
    "tiny": (["+"], ["x"], True, 2, "none"),
}

QUICK = SearchSettings(small_tokens=3)


def made(name: str) -> Grammar:
    operators, variables, constants, size, constraints = CASES[name]
    library = Library.create(operators, variables, constants=constants)
    return Grammar(library, size, constraints)


def refiner_of(grammar: Grammar) -> Refiner:
    return Refiner(grammar, tree_prior("science", grammar), QUICK)


def places(tree: reference.Tree) -> list[tuple[int, ...]]:
    """The way down to every subtree."""
    own: list[tuple[int, ...]] = [()]
    for number, operand in enumerate(tree[1:], 1):
        own += [(number, *rest) for rest in places(operand)]
    return own


def at(tree: reference.Tree, place: tuple[int, ...]) -> reference.Tree:
    return at(tree[place[0]], place[1:]) if place else tree


def with_new(tree: reference.Tree, place: tuple[int, ...], new: reference.Tree) -> reference.Tree:
    if not place:
        return new
    operands = list(tree)
    operands[place[0]] = with_new(tree[place[0]], place[1:], new)
    return tuple(operands)


def brute_force(tree: reference.Tree, grammar: Grammar) -> set[bytes]:
    """Rows of all trees that one replacement of a constant by a small tree of more than one token
    makes of a tree; legal or not."""
    library, length = grammar.library, grammar.max_tokens
    size = min(QUICK.small_tokens, length)
    small = [
        reference.nested(library, tuple(int(token) for token in row if token >= 0))
        for row in enumerate_trees(of_subtrees(grammar, tree_prior("science", grammar), size)[0])
        if (row >= 0).sum() > 1
    ]
    found = set()
    for place in places(tree):
        if at(tree, place) != (library.constant_id,):
            continue
        for new in small:
            tokens = reference.prefix(with_new(tree, place, new))
            if len(tokens) <= length:
                row = np.full(length, -1, dtype=np.int8)
                row[: len(tokens)] = tokens
                found.add(row.tobytes())
    return found


@pytest.mark.parametrize("name", CASES)
def test_refinements_are_all_that_are_legal(name: str) -> None:
    grammar = made(name)
    trees = enumerate_trees(grammar)
    legal = {tree.tobytes() for tree in trees}
    every = dataclasses.replace(QUICK, most_small=100_000, most_refinements=100_000)
    refiner = Refiner(grammar, tree_prior("science", grammar), every)
    rng, count = np.random.default_rng(0), 0
    for row in trees[:: max(1, len(trees) // 60)]:
        tree = reference.nested(grammar.library, tuple(int(token) for token in row if token >= 0))
        found = refiner.refinements(row, rng)
        assert found.dtype == np.int8
        assert found.shape[1:] == (grammar.max_tokens,)
        assert Legality(grammar)(found).all()
        expected = brute_force(tree, grammar) & legal
        assert {other.tobytes() for other in found} == expected - {row.tobytes()}
        count += len(found)
    assert (count > 0) == (grammar.library.constant_id >= 0 and grammar.max_tokens > 2)


def test_of_too_many_refinements_a_random_part_is_taken() -> None:
    library = Library.create(
        ["+", "-", "*", "/", "sin", "exp"], [f"x{i}" for i in range(9)], constants=True
    )
    grammar = Grammar(library, 11, "default")
    plus, constant = library.find("+"), library.constant_id
    assert plus is not None
    tokens = [plus, plus, library.find("x0"), library.find("x1"), constant]
    row = np.array([*tokens, *[-1] * 6], dtype=np.int8)
    few = dataclasses.replace(QUICK, most_refinements=50)
    refiner = Refiner(grammar, tree_prior("science", grammar), few)
    one = refiner.refinements(row, np.random.default_rng(0))
    assert len(one) == 50
    assert Legality(grammar)(one).all()
    np.testing.assert_array_equal(one, refiner.refinements(row, np.random.default_rng(0)))
    two = refiner.refinements(row, np.random.default_rng(1))
    assert {bytes(tree) for tree in one} != {bytes(tree) for tree in two}
    nested = reference.nested(library, tuple(int(token) for token in row if token >= 0))
    assert {bytes(tree) for tree in (*one, *two)} <= brute_force(nested, grammar)


def test_columns_for_constants_are_every_one_that_is_legal() -> None:
    library = Library.create(["+", "*", "/"], ["a", "b"], constants=True)
    grammar = Grammar(library, 5, "default")
    legal = {tree.tobytes() for tree in enumerate_trees(grammar)}
    refiner, constant = refiner_of(grammar), library.constant_id
    columns, count = np.array([library.find("a"), library.find("b")]), 0
    for row in enumerate_trees(grammar)[::3]:
        expected = set()
        for place in np.flatnonzero(row == constant):
            for column in columns:
                other = row.copy()
                other[place] = column
                expected.add(other.tobytes())
        found = {tree.tobytes() for tree in refiner.with_columns(row, columns)}
        assert found == expected & legal
        count += len(found)
    assert count > 100

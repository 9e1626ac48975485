"""Contexts inverted on data: what they ask of the hole gives the data back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.expression import parse
from dvisr.library import OPERATORS, Library, new_operator
from dvisr.prior import tree_prior
from dvisr.search.from_prior import PriorSampler
from dvisr.search.inverting import Tree

LIBRARY = Library.create([*OPERATORS, "1", "2", "pi"], ["x", "z"], constants=True)
X = np.random.default_rng(0).uniform(0.3, 1.4, (12, 2))


def with_hole_held(
    tree: Tree, hole: int, held: np.ndarray, tokens: np.ndarray, constants: Sequence[float]
) -> np.ndarray:
    """The tree's values with those of the subtree at a position replaced, from the leaves up."""
    values: list[Any] = list(tree.values)
    values[hole] = held
    for position in range(len(tokens) - 1, -1, -1):
        token = LIBRARY[int(tokens[position])]
        if position == hole or token.is_leaf or not position < hole < tree.ends[position]:
            continue
        operands, place = [], position + 1
        for _ in range(token.arity):
            operands.append(values[place])
            place = tree.ends[place]
        assert token.function is not None
        with np.errstate(all="ignore"):
            values[position] = token.function(np, *operands)
    found: np.ndarray = np.broadcast_to(values[0], len(X))
    return found


def trees() -> list[tuple[np.ndarray, list[float]]]:
    grammar = Grammar(LIBRARY, 11, "none")
    rng = np.random.default_rng(1)
    drawn = PriorSampler(grammar, tree_prior("science", grammar)).draw(400, rng)
    found = []
    for row in drawn:
        tokens = row[row >= 0]
        count = int((tokens == LIBRARY.constant_id).sum())
        found.append((tokens, rng.uniform(0.5, 2.0, count).tolist()))
    return found


def test_what_is_required_gives_the_data_back() -> None:
    checked, slopes_checked = 0, 0
    for tokens, constants in trees():
        tree = Tree(LIBRARY, tokens, X, constants)
        y = np.broadcast_to(np.asarray(tree.values[0], dtype=float), len(X)) * 1.01
        for hole in range(len(tokens)):
            found = tree.required(hole, y)
            assert found is not None
            target, slope = found
            again = with_hole_held(tree, hole, target, tokens, constants)
            known = np.isfinite(target) & np.isfinite(again) & np.isfinite(slope)
            known &= (np.abs(slope) > 1e-3) & (np.abs(slope) < 1e3) & (np.abs(target) < 1e6)
            np.testing.assert_allclose(again[known], y[known], rtol=1e-8, atol=1e-8)
            checked += int(known.sum())
            step = 1e-6 * np.maximum(1.0, np.abs(target))
            above = with_hole_held(tree, hole, target + step, tokens, constants)
            below = with_hole_held(tree, hole, target - step, tokens, constants)
            with np.errstate(all="ignore"):
                expected = (above - below) / (2.0 * step)
            smooth = (
                known & np.isfinite(expected) & (np.abs(target) < 1e2) & (np.abs(target) > 1e-2)
            )
            np.testing.assert_allclose(slope[smooth], expected[smooth], rtol=2e-3, atol=2e-3)
            slopes_checked += int(smooth.sum())
    assert checked > 5_000
    assert slopes_checked > 3_000


@pytest.mark.parametrize("name", [name for name, token in OPERATORS.items() if token.arity == 1])
def test_every_unary_operator_is_undone(name: str) -> None:
    tokens = parse("-(x)" if name == "neg" else f"{name}(x)", LIBRARY).tokens
    tree = Tree(LIBRARY, tokens, X, [])
    found = tree.required(1, np.asarray(tree.values[0]))
    assert found is not None
    np.testing.assert_allclose(found[0], X[:, 0], rtol=1e-9)


@pytest.mark.parametrize("name", [name for name, token in OPERATORS.items() if token.arity == 2])
@pytest.mark.parametrize("hole", [1, 2])
def test_every_binary_operator_is_undone(name: str, hole: int) -> None:
    tokens = parse(f"x {name} z", LIBRARY).tokens
    tree = Tree(LIBRARY, tokens, X, [])
    found = tree.required(hole, np.asarray(tree.values[0]))
    assert found is not None
    np.testing.assert_allclose(found[0], X[:, hole - 1], rtol=1e-9)


def test_an_operator_of_ones_own_is_not_undone() -> None:
    doubled = new_operator("doubled", 1, lambda np, x: 2.0 * x)
    library = Library.create(["+", doubled], ["x"])
    tree = Tree(library, parse("doubled(x) + x", library).tokens, X, [])
    assert tree.required(2, np.ones(len(X))) is None
    found = tree.required(1, np.ones(len(X)))
    assert found is not None
    np.testing.assert_allclose(found[0], 1.0 - X[:, 0])

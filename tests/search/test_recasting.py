"""A function with its constants elsewhere is the same function."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.library import Library
from dvisr.prior import size_balanced
from dvisr.search.from_prior import PriorSampler
from dvisr.search.legality import Legality
from dvisr.search.recasting import Recasting

OPERATORS = ("+", "-", "*", "/", "^", "exp", "log", "cos", "square", "1", "2")
LIBRARY = Library.create(OPERATORS, ["x"], constants=True)
LENGTH = 13
GRAMMAR = Grammar(LIBRARY, LENGTH, ["default", "max-constants=4"])
RECASTING = Recasting(GRAMMAR)
IDS = {token.name: place for place, token in enumerate(LIBRARY)}
X = np.linspace(0.3, 4.0, 12)


def row(text: str) -> np.ndarray:
    """Of tokens in prefix order."""
    tokens = [IDS[name] for name in text.split()]
    return np.array(tokens + [-1] * (LENGTH - len(tokens)), dtype=np.int8)


def values_of(tree: np.ndarray, constants: np.ndarray) -> np.ndarray:
    expression = Expression(LIBRARY, tuple(int(token) for token in tree if token >= 0))
    assert np.isfinite(constants[: expression.num_constants]).all()
    own = list(constants[: expression.num_constants])
    values, defined = evaluate(expression, X[:, None], own)
    return np.where(defined, np.broadcast_to(values, X.shape), np.nan)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("+ * x c / c x", "* + x / c x c"),
        ("+ * x c / c x", "* + * x c / 1 x c"),
        ("* + x / c x c", "+ * x c / c x"),
        ("/ 1 + * x c / c x", "/ c + x / c x"),
        ("/ c + x / c x", "/ 1 + * x c / c x"),
        ("/ * x c + c * x c", "/ * x c + 1 * x c"),
        ("* / x + x c c", "/ * x c + x c"),
        ("/ ^ x c + 1 x", "/ * x ^ x c + 1 x"),
        ("* x ^ x c", "^ x c"),
        ("/ ^ x c x", "^ x c"),
        ("^ c x", "exp * x c"),
        ("exp * x c", "^ c x"),
        ("* exp x c", "exp + x c"),
        ("exp - x c", "* exp x c"),
        ("* x c", "/ x c"),
        ("- x c", "+ x c"),
    ],
)
def test_what_is_expected_of_a_form(tree: str, expected: str) -> None:
    count = tree.split().count("c")
    rows, starts = RECASTING.of_tree(row(tree), np.array([1.7, 0.6, 2.3])[:count])
    same = np.flatnonzero((rows == row(expected)).all(axis=1))
    assert len(same) == 1
    found = values_of(rows[same[0]], starts[same[0], 0])
    np.testing.assert_allclose(found, values_of(row(tree), np.array([1.7, 0.6, 2.3])), rtol=1e-9)


def test_every_tree_is_legal_and_the_same_function() -> None:
    trees = PriorSampler(GRAMMAR, size_balanced(GRAMMAR)).draw(2_000, np.random.default_rng(3))
    rng, legality, made = np.random.default_rng(0), Legality(GRAMMAR), 0
    for tree in np.unique(trees, axis=0):
        count = int((tree == LIBRARY.constant_id).sum())
        constants = rng.uniform(0.2, 3.0, count) * rng.choice([-1.0, 1.0], count)
        with np.errstate(all="ignore"):
            expected = values_of(tree, constants)
            # Where rounding makes a difference, as in the cosine of a large number, it may.
            is_stable = np.abs(values_of(tree, constants * (1.0 + 1e-12)) - expected) < 1e-8
            rows, starts = RECASTING.of_tree(tree, constants)
            assert legality(rows).all()
            assert len(np.unique(rows, axis=0)) == len(rows)
            assert not (rows == tree).all(axis=1).any()
            for other, start in zip(rows, starts, strict=True):
                found = values_of(other, start[0])
                np.testing.assert_allclose(
                    found[is_stable], expected[is_stable], rtol=1e-6, atol=1e-7
                )
                made += bool(is_stable.any())
    assert made > 1_000


def test_a_library_without_a_one_does_without() -> None:
    library = Library.create(("+", "*", "/"), ["x"], constants=True)
    ids = {token.name: place for place, token in enumerate(library)}
    recasting = Recasting(Grammar(library, 7, ["default"]))

    def of(text: str) -> np.ndarray:
        tokens = [ids[name] for name in text.split()]
        return np.array(tokens + [-1] * (7 - len(tokens)), dtype=np.int8)

    rows, starts = recasting.of_tree(of("+ * x c c"), np.array([2.0, 6.0]))
    same = np.flatnonzero((rows == of("* + x c c")).all(axis=1))
    assert len(same) == 1
    assert starts[same[0], 0, :2].tolist() == [3.0, 2.0]
    assert ((rows >= 0).sum(axis=1) >= 3).all()


def test_a_library_without_products_has_none() -> None:
    library = Library.create(("+", "exp"), ["x"], constants=True)
    tree = np.array([0, library.constant_id, 2, -1, -1], dtype=np.int8)
    rows, starts = Recasting(Grammar(library, 5, ["default"])).of_tree(tree, np.array([1.0]))
    assert len(rows) == len(starts) == 0

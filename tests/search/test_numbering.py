"""Constants are written out as the numbers that they may well stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dvisr.constants import Decades, Normal
from dvisr.constraints import Grammar
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine
from dvisr.prior import science
from dvisr.search.legality import Legality
from dvisr.search.numbering import Numbering
from dvisr.settings import SearchSettings

LITERALS = ("1", "2", "3", "pi")
OPERATORS = ("+", "-", "*", "/", "sqrt", "cos", *LITERALS)
LIBRARY = Library.create(OPERATORS, ["x"], constants=True)
GRAMMAR = Grammar(LIBRARY, 11, ["default", "max-constants=3"])
NUMBERING = Numbering(GRAMMAR, science(GRAMMAR), Decades())
IDS = {token.name: place for place, token in enumerate(LIBRARY)}
X = np.linspace(0.3, 4.0, 30)


def row(text: str) -> np.ndarray:
    """Of tokens in prefix order."""
    tokens = [IDS[name] for name in text.split()]
    return np.array(tokens + [-1] * (11 - len(tokens)), dtype=np.int8)


def expression(tree: np.ndarray) -> Expression:
    return Expression(LIBRARY, tuple(int(token) for token in tree if token >= 0))


def engine_for(y: np.ndarray) -> Engine:
    noisy = y + 0.01 * np.random.default_rng(0).standard_normal(len(y))
    return Engine(LIBRARY, X[:, None], make_likelihood(noisy, "infer"), Decades())


@pytest.mark.parametrize(
    ("value", "tree", "expected"),
    [
        (2.0 * X, "* x c", "* x 2"),
        (X / 3.0, "* x c", "/ x 3"),
        (X / 3.0, "/ x c", "/ x 3"),
        (3.0 * X, "/ x c", "* x 3"),
        (X - 2.0, "+ x c", "- x 2"),
        (X + 3.0, "- x c", "+ x 3"),
        (1.5 * X, "* x c", "/ * x 3 2 | * / x 2 3"),
        (3.0 * np.pi * X, "* x c", "* * x 3 pi | * * x pi 3"),
        (3.0 * np.pi / X, "/ c x", "* / 3 x pi | * / pi x 3"),
        (np.sqrt(2.0) / X, "/ c x", "/ sqrt 2 x"),
        (X + 2.0 + np.pi, "+ x c", "+ + x 2 pi | + + x pi 2"),
        (np.pi - X, "- c x", "- pi x"),
        (0.7 * np.cos(2.0 * X), "* cos * x c c", "* cos * x 2 c"),
        (2.0 * np.cos(1.7 * X), "* cos * x c c", "* cos * x c 2"),
    ],
)
def test_the_number_that_was_meant_is_tried(value: np.ndarray, tree: str, expected: str) -> None:
    modes = engine_for(value).modes(row(tree), 24, 1e-3)
    found, starts, _ = NUMBERING.of_tree(row(tree), modes)
    made = {bytes(one): start for one, start in zip(found, starts, strict=True)}
    meant = {bytes(row(text)) for text in expected.split(" | ")}
    assert meant & set(made)
    key = min(meant & set(made))
    one = expression(np.frombuffer(key, dtype=np.int8))
    constants = made[key][0, : one.num_constants]
    values, defined = evaluate(one, X[:, None], list(constants))
    assert defined.all()
    assert np.abs(np.abs(values) - np.abs(value)).max() < 0.1  # near, or with another sign


@pytest.mark.parametrize("tree", ["* cos * x c + x c", "/ + x c - c x", "* x + c * x c"])
def test_trees_are_legal_and_have_one_constant_less(tree: str) -> None:
    engine = engine_for(2.0 * np.cos(1.5 * X) + X)
    found, starts, _ = NUMBERING.of_tree(row(tree), engine.modes(row(tree), 8, 1e-3))
    assert len(found) > 0
    assert len({bytes(one) for one in found}) == len(found)
    assert Legality(GRAMMAR)(found).all()
    count = (row(tree) == LIBRARY.constant_id).sum()
    assert ((found == LIBRARY.constant_id).sum(axis=1) == count - 1).all()
    assert (np.isfinite(starts[:, 0]).sum(axis=1) == count - 1).all()


def test_far_numbers_are_not_tried() -> None:
    """A constant that is known well stands for few numbers."""
    y = 2.0 * X
    tree = row("* x c")
    found, _, _ = NUMBERING.of_tree(tree, engine_for(y).modes(tree, 8, 1e-3))
    for one in found:
        values, _ = evaluate(expression(one), X[:, None], [])
        assert np.abs(np.abs(values) - y).max() < 0.02


def test_without_numbers_there_is_nothing_to_write() -> None:
    library = Library.create(["+", "*"], ["x"], constants=True)
    grammar = Grammar(library, 5, "none")
    engine = Engine(library, X[:, None], make_likelihood(X, "infer"), Decades())
    tree = np.array([1, 3, 2, -1, -1], dtype=np.int8)
    modes = engine.modes(tree, 8, 1e-3)
    found, starts, _ = Numbering(grammar, science(grammar), Decades()).of_tree(tree, modes)
    assert found.shape == (0, 5)
    assert len(starts) == 0


@pytest.mark.parametrize("tree", ["* x c", "* cos * x c c", "+ * x c c", "/ c + x c"])
def test_what_a_number_gains_is_foretold(tree: str) -> None:
    """No more than that, and within three standard deviations not much less."""
    engine = engine_for(2.0 * np.cos(1.5 * X) if "cos" in tree else 1.5 * X + 0.7)
    before = engine.modes(row(tree), 48, 1e-3)
    found, starts, gains = NUMBERING.of_tree(row(tree), before)
    after = engine.fit(found, starts=starts).log_marginal
    gained = after - before.log_marginal
    assert (gained < gains + 0.5).all()
    assert (gained - gains).max() > -1.0


def test_what_is_foretold_is_the_evidence_that_is_gained() -> None:
    """x 2 for x c with a normal prior and known noise: both evidences in closed form, and the gain
    is what is foretold less what the number is off."""
    y = 2.0 * X + 0.01 * np.random.default_rng(0).standard_normal(len(X))
    engine = Engine(LIBRARY, X[:, None], make_likelihood(y, 0.01), Normal())
    numbering = Numbering(GRAMMAR, science(GRAMMAR), Normal())
    found, _, gains = numbering.of_tree(row("* x c"), engine.modes(row("* x c"), 8, 1e-3))
    place = int(np.flatnonzero((found == row("* x 2")).all(axis=1))[0])
    with_two = np.sum(stats.norm.logpdf(y, 2.0 * X, 0.01))
    covariance = 0.01**2 * np.eye(len(X)) + Normal().scale ** 2 * np.outer(X, X)
    with_constant = stats.multivariate_normal.logpdf(y, np.zeros(len(X)), covariance)
    off = ((X @ y) / (X @ X) - 2.0) * np.sqrt(X @ X) / 0.01  # standard deviations
    assert with_two - with_constant == pytest.approx(gains[place] - 0.5 * off**2, abs=0.01)


def test_numbers_are_of_a_size_at_most() -> None:
    modes = engine_for(np.sqrt(2.0) / X).modes(row("/ c x"), 24, 1e-3)
    small = Numbering(GRAMMAR, science(GRAMMAR), Decades(), SearchSettings(number_tokens=1))
    for numbering, is_tried in ((NUMBERING, True), (small, False)):
        found, _, _ = numbering.of_tree(row("/ c x"), modes)
        assert (bytes(row("/ sqrt 2 x")) in {bytes(tree) for tree in found}) == is_tried

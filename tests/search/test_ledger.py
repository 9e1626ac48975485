"""The ledger against what a dictionary of trees would say."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.expression import Expression, canonical_form
from dvisr.library import Library
from dvisr.prior import TreePrior, tree_prior
from dvisr.search.forms import make_algebra
from dvisr.search.ledger import ISLANDS, Ledger

GRAMMAR = Grammar(Library.create(["+", "-", "*", "sin"], ["x", "y"], constants=True), 5, "default")
TREES = enumerate_trees(GRAMMAR)
BOTH = 2**ISLANDS - 1
PRIORS = {
    "size-balanced": tree_prior("size-balanced", GRAMMAR),
    "weights": tree_prior({"sin": 0.1, "x": 3.0, "-": 0.4}, GRAMMAR),
}


def text_of(tree: np.ndarray) -> str:
    expression = Expression(GRAMMAR.library, tuple(int(token) for token in tree if token >= 0))
    return canonical_form(expression)


TEXTS = {tree.tobytes(): text_of(tree) for tree in TREES}


def weight_of(text: str) -> float:
    """Any number that a form determines; a tenth of the forms are undefined."""
    number = sum((place + 1) * ord(letter) for place, letter in enumerate(text))
    return -math.inf if number % 10 == 0 else -(number % 97) / 7.0


class Fits:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.asked: collections.Counter[str] = collections.Counter()

    def __call__(self, trees: np.ndarray) -> np.ndarray:
        assert len(trees)
        texts = [TEXTS[tree.tobytes()] for tree in trees]
        self.asked.update(texts)
        return np.array([weight_of(text) for text in texts])


def made(prior: TreePrior = PRIORS["size-balanced"]) -> tuple[Ledger, Fits]:
    fits = Fits()
    algebra = make_algebra(GRAMMAR.library, symmetric_constants=True)
    return Ledger(GRAMMAR.max_tokens, prior, algebra, fits), fits


def check(ledger: Ledger, prior: TreePrior) -> None:
    """That every column says what its trees say."""
    trees = ledger.trees
    assert len({tree.tobytes() for tree in trees}) == len(trees)
    texts = [TEXTS[tree.tobytes()] for tree in trees]
    text_of_form: dict[int, str] = {}
    for text, form in zip(texts, ledger.tree_form.tolist(), strict=True):
        assert text_of_form.setdefault(form, text) == text
    assert sorted(text_of_form) == list(range(ledger.num_forms))
    assert len(set(text_of_form.values())) == ledger.num_forms
    log_prior = np.asarray(prior.log_prob(np, trees.astype(np.int64)))
    marginals = np.array([weight_of(text) for text in texts])
    np.testing.assert_array_equal(ledger.tree_log_prior, log_prior)
    np.testing.assert_array_equal(ledger.tree_log_joint, log_prior + marginals)
    for form, text in text_of_form.items():
        own = [place for place, other in enumerate(texts) if other == text]
        assert ledger.form_log_marginal[form] == weight_of(text)
        total = logsumexp(ledger.tree_log_joint[own])
        assert ledger.form_log_joint[form] == pytest.approx(total, abs=1e-12)
        best = ledger.form_tree[form]
        assert TEXTS[best.tobytes()] == text
        place = [tree.tobytes() for tree in trees].index(best.tobytes())
        assert log_prior[place] == log_prior[own].max()
    assert ledger.contains(trees).all()


@pytest.mark.parametrize("name", PRIORS)
def test_every_column_agrees_with_the_trees(name: str) -> None:
    ledger, fits = made(PRIORS[name])
    rng = np.random.default_rng(0)
    seen: set[bytes] = set()
    for size in (1, 7, 0, 200, 1500):
        chosen = rng.choice(len(TREES), size)  # with repeats
        numbers = ledger.visit(TREES[chosen], int(size) % ISLANDS)
        seen |= {tree.tobytes() for tree in TREES[chosen]}
        np.testing.assert_array_equal(ledger.trees[numbers], TREES[chosen])
        assert {tree.tobytes() for tree in ledger.trees} == seen
    check(ledger, PRIORS[name])
    assert ledger.num_visits == 1708
    assert set(fits.asked.values()) == {1}
    assert sum(fits.asked.values()) == ledger.num_forms
    undefined = [text for text in fits.asked if weight_of(text) == -math.inf]
    assert ledger.num_undefined == len(undefined) > 0


def test_a_form_is_fitted_once_however_often_it_is_met() -> None:
    ledger, fits = made()
    first = ledger.visit(TREES)
    assert set(fits.asked.values()) == {1}
    assert len(fits.asked) == len(set(TEXTS.values())) < len(TREES)
    before = ledger.form_log_joint.copy()
    second = ledger.visit(TREES)
    np.testing.assert_array_equal(first, second)
    assert set(fits.asked.values()) == {1}
    np.testing.assert_array_equal(ledger.form_log_joint, before)
    assert len(ledger.trees) == len(TREES)
    twice = ledger.visit(np.concatenate([TREES[:3], TREES[:3]]))
    np.testing.assert_array_equal(twice[:3], twice[3:])


def test_contains_knows_what_was_visited() -> None:
    ledger, _ = made()
    assert not ledger.contains(TREES).any()
    ledger.visit(TREES[::3])
    assert ledger.contains(TREES).tolist() == [row % 3 == 0 for row in range(len(TREES))]
    assert ledger.contains(TREES[:0]).shape == (0,)


def test_each_island_leaves_its_mark() -> None:
    ledger, _ = made()
    ledger.visit(TREES[:10], 0)
    assert ledger.tree_islands.tolist() == [1] * 10
    ledger.visit(TREES[5:15], 1)
    assert ledger.tree_islands.tolist() == [1] * 5 + [BOTH] * 5 + [2] * 5
    ledger.visit(TREES[14:16])
    assert ledger.tree_islands.tolist() == [1] * 5 + [BOTH] * 5 + [2] * 4 + [BOTH] * 2
    ledger.visit(TREES[:1], 0)
    assert ledger.tree_islands[0] == 1


def test_what_a_form_weighs_can_be_corrected() -> None:
    ledger, _ = made()
    ledger.visit(TREES)
    form = int(np.argmax(ledger.form_log_joint))
    before = ledger.form_log_joint.copy()
    own = np.flatnonzero(ledger.tree_form == form)
    trees_before = ledger.tree_log_joint.copy()
    ledger.set_log_marginal(form, float(ledger.form_log_marginal[form]) + 2.0)
    shift = np.zeros(len(before))
    shift[form] = 2.0
    np.testing.assert_allclose(ledger.form_log_joint, before + shift, atol=1e-12)
    np.testing.assert_allclose(ledger.tree_log_joint[own], trees_before[own] + 2.0, atol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("most", [1, 2, 50, 101])
def test_forgetting_keeps_the_best_and_all_stays_true(name: str, most: int) -> None:
    prior = PRIORS[name]
    ledger, fits = made(prior)
    ledger.visit(TREES[::2], 0)
    ledger.visit(TREES[1::3], 1)
    assert ledger.num_forms > most
    order = np.sort(ledger.form_log_joint)[::-1]
    marks = {tree.tobytes(): m for tree, m in zip(ledger.trees, ledger.tree_islands, strict=True)}
    ledger.forget(most)
    kept = max(1, most // 2)
    assert ledger.num_forms == kept
    np.testing.assert_array_equal(np.sort(ledger.form_log_joint)[::-1], order[:kept])
    check(ledger, prior)
    for tree, islands in zip(ledger.trees, ledger.tree_islands, strict=True):
        assert marks[tree.tobytes()] == islands
    # What was let go is visited anew, and fitted again; what stayed is not.
    stayed = {TEXTS[tree.tobytes()] for tree in ledger.trees}
    ledger.visit(TREES)
    check(ledger, prior)
    assert len(ledger.trees) == len(TREES)
    assert {fits.asked[text] for text in stayed} == {1}


def test_nothing_is_forgotten_while_there_is_room() -> None:
    ledger, _ = made()
    ledger.visit(TREES)
    before = ledger.form_log_joint.copy()
    ledger.forget(ledger.num_forms)
    np.testing.assert_array_equal(ledger.form_log_joint, before)
    check(ledger, PRIORS["size-balanced"])

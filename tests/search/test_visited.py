"""The visited trees of a search against a dictionary of trees."""

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
from dvisr.search.racing import Looks
from dvisr.search.visited import ALL_ISLANDS, NUM_ISLANDS, VisitedTrees

GRAMMAR = Grammar(Library.create(["+", "-", "*", "sin"], ["x", "y"], constants=True), 5, "default")
TREES = enumerate_trees(GRAMMAR)
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

    def __call__(self, trees: np.ndarray, log_prior: np.ndarray) -> Looks:
        assert len(trees) == len(log_prior) > 0
        texts = [TEXTS[tree.tobytes()] for tree in trees]
        self.asked.update(texts)
        found = np.array([weight_of(text) for text in texts])
        return Looks(found, found)


def made(prior: TreePrior = PRIORS["size-balanced"]) -> tuple[VisitedTrees, Fits]:
    fits = Fits()
    algebra = make_algebra(GRAMMAR.library, symmetric_constants=True)
    return VisitedTrees(GRAMMAR.max_tokens, prior, algebra, fits), fits


def check(visited: VisitedTrees, prior: TreePrior) -> None:
    """That every column says what its trees say."""
    trees = visited.trees
    assert len({tree.tobytes() for tree in trees}) == len(trees)
    texts = [TEXTS[tree.tobytes()] for tree in trees]
    text_of_form: dict[int, str] = {}
    for text, form in zip(texts, visited.tree_form.tolist(), strict=True):
        assert text_of_form.setdefault(form, text) == text
    assert sorted(text_of_form) == list(range(visited.num_forms))
    assert len(set(text_of_form.values())) == visited.num_forms
    log_prior = np.asarray(prior.log_prob(np, trees.astype(np.int64)))
    marginals = np.array([weight_of(text) for text in texts])
    np.testing.assert_array_equal(visited.tree_log_prior, log_prior)
    np.testing.assert_array_equal(visited.tree_log_joint, log_prior + marginals)
    for form, text in text_of_form.items():
        own = [place for place, other in enumerate(texts) if other == text]
        assert visited.form_log_marginal[form] == weight_of(text)
        total = logsumexp(visited.tree_log_joint[own])
        assert visited.form_log_joint[form] == pytest.approx(total, abs=1e-12)
        best = visited.form_tree[form]
        assert TEXTS[best.tobytes()] == text
        place = [tree.tobytes() for tree in trees].index(best.tobytes())
        assert log_prior[place] == log_prior[own].max()
    assert visited.contains(trees).all()


@pytest.mark.parametrize("name", PRIORS)
def test_every_column_agrees_with_the_trees(name: str) -> None:
    visited, fits = made(PRIORS[name])
    rng = np.random.default_rng(0)
    seen: set[bytes] = set()
    for size in (1, 7, 0, 200, 1500):
        chosen = rng.choice(len(TREES), size)  # with repeats
        numbers = visited.visit(TREES[chosen], [int(size) % NUM_ISLANDS])
        seen |= {tree.tobytes() for tree in TREES[chosen]}
        np.testing.assert_array_equal(visited.trees[numbers], TREES[chosen])
        assert {tree.tobytes() for tree in visited.trees} == seen
    check(visited, PRIORS[name])
    assert visited.num_visits == 1708
    assert set(fits.asked.values()) == {1}
    assert sum(fits.asked.values()) == visited.num_forms
    undefined = [text for text in fits.asked if weight_of(text) == -math.inf]
    assert visited.num_undefined == len(undefined) > 0


def test_a_form_is_fitted_once_however_often_it_is_met() -> None:
    visited, fits = made()
    first = visited.visit(TREES)
    assert set(fits.asked.values()) == {1}
    assert len(fits.asked) == len(set(TEXTS.values())) < len(TREES)
    before = visited.form_log_joint.copy()
    second = visited.visit(TREES)
    np.testing.assert_array_equal(first, second)
    assert set(fits.asked.values()) == {1}
    np.testing.assert_array_equal(visited.form_log_joint, before)
    assert len(visited.trees) == len(TREES)
    twice = visited.visit(np.concatenate([TREES[:3], TREES[:3]]))
    np.testing.assert_array_equal(twice[:3], twice[3:])


def test_contains_knows_what_was_visited() -> None:
    visited, _ = made()
    assert not visited.contains(TREES).any()
    visited.visit(TREES[::3])
    assert visited.contains(TREES).tolist() == [row % 3 == 0 for row in range(len(TREES))]
    assert visited.contains(TREES[:0]).shape == (0,)


def test_each_island_leaves_its_mark() -> None:
    visited, _ = made()
    visited.visit(TREES[:10], islands=[0])
    visited.visit(TREES[5:15], islands=[1])
    visited.visit(TREES[14:16])
    visited.visit(TREES[:1], islands=[0])
    visited.visit(TREES[9:18], islands=())
    assert len(visited.trees) == 18
    assert np.flatnonzero(visited.trees_of_island(0)).tolist() == [*range(10), 14, 15]
    assert np.flatnonzero(visited.trees_of_island(1)).tolist() == [*range(5, 16)]
    for island in ALL_ISLANDS:
        forms = set(visited.tree_form[visited.trees_of_island(island)].tolist())
        assert set(np.flatnonzero(visited.forms_of_island(island)).tolist()) == forms


def test_what_a_form_weighs_can_be_corrected() -> None:
    visited, _ = made()
    visited.visit(TREES)
    form = int(np.argmax(visited.form_log_joint))
    before = visited.form_log_joint.copy()
    own = np.flatnonzero(visited.tree_form == form)
    trees_before = visited.tree_log_joint.copy()
    visited.set_log_marginal(form, float(visited.form_log_marginal[form]) + 2.0)
    shift = np.zeros(len(before))
    shift[form] = 2.0
    np.testing.assert_allclose(visited.form_log_joint, before + shift, atol=1e-12)
    np.testing.assert_allclose(visited.tree_log_joint[own], trees_before[own] + 2.0, atol=1e-12)


def islands_by_tree(visited: VisitedTrees) -> dict[bytes, tuple[bool, ...]]:
    columns = [visited.trees_of_island(island).tolist() for island in ALL_ISLANDS]
    return dict(zip(map(bytes, visited.trees), zip(*columns, strict=True), strict=True))


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("most", [1, 2, 50, 101])
def test_dropping_keeps_the_likeliest_and_all_stays_true(name: str, most: int) -> None:
    prior = PRIORS[name]
    visited, fits = made(prior)
    visited.visit(TREES[::2], islands=[0])
    visited.visit(TREES[1::3], islands=[1])
    assert visited.num_forms > most
    order = np.sort(visited.form_log_joint)[::-1]
    before = islands_by_tree(visited)
    visited.drop_least_likely(most)
    kept = max(1, most // 2)
    assert visited.num_forms == kept
    np.testing.assert_array_equal(np.sort(visited.form_log_joint)[::-1], order[:kept])
    check(visited, prior)
    assert islands_by_tree(visited).items() <= before.items()
    # What was let go is visited anew, and fitted again; what stayed is not.
    stayed = {TEXTS[tree.tobytes()] for tree in visited.trees}
    visited.visit(TREES)
    check(visited, prior)
    assert len(visited.trees) == len(TREES)
    assert {fits.asked[text] for text in stayed} == {1}


def test_nothing_is_dropped_while_there_is_room() -> None:
    visited, _ = made()
    visited.visit(TREES)
    before = visited.form_log_joint.copy()
    visited.drop_least_likely(visited.num_forms)
    np.testing.assert_array_equal(visited.form_log_joint, before)
    check(visited, PRIORS["size-balanced"])

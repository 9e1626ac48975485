"""Whichever tree of a form a search has met, all of the form's trees count."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import science
from dvisr.search.completing import Completion
from dvisr.search.forms import forms, make_algebra
from dvisr.search.neighbours import Neighbours
from dvisr.search.racing import Looks
from dvisr.search.visited import VisitedTrees
from dvisr.settings import WeighingSettings

GRAMMAR = Grammar(Library.create(["+", "*", "sin"], ["x", "y"], constants=True), 7, "none")
ALGEBRA = make_algebra(GRAMMAR.library, symmetric_constants=True)
TREES = enumerate_trees(GRAMMAR)
PRIOR = science(GRAMMAR)
KEYS = forms(TREES, ALGEBRA)


def visited_with(start: int, others: np.ndarray) -> VisitedTrees:
    """One tree that fits well, and others that do not."""
    good = KEYS[start]

    def fit(trees: np.ndarray, log_prior: np.ndarray) -> Looks:
        is_good = forms(trees, ALGEBRA) == good
        log_marginal = np.where(is_good, 0.0, -40.0)
        return Looks(log_marginal, log_marginal)

    visited = VisitedTrees(7, PRIOR, ALGEBRA, fit)
    visited.visit(TREES[others])
    visited.visit(TREES[[start]])
    return visited


@pytest.mark.parametrize("seed", range(20))
def test_the_prior_of_a_form_does_not_depend_on_the_tree_that_was_met(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = int(rng.integers(len(TREES)))
    own = np.flatnonzero(KEYS[start] == KEYS)
    others = rng.choice(len(TREES), 50)
    visited = visited_with(start, others[KEYS[others] != KEYS[start]])
    settings = WeighingSettings(most_rewritings=5000)
    Completion(visited, Neighbours(GRAMMAR), settings).complete(lambda: False)
    form = visited.tree_form[visited.visit(TREES[[start]])[0]]
    expected = np.logaddexp.reduce(np.asarray(PRIOR.log_prob(np, TREES[own].astype(np.int64))))
    assert visited.form_log_prior[form] == pytest.approx(expected, abs=1e-12)
    assert not visited.trees_of_island(0)[-1] or len(own) == 1


def test_what_may_not_matter_is_left_alone_and_so_is_all_once_it_is_late() -> None:
    start = int(np.argmax((TREES >= 0).sum(axis=1)))
    others = np.flatnonzero(KEYS[start] != KEYS)[:50]
    visited = visited_with(start, others)
    num_trees = len(visited.trees)
    completion = Completion(visited, Neighbours(GRAMMAR), WeighingSettings())
    completion.complete(lambda: True)
    assert len(visited.trees) == num_trees
    completion.complete(lambda: False)
    added = visited.trees[num_trees:]
    assert (forms(added, ALGEBRA) == KEYS[start]).all()

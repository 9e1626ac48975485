"""Temperatures, parents, and whether two islands agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import tree_prior
from dvisr.search.exploring import Parents, agreement, temper
from dvisr.search.forms import make_algebra
from dvisr.search.racing import Looks
from dvisr.search.visited import VisitedTrees

GRAMMAR = Grammar(Library.create(["+", "*", "sin"], ["x", "y"]), 5)
TREES = enumerate_trees(GRAMMAR)
PRIOR = tree_prior("size-balanced", GRAMMAR)


def made(undefined: float = 0.0) -> VisitedTrees:
    """A form's weight follows from the tree that it was met by first."""
    rng = np.random.default_rng(0)
    weights = {tree.tobytes(): rng.normal(0.0, 3.0) for tree in TREES}
    lost = rng.uniform(size=len(TREES)) < undefined
    weights.update({tree.tobytes(): -np.inf for tree in TREES[lost]})

    def look(trees: np.ndarray, log_prior: np.ndarray) -> Looks:
        found = np.array([weights[tree.tobytes()] for tree in trees])
        return Looks(found, found)

    algebra = make_algebra(GRAMMAR.library, symmetric_constants=True)
    return VisitedTrees(GRAMMAR.max_tokens, PRIOR, algebra, look)


def effective_number(shares: np.ndarray) -> float:
    return float(1.0 / (shares**2).sum())


joints = st.lists(st.floats(-300.0, 300.0), min_size=2, max_size=60).map(np.array)


@settings(max_examples=200)
@given(log_joint=joints, wanted=st.floats(1.0, 80.0))
def test_the_temperature_gives_the_number_that_was_asked_for(
    log_joint: np.ndarray, wanted: float
) -> None:
    shares = temper(log_joint, wanted)
    assert shares.sum() == pytest.approx(1.0)
    found, coldest = effective_number(shares), effective_number(softmax(log_joint))
    possible = min(wanted, 0.9 * len(log_joint))
    if coldest >= possible:  # never colder than the posterior itself
        np.testing.assert_allclose(shares, softmax(log_joint), atol=1e-12)
    else:
        assert found == pytest.approx(possible, rel=1e-3)
        # One temperature for all: log shares are in proportion to log joints, by at most 1.
        span = log_joint.max() - log_joint.min()
        slope = np.log(shares.max() / shares.min()) / span if shares.min() > 0.0 else 1.0
        assert slope <= 1.0 + 1e-9
        expected = softmax(slope * log_joint) if shares.min() > 0.0 else shares
        np.testing.assert_allclose(shares, expected, atol=1e-9)


def test_what_is_undefined_has_no_share() -> None:
    log_joint = np.array([-np.inf, 0.0, -500.0, -np.inf, -1000.0])
    shares = temper(log_joint, 2.0)
    assert shares[[0, 3]].tolist() == [0.0, 0.0]
    assert effective_number(shares) == pytest.approx(2.0, rel=1e-3)
    assert temper(np.full(3, -np.inf), 5.0).tolist() == [0.0, 0.0, 0.0]
    assert temper(np.array([3.0]), 5.0).tolist() == [1.0]


@pytest.mark.parametrize("island", [0, 1])
def test_parents_are_of_their_island(island: int) -> None:
    visited = made(undefined=0.3)
    visited.visit(TREES[::3], islands=[0])
    visited.visit(TREES[1::3], islands=[1])
    visited.visit(TREES[2:100:3])
    seen = visited.trees_of_island(island)
    own_forms = set(visited.tree_form[seen].tolist())
    form_of = dict(zip(map(bytes, visited.trees), visited.tree_form.tolist(), strict=True))
    parents = Parents(visited, island)
    drawn = parents.draw(4000, np.random.default_rng(1))
    assert drawn.shape == (4000, GRAMMAR.max_tokens)
    found = {form_of[bytes(tree)] for tree in drawn}
    assert found <= own_forms
    assert np.isfinite(visited.form_log_joint[list(found)]).all()
    assert len(found) > 20
    best = max(own_forms, key=lambda form: float(visited.form_log_joint[form]))
    assert best in found


@pytest.mark.parametrize("island", [0, 1])
def test_the_ranking_has_all_of_an_island_by_promise(island: int) -> None:
    visited = made(undefined=0.3)
    visited.visit(TREES[::3], islands=[0])
    visited.visit(TREES[1::3], islands=[1])
    seen = visited.trees_of_island(island)
    forms = [form for form in np.unique(visited.tree_form[seen]) if defined(visited, int(form))]
    listed = [bytes(tree) for tree in Parents(visited, island).ranking()]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {bytes(visited.form_tree[form]) for form in forms}
    # The likeliest is first, and the best of each size is among the first twice as many as sizes.
    likeliest = max(forms, key=lambda form: float(visited.form_log_joint[form]))
    assert listed[0] == bytes(visited.form_tree[likeliest])
    sizes = (visited.form_tree >= 0).sum(axis=1)
    own_sizes = {int(sizes[form]) for form in forms}
    for size in own_sizes:
        of_size = [form for form in forms if sizes[form] == size]
        best = max(of_size, key=lambda form: float(visited.form_log_marginal[form]))
        assert bytes(visited.form_tree[best]) in listed[: 2 * len(own_sizes)]


def defined(visited: VisitedTrees, form: int) -> bool:
    return bool(np.isfinite(visited.form_log_joint[form]))


def test_with_heat_more_forms_are_drawn() -> None:
    visited = made()
    visited.visit(TREES)
    parents = Parents(visited, 0)

    def number_drawn(heat: float) -> float:
        drawn = parents.draw(20_000, np.random.default_rng(0), heat)
        _, counts = np.unique(drawn, axis=0, return_counts=True)
        return effective_number(counts / counts.sum())

    assert number_drawn(1.0) < number_drawn(3.0) < number_drawn(10.0)


def test_an_island_that_saw_nothing_has_no_parents() -> None:
    visited = made()
    visited.visit(TREES[:20], islands=[0])
    nobody = Parents(visited, 1)
    assert nobody.draw(100, np.random.default_rng(0)).shape == (0, GRAMMAR.max_tokens)
    assert list(nobody.ranking()) == []


def test_islands_that_saw_the_same_agree() -> None:
    visited = made()
    visited.visit(TREES, islands=[0])
    visited.visit(TREES, islands=[1])
    assert agreement(visited) == pytest.approx(1.0, abs=1e-12)
    both = made(undefined=0.5)
    both.visit(TREES)
    assert agreement(both) == pytest.approx(1.0, abs=1e-12)


def test_islands_that_share_no_form_do_not_agree() -> None:
    visited = made()
    visited.visit(TREES)
    halves = visited.tree_form % 2
    parted = made()
    parted.visit(visited.trees[halves == 0], islands=[0])
    parted.visit(visited.trees[halves == 1], islands=[1])
    assert agreement(parted) == pytest.approx(0.0, abs=1e-12)


def test_agreement_is_the_probability_that_both_have() -> None:
    """One saw everything, the other a part: they share what the part weighs in the whole."""
    visited = made()
    visited.visit(TREES, islands=[0])
    part = np.flatnonzero(visited.tree_form < visited.num_forms // 2)
    visited.visit(visited.trees[part], islands=[1])
    shares = softmax(visited.tree_log_joint)
    assert agreement(visited) == pytest.approx(float(shares[part].sum()), abs=1e-12)


def test_without_a_defined_tree_there_is_no_agreement() -> None:
    visited = made(undefined=1.1)
    visited.visit(TREES)
    assert agreement(visited) == 0.0
    only_one = made()
    only_one.visit(TREES, islands=[0])
    assert agreement(only_one) == 0.0

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
from dvisr.search.ledger import Ledger

GRAMMAR = Grammar(Library.create(["+", "*", "sin"], ["x", "y"]), 5)
TREES = enumerate_trees(GRAMMAR)
PRIOR = tree_prior("size-balanced", GRAMMAR)


def made(undefined: float = 0.0) -> Ledger:
    """A form's weight follows from the tree that it was met by first."""
    rng = np.random.default_rng(0)
    weights = {tree.tobytes(): rng.normal(0.0, 3.0) for tree in TREES}
    lost = rng.uniform(size=len(TREES)) < undefined
    weights.update({tree.tobytes(): -np.inf for tree in TREES[lost]})
    return Ledger(
        GRAMMAR.max_tokens,
        PRIOR,
        make_algebra(GRAMMAR.library, symmetric_constants=True),
        lambda trees: np.array([weights[tree.tobytes()] for tree in trees]),
    )


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
    ledger = made(undefined=0.3)
    ledger.visit(TREES[::3], 0)
    ledger.visit(TREES[1::3], 1)
    ledger.visit(TREES[2:100:3])
    seen = (ledger.tree_islands >> island) & 1 > 0
    own_forms = set(ledger.tree_form[seen].tolist())
    form_of = dict(zip(map(bytes, ledger.trees), ledger.tree_form.tolist(), strict=True))
    parents = Parents(ledger, island)
    drawn = parents.draw(4000, np.random.default_rng(1))
    assert drawn.shape == (4000, GRAMMAR.max_tokens)
    found = {form_of[bytes(tree)] for tree in drawn}
    assert found <= own_forms
    assert np.isfinite(ledger.form_log_joint[list(found)]).all()
    assert len(found) > 20
    best = max(own_forms, key=lambda form: float(ledger.form_log_joint[form]))
    assert best in found


@pytest.mark.parametrize("island", [0, 1])
def test_the_ranking_has_all_of_an_island_by_promise(island: int) -> None:
    ledger = made(undefined=0.3)
    ledger.visit(TREES[::3], 0)
    ledger.visit(TREES[1::3], 1)
    seen = (ledger.tree_islands >> island) & 1 > 0
    forms = [form for form in np.unique(ledger.tree_form[seen]) if defined(ledger, int(form))]
    listed = [bytes(tree) for tree in Parents(ledger, island).ranking()]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {bytes(ledger.form_tree[form]) for form in forms}
    # The likeliest is first, and the best of each size is among the first twice as many as sizes.
    likeliest = max(forms, key=lambda form: float(ledger.form_log_joint[form]))
    assert listed[0] == bytes(ledger.form_tree[likeliest])
    sizes = (ledger.form_tree >= 0).sum(axis=1)
    own_sizes = {int(sizes[form]) for form in forms}
    for size in own_sizes:
        of_size = [form for form in forms if sizes[form] == size]
        best = max(of_size, key=lambda form: float(ledger.form_log_marginal[form]))
        assert bytes(ledger.form_tree[best]) in listed[: 2 * len(own_sizes)]


def defined(ledger: Ledger, form: int) -> bool:
    return bool(np.isfinite(ledger.form_log_joint[form]))


def test_with_heat_more_forms_are_drawn() -> None:
    ledger = made()
    ledger.visit(TREES)
    parents = Parents(ledger, 0)

    def number_drawn(heat: float) -> float:
        drawn = parents.draw(20_000, np.random.default_rng(0), heat)
        _, counts = np.unique(drawn, axis=0, return_counts=True)
        return effective_number(counts / counts.sum())

    assert number_drawn(1.0) < number_drawn(3.0) < number_drawn(10.0)


def test_an_island_that_saw_nothing_has_no_parents() -> None:
    ledger = made()
    ledger.visit(TREES[:20], 0)
    nobody = Parents(ledger, 1)
    assert nobody.draw(100, np.random.default_rng(0)).shape == (0, GRAMMAR.max_tokens)
    assert list(nobody.ranking()) == []


def test_islands_that_saw_the_same_agree() -> None:
    ledger = made()
    ledger.visit(TREES, 0)
    ledger.visit(TREES, 1)
    assert agreement(ledger) == pytest.approx(1.0, abs=1e-12)
    both = made(undefined=0.5)
    both.visit(TREES)
    assert agreement(both) == pytest.approx(1.0, abs=1e-12)


def test_islands_that_share_no_form_do_not_agree() -> None:
    ledger = made()
    ledger.visit(TREES)
    halves = ledger.tree_form % 2
    parted = made()
    parted.visit(ledger.trees[halves == 0], 0)
    parted.visit(ledger.trees[halves == 1], 1)
    assert agreement(parted) == pytest.approx(0.0, abs=1e-12)


def test_agreement_is_the_probability_that_both_have() -> None:
    """One saw everything, the other a part: they share what the part weighs in the whole."""
    ledger = made()
    ledger.visit(TREES, 0)
    part = np.flatnonzero(ledger.tree_form < ledger.num_forms // 2)
    ledger.visit(ledger.trees[part], 1)
    shares = softmax(ledger.tree_log_joint)
    assert agreement(ledger) == pytest.approx(float(shares[part].sum()), abs=1e-12)


def test_without_a_defined_tree_there_is_no_agreement() -> None:
    ledger = made(undefined=1.1)
    ledger.visit(TREES)
    assert agreement(ledger) == 0.0
    only_one = made()
    only_one.visit(TREES, 0)
    assert agreement(only_one) == 0.0

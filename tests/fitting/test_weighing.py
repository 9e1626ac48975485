"""From visited trees to a posterior."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dvisr.diagnostics import log_total
from dvisr.exact import exact_posterior
from dvisr.fitting.building import make_posterior, moved
from dvisr.fitting.limits import Limit
from dvisr.fitting.search import Search
from dvisr.fitting.weighing import FormWeigher
from dvisr.problem import Problem
from dvisr.settings import FitSettings, WeighingSettings
from tests.fitting.problems import LINE, X, problem_of


def weigher_of(problem: Problem, settings: FitSettings | None = None) -> FormWeigher:
    """Of a space that is enumerated: all trees visited, what matters weighed."""
    search = Search(problem, settings or FitSettings(), num_samples=4, seed=0, num_threads=1)
    assert search.run(0)
    weigher = FormWeigher(search)
    weigher.vary(Limit())
    weigher.weigh_likely(Limit())
    weigher.weigh_rest(Limit())
    return weigher


@pytest.fixture(scope="module")
def weigher() -> FormWeigher:
    return weigher_of(problem_of())


def test_shares_are_the_oracles(weigher: FormWeigher) -> None:
    oracle = exact_posterior(
        X[:, None], LINE, operators=("+", "*"), constants=True, max_tokens=5, max_constants=2,
        constraints="default", tree_prior="size-balanced", noise="infer",
    )  # fmt: skip
    expected = dict(
        zip(*oracle.table(200)[["expression", "probability"]].T.to_numpy(), strict=True)
    )
    posterior = make_posterior(weigher)
    assert posterior.is_exact
    assert posterior.log_evidence == pytest.approx(oracle.log_evidence, abs=0.02)
    for tree in posterior.trees[:10]:
        assert tree.probability == pytest.approx(expected[str(tree.expression)], abs=0.01)
    assert weigher.shares().sum() == pytest.approx(1.0)


def test_likely_forms_are_weighed_well_and_others_roughly(weigher: FormWeigher) -> None:
    shares = weigher.shares()
    for form in np.flatnonzero(shares > weigher.settings.above_if_enumerated):
        assert weigher.weighed[int(form)].error < weigher.settings.error
    fewer = dataclasses.replace(WeighingSettings(), above_if_enumerated=0.5, most_left=1.0)
    rough = weigher_of(problem_of(), FitSettings(weighing=fewer))
    assert len(rough._is_precise) < len(weigher._is_precise)


def test_draws_are_of_each_form_as_often_as_it_is_likely(weigher: FormWeigher) -> None:
    posterior, shares = make_posterior(weigher), weigher.shares()
    draws = posterior.draws
    counts = np.bincount(draws.tree, minlength=len(draws.expressions)) / len(draws)
    kept = np.sort(shares)[::-1][: len(counts)]
    np.testing.assert_allclose(counts, kept / kept.sum(), atol=1.0 / len(draws) + 1e-12)
    assert np.isfinite(draws.curves(X[:, None])).all()
    assert (draws.noise_factor > 0.0).all()


def test_functions_add_up_their_forms(weigher: FormWeigher) -> None:
    posterior, shares = make_posterior(weigher), weigher.shares()
    seen: set[int] = set()
    for function in posterior.functions:
        assert not seen & set(function.forms)
        seen |= set(function.forms)
        assert function.probability == pytest.approx(shares[list(function.forms)].sum())
        own = weigher.visited.form_log_joint[list(function.forms)]
        assert function.log_joint == pytest.approx(log_total(own))
    first = posterior.functions[0]
    assert str(first.expression) == "x0 * c + c"
    assert len(first.forms) >= 2  # (x0 + c) * c is another


def test_a_tree_has_constants_in_its_own_order() -> None:
    """With no constraints c + x0 * c is a tree too, and its first constant is the offset."""
    own = weigher_of(problem_of(constraints="none"))
    trees = {str(tree.expression): tree.weighed for tree in make_posterior(own).trees[:20]}
    one, other = trees["x0 * c + c"], trees["c + x0 * c"]
    assert one is not None
    assert other is not None
    slope, offset = np.polyfit(X, LINE, 1)
    assert tuple(one.mode) == pytest.approx((slope, offset), abs=0.02)
    assert tuple(other.mode) == pytest.approx((offset, slope), abs=0.02)


def test_what_is_shown_of_a_form_is_the_most_readable() -> None:
    own = weigher_of(problem_of(operators=("+", "-", "*"), constraints="none"))
    for form in np.flatnonzero(own.shares() > 0.01):
        trees = own.visited.trees[own.visited.tree_form == form]
        shown = own.expression(own.representative(int(form)))
        sizes = [own.expression(tree).complexity for tree in trees]
        assert shown.complexity == min(sizes)
        assert "c - " not in str(shown)  # a sum says the same
    likely = {
        str(own.expression(own.representative(int(f)))) for f in np.argsort(-own.shares())[:4]
    }
    assert "x0 * c + c" in likely
    assert "c + x0 * c" not in likely


def test_it_is_exact_unless_an_integral_is_in_doubt_that_could_matter(
    weigher: FormWeigher, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weigher.is_exact
    search, total = weigher.search, log_total(weigher.visited.form_log_joint)
    unlikely = min(
        (form for form in range(weigher.visited.num_forms) if form not in weigher._is_precise),
        key=lambda form: weigher.visited.form_log_joint[form],
    )
    tree = weigher.representative(unlikely)
    prior = float(search.problem.tree_prior.log_prob(np, tree))
    for below, is_exact in ((math.log(1e-3) + 0.1, False), (math.log(1e-3) - 0.1, True)):
        monkeypatch.setattr(search, "unsure", [(tree, total + below - prior)])
        assert weigher.is_exact is is_exact
    known = weigher.representative(next(iter(weigher._is_precise)))
    monkeypatch.setattr(search, "unsure", [(known, math.inf)])
    assert weigher.is_exact  # what was weighed well is in no doubt
    monkeypatch.setattr(search, "unsure", [])
    monkeypatch.setattr(search, "is_listed", False)
    assert not weigher.is_exact


class Shares(FormWeigher):
    """One whose shares are given."""

    def __init__(self, shares: list[float]) -> None:
        self._shares = np.array(shares)

    def shares(self) -> np.ndarray:
        return self._shares


@pytest.mark.parametrize(
    ("before", "after", "groups", "expected"),
    [
        ([0.7, 0.3], [0.7, 0.3], [(0,), (1,)], 0.0),
        ([1.0, 0.0], [0.0, 1.0], [(0,), (1,)], 1.0),
        ([0.6, 0.4], [0.5, 0.3, 0.2], [(0,), (1,), (2,)], 0.2),
        ([0.6, 0.4], [0.1, 0.9], [(0, 1)], 0.0),  # between the forms of one function
        ([0.6, 0.4], [0.4, 0.3, 0.3], [(0, 2), (1,)], 0.1),  # a new form of an old function
        ([0.6, 0.4], [0.6, 0.1, 0.3], [(0,)], 0.3),  # what is not shown counts form by form
        ([], [1.0], [(0,)], 0.5),
    ],
)
def test_probability_that_moved_is_between_functions(
    before: list[float], after: list[float], groups: list[tuple[int, ...]], expected: float
) -> None:
    posterior: Any = SimpleNamespace(functions=[SimpleNamespace(forms=forms) for forms in groups])
    assert moved(Shares(after), np.array(before), posterior) == pytest.approx(expected)


def test_nothing_that_is_defined_is_an_error_that_says_so() -> None:
    problem = problem_of(
        x=-1.0 - X**2, operators=("log", "sqrt"), constants=False, constraints=["min-tokens=2"]
    )
    with pytest.raises(ValueError, match="no expression that was tried is defined"):
        make_posterior(weigher_of(problem))

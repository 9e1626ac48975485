"""What both fitters are held to: from a problem, a budget and a seed to an outcome."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dvisr.checks import DATA, SEARCH
from dvisr.expression import infix
from dvisr.fitting.fitters import AbstractFitter, Budget, Outcome, SearchFitter
from dvisr.fitting.front import FRONT_COLUMNS
from dvisr.fitting.network_fitter import NetworkFitter
from dvisr.fitting.progress import Status
from tests.fitting.problems import X, problem_of, searching
from tests.marks import quick_only

KINDS = ["search", "enumerated", "paper"]
# Noise that is large against the range of y, as the published way needs it.
PROBLEM = problem_of(noise=1.0, max_tokens=3)
BUDGET = Budget(num_steps=12, num_samples=32, num_threads=1)


def fitter_of(kind: str) -> AbstractFitter:
    if kind == "paper":
        return NetworkFitter("paper", searching())
    return SearchFitter(searching() if kind == "search" else searching(max_enumerated=1000))


@pytest.fixture(scope="module", params=quick_only(KINDS, "search", "enumerated"))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Told = list[Status]


@pytest.fixture(scope="module")
def fit(kind: str) -> tuple[Outcome, Told]:
    told: Told = []
    outcome = fitter_of(kind).fit(PROBLEM, BUDGET, seed=3, progress=told.append)
    return outcome, told


@pytest.fixture(scope="module")
def outcome(fit: tuple[Outcome, Told]) -> Outcome:
    return fit[0]


def assert_same(one: Outcome, two: Outcome) -> None:
    pd.testing.assert_frame_equal(
        one.posterior.function_table(), two.posterior.function_table(), check_exact=True
    )
    pd.testing.assert_frame_equal(
        one.posterior.tree_table(), two.posterior.tree_table(), check_exact=True
    )
    for field in dataclasses.fields(one.posterior.draws):
        first, second = (getattr(o.posterior.draws, field.name) for o in (one, two))
        assert np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second
    assert one.verdict == two.verdict
    assert one.elbo == two.elbo
    without = [c for c in one.history.columns if c != "seconds"]
    pd.testing.assert_frame_equal(one.history[without], two.history[without], check_exact=True)
    pd.testing.assert_frame_equal(one.front, two.front, check_exact=True)
    assert list(one.diagnostics) == list(two.diagnostics)
    for name, value in one.diagnostics.items():
        assert value == two.diagnostics[name] or math.isnan(value)


def test_the_same_seed_and_steps_give_the_same_outcome(kind: str, outcome: Outcome) -> None:
    assert_same(fitter_of(kind).fit(PROBLEM, BUDGET, seed=3), outcome)


def test_the_outcome_is_complete(kind: str, outcome: Outcome) -> None:
    posterior = outcome.posterior
    assert math.isfinite(posterior.log_evidence)
    assert posterior.log_evidence_stderr >= 0.0
    assert math.isfinite(outcome.elbo)
    assert len(posterior.functions) >= 1
    assert len(posterior.trees) >= 1
    assert posterior.is_exact == outcome.diagnostics["exact"] == (kind == "enumerated")
    assert list(posterior.inclusion.index) == ["x0"]
    assert posterior.inclusion.between(0.0, 1.0).all()
    draws = posterior.draws
    assert len(draws) == searching().weighing.num_draws
    assert draws.constants.shape[0] == len(draws.noise_factor) == len(draws)
    assert np.isfinite(draws.curves(X[:, None])).all()
    assert (draws.noise_factor == 1.0).all()  # it is given
    assert draws.scale == 1.0
    assert {check.group for check in outcome.verdict.checks} == {SEARCH, DATA}
    assert list(outcome.front.columns) == FRONT_COLUMNS
    assert not outcome.is_interrupted
    assert len(outcome.history) == outcome.diagnostics["num_steps"]
    assert len(outcome.history) == (0 if kind == "enumerated" else 12)
    assert outcome.diagnostics["num_rows"] == len(X)


def test_probabilities_sum_to_at_most_one(outcome: Outcome) -> None:
    for table in (outcome.posterior.function_table(), outcome.posterior.tree_table()):
        assert table["probability"].between(0.0, 1.0).all()
        assert 0.5 < table["probability"].sum() <= 1.0 + 1e-9
        assert (table["probability"].diff().dropna() <= 1e-9).all()


def test_the_elbo_is_below_the_evidence(outcome: Outcome) -> None:
    """But for the errors of both, which are estimates."""
    slack = 4.0 * outcome.posterior.log_evidence_stderr + 0.1
    assert outcome.elbo <= outcome.posterior.log_evidence + slack


def test_progress_is_told(kind: str, fit: tuple[Outcome, Told]) -> None:
    outcome, told = fit
    steps = [status.num_steps for status in told]
    assert steps == sorted(steps)
    assert all(phase.name for status in told for phase in status.phases)
    if kind == "enumerated":
        assert steps[-1] == 0
    else:
        assert set(steps) >= {0, 1, 12} or kind == "paper"
        assert (told[-1].num_steps, told[-1].planned) == (12, 12)
        assert all(status.steps_end is not None for status in told if 1 < status.num_steps < 12)
        assert told[-1].steps_end is None  # what is left is no step
    if kind == "paper":
        assert math.isfinite(told[-1].elbo)
        return
    last = told[-1]
    assert last.num_functions == outcome.diagnostics["num_forms_visited"]
    assert last.log_evidence == pytest.approx(outcome.posterior.log_evidence, abs=1e-6)
    shown = infix(outcome.posterior.functions[0].modal, digits=4)
    assert re.sub(r"[-\d.]+", "c", last.best) == re.sub(r"[-\d.]+", "c", shown)


def test_progress_changes_nothing(kind: str, fit: tuple[Outcome, Told]) -> None:
    assert_same(fit[0], fitter_of(kind).fit(PROBLEM, BUDGET, seed=3))


def test_what_was_not_stopped_has_nothing_left(fit: tuple[Outcome, Told]) -> None:
    assert not {check.name for check in fit[0].verdict.checks} & {"weighed", "listed"}
    assert fit[0].diagnostics["stopped_by"] == ""


class Once:
    """Says stop from the second time on that it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > 1


def test_interrupting_leaves_a_usable_outcome(kind: str) -> None:
    budget = dataclasses.replace(BUDGET, num_steps=10_000)
    found = fitter_of(kind).fit(PROBLEM, budget, seed=3, should_stop=Once())
    draws = found.posterior.draws
    assert np.isfinite(draws.curves(X[:, None])).all()
    assert len(found.posterior.function_table()) >= 1
    assert found.is_interrupted
    assert found.diagnostics["stopped_by"] == "signal"
    assert len(found.history) < 10_000
    assert len(found.history) == found.diagnostics["num_steps"]


@pytest.mark.parametrize("kind", quick_only(KINDS, "search", "enumerated"))
def test_too_little_time_leaves_a_usable_outcome(kind: str) -> None:
    budget = dataclasses.replace(BUDGET, num_steps=10_000, max_time=1e-6)
    found = fitter_of(kind).fit(PROBLEM, budget, seed=3)
    assert found.is_interrupted == (kind != "enumerated")
    assert np.isfinite(found.posterior.draws.curves(X[:, None])).all()
    if kind == "search":
        steps: Any = {check.name: check for check in found.verdict.checks}["steps"]
        assert steps.grade.word == "do-not-trust"


def test_without_steps_or_a_time_a_search_has_a_limit() -> None:
    settings = searching(max_time=1e-6, extra_steps=10_000)
    found = SearchFitter(settings).fit(PROBLEM, Budget(num_threads=1), seed=3)
    assert found.is_interrupted
    assert found.diagnostics["stopped_by"] == "time"
    assert len(found.history) == 0
    for budget in (Budget(num_steps=2, num_threads=1), Budget(max_time=60.0, num_threads=1)):
        found = SearchFitter(searching(max_time=1e-6)).fit(PROBLEM, budget, seed=3)
        assert not found.is_interrupted
        assert found.diagnostics["stopped_by"] == ""


def test_a_search_that_is_kept_goes_on_and_one_that_is_forgotten_does_not() -> None:
    fitter = SearchFitter(searching())
    budget = dataclasses.replace(BUDGET, num_steps=2)
    first = fitter.fit(PROBLEM, budget, seed=3)
    assert len(fitter.fit(PROBLEM, budget, seed=3).history) == 4
    fitter.forget()
    assert_same(fitter.fit(PROBLEM, budget, seed=3), first)

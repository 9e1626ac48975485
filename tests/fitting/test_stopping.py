"""A fit that is told to stop at any moment does next to nothing more, and leaves an answer.

The moment is a number of looks at the clock, so that none of this depends on how fast the machine
is: what is counted is the work that is done once the answer to a look was yes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dvisr.checks import Grade
from dvisr.expression import parse
from dvisr.fitting import beside as besides
from dvisr.fitting import checks, limits
from dvisr.fitting import search as searches
from dvisr.fitting import weighing as weighings
from dvisr.fitting.data_network import PretrainedNetwork
from dvisr.fitting.fitters import Budget, Outcome, SearchFitter
from dvisr.fitting.limits import Limit
from dvisr.library import Kind
from dvisr.marginal import Engine, weigh
from dvisr.marginal import weighing as integrals
from dvisr.search import matching as matchings
from dvisr.search import powers as multiplying
from dvisr.search import table as tables
from dvisr.search.visited import ALL_ISLANDS, VisitedTrees
from tests.fitting.problems import X, problem_of, searching

AT_ONCE = 32
NUM_THREADS = 2


class Looks:
    """Whether to stop: no to so many looks, yes from then on. Work is counted from there."""

    def __init__(self, most: int) -> None:
        self.count, self._most = 0, most
        self.after: dict[str, int] = {}

    def __call__(self) -> bool:
        self.count += 1
        return self.is_stopped()

    def is_stopped(self) -> bool:
        return self.count > self._most

    def counting(self, patch: pytest.MonkeyPatch, owner: Any, name: str, size: Any) -> None:
        before = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            if self.is_stopped():
                self.after[name] = self.after.get(name, 0) + size(*arguments)
            return before(*arguments, **named)

        patch.setattr(owner, name, counted)


def settings(**changes: Any) -> Any:
    own = {"likeliest_trees": 500, "trees_at_once": AT_ONCE, "paired_at_start": 50}
    return searching(**{**own, **changes})


def stopped(most: int, patch: pytest.MonkeyPatch, **changes: Any) -> tuple[Outcome, Looks]:
    problem = problem_of(operators=("+", "*", "sin", "exp"), max_tokens=9)
    looks = Looks(most)
    with patch.context() as inside:
        inside.setattr(limits, "_AFTER_STOP", 0.0)
        inside.setattr(besides, "_LOOK", 60.0)  # looks while it waits would tell of the machine
        looks.counting(inside, VisitedTrees, "visit", lambda self, trees, *more: len(trees))
        looks.counting(inside, matchings, "match", lambda *arguments: 1)
        for name in ("nearest_powers", "nearest_with_another"):
            looks.counting(inside, multiplying, name, lambda *arguments: 1)
        looks.counting(inside, tables, "forms", lambda *arguments: 1)
        looks.counting(inside, weighings, "weigh", lambda *arguments: 1)
        looks.counting(inside, integrals, "log_joint_of", lambda *arguments: 1)
        looks.counting(inside, searches, "listed", lambda *arguments: 1)
        budget = Budget(num_samples=16, num_threads=NUM_THREADS)
        fitter = SearchFitter(settings(**changes))
        outcome = fitter.fit(problem, budget, seed=0, should_stop=looks)
    return outcome, looks


def check_usable(outcome: Outcome) -> None:
    posterior = outcome.posterior
    assert len(posterior.functions) > 0
    assert np.isfinite(posterior.draws.curves(X[:, None])).all()
    assert np.isfinite(posterior.log_evidence)
    assert outcome.is_interrupted


def check_little(looks: Looks) -> None:
    """One part of each kind that is under way, and one form to make an answer of."""
    assert looks.after.get("visit", 0) <= AT_ONCE
    for name in ("match", "nearest_powers", "nearest_with_another"):
        assert looks.after.get(name, 0) <= 2 * NUM_THREADS
    assert looks.after.get("forms", 0) <= 1
    assert looks.after.get("weigh", 0) <= 1
    assert looks.after.get("log_joint_of", 0) <= 2
    assert looks.after.get("listed", 0) <= 1


@pytest.fixture(scope="module")
def num_looks() -> int:
    """In a search of a few steps that is not stopped, up to its end."""
    with pytest.MonkeyPatch.context() as patch:
        _, looks = stopped(10**9, patch, extra_steps=0)
    return looks.count


@pytest.mark.parametrize("moment", [0.0, 0.002, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95])
def test_a_search_stops_at_any_moment(
    moment: float, num_looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, looks = stopped(int(moment * num_looks), monkeypatch, extra_steps=0)
    check_usable(outcome)
    check_little(looks)
    if len(outcome.history) < settings().search.num_steps:
        assert outcome.verdict.grade is not Grade.OK


@pytest.mark.parametrize("most", [0, 1, 3, 9])
def test_a_space_that_is_listed_stops_too(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, looks = stopped(most, monkeypatch, max_enumerated=10**6)
    check_usable(outcome)
    check_little(looks)
    assert not outcome.posterior.is_exact
    assert outcome.verdict.grade is not Grade.OK
    (check,) = [check for check in outcome.verdict.checks if check.name == "listed"]
    num_weighed, num_allowed = (
        outcome.diagnostics[name] for name in ("num_trees_visited", "num_allowed")
    )
    assert 0 < num_weighed < num_allowed
    assert f"only {num_weighed:,} of {num_allowed:,} trees were weighed" in check.sentence


def test_likely_trees_are_listed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was left out has as little of the prior as can be."""
    outcome, _ = stopped(3, monkeypatch, max_enumerated=10**6)
    diagnostics = outcome.diagnostics
    share = diagnostics["num_trees_visited"] / diagnostics["num_allowed"]
    assert share < diagnostics["listed_share"] < 1.0


@pytest.mark.parametrize("num_rounds", [1, 2])
def test_weighing_stops_between_parts_of_a_round(
    num_rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found by then stays, with the error that it has."""
    problem = problem_of(operators=("+", "*", "exp"), max_constants=3)
    engine = Engine.of(problem, num_threads=1)
    library = problem.grammar.library
    column = library[library.ids_of_kind(Kind.VARIABLE)[0]].name
    tokens = np.array(parse(f"exp({column} * c) + c", library).tokens, dtype=np.int8)
    own = dataclasses.replace(settings().weighing, rounds=(500, 2_000, 8_000))
    monkeypatch.setattr(integrals, "_DRAWS_AT_ONCE", 100)
    drawn: list[int] = []
    before = integrals.log_joint_of

    def counted(engine: Engine, tokens: np.ndarray, constants: np.ndarray) -> np.ndarray:
        drawn.append(len(constants))
        return before(engine, tokens, constants)

    monkeypatch.setattr(integrals, "log_joint_of", counted)
    whole = sum(own.rounds[:num_rounds])
    found = weigh(
        engine, tokens, np.random.default_rng(0), own, error=1e-9,
        is_late=lambda: sum(drawn) >= whole + 300,
    )  # fmt: skip
    assert sum(drawn) == whole + 300
    assert len(found.constants) == own.rounds[num_rounds - 1]
    assert 1e-9 < found.error < np.inf


def test_after_a_stop_the_likeliest_are_weighed_for_a_moment() -> None:
    limit = Limit(should_stop=lambda: True)
    assert limit.is_over()
    assert not limit.weighing_is_over()
    assert Limit(0.0, should_stop=lambda: True).weighing_is_over()


def test_the_moment_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    limit = Limit(should_stop=lambda: True)
    assert not limit.weighing_is_over()
    now[0] = 100.9
    assert not limit.weighing_is_over()
    now[0] = 101.0
    assert limit.weighing_is_over()


def test_what_there_was_no_time_to_weigh_is_reported() -> None:
    """A space that was listed in full and stopped before its forms were weighed."""
    problem = problem_of(operators=("+", "*", "exp"), max_tokens=7)
    search = searches.Search(problem, settings(max_enumerated=10**6), num_samples=4, seed=0)
    assert search.run(0)
    over = Limit(0.0)
    weigher = weighings.FormWeigher(search)
    weigher.weigh_likely(over)
    weigher.weigh_rest(over)
    left = weigher.left_share()
    assert len(weigher.weighed) == 1
    assert 0.05 < left <= 1.0
    check = checks.weighed_check(left, search.settings.checks)
    assert check.grade is not Grade.OK
    assert f"{left:.2g} of the posterior" in check.sentence
    assert not weigher.is_exact
    weigher.weigh_likely(Limit())
    assert weigher.left_share() == 0.0


@pytest.mark.parametrize("network", ["plain", "pretrained"])
@pytest.mark.parametrize("visited", [0, 1, 2])
def test_a_search_that_was_stopped_before_its_first_step_goes_on(
    network: str, visited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the network's draws, or in their middle: each batch is visited once, by its island."""
    problem = problem_of(operators=("+", "*", "sin", "exp"), max_tokens=9)
    fitter = SearchFitter(settings(network=network, first_batches=2, fewest_steps=1))
    is_up, batches = False, 0
    visit = VisitedTrees.visit

    def noting(self: Any, trees: np.ndarray, islands: Any = ALL_ISLANDS) -> np.ndarray:
        nonlocal is_up, batches
        found = visit(self, trees, islands)
        batches += len(islands) == 1
        is_up |= batches >= visited and not is_second
        return found

    monkeypatch.setattr(VisitedTrees, "visit", noting)
    monkeypatch.setattr(limits, "_AFTER_STOP", 0.0)
    is_second = False
    first = fitter.fit(problem, Budget(num_samples=16), seed=0, should_stop=lambda: is_up)
    assert first.is_interrupted
    assert len(first.history) == 0
    assert fitter.search is not None
    is_second = True
    second = fitter.fit(problem, Budget(num_steps=2, num_samples=16), seed=0)
    assert not second.is_interrupted
    assert len(second.history) == 2
    assert np.isfinite(second.posterior.log_evidence)
    if network == "pretrained" and visited > 0:
        assert second.diagnostics["network"] == "pretrained"


def test_a_fit_that_is_broken_off_before_it_begins_leaves_nothing_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    given_up = []
    give_up = PretrainedNetwork.give_up

    def noting(self: PretrainedNetwork) -> None:
        given_up.append(self)
        give_up(self)

    monkeypatch.setattr(PretrainedNetwork, "give_up", noting)
    problem = problem_of(operators=("+", "*", "sin", "exp"), max_tokens=9)
    monkeypatch.setattr(Engine, "fit", broken)
    with pytest.raises(KeyboardInterrupt):
        SearchFitter(settings(network="pretrained")).fit(problem, Budget(num_samples=16), seed=0)
    assert len(given_up) == 1


def test_a_fit_that_an_error_ends_leaves_nothing_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a search: what goes on beside it is told to end, and a next fit begins with
    a network of its own."""
    problem = problem_of(operators=("+", "*", "sin", "exp"), max_tokens=9)
    fitter = SearchFitter(settings(network="pretrained", first_batches=2))
    found: list[searches.Search] = []

    def broken(self: searches.Search, *arguments: Any) -> bool:
        found.append(self)
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(searches.Search, "run", broken)
        with pytest.raises(RuntimeError, match="broken"):
            fitter.fit(problem, Budget(num_samples=16), seed=0)
    assert found[0]._is_late()
    assert found[0].network is None
    outcome = fitter.fit(problem, Budget(num_steps=1, num_samples=16), seed=0)
    assert outcome.diagnostics["network"] == "pretrained"


def test_without_time_to_weigh_what_is_likely_a_fit_counts_as_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though its search was whole: to go on is then worth something, and `resume` does."""
    problem = problem_of(operators=("+", "*", "exp"), max_tokens=7)
    fitter = SearchFitter(settings(max_enumerated=10**6))
    with monkeypatch.context() as patch:
        patch.setattr(Limit, "weighing_is_over", lambda self: True)
        cut = fitter.fit(problem, Budget(), seed=0)
    assert "weighed" in {check.name for check in cut.verdict.checks}
    assert cut.is_interrupted
    assert cut.diagnostics["stopped_by"] == "time"
    whole = SearchFitter(settings(max_enumerated=10**6)).fit(problem, Budget(), seed=0)
    assert not whole.is_interrupted
    assert whole.diagnostics["stopped_by"] == ""

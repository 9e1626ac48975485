"""Two ways to a posterior behind one contract: the search, and the trained network."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from dvisr.checks import Check, Verdict
from dvisr.fitting import checks
from dvisr.fitting.building import make_posterior, moved
from dvisr.fitting.front import front
from dvisr.fitting.keeping import AbstractKeeper, keep, nothing
from dvisr.fitting.limits import Limit
from dvisr.fitting.other_priors import other_priors
from dvisr.fitting.progress import Progress, Teller, is_still
from dvisr.fitting.search import Search
from dvisr.fitting.telling import stopped_by, visited_values
from dvisr.fitting.training import distance_to_visited, draw_afresh
from dvisr.fitting.weighing import FormWeigher
from dvisr.posterior import Posterior
from dvisr.problem import Problem
from dvisr.search.exploring import agreement
from dvisr.settings import FitSettings

_LIKELY = 0.01  # of the posterior
_NOTHING_NEW = 0.01  # of the posterior, on what fresh draws found: they need not be repeated


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a fit may take.

    Parameters
    ----------
    num_steps, num_samples : int, optional
        Of the search or the training; None for the fitter's own.
    max_time : float, optional
        Seconds, a first compilation aside.
    num_threads : int, optional
        All cores, if not given.
    began : float, optional
        When the time began, by `time.perf_counter`; when the fitter is called, if not given.
    """

    num_steps: int | None = None
    num_samples: int | None = None
    max_time: float | None = None
    num_threads: int | None = None
    began: float | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a fit ended.

    Parameters
    ----------
    posterior : Posterior
    verdict : Verdict
    diagnostics : dict
        What else was measured, by name; see docs/fits.md.
    elbo : float
    history : DataFrame
        One row a step.
    front : DataFrame
        Accuracy against complexity.
    is_interrupted : bool
    """

    posterior: Posterior
    verdict: Verdict
    diagnostics: dict[str, Any]
    elbo: float
    history: pd.DataFrame
    front: pd.DataFrame
    is_interrupted: bool


class AbstractFitter(abc.ABC):
    """`tests/fitting/test_contract.py` holds both fitters to this: from a problem, a budget and a
    seed to an outcome; the same seed and number of steps give the same outcome."""

    @abc.abstractmethod
    def fit(
        self,
        problem: Problem,
        budget: Budget,
        *,
        seed: int,
        progress: Progress | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        keeper: AbstractKeeper | None = None,
    ) -> Outcome: ...


class SearchFitter(AbstractFitter):
    """Constants and noise integrated out, trees searched.

    Parameters
    ----------
    settings : FitSettings, optional
    """

    def __init__(self, settings: FitSettings | None = None) -> None:
        self.settings = FitSettings() if settings is None else settings
        self.search: Search | None = None

    def forget(self) -> None:
        """The next fit begins anew; without, one of the same problem goes on."""
        self.search = None

    def fit(
        self,
        problem: Problem,
        budget: Budget,
        *,
        seed: int,
        progress: Progress | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        keeper: AbstractKeeper | None = None,
    ) -> Outcome:
        limit = Limit(self._max_time(budget), should_stop, budget.began)
        with limit.compiling_apart():
            search = self._search_of(problem, budget, seed, progress)
            try:
                search.prepare()
                return self._made(search, budget, limit, keeper)
            except BaseException:
                search.abandon()
                raise

    def _made(
        self, search: Search, budget: Budget, limit: Limit, keeper: AbstractKeeper | None
    ) -> Outcome:
        begun = len(search.history)
        if keeper is not None:
            keep(search, keeper, budget.num_steps)
        is_whole = self._searched(search, begun, budget.num_steps, limit)
        if keeper is not None:
            keeper.after_search()
        search.is_whole, search.after_step = False, nothing
        search.heed(limit.is_over)
        self.search = search
        outcome = self._outcome(search, limit, is_whole)
        search.teller = Teller()
        if search.network is not None and not search.network.is_ready():
            search.network = None  # should the search go on, it has another
        return outcome

    def _search_of(
        self, problem: Problem, budget: Budget, seed: int, progress: Progress | None
    ) -> Search:
        search = self.going_on(problem, budget)
        if search is None:
            search = Search(
                problem,
                self.settings,
                num_samples=self._num_samples(budget),
                seed=seed,
                num_threads=budget.num_threads,
            )
        else:
            search.engine.use_threads(budget.num_threads)
        search.problem = problem  # the same, but for the order of the rows in the user's table
        search.teller = Teller(progress)
        return search

    def going_on(self, problem: Problem, budget: Budget) -> Search | None:
        """The search before, if a fit of that goes on where it ended."""
        search, num_samples = self.search, self._num_samples(budget)
        if search is None or not search.continues(problem, self.settings, num_samples):
            return None
        return search

    def _max_time(self, budget: Budget) -> float | None:
        """So many steps take what they take; without a number of them there is a limit."""
        if budget.max_time is not None or budget.num_steps is not None:
            return budget.max_time
        return self.settings.search.max_time

    def _num_samples(self, budget: Budget) -> int:
        own = self.settings.search.num_samples
        return own if budget.num_samples is None else budget.num_samples

    def _searched(self, search: Search, begun: int, num_steps: int | None, limit: Limit) -> bool:
        """All steps, of which some may have been made by a search that was broken off; whether it
        was not stopped."""
        own, network = self.settings.search, search.network
        made = own.num_steps if num_steps is None else num_steps
        if num_steps is None and network is not None and not network.learns_in_steps:
            made = min(made, own.fewest_steps)
        if not search.run(made, limit, begun):
            return False
        if num_steps is not None or search.is_enumerated:
            return True
        most = own.num_steps + own.extra_steps
        while made < most:
            is_early = made < own.num_steps
            if len(search.history) == begun + made and self._is_settled(search, is_early):
                break
            count = 1 if is_early else min(own.steps_at_once, most - made)
            if not search.run(count, limit, begun + made):
                return False
            made += count
        return True

    def _is_settled(self, search: Search, is_early: bool) -> bool:
        """Two searches agree, the evidence has stopped to grow, and what is likeliest is not far
        from the data. Before the usual number of steps the posterior must not have moved either."""
        limits = self.settings.checks
        if self._is_far(search):
            return False
        evidence = np.array([report.log_evidence for report in search.history])
        apart = checks.agreement_check(agreement(search.visited), limits)
        if apart.grade or checks.settled_check(evidence, limits).grade:
            return False
        return not is_early or is_still(search.history, self.settings.search)

    def _is_far(self, search: Search) -> bool:
        """Whether the noise is known, and the likeliest form many times as far from the data."""
        visited, likelihood = search.visited, search.problem.likelihood
        if likelihood.is_inferred or visited.num_forms == 0:
            return False
        best = float(visited.form_log_marginal[np.argmax(visited.form_log_joint)])
        squares = 2.0 * (likelihood.perfect - best)  # of residuals, in units of Gaussian noise
        return not squares <= self.settings.search.far**2 * likelihood.count

    def _outcome(self, search: Search, limit: Limit, is_whole: bool) -> Outcome:
        phase = search.teller.phase
        search.teller.tell(steps_end=None)
        if search.network is not None and not search.network.is_ready():
            search.network.catch_up(limit.is_over)
            if not search.network.is_ready():
                search.network.give_up()
        weigher = FormWeigher(search)
        weigher.vary(limit)
        weigher.weigh_likely(limit)
        weigher.vary(limit)  # of what weighing has made likely
        weigher.weigh_likely(limit)
        measured: dict[str, Any] = {}
        network = search.network
        before = weigher.shares()
        if network is not None and network.is_ready():
            with phase("teaching the network what was found") as tell:
                network.finish(search, limit, tell)
            with phase("drawing from the network afresh"):
                for _ in range(self.settings.search.fresh_rounds):
                    if limit.is_over() or measured.get("unknown_mass", 1.0) < _NOTHING_NEW:
                        break
                    measured = draw_afresh(search, network, limit)
            weigher.vary(limit)
            weigher.weigh_likely(limit)
        weigher.weigh_rest(limit)
        is_whole_answer = is_whole and not self._is_cut_short(weigher, limit)
        with phase("merging equal functions"):
            posterior = make_posterior(weigher)
        if measured and network is not None:
            measured["moved"] = moved(weigher, before, posterior)
            measured["total_variation"] = distance_to_visited(search, network)
        if not search.is_enumerated:
            measured["island_agreement"] = agreement(search.visited)
        with phase("checking the answer"):
            others = other_priors(weigher, posterior)
            r2 = checks.explained(search.problem, posterior)
            made = self._checks(search, weigher, posterior, measured, is_whole)
            made.append(checks.explained_check(r2, self.settings.checks))
            most = checks.FEW_DRAWS if limit.is_over() else checks.DRAWS
            made += checks.data_checks(search.problem, posterior, search.seed, most)
            if search.problem.tree_prior.surroundings is not None:  # it has a view of its own
                made.append(checks.prior_check(posterior, others, self.settings.checks))
        verdict = Verdict.of(made)
        return Outcome(
            posterior=posterior,
            verdict=verdict,
            diagnostics={
                **visited_values(search, posterior),
                "r2": r2,
                "other_priors": {other.name: other.as_rows() for other in others},
                "stopped_by": stopped_by(is_whole_answer, limit.is_stopped()),
                **measured,
            },
            elbo=measured.get("elbo", posterior.log_evidence),
            history=pd.DataFrame([vars(report) for report in search.history]),
            front=front(search),
            is_interrupted=not is_whole_answer or limit.is_stopped(),
        )

    @staticmethod
    def _is_cut_short(weigher: FormWeigher, limit: Limit) -> bool:
        """Whether there was no time to weigh what is likely: with more, the answer would differ."""
        return limit.weighing_is_over() and weigher.left_share() > 0.0

    def _checks(
        self,
        search: Search,
        weigher: FormWeigher,
        posterior: Posterior,
        measured: dict[str, Any],
        is_whole: bool,
    ) -> list[Check]:
        """Of the search: was everything found?"""
        limits = self.settings.checks
        shares = weigher.shares()
        likely = [
            (float(shares[form]), one)
            for form, one in weigher.weighed.items()
            if shares[form] > _LIKELY
        ]
        made = [checks.integral_check(likely, limits)]
        left = weigher.left_share()
        if left > 0.0:
            made.append(checks.weighed_check(left, limits))
        if not search.is_enumerated:
            evidence = pd.DataFrame([vars(report) for report in search.history])
            number = len(search.history)
            is_at_rest = is_still(search.history, self.settings.search)
            made.append(checks.steps_check(number, is_whole, is_at_rest, limits))
            made.append(checks.agreement_check(measured["island_agreement"], limits))
            if len(evidence):
                made.append(checks.settled_check(evidence["log_evidence"].to_numpy(), limits))
            if "elbo" in measured:
                made += checks.fresh_draw_checks(measured, limits)
        elif not search.is_listed:
            made.append(
                checks.listed_check(
                    len(search.visited.trees), search.num_allowed, search.listed_share
                )
            )
        elif not posterior.is_exact:
            made.append(checks.unsure_check(len(weigher.in_doubt())))
        return made

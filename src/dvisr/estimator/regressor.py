"""`DVISRRegressor`: the posterior over formulas behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Constraints
from dvisr.estimator import preparing, saving
from dvisr.estimator.answering import Answering
from dvisr.estimator.progress import no_progress, shown_progress
from dvisr.fitting.front import FRONT_COLUMNS, front
from dvisr.fitting.loop import NUM_SAMPLES, NUM_STEPS, Progress, Search
from dvisr.fitting.problem import Problem
from dvisr.fitting.run import heeding_signals, run
from dvisr.fitting.sampled import run_sampled
from dvisr.library import Token
from dvisr.posterior.answer import Posterior
from dvisr.prior import TreePrior

OPERATORS = ("+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt")


class FitWarning(UserWarning):
    """The verdict on a fit is not "ok"."""


class DVISRRegressor(Answering, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Symbolic regression with a posterior: which formulas, with what probability.

    Parameters
    ----------
    operators : names of operators and numbers, or operators made by `new_operator`.
    constants : whether formulas may hold constants; their values are integrated out.
    max_tokens : the size of the largest formula: operators, variables and constants together.
    max_constants : the most constants in a formula; None for no limit but the size.
    constraints : "default", "paper", "none", names of rules, rules, or a list of these.
    tree_prior : "size-balanced", "uniform", "allowed", "weights", or weights by token.
    constant_prior : "decades", "decades:LOW,HIGH", "normal:MEAN,STD", or a prior.
    noise : "infer", or the standard deviation of the noise (with `y_err`, a factor of it).
    recipe : "default", or one that samples constants by a network, such as "paper".
    num_steps : steps of the search, or of the training; None for the recipe's own, here 20.
    num_samples : trees of each kind that a step tries; None for the recipe's own, here 256.
    max_time : seconds after which to stop, compiling aside; None for no limit.
    n_jobs : threads; None or -1 for all cores.
    random_state : a seed, for the same answer again.
    warm_start : whether a second `fit` on the same data goes on where the first ended.
    run_dir : a folder to save the fitted model in; None for nowhere.
    verbose : 0 for silence, 1 for progress on standard error.

    Attributes
    ----------
    functions_ : one row a function, likeliest first: trees that are the same function merged.
    posterior_ : one row a tree.
    log_evidence_, elbo_, noise_, inclusion_, diagnostics_, history_, front_, interrupted_, n_iter_
    """

    def __init__(
        self,
        operators: Sequence[str | Token] = OPERATORS,
        constants: bool = True,
        max_tokens: int = 15,
        max_constants: int | None = 4,
        constraints: Constraints = "default",
        tree_prior: str | Mapping[str, float] | TreePrior = "size-balanced",
        constant_prior: str | AbstractConstantPrior = "decades",
        noise: float | str = "infer",
        recipe: str = "default",
        num_steps: int | None = None,
        num_samples: int | None = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        run_dir: Any = None,
        verbose: int = 0,
    ) -> None:
        self.operators = operators
        self.constants = constants
        self.max_tokens = max_tokens
        self.max_constants = max_constants
        self.constraints = constraints
        self.tree_prior = tree_prior
        self.constant_prior = constant_prior
        self.noise = noise
        self.recipe = recipe
        self.num_steps = num_steps
        self.num_samples = num_samples
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.run_dir = run_dir
        self.verbose = verbose

    # Fitting -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, y_err: Any = None) -> DVISRRegressor:
        """`sample_weight` says how often a row was seen; `y_err` is each row's standard
        deviation. Ctrl-C ends the search and leaves what was found so far."""
        with self._progress() as progress:
            return self.fit_showing(X, y, progress, sample_weight=sample_weight, y_err=y_err)

    def fit_showing(
        self,
        X: Any,
        y: Any,
        progress: Progress,
        *,
        sample_weight: Any = None,
        y_err: Any = None,
    ) -> DVISRRegressor:
        """As `fit`, with progress shown by whoever calls: steps done, steps in all, evidence."""
        table = preparing.checked_table(self, X, y, sample_weight, y_err)
        num_steps = preparing.checked_number(self.num_steps, "num_steps", 1)
        num_samples = preparing.checked_number(self.num_samples, "num_samples", 2)
        problem = self._problem_of(table)
        with heeding_signals() as should_stop:
            if self.recipe == "default":
                self._fit_by_search(problem, num_steps, num_samples, progress, should_stop)
            else:
                self._fit_by_sampling(problem, num_steps, num_samples, progress, should_stop)
        if self.run_dir is not None:
            self.save(self.run_dir)
        if self.diagnostics_["verdict"] != "ok":
            reasons = "; ".join(self.diagnostics_["reasons"])
            warnings.warn(
                f"verdict on this fit: {self.diagnostics_['verdict']}: {reasons}",
                FitWarning,
                stacklevel=3,
            )
        return self

    def _fit_by_search(
        self,
        problem: Problem,
        num_steps: int | None,
        num_samples: int | None,
        progress: Progress,
        should_stop: Callable[[], bool],
    ) -> None:
        """Constants integrated out, trees searched."""
        search = self._search_for(problem, NUM_SAMPLES if num_samples is None else num_samples)
        outcome = run(
            search,
            NUM_STEPS if num_steps is None else num_steps,
            max_time=preparing.checked_seconds(self.max_time),
            progress=progress,
            should_stop=should_stop,
        )
        self._search = search
        self._keep(problem, outcome.posterior, outcome.elbo, outcome.diagnostics)
        self.history_ = pd.DataFrame([vars(report) for report in search.history])
        self.front_ = front(search)
        self.interrupted_ = outcome.is_interrupted
        self.n_iter_ = len(search.history)

    def _fit_by_sampling(
        self,
        problem: Problem,
        num_steps: int | None,
        num_samples: int | None,
        progress: Progress,
        should_stop: Callable[[], bool],
    ) -> None:
        """The published way: constants sampled by the network."""
        outcome, self.history_ = run_sampled(
            problem,
            self.recipe,
            num_steps,
            num_samples,
            seed=preparing.checked_seed(self.random_state),
            max_time=preparing.checked_seconds(self.max_time),
            num_threads=preparing.checked_threads(self.n_jobs),
            progress=progress,
            should_stop=should_stop,
        )
        self._keep(problem, outcome.posterior, outcome.elbo, outcome.diagnostics)
        self.front_ = pd.DataFrame(columns=FRONT_COLUMNS)
        self.interrupted_ = outcome.is_interrupted
        self.n_iter_ = len(self.history_)

    def _problem_of(self, table: preparing.Table) -> Problem:
        return Problem.create(
            table.data,
            operators=self.operators,
            constants=self.constants,
            max_tokens=self.max_tokens,
            max_constants=self.max_constants,
            constraints=self.constraints,
            tree_prior=self.tree_prior,
            constant_prior=self.constant_prior,
            noise=self.noise,
            weights=table.weights,
        )

    def _search_for(self, problem: Problem, num_samples: int) -> Search:
        before: Search | None = getattr(self, "_search", None)
        if self.warm_start and before is not None and before.continues(problem, num_samples):
            return before
        return Search(
            problem,
            num_samples=num_samples,
            seed=preparing.checked_seed(self.random_state),
            num_threads=preparing.checked_threads(self.n_jobs),
        )

    def _progress(self) -> Any:
        return shown_progress() if self.verbose else no_progress()

    def _keep(
        self, problem: Problem, answer: Posterior, elbo: float, diagnostics: dict[str, Any]
    ) -> None:
        self._problem, self._answer = problem, answer
        self.functions_ = answer.function_table()
        self.posterior_ = answer.tree_table()
        self.log_evidence_ = answer.log_evidence
        self.log_evidence_stderr_ = answer.log_evidence_stderr
        self.elbo_ = elbo
        unit = answer.draws.scale
        if problem.data.y_err is not None:  # then the noise is a factor of the error bars
            unit = float((problem.likelihood.scale / problem.data.y_err)[0])
        noise = answer.draws.noise
        self.noise_ = {"mean": unit * float(noise.mean()), "std": unit * float(noise.std())}
        self.inclusion_ = answer.inclusion
        self.diagnostics_ = diagnostics

    def save(self, path: Any) -> None:
        """Write the fitted model into a folder; `load` reads it back."""
        check_is_fitted(self)
        if not isinstance(path, (str, Path)):
            raise ValueError(f"a model is saved in a folder: give its path, not {path!r}")
        saving.save(Path(path), self.get_params(deep=False), self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_answer")

    def __getstate__(self) -> dict[str, Any]:
        """The search itself, with its compiled code, stays behind: a copy that was sent elsewhere
        predicts, and starts a new search should it be fitted again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_search"}

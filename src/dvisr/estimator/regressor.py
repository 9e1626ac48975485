"""`DVISRRegressor`: the posterior over formulas behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Constraints
from dvisr.estimator import preparing
from dvisr.estimator.exports import jax_function, numpy_function
from dvisr.expression import Expression, latex, to_sympy
from dvisr.fitting.front import front
from dvisr.fitting.loop import Search
from dvisr.fitting.problem import Problem
from dvisr.fitting.run import Outcome, heeding_signals, run
from dvisr.library import Token
from dvisr.posterior import predictive
from dvisr.posterior.answer import Function
from dvisr.prior import TreePrior

OPERATORS = ("+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt")


class FitWarning(UserWarning):
    """The verdict on a fit is not "ok"."""


class DVISRRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
    num_steps : steps of the search.
    num_samples : trees of each kind that a step tries; twice as many, twice as thorough.
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
        num_steps: int = 15,
        num_samples: int = 256,
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
        table = preparing.checked_table(self, X, y, sample_weight, y_err)
        num_steps = preparing.checked_number(self.num_steps, "num_steps", 1)
        num_samples = preparing.checked_number(self.num_samples, "num_samples", 2)
        max_time = preparing.checked_seconds(self.max_time)
        problem = self._problem_of(table)
        search = self._search_for(problem, num_samples)
        with heeding_signals() as should_stop, self._progress() as progress:
            outcome = run(
                search, num_steps, max_time=max_time, progress=progress, should_stop=should_stop
            )
        self._search = search
        self._keep(problem, search, outcome)
        return self

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
        from dvisr.estimator.progress import no_progress, shown_progress

        return shown_progress() if self.verbose else no_progress()

    def _keep(self, problem: Problem, search: Search, outcome: Outcome) -> None:
        answer = outcome.posterior
        self._problem, self._answer = problem, answer
        self.functions_ = answer.function_table()
        self.posterior_ = answer.tree_table()
        self.log_evidence_ = answer.log_evidence
        self.log_evidence_stderr_ = answer.log_evidence_stderr
        self.elbo_ = outcome.elbo
        sigmas = answer.draws.noise * (
            1.0 if problem.data.y_err is not None else answer.draws.scale
        )
        self.noise_ = {"mean": float(sigmas.mean()), "std": float(sigmas.std())}
        self.inclusion_ = answer.inclusion
        self.diagnostics_ = outcome.diagnostics
        self.history_ = pd.DataFrame([vars(report) for report in search.history])
        self.front_ = front(search)
        self.interrupted_ = outcome.is_interrupted
        self.n_iter_ = len(search.history)
        if self.diagnostics_["verdict"] != "ok":
            reasons = "; ".join(self.diagnostics_["reasons"])
            warnings.warn(
                f"verdict on this fit: {self.diagnostics_['verdict']}: {reasons}",
                FitWarning,
                stacklevel=3,
            )

    # Predicting ----------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        index: int | None = None,
        y_err: Any = None,
    ) -> Any:
        """Averaged over the posterior, robust to single trees that explode; with `index`, that row
        of `functions_` at its modal constants. `return_std` adds the standard deviation of a new
        observation, noise included."""
        rows = self._rows(X)
        if index is not None:
            if return_std:
                raise ValueError("return_std goes with the whole posterior: leave out index")
            return numpy_function(self._function(index).modal)(rows)
        mean, std, _ = predictive.moments(self._answer.draws, rows, self._bars(y_err, len(rows)))
        return (mean, std) if return_std else mean

    def predict_quantiles(
        self, X: Any, alpha: Sequence[float] = (0.05, 0.95), *, kind: str = "observation",
        y_err: Any = None,
    ) -> np.ndarray:  # fmt: skip
        """Quantiles (rows, levels) of a new noisy observation, or, with kind="function", of the
        curve alone."""
        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"alpha must be levels between 0 and 1, not {alpha!r}")
        if kind not in ("observation", "function"):
            raise ValueError(f"kind must be 'observation' or 'function', not {kind!r}")
        rows = self._rows(X)
        return predictive.quantiles(
            self._answer.draws,
            rows,
            levels.tolist(),
            with_noise=kind == "observation",
            bars=self._bars(y_err, len(rows)),
        )

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, kind: str = "observation", y_err: Any = None
    ) -> np.ndarray:
        """The central interval (rows, 2) for a new noisy observation, or for the curve alone."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
        tail = 0.5 * (1.0 - coverage)
        return self.predict_quantiles(X, (tail, 1.0 - tail), kind=kind, y_err=y_err)

    def predict_undefined(self, X: Any) -> np.ndarray:
        """The share of the posterior that is undefined at each row, and was left out there."""
        return predictive.moments(self._answer.draws, self._rows(X))[2]

    def sample_y(
        self, X: Any, n_samples: int = 100, random_state: Any = 0, y_err: Any = None
    ) -> np.ndarray:
        """(rows, n_samples): whole data sets from the posterior predictive, noise included."""
        rows = self._rows(X)
        count = preparing.checked_number(n_samples, "n_samples", 1)
        rng = np.random.default_rng(preparing.checked_seed(random_state))
        bars = self._bars(y_err, len(rows))
        return predictive.observations(self._answer.draws, rows, count, rng, bars)

    def sample_prior_y(self, X: Any, n_samples: int = 100, random_state: Any = 0) -> np.ndarray:
        """(rows, n_samples): whole data sets from the prior predictive: what was thought possible
        before the data. A tree that is undefined at a row has NaN there."""
        from dvisr.fitting.prior_predictive import prior_observations

        rows = self._rows(X)
        count = preparing.checked_number(n_samples, "n_samples", 1)
        rng = np.random.default_rng(preparing.checked_seed(random_state))
        return prior_observations(self._problem, rows, count, rng)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return preparing.checked_rows(self, X, self._problem.data.feature_names)

    def _bars(self, y_err: Any, num_rows: int) -> np.ndarray | None:
        """Where the noise was given by row, the new rows need theirs."""
        bars = preparing.checked_bars(y_err, num_rows)
        if self._problem.data.y_err is None:
            if bars is not None:
                raise ValueError("y_err is for a model that was fitted with y_err: leave it out")
            return None
        if bars is None:
            return None
        factor = self._problem.likelihood.scale / self._problem.data.y_err
        return bars * float(factor[0])

    # One formula ---------------------------------------------------------------------------------

    def _function(self, index: int) -> Function:
        check_is_fitted(self)
        functions = self._answer.functions
        if not isinstance(index, (int, np.integer)) or not -len(functions) <= index < len(
            functions
        ):
            raise ValueError(
                f"index must be a row of functions_, from 0 to {len(functions) - 1}, not {index!r}"
            )
        return functions[int(index)]

    def expression(self, index: int = 0) -> Expression:
        """The tree itself, at its modal constants."""
        return self._function(index).modal

    def sympy(self, index: int = 0) -> Any:
        """A SymPy expression in the columns' names, at the modal constants."""
        return to_sympy(self._function(index).modal)

    def latex(self, index: int = 0, digits: int = 4) -> str:
        return latex(self._function(index).modal, digits=digits)

    def jax(self, index: int = 0) -> Callable[[Any], Any]:
        """A function of rows for JAX; float64 needs JAX's x64 mode."""
        return jax_function(self._function(index).modal)

    def numpy(self, index: int = 0) -> Callable[[Any], np.ndarray]:
        """A function of rows for NumPy."""
        return numpy_function(self._function(index).modal)

    def __getstate__(self) -> dict[str, Any]:
        """The search itself, with its compiled code, stays behind: a copy that was sent elsewhere
        predicts, and starts a new search should it be fitted again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_search"}

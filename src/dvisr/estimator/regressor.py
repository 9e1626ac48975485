"""`DVISRRegressor`: the posterior over formulas behind scikit-learn's interface."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Constraints
from dvisr.estimator import input as checked
from dvisr.estimator import saving
from dvisr.estimator.describing import DescribingMixin
from dvisr.estimator.neighbours import KnownParametersMixin
from dvisr.estimator.predicting import PredictingMixin
from dvisr.estimator.progress import progress_for
from dvisr.estimator.recording import Recorder
from dvisr.estimator.resuming import ResumingMixin
from dvisr.fitting import memory
from dvisr.fitting.fitters import AbstractFitter, Budget, Outcome, SearchFitter
from dvisr.fitting.limits import Heard
from dvisr.fitting.network_fitter import NetworkFitter
from dvisr.fitting.progress import Progress
from dvisr.library import Token
from dvisr.library.program_cache import kept_programs
from dvisr.noise import AbstractNoise
from dvisr.prior import ChosenPrior
from dvisr.problem import (
    MOST_CONSTANTS,
    Problem,
    make_problem,
    seed_of,
    threads_of,
    whole_number,
)
from dvisr.recipes import Recipe
from dvisr.runs import folder
from dvisr.settings import FitSettings
from dvisr.types import Dataset

OPERATORS = (
    "+", "-", "*", "/", "^", "square", "sqrt", "exp", "log", "sin", "cos", "neg",
    "1", "2", "3", "4", "pi",
)  # fmt: skip


class FitWarning(UserWarning):
    """The verdict on a fit is not "ok"."""


class DVISRRegressor(
    DescribingMixin,
    PredictingMixin,
    ResumingMixin,
    KnownParametersMixin,
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Symbolic regression with a posterior: which formulas, with what probability.

    Parameters
    ----------
    operators : sequence of str or Token, default=("+", "-", "*", "/", "^", "square", "sqrt", \
            "exp", "log", "sin", "cos", "neg", "1", "2", "3", "4", "pi")
        Names of operators and numbers, or operators made by `new_operator`.
    constants : bool, default=True
        Whether formulas may hold constants; their values are integrated out.
    max_tokens : int, default=20
        The size of the largest formula: operators, variables and constants together.
    max_constants : int or None, default=4
        The most constants in a formula; None for no limit but the size. A constraint
        `max-constants=N` takes the place of the default.
    constraints : str, rule or list of these, default="default"
        "default", "paper", "none", names of rules, or rules.
    tree_prior : str, mapping, TreePrior or callable, default="science"
        "science" for how formulas are written, "science:FILE" for one's own formulas;
        "size-balanced", "uniform", "allowed", "weights", weights by token, or a function that makes
        a `TreePrior` for a `Grammar`.
    constant_prior : str or AbstractConstantPrior, default="decades"
        "decades", "decades:LOW,HIGH" or "normal:MEAN,STD", as text or as `Decades` and `Normal`.
    noise : float, str or AbstractNoise, default="infer"
        "infer" for Gaussian noise of unknown size; its standard deviation (with `y_err`, a factor
        of it); "student" or "student:NU" for outliers; "relative" for noise in proportion to a
        positive target. "gaussian:SCALE", "student:NU,SCALE" and "relative:SCALE" where the scale
        is known. (The command's default with --err is 1: error bars as they are.)
    recipe : str or Recipe, default="default"
        "default" for the search; "paper", "network", others by name and a `Recipe` of one's own
        train a network that samples constants.
    num_steps : int or None, default=None
        Steps of the search, or of the training; None for the recipe's own, here until it settles: 3
        to 8, and 5 more at a time while two independent searches disagree or the evidence grows.
    num_samples : int or None, default=None
        Trees of each kind that a step tries; None for the recipe's own, here 256.
    max_time : float or None, default=None
        Seconds after which to stop, a first compilation aside; None for 60, or for no limit where
        `num_steps` is given.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, generator or None, default=None
        A seed, for the same answer again; None for another one each time.
    warm_start : bool, default=False
        Whether a second `fit` on the same data goes on where the first ended.
    run_dir : path or None, default=None
        A folder to keep the fit in while it is made, and the fitted model; None for nowhere.
    verbose : int, default=0
        0 for silence, 1 for progress on standard error.
    settings : FitSettings or None, default=None
        Settings of search, weighing and checks; None for the usual ones.

    Attributes
    ----------
    functions_ : DataFrame
        One row a function, likeliest first: trees that are the same function merged.
    posterior_ : DataFrame
        One row a tree.
    log_evidence_, log_evidence_stderr_ : float
        The log evidence and its standard error, as far as the integrals over constants go.
    elbo_ : float
        Of the network's draws at the end.
    noise_ : dict
        "mean" and "std" of the noise's scale: in the units of y, of its logarithm for relative
        noise, or a factor of the error bars.
    inclusion_ : Series
        The probability that each variable appears.
    verdict_ : Verdict
        The checks, each with what was measured, its limit, its grade and a sentence.
    diagnostics_ : dict
        "verdict", "reasons", "checks", and what else was measured; docs/fits.md explains each key.
    history_, front_ : DataFrame
        One row a step; accuracy against complexity.
    interrupted_ : bool
    n_iter_ : int
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from dvisr import DVISRRegressor
    >>> x = np.linspace(1, 3, 12)
    >>> y = 2.5 * x + 0.05 * np.random.default_rng(0).standard_normal(12)
    >>> model = DVISRRegressor(operators=("+", "*"), max_tokens=3, random_state=0)
    >>> model.fit(x[:, None], y).functions_["expression"][0]
    'x0 * c'
    """

    def __init__(
        self,
        operators: Sequence[str | Token] = OPERATORS,
        constants: bool = True,
        max_tokens: int = 20,
        max_constants: int | None = MOST_CONSTANTS,
        constraints: Constraints = "default",
        tree_prior: ChosenPrior = "science",
        constant_prior: str | AbstractConstantPrior = "decades",
        noise: float | str | AbstractNoise = "infer",
        recipe: str | Recipe = "default",
        num_steps: int | None = None,
        num_samples: int | None = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        run_dir: Any = None,
        verbose: int = 0,
        settings: FitSettings | None = None,
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
        self.settings = settings

    def fit(self, X: Any, y: Any, sample_weight: Any = None, y_err: Any = None) -> DVISRRegressor:
        """Fit the posterior. Ctrl-C ends the search and leaves what was found so far.

        Parameters
        ----------
        X : array-like or data frame of shape (rows, columns)
        y : array-like of shape (rows,)
        sample_weight : array-like of shape (rows,), optional
            How often each row was seen.
        y_err : float or array-like of shape (rows,), optional
            Each row's error bar, or one for all: with a number for `noise`, the noise's scale is
            that times it; else a common factor of the error bars is inferred.

        Returns
        -------
        DVISRRegressor
            Itself.
        """
        with progress_for(self.verbose) as progress:
            data, target = checked.checked_table(self, X, y, y_err), checked.name_of(y)
            return self.fit_table(
                data, progress, sample_weight=sample_weight, has_names=None, target=target
            )

    def fit_table(
        self,
        data: Dataset,
        progress: Progress | None,
        *,
        sample_weight: Any = None,
        has_names: bool | None = True,
        target: str = "y",
        command: str | None = None,
    ) -> DVISRRegressor:
        """As `fit`, of a checked table. Reports show the name of the target, and the command."""
        if has_names is not None:
            self.n_features_in_ = data.X.shape[1]
            if has_names:
                self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        budget = self._budget()
        if self.run_dir is not None:  # before the work, not after it
            saving.check_can_be_saved(self.run_dir, self)
        problem = self._problem_of(data, sample_weight)
        fitter = self._fitter_for()
        before = fitter.going_on(problem, budget) if isinstance(fitter, SearchFitter) else None
        seed = seed_of(self.random_state) if before is None else before.seed
        self._target, self._command = target, command
        if self.run_dir is None:
            return self._fitted(fitter, problem, budget, seed, progress, None)
        place = Path(self.run_dir)
        with folder.lock(place):
            recorder = Recorder(place)
            recorder.begin(self, problem, seed, can_be_resumed=before is None)
            return self._fitted(fitter, problem, budget, seed, progress, recorder)

    def _budget(self) -> Budget:
        return Budget(
            num_steps=whole_number(self.num_steps, "num_steps", 1),
            num_samples=whole_number(self.num_samples, "num_samples", 2),
            max_time=checked.checked_seconds(self.max_time),
            num_threads=threads_of(self.n_jobs),
            began=time.perf_counter(),
        )

    def _fitted(
        self,
        fitter: AbstractFitter,
        problem: Problem,
        budget: Budget,
        seed: int,
        progress: Progress | None,
        recorder: Recorder | None,
    ) -> DVISRRegressor:
        heard = Heard()
        with heard.listening():  # until it is kept
            with kept_programs():
                outcome = fitter.fit(
                    problem,
                    budget,
                    seed=seed,
                    progress=progress,
                    should_stop=heard.is_any,
                    keeper=recorder,
                )
            self._fitter = fitter if self.warm_start else None  # what was visited takes much room
            self._seed: int | None = seed
            self._keep(problem, outcome)
            if recorder is not None:
                recorder.finish(self, fitter)
        memory.let_go(None if self.warm_start else fitter)
        heard.pass_on()
        if self.verdict_.grade:
            warnings.warn(
                f"verdict on this fit: {self.verdict_.word}: {'; '.join(self.verdict_.reasons)}",
                FitWarning,
                stacklevel=4,
            )
        return self

    def _fitter_for(self) -> AbstractFitter:
        settings = checked.checked_settings(self.settings)
        if self.recipe != "default":
            return NetworkFitter(self.recipe, settings)
        before = getattr(self, "_fitter", None)
        if self.warm_start and isinstance(before, SearchFitter) and before.settings == settings:
            return before
        return SearchFitter(settings)

    def _problem_of(self, data: Dataset, sample_weight: Any, tree_prior: Any = None) -> Problem:
        return make_problem(
            data,
            operators=self.operators,
            constants=self.constants,
            max_tokens=self.max_tokens,
            max_constants=self.max_constants,
            constraints=self.constraints,
            tree_prior=self.tree_prior if tree_prior is None else tree_prior,
            constant_prior=self.constant_prior,
            noise=self.noise,
            sample_weight=sample_weight,
        )

    def _keep(self, problem: Problem, outcome: Outcome) -> None:
        posterior = outcome.posterior
        self._problem, self._posterior, self._outcome = problem, posterior, outcome
        self.functions_ = posterior.function_table()
        self.posterior_ = posterior.tree_table()
        self.log_evidence_ = posterior.log_evidence
        self.log_evidence_stderr_ = posterior.log_evidence_stderr
        self.elbo_ = outcome.elbo
        _, unit = problem.likelihood.noise_unit
        factor = posterior.draws.noise_factor
        self.noise_ = {"mean": unit * float(factor.mean()), "std": unit * float(factor.std())}
        self.inclusion_ = posterior.inclusion
        self.verdict_ = outcome.verdict
        self.diagnostics_ = {
            "verdict": outcome.verdict.word,
            "reasons": list(outcome.verdict.reasons),
            "checks": [check.as_dict() for check in outcome.verdict.checks],
            **outcome.diagnostics,
        }
        self.history_, self.front_ = outcome.history, outcome.front
        self.interrupted_ = outcome.is_interrupted
        self.n_iter_ = len(outcome.history)

    def save(self, path: Any) -> None:
        """Write the fitted model into a folder; `load` reads it back."""
        check_is_fitted(self)
        saving.check_can_be_saved(path, self)
        saving.save(Path(path), self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    def __getstate__(self) -> dict[str, Any]:
        """The search itself, with its compiled code, stays behind: a copy that was sent elsewhere
        predicts, and starts a new search should it be fitted again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitter"}

"""What is fitted and answered, of tables that are checked already: `DVISRRegressor` without the
interface of scikit-learn, which takes longer to import than many a table takes to fit. `dvisr fit`
and `dvisr demo` fit with it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Constraints
from dvisr.estimator import input as checked
from dvisr.estimator import saving
from dvisr.estimator.describing import DescribingMixin
from dvisr.estimator.fitted import check_is_fitted
from dvisr.estimator.predicting import PredictingMixin
from dvisr.estimator.recording import Recorder
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


class TableRegressor(DescribingMixin, PredictingMixin):
    """Parameters and attributes are those of `DVISRRegressor`, which says what they are."""

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

    def fit_table(
        self,
        data: Dataset,
        progress: Progress | None,
        *,
        sample_weight: Any = None,
        has_names: bool | None = True,
        target: str = "y",
        command: str | None = None,
    ) -> Self:
        """Fit the posterior of a table. Reports show the name of the target, and the command."""
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
    ) -> Self:
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

"""What a summary or a report is about: a problem, the outcome of its fit, and how it was asked."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.fitting.fitters import Outcome
from dvisr.posterior import Draws, Function, Posterior
from dvisr.posterior.of_function import function_draws
from dvisr.problem import Problem


@dataclasses.dataclass(frozen=True)
class Subject:
    """A fit and its circumstances.

    Parameters
    ----------
    problem : Problem
    outcome : Outcome
    target : str
        The name of y.
    call : str
        The Python call that makes such a model.
    command : str, optional
        The command that made it, where one did.
    settings : dict of str to str
        All parameters of the model, as text.
    noise : dict of str to float
        "mean" and "std" of the noise's scale.
    """

    problem: Problem
    outcome: Outcome
    target: str
    call: str
    command: str | None
    settings: dict[str, str]
    noise: dict[str, float]
    _draws: dict[int, Draws] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def draws_of(self, function: Function | None) -> Draws:
        """Of one function, or of the whole posterior."""
        if function is None:
            return self.posterior.draws
        if id(function) not in self._draws:
            made = function_draws(self.problem, self.posterior, function)
            self._draws[id(function)] = made
        return self._draws[id(function)]

    @property
    def posterior(self) -> Posterior:
        return self.outcome.posterior

    @property
    def columns(self) -> tuple[str, ...]:
        return self.problem.data.feature_names


@dataclasses.dataclass(frozen=True)
class Constant:
    """One constant of a function: its most probable value and the central interval about it."""

    mode: float
    low: float
    high: float


COVERAGE = 0.9


def constants_of(function: Function) -> list[Constant]:
    """In the order in which they are written."""
    weighed = function.weighed
    if weighed.constants.shape[1] == 0:
        return []
    tail = 0.5 * (1.0 - COVERAGE)
    low, high = weighed.quantiles(np.array([tail, 1.0 - tail]))
    return [
        Constant(float(mode), float(least), float(most))
        for mode, least, most in zip(weighed.mode, low, high, strict=True)
    ]

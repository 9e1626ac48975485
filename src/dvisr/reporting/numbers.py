"""The arrays that figures are drawn from: curves with bands, rows with intervals, residuals."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.posterior import Function, predictive
from dvisr.posterior.predictive import Draws
from dvisr.problem import Problem
from dvisr.reporting.subject import COVERAGE, Subject
from dvisr.types import Dataset

MOST_ROWS = 1500  # that are drawn; more of them are thinned evenly
_POINTS = 240  # of a curve
_BEYOND = 0.04  # of the range of a column, on either side of it
_LEVELS = (0.5 * (1.0 - COVERAGE), 1.0 - 0.5 * (1.0 - COVERAGE))


@dataclasses.dataclass(frozen=True)
class Band:
    """At each point: the middle, the interval of new observations, that of the curve alone."""

    at: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    curve_low: np.ndarray
    curve_high: np.ndarray


@dataclasses.dataclass(frozen=True)
class Rows:
    """The same at rows of the data, with their places among them."""

    places: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


def shown_rows(subject: Subject) -> np.ndarray:
    """Places of the rows that are drawn."""
    count = len(subject.problem.data.y)
    if count <= MOST_ROWS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_ROWS).astype(int))


def shown_problem(subject: Subject) -> Problem:
    """Of the rows that are drawn alone."""
    problem, places = subject.problem, shown_rows(subject)
    data, likelihood = problem.data, problem.likelihood
    if len(places) == len(data.y):
        return problem

    def some(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values)[places]

    weights = some(likelihood.weights)
    return dataclasses.replace(
        problem,
        data=Dataset(data.X[places], data.y[places], some(data.y_err), data.feature_names),
        likelihood=dataclasses.replace(
            likelihood,
            y=likelihood.y[places],
            scale=np.asarray(likelihood.scale)[places],
            weights=weights,
            y_err=some(likelihood.y_err),
            total=None if weights is None else float(weights.sum()),
        ),
        position=places if problem.position is None else problem.position[places],
    )


def curve_over(subject: Subject, function: Function | None = None) -> Band:
    """Along the only column. Where rows have error bars, the band is for their median."""
    x = subject.problem.X[:, 0]
    reach = float(x.max() - x.min()) or abs(float(x[0])) or 1.0
    at = np.linspace(x.min() - _BEYOND * reach, x.max() + _BEYOND * reach, _POINTS)
    draws, table = subject.draws_of(function), at[:, None]
    bars = subject.problem.data.y_err
    used = None if bars is None else np.full(len(at), float(np.median(bars)) * _factor(subject))
    low, high = predictive.quantiles(draws, table, _LEVELS, with_noise=True, bars=used).T
    below, above = predictive.quantiles(draws, table, _LEVELS, with_noise=False).T
    return Band(at, _middle(draws, table, function), low, high, below, above)


def rows_of(subject: Subject, function: Function | None = None) -> Rows:
    """At the rows of the data."""
    places = shown_rows(subject)
    data, draws = subject.problem.data, subject.draws_of(function)
    bars = None if data.y_err is None else data.y_err[places] * _factor(subject)
    table = data.X[places]
    low, high = predictive.quantiles(draws, table, _LEVELS, with_noise=True, bars=bars).T
    return Rows(places, _middle(draws, table, function), low, high)


def _factor(subject: Subject) -> float:
    return float(subject.problem.likelihood.noise_unit[1])


def _middle(draws: Draws, table: np.ndarray, function: Function | None) -> np.ndarray:
    """The posterior mean; of one function, its values at the most probable constants."""
    if function is None:
        return predictive.moments(draws, table)[0]
    values, _ = evaluate(function.modal, table)
    return np.broadcast_to(values, (len(table),)).copy()


def residuals_of_mean(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """Of the rows that are drawn: the posterior mean, and what is left in units of the noise."""
    places = shown_rows(subject)
    mean = predictive.moments(subject.posterior.draws, subject.problem.X)[0]
    return mean[places], _in_units(subject, mean, subject.posterior.draws)[places]


def residuals_of(subject: Subject, function: Function) -> np.ndarray:
    """The same of one function at its most probable constants."""
    draws = subject.draws_of(function)
    values = _middle(draws, subject.problem.X, function)
    left: np.ndarray = _in_units(subject, values, draws)[shown_rows(subject)]
    return left


def _in_units(subject: Subject, values: np.ndarray, draws: Draws) -> np.ndarray:
    size = float(np.median(draws.noise_factor)) if len(draws) else 1.0
    with np.errstate(all="ignore"):
        left: np.ndarray = np.asarray(subject.problem.likelihood.residuals(np, values)) / size
    return left

"""The arrays that figures are drawn from: curves with bands, rows with intervals, residuals."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.posterior import Function, predictive
from dvisr.posterior.of_function import function_draws
from dvisr.posterior.predictive import Draws
from dvisr.reporting.subject import COVERAGE, Subject

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


def draws_of(subject: Subject, function: Function | None) -> Draws:
    """Of one function, or of the whole posterior."""
    if function is None:
        return subject.posterior.draws
    return function_draws(subject.problem, subject.posterior, function)


def shown_rows(subject: Subject) -> np.ndarray:
    """Places of the rows that are drawn."""
    count = len(subject.problem.data.y)
    if count <= MOST_ROWS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_ROWS).astype(int))


def curve_over(subject: Subject, function: Function | None = None) -> Band:
    """Along the only column. Where rows have error bars, the band is for their median."""
    x = subject.problem.X[:, 0]
    reach = float(x.max() - x.min()) or abs(float(x[0])) or 1.0
    at = np.linspace(x.min() - _BEYOND * reach, x.max() + _BEYOND * reach, _POINTS)
    draws, table = draws_of(subject, function), at[:, None]
    bars = subject.problem.data.y_err
    used = None if bars is None else np.full(len(at), float(np.median(bars)) * _factor(subject))
    low, high = predictive.quantiles(draws, table, _LEVELS, with_noise=True, bars=used).T
    below, above = predictive.quantiles(draws, table, _LEVELS, with_noise=False).T
    return Band(at, _middle(draws, table, function), low, high, below, above)


def rows_of(subject: Subject, function: Function | None = None) -> Rows:
    """At the rows of the data."""
    places = shown_rows(subject)
    data, draws = subject.problem.data, draws_of(subject, function)
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
    draws = function_draws(subject.problem, subject.posterior, function)
    values = _middle(draws, subject.problem.X, function)
    return _in_units(subject, values, draws)[shown_rows(subject)]


def _in_units(subject: Subject, values: np.ndarray, draws: Draws) -> np.ndarray:
    size = float(np.median(draws.noise_factor)) if len(draws) else 1.0
    with np.errstate(all="ignore"):
        left: np.ndarray = np.asarray(subject.problem.likelihood.residuals(np, values)) / size
    return left

"""Predictions from stored draws of tree, constants and noise.

A prediction at a row depends on that row and the draws alone, so it is the same whichever rows are
asked for together. Draws that are undefined at a row are counted and left out there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.noise import AbstractNoise

_REACH = 10.0  # interquartile ranges beyond the quartiles at which a draw counts as exploded
_MOST_VALUES = 20_000_000  # draws times rows that are held at once
_NODES = 8  # of the noise, for each draw
_GOLDEN = 0.6180339887498949  # of its multiples, the fractions are spread evenly, however many


@dataclasses.dataclass(frozen=True)
class Draws:
    """Equally likely draws from the posterior.

    Parameters
    ----------
    expressions : tuple of Expression
    tree : ndarray of shape (draws,)
        Which of the expressions.
    constants : ndarray of shape (draws, most constants)
    noise_factor : ndarray of shape (draws,)
        The factor s of the noise.
    scale : float
        What s is multiplied by, where all rows have one scale.
    noise : AbstractNoise
    """

    expressions: tuple[Expression, ...]
    tree: np.ndarray
    constants: np.ndarray
    noise_factor: np.ndarray
    scale: float
    noise: AbstractNoise

    def __len__(self) -> int:
        return len(self.tree)

    def chosen(self, places: np.ndarray) -> Draws:
        """Some of the draws."""
        return dataclasses.replace(
            self,
            tree=self.tree[places],
            constants=self.constants[places],
            noise_factor=self.noise_factor[places],
        )

    def curves(self, X: np.ndarray) -> np.ndarray:
        """(draws, rows): each draw's values, NaN where it is undefined."""
        values = np.full((len(self), len(X)), np.nan)
        for number, expression in enumerate(self.expressions):
            rows = np.flatnonzero(self.tree == number)
            if len(rows) == 0:
                continue
            own = self.constants[rows, : expression.num_constants]
            computed, defined = evaluate(expression, X, [column[:, None] for column in own.T])
            shape = (len(rows), len(X))
            values[rows] = np.where(
                np.broadcast_to(defined, shape), np.broadcast_to(computed, shape), np.nan
            )
        if self.noise.link == "log":  # where the formula is not positive, so is no observation
            values = np.where(values > 0.0, values, np.nan)
        return values

    def parts(self, num_rows: int) -> list[slice]:
        """Rows that can be worked out at once."""
        size = max(1, _MOST_VALUES // max(1, _NODES * len(self)))
        return [slice(start, start + size) for start in range(0, num_rows, size)]

    def sigmas(self, curves: np.ndarray, bars: np.ndarray | None) -> np.ndarray:
        """(draws, rows): the scale of the noise; error bars are in the units of y."""
        if bars is None:
            return np.broadcast_to((self.noise_factor * self.scale)[:, None], curves.shape)
        sigmas: np.ndarray = self.noise_factor[:, None] * bars[None, :]
        if self.noise.link == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                sigmas = sigmas / np.abs(curves)
        return sigmas


def moments(
    draws: Draws, X: np.ndarray, bars: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row: the mean of the curves, the standard deviation of a new observation, and the
    share of draws that are undefined there.

    The mean is a mean, except that draws far outside the others count as lying at a bound: ten
    interquartile ranges (or scales of the noise, if those are larger) beyond the quartiles. A tree
    of one per cent that explodes would otherwise be all that is left of it.
    """
    mean, std, undefined = np.empty(len(X)), np.empty(len(X)), np.empty(len(X))
    for part in draws.parts(len(X)):
        curves = draws.curves(X[part])
        sigmas = draws.sigmas(curves, None if bars is None else bars[part])
        with np.errstate(all="ignore"):  # the bound is the same whether bars are given or not
            unit = np.abs(draws.noise.observed(curves, draws.sigmas(curves, None), 1.0) - curves)
        clipped = bounded(curves, _root_mean_square(unit))
        undefined[part] = np.isnan(curves).mean(axis=0)
        present = ~np.isnan(clipped)
        count = np.maximum(present.sum(axis=0), 1)
        total = (np.where(present, clipped, 0.0) / count).sum(axis=0)
        centred = np.where(present, clipped - total, np.nan)
        noise = _root_mean_square(draws.noise.spread(clipped, sigmas))
        nothing = ~present.any(axis=0)
        mean[part] = np.where(nothing, np.nan, total)
        std[part] = np.where(nothing, np.nan, np.hypot(_root_mean_square(centred), noise))
    return mean, std, undefined


def _root_mean_square(values: np.ndarray) -> np.ndarray:
    """Of each column, NaN left out; in units of its largest, so that no square of it over- or
    underflows."""
    sizes = np.where(np.isnan(values), 0.0, np.abs(values))
    count = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    largest = sizes.max(axis=0)
    unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    root: np.ndarray = unit * np.sqrt(((sizes / unit) ** 2).sum(axis=0) / count)
    return root


def bounded(curves: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Values outside the quartiles by more than ten times their distance, moved to there."""
    low, high = _quantiles(curves, (0.25, 0.75))
    with np.errstate(over="ignore"):  # a bound beyond all numbers is none
        reach = _REACH * np.maximum(high - low, noise)
        clipped: np.ndarray = np.clip(curves, low - reach, high + reach)
    return clipped


def quantiles(
    draws: Draws,
    X: np.ndarray,
    levels: Sequence[float],
    *,
    with_noise: bool,
    bars: np.ndarray | None = None,
) -> np.ndarray:
    """(rows, levels): of a new observation, or of the curve alone."""
    values = np.empty((len(X), len(levels)))
    # Each draw's noise is one value out of each of some equally likely slices, the next draw's a
    # little further along: evenly spread over all draws, so that no row needs random numbers.
    along = np.clip((np.arange(len(draws)) * _GOLDEN + 0.5) % 1.0, 1e-9, 1.0 - 1e-9)
    nodes = draws.noise.quantile((np.arange(_NODES)[:, None] + along) / _NODES)
    for part in draws.parts(len(X)):
        curves = draws.curves(X[part])
        if with_noise:
            sigmas = draws.sigmas(curves, None if bars is None else bars[part])
            noisy = draws.noise.observed(curves[None], sigmas[None], nodes[:, :, None])
            curves = noisy.reshape(-1, curves.shape[1])
        values[part] = _quantiles(curves, list(levels)).T
    return values


def _quantiles(values: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """(levels, columns): NaN left out, which is slow, so only where there are any."""
    missing = np.isnan(values)
    some = missing.any(axis=0)
    found = np.full((len(levels), values.shape[1]), np.nan)
    if not some.all():
        found[:, ~some] = np.quantile(values[:, ~some], levels, axis=0)
    partly = some & ~missing.all(axis=0)
    if partly.any():
        found[:, partly] = np.nanquantile(values[:, partly], levels, axis=0)
    return found


def observations(
    draws: Draws,
    X: np.ndarray,
    count: int,
    rng: np.random.Generator,
    bars: np.ndarray | None = None,
) -> np.ndarray:
    """(rows, count): each column a whole data set drawn from the posterior predictive."""
    some = draws.chosen(rng.choice(len(draws), count, replace=count > len(draws)))
    curves = some.curves(X)
    sigmas = some.sigmas(curves, bars)
    drawn: np.ndarray = draws.noise.observed(curves, sigmas, draws.noise.draw(rng, curves.shape))
    return drawn.T

"""How likely the data are given a tree's values: Gaussian noise, given or integrated out."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as onp
from scipy.special import gammaln

# The prior of the noise variance where it is inferred: an inverse gamma, written as a scaled
# inverse chi-squared. It weighs as much as one observation of a residual of a thousandth of the
# spread of y. Upwards it falls off slowly, by a factor of 10 a decade of sigma; downwards sharply,
# so that no fit is rewarded for being closer than data are measured. With an error bar for every
# point, the common factor of the error bars is centred at 1 instead.
NOISE_PRIOR_OBSERVATIONS = 1.0
NOISE_PRIOR_FRACTION = 1e-3


class AbstractLikelihood(abc.ABC):
    """Depends on the values only through the sum of squares of the whitened residuals.

    Subclasses are registered with JAX, so that y and the error bars are arguments of a compiled
    function rather than constants in it: other data of the same shape compile nothing.
    """

    y: onp.ndarray
    scale: onp.ndarray  # (points,): what a residual is divided by
    weights: onp.ndarray | None  # (points,): how often each row was seen; None: once
    total: float | None  # the sum of the weights

    @property
    def count(self) -> float:
        """How many observations there are."""
        return float(len(self.y)) if self.total is None else self.total

    def whitened(self, np: Any, values: Any) -> Any:
        """Residuals in units of their error bars, and by how often they were seen."""
        residuals = (np.asarray(self.y) - values) / np.asarray(self.scale)
        return residuals if self.weights is None else residuals * np.sqrt(self.weights)

    def log_scale(self, np: Any) -> Any:
        """The sum over observations of the log of the scale."""
        logs = np.log(np.asarray(self.scale))
        return logs.sum() if self.weights is None else (logs * np.asarray(self.weights)).sum()

    @abc.abstractmethod
    def of_squares(self, np: Any, squares: Any) -> Any:
        """The log likelihood, given the sum of the squares of the whitened residuals."""

    def log_prob(self, np: Any, values: Any) -> Any:
        """The log likelihood of values (..., points)."""
        # A residual too large to be squared has likelihood zero, which is what infinity gives.
        with onp.errstate(over="ignore"):
            residuals = self.whitened(np, values)
            return self.of_squares(np, (residuals * residuals).sum(axis=-1))


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["y", "scale", "weights"],
    meta_fields=["total"],
)
@dataclasses.dataclass(frozen=True)
class GaussianNoise(AbstractLikelihood):
    """Independent Gaussian noise of a known standard deviation, one for all or one a point."""

    y: onp.ndarray
    scale: onp.ndarray
    weights: onp.ndarray | None = None
    total: float | None = None

    def of_squares(self, np: Any, squares: Any) -> Any:
        log_normaliser = -0.5 * self.count * math.log(2.0 * math.pi) - self.log_scale(np)
        return -0.5 * squares + log_normaliser


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["y", "scale", "weights"],
    meta_fields=["shape", "rate", "total"],
)
@dataclasses.dataclass(frozen=True)
class InferredNoise(AbstractLikelihood):
    """Gaussian noise of standard deviation s * scale, with s^2 integrated out under an inverse
    gamma prior of this shape and rate. Finite even when every residual is zero."""

    y: onp.ndarray
    scale: onp.ndarray
    shape: float
    rate: float
    weights: onp.ndarray | None = None
    total: float | None = None

    def of_squares(self, np: Any, squares: Any) -> Any:
        n = self.count
        constant = float(
            gammaln(self.shape + 0.5 * n)
            - gammaln(self.shape)
            - 0.5 * n * math.log(2.0 * math.pi * self.rate)
        ) - self.log_scale(np)
        return constant - (self.shape + 0.5 * n) * np.log1p(0.5 * squares / self.rate)

    def given(self, np: Any, squares: Any, log_s: Any) -> Any:
        """The log joint density of the data and log s: what is left to integrate where
        constants are integrated in closed form first."""
        n = self.count
        log_prior = (
            math.log(2.0)
            + self.shape * math.log(self.rate)
            - float(gammaln(self.shape))
            - 2.0 * self.shape * log_s
            - self.rate * np.exp(-2.0 * log_s)
        )
        constant = float(-0.5 * n * math.log(2.0 * math.pi) - self.log_scale(onp))
        return log_prior + constant - n * log_s - 0.5 * squares


def make_likelihood(
    y: onp.ndarray,
    noise: float | str,
    y_err: onp.ndarray | None = None,
    weights: onp.ndarray | None = None,
) -> AbstractLikelihood:
    """From what a user gives: a number or "infer", error bars by row or none, and how often each
    row was seen (a weight of 2 is the row twice; rows of weight 0 are to be left out before).

    With error bars alone they are the noise; with "infer" as well, a common factor of them is
    inferred; a number beside error bars multiplies them.
    """
    n = len(y)
    bars = onp.ones(n) if y_err is None else onp.asarray(y_err, dtype=onp.float64)
    total = None if weights is None else float(weights.sum())
    if isinstance(noise, str):
        if noise.strip() != "infer":
            raise ValueError(f"noise must be a number above 0 or 'infer', not {noise!r}")
        size = 1.0 if y_err is not None else NOISE_PRIOR_FRACTION * _spread(y, weights)
        shape = 0.5 * NOISE_PRIOR_OBSERVATIONS
        # y is measured in units of `size`, so that no square of it over- or underflows.
        return InferredNoise(y, bars * size, shape, shape, weights, total)
    try:
        value = float(noise)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"noise must be a number above 0 or 'infer', not {noise!r}")
    return GaussianNoise(y, bars * value, weights, total)


def _spread(y: onp.ndarray, weights: onp.ndarray | None) -> float:
    """The standard deviation of y; for a constant y its size, and 1 for zeros."""
    largest = float(onp.abs(y).max())
    if largest == 0.0:
        return 1.0
    scaled = y / largest
    centred = scaled - onp.average(scaled, weights=weights)
    spread = math.sqrt(float(onp.average(centred * centred, weights=weights))) * largest
    return spread if spread > 1e-12 * largest else largest

"""Gaussian noise: the standard deviation given, or inferred and integrated out in closed form."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as onp
from scipy.special import gammaln, ndtr, ndtri

from dvisr.library.sums import weighted_squares
from dvisr.noise.base import AbstractNoise, ScalePrior, _summed
from dvisr.noise.kernel import IS_INFERRED, RATE, SHAPE, TOTAL, NoiseKernel, pointer


@dataclasses.dataclass(frozen=True)
class Gaussian(AbstractNoise):
    """Independent Gaussian noise.

    Parameters
    ----------
    scale : float, optional
        Its standard deviation (with error bars, a factor of them); None to infer it.

    Examples
    --------
    >>> from dvisr import Gaussian
    >>> Gaussian(0.5).spelling
    '0.5'
    """

    name: ClassVar[str] = "gaussian"
    by_squares: ClassVar[bool] = True

    def log_density(self, np: Any, z: Any) -> Any:
        return -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)

    def cdf(self, z: onp.ndarray) -> onp.ndarray:
        values: onp.ndarray = ndtr(z)
        return values

    def quantile(self, level: onp.ndarray) -> onp.ndarray:
        values: onp.ndarray = ndtri(level)
        return values

    def draw(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        return rng.standard_normal(shape)

    @property
    def variance(self) -> float:
        return 1.0

    @property
    def kernel(self) -> NoiseKernel:
        return _kernel()

    @property
    def spelling(self) -> str:
        return "infer" if self.scale is None else f"{self.scale!r}"

    @property
    def sentence(self) -> str:
        return "Gaussian"

    # Closed forms: all depends on the sum of squares alone ---------------------------------------

    def score(self, z: onp.ndarray) -> onp.ndarray:
        return z

    @property
    def information(self) -> float:
        return 1.0

    def log_likelihood(
        self, np: Any, residuals: Any, counts: Any, total: float, prior: ScalePrior | None
    ) -> Any:
        # A residual too large to be squared has likelihood zero, which is what infinity gives.
        with onp.errstate(over="ignore"):
            return self.of_squares(np, _summed(residuals * residuals, counts), total, prior)

    def of_squares(self, np: Any, squares: Any, total: float, prior: ScalePrior | None) -> Any:
        """`log_likelihood` by the sum of squares."""
        if prior is None:
            return -0.5 * squares - 0.5 * total * math.log(2.0 * math.pi)
        power = prior.shape + 0.5 * total
        constant = float(
            gammaln(power)
            - gammaln(prior.shape)
            - 0.5 * total * math.log(2.0 * math.pi * prior.rate)
        )
        return constant - power * np.log1p(0.5 * squares / prior.rate)

    def scale_draws(
        self,
        rng: onp.random.Generator,
        residuals: onp.ndarray,
        counts: onp.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> onp.ndarray:
        if prior is None:
            return onp.ones(len(residuals))
        power, rate = _conditional(residuals, counts, total, prior)
        drawn: onp.ndarray = onp.sqrt(rate / rng.gamma(power, 1.0, len(residuals)))
        return drawn

    def scale_moments(
        self,
        residuals: onp.ndarray,
        counts: onp.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> tuple[onp.ndarray, onp.ndarray]:
        if prior is None:
            return onp.ones(len(residuals)), onp.ones(len(residuals))
        power, rate = _conditional(residuals, counts, total, prior)
        mean = math.exp(gammaln(power - 0.5) - gammaln(power)) * onp.sqrt(rate)
        return mean, rate / (power - 1.0) if power > 1.0 else onp.full(len(rate), math.inf)


def _conditional(
    residuals: onp.ndarray, counts: onp.ndarray | None, total: float, prior: ScalePrior
) -> tuple[float, onp.ndarray]:
    """Shape and rates of the inverse gamma distribution of s^2 given residuals."""
    squares = _summed(residuals * residuals, counts)
    return prior.shape + 0.5 * total, prior.rate + 0.5 * squares


def _squares(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    for i in range(len(weights)):
        weights[i] = 1.0
    return weighted_squares(residuals, counts)


def _misfit(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    squares = weighted_squares(residuals, counts)
    weight, value = 1.0, 0.5 * squares
    if parameters[IS_INFERRED] > 0.0:
        power = parameters[SHAPE] + 0.5 * parameters[TOTAL]
        weight = 2.0 * power / (2.0 * parameters[RATE] + squares)
        value = power * math.log1p(0.5 * squares / parameters[RATE])
    for i in range(len(weights)):
        weights[i] = weight
    for i in range(len(curvatures)):
        # With s integrated out the posterior of constants has the tails of a Student t, whose
        # integral is done as such: its matrix is that of the weights.
        curvatures[i] = weight
    return value


@functools.cache
def _kernel() -> NoiseKernel:
    return NoiseKernel(pointer(_squares), pointer(_misfit))

"""What a noise model must say of itself, and what follows from that for all of them.

A row's observation y scatters about the formula's value f by a *standardised residual*

    z = (t(y) - t(f)) / (s * scale),

where t is the model's link (nothing, or the logarithm), `scale` is known for every row, and s is a
factor common to all rows: 1 where the noise is given, else inferred under a `ScalePrior` and
integrated out. A model states the density of z; everything else is worked out from it here, and a
model overrides what it has a closed form of.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import Any, ClassVar, Literal

import numpy as onp
from scipy.special import gammaln, logsumexp, ndtri

from dvisr.noise.kernel import NoiseKernel

_NODES = 160  # of the trapezium rule over log s, as far as ...
_NEGLIGIBLE = 45.0  # ... so many nats below the highest
_HALVINGS = 24
_LEVELS = 10_000  # at which the Fisher information is averaged
_MOST_VALUES = 20_000_000  # held at once


@dataclasses.dataclass(frozen=True)
class ScalePrior:
    """The prior of the factor s: s^2 has an inverse gamma distribution.

    Parameters
    ----------
    shape, rate : float
        Of the inverse gamma distribution.
    """

    shape: float
    rate: float

    def log_density(self, np: Any, log_s: Any) -> Any:
        """The log density of log s."""
        constant = math.log(2.0) + self.shape * math.log(self.rate) - float(gammaln(self.shape))
        return constant - 2.0 * self.shape * log_s - self.rate * np.exp(-2.0 * log_s)

    def draw(self, rng: onp.random.Generator, count: int) -> onp.ndarray:
        """Independent draws of s."""
        drawn: onp.ndarray = onp.sqrt(self.rate / rng.gamma(self.shape, 1.0, count))
        return drawn

    def cdf(self, s: float) -> float:
        """The prior probability of a factor below s."""
        from scipy.special import gammaincc

        return float(gammaincc(self.shape, self.rate / (s * s))) if s > 0.0 else 0.0


@dataclasses.dataclass(frozen=True)
class AbstractNoise(abc.ABC):
    """A noise model. `tests/noise/test_contract.py` holds every one to this contract.

    Parameters
    ----------
    scale : float, optional
        The scale of the noise (with error bars, a factor of them); None to infer it.
    """

    name: ClassVar[str]
    link: ClassVar[Literal["identity", "log"]] = "identity"
    # Whether the likelihood depends on the residuals through their sum of squares alone.
    by_squares: ClassVar[bool] = False

    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0.0):
            raise ValueError(f"the scale of the noise must be above 0, not {self.scale!r}")

    # What a model states -----------------------------------------------------------------------

    @abc.abstractmethod
    def log_density(self, np: Any, z: Any) -> Any:
        """The log density of a standardised residual, elementwise. Symmetric about 0, and such
        that z times the slope of minus the log density never falls as \\|z\\| grows."""

    @abc.abstractmethod
    def cdf(self, z: onp.ndarray) -> onp.ndarray:
        """The probability of a standardised residual below z."""

    @abc.abstractmethod
    def quantile(self, level: onp.ndarray) -> onp.ndarray:
        """The inverse of `cdf`."""

    @abc.abstractmethod
    def draw(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        """Independent standardised residuals."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """Of a standardised residual; may be infinite."""

    @property
    @abc.abstractmethod
    def kernel(self) -> NoiseKernel:
        """What the compiled kernel of fits calls; see `dvisr.noise.kernel`."""

    @property
    @abc.abstractmethod
    def spelling(self) -> str:
        """How it is typed: `noise_model` of it gives the model back."""

    @property
    @abc.abstractmethod
    def sentence(self) -> str:
        """In words, for a page or a terminal, without its scale."""

    # What follows --------------------------------------------------------------------------------

    def score(self, z: onp.ndarray) -> onp.ndarray:
        """The slope of minus the log density at standardised residuals."""
        gap = 1e-4 * onp.maximum(onp.abs(z), 1.0)
        rise = self.log_density(onp, z - gap) - self.log_density(onp, z + gap)
        slope: onp.ndarray = rise / (2.0 * gap)
        return slope

    @functools.cached_property
    def information(self) -> float:
        """The Fisher information about a shift: the mean square of the score."""
        levels = (onp.arange(_LEVELS) + 0.5) / _LEVELS
        return float((self.score(self.quantile(levels)) ** 2).mean())

    @functools.cached_property
    def has_heavy_tails(self) -> bool:
        """Whether far residuals are commoner than a Gaussian's, for the same quartiles."""
        far, quartile = self.quantile(onp.array([1.0 - 1e-4, 0.75]))
        return bool(far / quartile > 1.2 * ndtri(1.0 - 1e-4) / ndtri(0.75))

    def log_likelihood(
        self, np: Any, residuals: Any, counts: Any, total: float, prior: ScalePrior | None
    ) -> Any:
        """Of residuals (..., rows) in units of `scale`, each seen `counts` times (None: once),
        `total` times together; the factor s is integrated out if it has a prior. The logs of the
        scales are not in it."""
        if prior is None:
            return _summed(self.log_density(np, residuals), counts)
        if np is onp:
            flat = onp.asarray(residuals, dtype=onp.float64)
            rows = flat.reshape(-1, flat.shape[-1])
            misfit = self.kernel.misfits(rows, counts, total, prior)
            return self.perfect(total, prior) - misfit.reshape(flat.shape[:-1])
        _, log_joint, step = self.scale_grid(np, residuals, counts, total, prior)
        top = log_joint.max(axis=-1, keepdims=True)
        return (top + np.log(np.exp(log_joint - top).sum(axis=-1, keepdims=True)))[..., 0] + np.log(
            step
        )

    def perfect(self, total: float, prior: ScalePrior | None) -> float:
        """`log_likelihood` of residuals that are all zero."""
        if prior is None:
            return total * float(self.log_density(onp, onp.zeros(())))
        return self._perfect_inferred(total, prior)

    def _perfect_inferred(self, total: float, prior: ScalePrior) -> float:
        """With no residuals s has the prior times s^-total, which has a closed form."""
        at_zero = total * float(self.log_density(onp, onp.zeros(())))
        power = prior.shape + 0.5 * total
        gain = float(gammaln(power) - gammaln(prior.shape))
        return at_zero + gain - 0.5 * total * math.log(prior.rate)

    def scale_grid(
        self, np: Any, residuals: Any, counts: Any, total: float, prior: ScalePrior
    ) -> tuple[Any, Any, Any]:
        """Values of log s (..., nodes) about where it is likeliest given the residuals, the log
        joint density of residuals and log s there, and the distance of neighbours (...,)."""
        residuals = _clipped(np, residuals)
        power = 2.0 * prior.shape + total

        def log_joint(log_s: Any) -> Any:
            z = residuals * np.exp(-log_s)[..., None]
            values = _summed(self.log_density(np, z), counts) - total * log_s
            return values + prior.log_density(np, log_s)

        squares = _summed(residuals * residuals, counts)
        low = 0.5 * math.log(2.0 * prior.rate / power) + 0.0 * squares  # rising, by the prior alone
        high = 0.5 * np.log((2.0 * prior.rate + squares) / power) + 5.0
        # It is concave, but may be flat over decades of s, where an outlier in few rows pulls as
        # much as the rest: neither its peak nor its ends are found from its curvature.
        gap = 1e-2
        peak, _ = _halved(np, low, high, lambda u: log_joint(u + gap) > log_joint(u - gap))
        least = log_joint(peak) - _NEGLIGIBLE
        left, _ = _halved(np, low - 3.0, peak, lambda u: log_joint(u) < least)
        most = high + 3.0 + 2.0 * _NEGLIGIBLE / power
        _, right = _halved(np, peak, most, lambda u: log_joint(u) > least)
        step = (right - left) / (_NODES - 1)
        places = onp.arange(_NODES, dtype=onp.float64).astype(residuals.dtype)
        nodes = left[..., None] + step[..., None] * np.asarray(places).reshape(
            (1,) * left.ndim + (_NODES,)
        )
        z = residuals[..., None, :] * np.exp(-nodes)[..., None]
        joint = _summed(self.log_density(np, z), counts) - total * nodes
        return nodes, joint + prior.log_density(np, nodes), step

    def scale_draws(
        self,
        rng: onp.random.Generator,
        residuals: onp.ndarray,
        counts: onp.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> onp.ndarray:
        """One draw of s for each row of residuals (draws, rows)."""
        if prior is None:
            return onp.ones(len(residuals))
        drawn = onp.empty(len(residuals))
        for part, nodes, shares, step in self._grids(residuals, counts, total, prior):
            cumulative = onp.cumsum(shares, axis=1)
            levels = rng.uniform(size=(len(nodes), 1))
            place = (cumulative < levels).sum(axis=1).clip(0, nodes.shape[1] - 1)
            rows = onp.arange(len(nodes))
            below = onp.where(place > 0, cumulative[rows, place - 1], 0.0)
            inside = (levels[:, 0] - below) / onp.maximum(shares[rows, place], 1e-300)
            drawn[part] = onp.exp(nodes[rows, place] + step * (inside.clip(0.0, 1.0) - 0.5))
        return drawn

    def scale_moments(
        self,
        residuals: onp.ndarray,
        counts: onp.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> tuple[onp.ndarray, onp.ndarray]:
        """The means of s and of s^2 given each row of residuals (draws, rows)."""
        if prior is None:
            return onp.ones(len(residuals)), onp.ones(len(residuals))
        mean, square = onp.empty(len(residuals)), onp.empty(len(residuals))
        for part, nodes, shares, _ in self._grids(residuals, counts, total, prior):
            mean[part] = (shares * onp.exp(nodes)).sum(axis=1)
            square[part] = (shares * onp.exp(2.0 * nodes)).sum(axis=1)
        if prior.shape + 0.5 * total <= 1.0:  # s^2 then has no mean
            square[:] = math.inf
        return mean, square

    def _grids(
        self,
        residuals: onp.ndarray,
        counts: onp.ndarray | None,
        total: float,
        prior: ScalePrior,
    ) -> Any:
        """The distribution of log s given each row of residuals, a part of the rows at a time."""
        size = max(1, _MOST_VALUES // (_NODES * residuals.shape[1]))
        for start in range(0, len(residuals), size):
            part = slice(start, start + size)
            nodes, joint, step = self.scale_grid(onp, residuals[part], counts, total, prior)
            yield part, nodes, onp.exp(joint - logsumexp(joint, axis=1, keepdims=True)), step

    def observed(self, curves: Any, sigmas: Any, z: Any) -> Any:
        """Observations about values `curves`, given standardised residuals and their scales."""
        return curves + sigmas * z

    def spread(self, curves: onp.ndarray, sigmas: onp.ndarray) -> onp.ndarray:
        """The standard deviation of an observation about values `curves`."""
        spread: onp.ndarray = sigmas * math.sqrt(self.variance) + 0.0 * curves
        return spread


def _summed(values: Any, counts: Any) -> Any:
    """Over rows, each as often as it was seen."""
    if counts is None:
        return values.sum(axis=-1)
    return (values * counts.reshape((1,) * (values.ndim - 1) + (-1,))).sum(axis=-1)


def _clipped(np: Any, residuals: Any) -> Any:
    """Residuals that can be squared."""
    most = math.sqrt(float(onp.finfo(residuals.dtype).max)) * 1e-4
    return np.clip(residuals, -most, most)


def _halved(np: Any, low: Any, high: Any, is_below: Any) -> tuple[Any, Any]:
    """Where a condition that holds at `low` ceases to, between `low` and `high`."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        holds = is_below(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, high

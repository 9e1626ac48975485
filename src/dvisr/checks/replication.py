"""What the checks of the data are given, and the reference that residuals are compared with.

The residuals of a fit are smaller than the noise and correlated: its constants have followed the
data. Comparing them with bare noise, draw by draw, is valid but slow to notice anything (posterior
predictive p-values are conservative). Here replicated noise is followed by a fit as well, to first
order: if the noise of the rows had been e, the curve would have moved by H e, and H can be read off
the posterior draws, since their covariance is H times the variance of the noise. So the residuals
of the mean curve are compared with (1 - H) e, which has lost as much to the constants as they have.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from dvisr.checks.repeats import expected_distinct, rounding
from dvisr.diagnostics import smoothed_weights
from dvisr.noise import AbstractNoise

MOST_DRAWS = 1000
_MOST_REPLICATES = 2000
_MOST_NUMBERS = 1_000_000  # in an array of replicates
_WIDE = 400  # rows beyond which as many draws tell H well enough
_SEED = 20240229
MOST_COPIES = 1.5  # observations for each distinct row that noise does not explain
_MOST_OBSERVATIONS = 5000


_OF_ROWS = ("curves", "residuals", "log_density", "cdf")


@dataclass(frozen=True, eq=False)
class Replication:
    """Data, posterior draws and data replicated from them, as plain arrays.

    Attributes
    ----------
    X, column_names, y
        Distinct rows of the data: (rows, columns), names and (rows,).
    counts
        How often each row was seen: a row seen ten times is ten observations to the posterior.
    position
        The place of each row in the user's table, from 0; of its first copy.
    curves
        (draws, rows), each draw's mean.
    residuals
        (draws, rows), (t(y) - t(curve)) / (s scale_row), with t the logarithm for relative noise.
    replicated
        (draws, rows), independent draws from the noise model's standard density.
    log_density, cdf
        (draws, rows), of each observed row under each draw.
    num_constants
        (draws,), free constants of the drawn formula.
    noise
        The noise model.
    noise_is_inferred
        Whether the scale of the noise was found from the data.
    scale_prior
        Quantile level, under the prior, of the posterior median of the noise scale; None if given.
    """

    X: np.ndarray
    column_names: tuple[str, ...]
    y: np.ndarray
    counts: np.ndarray
    position: np.ndarray
    curves: np.ndarray
    residuals: np.ndarray
    replicated: np.ndarray
    log_density: np.ndarray
    cdf: np.ndarray
    num_constants: np.ndarray
    noise: AbstractNoise
    noise_is_inferred: bool
    scale_prior: float | None = None

    def __post_init__(self) -> None:
        rows = len(self.y)
        shape = (len(self.residuals), rows)
        for name in ("curves", "residuals", "replicated", "log_density", "cdf"):
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must be {shape}, not {getattr(self, name).shape}")
        if self.X.shape != (rows, len(self.column_names)):
            raise ValueError(f"X must be {(rows, len(self.column_names))}, not {self.X.shape}")
        for name in ("counts", "position"):
            if getattr(self, name).shape != (rows,):
                raise ValueError(f"{name} must be ({rows},), not {getattr(self, name).shape}")

    @property
    def num_rows(self) -> int:
        return len(self.y)

    @cached_property
    def draws(self) -> np.ndarray:
        """Numbers of the draws that are used: finite ones, at most a thousand, evenly spaced."""
        finite = np.isfinite(self.residuals).all(axis=1) & np.isfinite(self.curves).all(axis=1)
        usable = np.flatnonzero(finite & np.isfinite(self.log_density).all(axis=1))
        if len(usable) > MOST_DRAWS:
            usable = usable[np.linspace(0, len(usable) - 1, MOST_DRAWS).astype(int)]
        return np.asarray(usable)

    @property
    def is_usable(self) -> bool:
        return self.num_rows > 0 and len(self.draws) > 0

    @cached_property
    def prediction(self) -> np.ndarray:
        """The median curve."""
        return np.asarray(np.median(self.curves[self.draws], axis=0))

    @cached_property
    def copying(self) -> float:
        """Distinct rows that would be expected of as many observations, for each that there is:
        1 where rows seen twice are no more than chance, ten where each was copied ten times."""
        if not self.is_usable or self.counts.sum() <= self.num_rows:
            return 1.0
        some = self.draws[:: max(1, len(self.draws) // 100)]
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.abs((self.y - self.curves[some]) / self.residuals[some])
        unit = unit[np.isfinite(unit)]
        noise = float(np.median(unit)) if len(unit) else math.nan
        return expected_distinct(self.X, self.y, self.counts, noise) / self.num_rows

    @property
    def observations(self) -> Replication:
        """The same with a row for each observation, where rows seen several times are honest
        measurements that agree; itself where there are none, or where they are copies."""
        return self if self._expanded is None else self._expanded

    @cached_property
    def _expanded(self) -> Replication | None:  # not itself, lest it be kept for ever
        if not self.is_usable or self.copying > MOST_COPIES or (self.counts < 1.5).all():
            return None
        share = min(1.0, _MOST_OBSERVATIONS / float(self.counts.sum()))
        times = np.maximum(np.round(self.counts * share), 1.0).astype(int)
        rows = np.repeat(np.arange(self.num_rows), times)
        rng = np.random.default_rng(_SEED)
        return dataclasses.replace(
            self,
            **{name: getattr(self, name)[rows] for name in ("X", "y", "position")},
            **{name: getattr(self, name)[:, rows] for name in _OF_ROWS},
            counts=np.ones(len(rows)),
            replicated=rng.permuted(self.replicated[:, rows], axis=0),
        )

    @cached_property
    def refit(self) -> Refit:
        return make_refit(self)

    @cached_property
    def num_fitted(self) -> float:
        """Constants of the median formula, or the effective number if that is more."""
        return max(float(np.median(self.num_constants[self.draws])), self.refit.num_fitted)

    @cached_property
    def left_out(self) -> LeftOut:
        return leave_out(self)


@dataclass(frozen=True, eq=False)
class Refit:
    """Residuals of the mean curve, and those of replicated noise after a fit to first order.

    Attributes
    ----------
    residuals
        (rows,), in standard units of the noise.
    replicates
        (replicates, rows), the same of replicated data.
    leverage
        (rows,), how far the curve follows each row, from 0 to 1.
    """

    residuals: np.ndarray
    replicates: np.ndarray
    leverage: np.ndarray

    @property
    def num_fitted(self) -> float:
        """The effective number of fitted constants."""
        return float(self.leverage.sum())

    @cached_property
    def all_scaled(self) -> np.ndarray:
        """(1 + replicates, rows): residuals first, each row of a mean square of 1."""
        every = np.vstack([self.residuals, self.replicates])
        size = np.sqrt((every**2).mean(axis=1, keepdims=True))
        return every / np.where(size > 0.0, size, 1.0)


def make_refit(rep: Replication) -> Refit:
    """Read H off the draws and pass replicated noise through 1 - H."""
    draws = rep.draws
    residuals, root = rep.residuals[draws], np.sqrt(rep.counts)
    mean = residuals.mean(axis=0)
    noise = _replicates(rep.replicated[draws], np.random.default_rng(_SEED))
    slope, information = rep.noise.score(noise), rep.noise.information
    # A draw's residuals are those of the mean, scaled as its noise is, and what its curve is off.
    # The latter is orthogonal to the former at a fit, so that projection tells them apart.
    if len(draws) > _WIDE and rep.num_rows > _WIDE:
        residuals = residuals[np.linspace(0, len(draws) - 1, _WIDE).astype(int)]
    size = float((rep.counts * mean**2).sum())
    factor = residuals @ (rep.counts * mean) / size if size > 0.0 else np.ones(len(residuals))
    off = (residuals - factor[:, None] * mean) * root / math.sqrt(len(residuals))
    off -= off.mean(axis=0)
    share, axes = _principal(off)
    share = np.minimum(share * information, 1.0)
    moved = ((slope * root / information) @ axes * share) @ axes.T / np.where(root > 0, root, 1.0)
    leverage = np.minimum((axes**2 * share).sum(axis=1), 1.0)
    return Refit(mean, noise - moved, leverage)


def _principal(off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and axes (rows, rank) of off' off, from the smaller of its two products."""
    draws, rows = off.shape
    if rows <= draws:
        values, axes = np.linalg.eigh(off.T @ off)
    else:
        values, left = np.linalg.eigh(off @ off.T)
        axes = off.T @ left / np.sqrt(np.maximum(values, 1e-300))
    kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-9)
    return values[kept], axes[:, kept]


def _replicates(replicated: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The replicated noise, and more of it: each row's draws are independent, so that they can be
    put together anew."""
    draws, rows = replicated.shape
    wanted = min(_MOST_REPLICATES, max(400, _MOST_NUMBERS // max(rows, 1)))
    if draws >= wanted:
        return replicated[:wanted]
    more = rng.integers(draws, size=(wanted - draws, rows))
    return np.vstack([replicated, replicated[more, np.arange(rows)]])


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What leaving rows out says, by importance sampling; one observation of a row is left out.

    Attributes
    ----------
    pit
        (rows,), the probability of less than what was observed.
    cell
        (rows,), the probability of what is rounded to it; 0 where y is not rounded.
    k
        (rows,), Pareto's k.
    """

    pit: np.ndarray
    cell: np.ndarray
    k: np.ndarray

    def outside(self, share: float) -> float:
        """How many rows lie outside their central interval, with this share outside expected. A
        value that was rounded counts by the part of its cell that is outside, with the density
        within the cell taken as a Gaussian's."""
        centre = ndtri(np.clip(self.pit, 1e-12, 1.0 - 1e-12))
        half = 0.5 * self.cell * math.sqrt(2.0 * math.pi) * np.exp(0.5 * centre**2)
        low, high = ndtr(centre - half), ndtr(centre + half)
        inside = np.minimum(high, 1.0 - 0.5 * share) - np.maximum(low, 0.5 * share)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = 1.0 - np.clip(inside / (high - low), 0.0, 1.0)
        plain = np.abs(self.pit - 0.5) > 0.5 - 0.5 * share
        return float(np.where(high > low + 1e-12, part, plain).sum())


def leave_out(rep: Replication) -> LeftOut:
    log_density = rep.log_density[rep.draws]
    log_weights, k = smoothed_weights(-np.minimum(rep.counts, 1.0) * log_density)
    weights = np.exp(log_weights)
    pit = (weights * rep.cdf[rep.draws]).sum(axis=0)
    cell = rounding(rep.y) * np.exp(logsumexp(log_weights + log_density, axis=0))
    return LeftOut(np.clip(pit, 0.0, 1.0), np.clip(cell, 0.0, 1.0), k)

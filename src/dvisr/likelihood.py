"""How likely the data are given a formula's values: a noise model bound to a table."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as onp

from dvisr.noise import AbstractNoise, ScalePrior, noise_model

# The prior of the noise where its scale is inferred: s^2 has an inverse gamma distribution, written
# as a scaled inverse chi-squared. It weighs as much as one observation of a residual of a
# thousandth of the spread of y (of log y for relative noise). Upwards it falls off slowly, by a
# factor of 10 a decade of s; downwards sharply, so that no fit is rewarded for being closer than
# data are measured. With an error bar for every row, their common factor is centred at 1 instead.
NOISE_PRIOR_OBSERVATIONS = 1.0
NOISE_PRIOR_FRACTION = 1e-3


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["y", "scale", "weights", "y_err"],
    meta_fields=["noise", "prior", "total"],
)
@dataclasses.dataclass(frozen=True)
class Likelihood:
    """A noise model with the observations it is about.

    It is registered with JAX, so that y and the error bars are arguments of a compiled function
    rather than constants in it: other data of the same shape compile nothing.

    Parameters
    ----------
    noise : AbstractNoise
    y : ndarray of shape (rows,)
        As observed; the model's link is applied to it here.
    scale : ndarray of shape (rows,)
        What a residual is divided by.
    prior : ScalePrior, optional
        Of the factor s that all scales share; None where it is known to be 1.
    weights : ndarray of shape (rows,), optional
        How often each row was seen; None: once.
    total : float, optional
        The sum of the weights.
    y_err : ndarray of shape (rows,), optional
        Error bars as they were given, which `scale` was made of.
    """

    noise: AbstractNoise
    y: onp.ndarray
    scale: onp.ndarray
    prior: ScalePrior | None = None
    weights: onp.ndarray | None = None
    total: float | None = None
    y_err: onp.ndarray | None = None

    def some(self, rows: onp.ndarray, weights: onp.ndarray | None) -> Likelihood:
        """Of some of the rows, by their numbers, and of such weights; the prior of the noise is
        still that of the whole table."""
        return dataclasses.replace(
            self,
            y=self.y[rows],
            scale=self.scale[rows],
            weights=weights,
            total=None if weights is None else float(weights.sum()),
            y_err=None if self.y_err is None else self.y_err[rows],
        )

    @property
    def count(self) -> float:
        """How many observations there are."""
        return float(len(self.y)) if self.total is None else self.total

    @property
    def is_inferred(self) -> bool:
        return self.prior is not None

    @property
    def typical_scale(self) -> float:
        """The median of the rows' scales: their own where they are alike."""
        return float(onp.median(onp.asarray(self.scale)))

    @property
    def noise_unit(self) -> tuple[str, float]:
        """What the size of the noise is called, and what the factor s is multiplied by for it: the
        scale in the units of y (of its logarithm for relative noise), or, with error bars, a factor
        of these."""
        if self.y_err is None:
            return "sigma", self.typical_scale
        return "noise_factor", 1.0 if self.noise.scale is None else self.noise.scale

    def linked(self, np: Any, values: Any) -> Any:
        """The model's link of values; NaN where it has none."""
        if self.noise.link == "identity":
            return values
        is_positive = values > 0.0
        return np.where(is_positive, np.log(np.where(is_positive, values, 1.0)), np.nan)

    def is_defined(self, np: Any, values: Any) -> Any:
        """Whether the link has a value at all rows (..., rows)."""
        if self.noise.link == "identity":
            return np.ones(values.shape[:-1], dtype=bool)
        return (values > 0.0).all(axis=-1)

    def residuals(self, np: Any, values: Any) -> Any:
        """(..., rows) in units of their rows' scales; NaN where the link is undefined."""
        linked_y = self.linked(np, np.asarray(self.y))
        return (linked_y - self.linked(np, values)) / np.asarray(self.scale)

    def whitened(self, np: Any, values: Any) -> Any:
        """Residuals by how often they were seen: their squares add up to what a model that goes by
        squares depends on."""
        residuals = self.residuals(np, values)
        return residuals if self.weights is None else residuals * np.sqrt(self.weights)

    def peak_width(self, residuals: onp.ndarray) -> onp.ndarray:
        """How wide a peak of the likelihood is about residuals (n, rows), in residuals."""
        most = 1.0 if self.weights is None else float(onp.max(self.weights))
        gap = 1e-3
        drop = self.noise.log_density(onp, onp.zeros(())) - self.noise.log_density(
            onp, onp.asarray(gap)
        )
        one = gap / math.sqrt(2.0 * float(drop) * most)
        if self.prior is None:
            return onp.full(len(residuals), one)
        squares = self.noise.kernel.squares_of(residuals, self.weights, self.count, self.prior)
        freedom = 2.0 * self.prior.shape + self.count
        width: onp.ndarray = one * onp.sqrt((2.0 * self.prior.rate + squares) / freedom)
        return width

    def log_scale(self, np: Any) -> Any:
        """The sum over observations of the log of dy / dz at s = 1."""
        logs = np.log(np.asarray(self.scale))
        if self.noise.link == "log":
            logs = logs + np.log(np.asarray(self.y))
        return logs.sum() if self.weights is None else (logs * np.asarray(self.weights)).sum()

    def of_residuals(self, np: Any, residuals: Any) -> Any:
        """The log likelihood by residuals (..., rows); -inf where one is NaN."""
        weights = None if self.weights is None else np.asarray(self.weights)
        value = self.noise.log_likelihood(np, residuals, weights, self.count, self.prior)
        value = value - self.log_scale(np)
        return value if self.noise.link == "identity" else np.where(np.isnan(value), -np.inf, value)

    def log_prob(self, np: Any, values: Any) -> Any:
        """The log likelihood of values (..., rows)."""
        with onp.errstate(over="ignore"):
            return self.of_residuals(np, self.residuals(np, values))

    @property
    def perfect(self) -> float:
        """The log likelihood of a perfect fit: none is higher."""
        return float(self.noise.perfect(self.count, self.prior) - self.log_scale(onp))

    def of_squares(self, np: Any, squares: Any) -> Any:
        """The log likelihood by the (weighted) sum of squared residuals, of a model that depends on
        the residuals through it alone."""
        return self.noise.of_squares(np, squares, self.count, self.prior) - self.log_scale(np)  # type: ignore[attr-defined]

    def row_log_density(self, values: onp.ndarray, s: onp.ndarray) -> onp.ndarray:
        """(draws, rows): the log density of one observation of each row given the values (draws,
        rows) and the factor s (draws,)."""
        with onp.errstate(over="ignore"):
            z = self.residuals(onp, values) / s[:, None]
            density = self.noise.log_density(onp, z) - onp.log(s)[:, None] - onp.log(self.scale)
            if self.noise.link == "log":
                density = density - onp.log(self.y)
        rows: onp.ndarray = density
        return rows

    def scale_draws(self, rng: onp.random.Generator, residuals: onp.ndarray) -> onp.ndarray:
        """One draw of the factor s for each row of residuals (draws, rows)."""
        return self.noise.scale_draws(rng, residuals, self.weights, self.count, self.prior)

    def scale_moments(self, residuals: onp.ndarray) -> tuple[onp.ndarray, onp.ndarray]:
        """The means of s and s^2 given each row of residuals (draws, rows)."""
        return self.noise.scale_moments(residuals, self.weights, self.count, self.prior)

    def describe(self) -> str:
        """In words."""
        has_bars = self.y_err is not None
        noise, one = self.noise, float(onp.asarray(self.scale).flat[0])
        kind = noise.sentence
        if self.prior is not None:
            size = "error bars times a factor" if has_bars else "one scale for all rows"
            of_y = "log y" if noise.link == "log" else "y"
            centre = (
                "1" if has_bars else f"{NOISE_PRIOR_FRACTION:g} of the spread of {of_y} ({one:.3g})"
            )
            return (
                f"{kind}, {size}, inferred; its prior weighs as much as one observation, of a size "
                f"of {centre}"
            )
        if has_bars:
            return f"{kind}, its scales given row by row"
        return f"{kind}, of the scale {one:g} in every row"


def make_likelihood(
    y: onp.ndarray,
    noise: Any,
    y_err: onp.ndarray | None = None,
    weights: onp.ndarray | None = None,
) -> Likelihood:
    """A noise model, or what `noise_model` makes one of, for these observations.

    Parameters
    ----------
    y : ndarray of shape (rows,)
    noise : AbstractNoise, float or str
        With error bars and a scale of its own, that scale multiplies them; with error bars and no
        scale, a common factor of them is inferred.
    y_err : ndarray of shape (rows,), optional
        Error bars, in the units of y.
    weights : ndarray of shape (rows,), optional
        How often each row was seen (a weight of 2 is the row twice); rows of weight 0 are to be
        left out before.
    """
    model = noise_model(noise)
    if model.link == "log" and not (y > 0.0).all():
        row = int(onp.flatnonzero(~(y > 0.0))[0])
        raise ValueError(
            f"{model.name} noise is for a positive target, but y is {y[row]:g} in one row: use "
            f"another noise model, or leave such rows out"
        )
    bars = onp.ones(len(y)) if y_err is None else onp.asarray(y_err, dtype=onp.float64)
    if model.link == "log" and y_err is not None:
        bars = bars / y
    total = None if weights is None else float(weights.sum())
    if model.scale is not None:
        return Likelihood(model, y, bars * model.scale, None, weights, total, y_err)
    observed = onp.log(y) if model.link == "log" else y
    spread = _spread(observed, weights, if_constant=1.0 if model.link == "log" else None)
    size = 1.0 if y_err is not None else NOISE_PRIOR_FRACTION * spread
    shape = 0.5 * NOISE_PRIOR_OBSERVATIONS
    # y is measured in units of `size`, so that no square of it over- or underflows.
    return Likelihood(model, y, bars * size, ScalePrior(shape, shape), weights, total, y_err)


def _spread(y: onp.ndarray, weights: onp.ndarray | None, if_constant: float | None) -> float:
    """The standard deviation of y; for a constant y what is given, else its size, and 1 for
    zeros."""
    largest = float(onp.abs(y).max())
    if largest == 0.0:
        return 1.0
    scaled = y / largest
    centred = scaled - onp.average(scaled, weights=weights)
    spread = math.sqrt(float(onp.average(centred * centred, weights=weights))) * largest
    if spread > 1e-12 * largest:
        return spread
    return largest if if_constant is None else if_constant

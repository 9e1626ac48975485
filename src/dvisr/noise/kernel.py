"""Noise inside compiled code: how far residuals are from a perfect fit, and what each row pulls.

A model gives two compiled functions of one signature,

    f(residuals, counts, parameters, weights, curvatures) -> float

over residuals in units of their rows' scales, each seen `counts` times:

- `misfit`: by how much the log likelihood lies below that of a perfect fit, the factor s integrated
  out where it is inferred;
- `squares`: the same on the scale of a sum of squares, whatever s is: for Gaussian noise it is the
  sum of squares. The first descents of a fit go by it, when the size of the noise is not known.

Both fill `weights`, such that the slope of the result by residual i is counts[i] * weights[i] *
residuals[i] (twice that for `squares`), and `curvatures`, the second derivatives where the model
knows better than its weights; either array may be empty, and then nothing is filled in. They are
pointers to functions, so that the kernel of fits is compiled once for all models.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types

from dvisr.library.compiling import compiled, compiled_callback, named_for

if TYPE_CHECKING:
    from dvisr.noise.base import ScalePrior

_ROW = types.float64[::1]
SIGNATURE = types.float64(_ROW, _ROW, _ROW, _ROW, _ROW)

# Places in `parameters`.
TOTAL, SHAPE, RATE, IS_INFERRED, STEP, OWN = 0, 1, 2, 3, 4, 5

_ROUGH, _FINE = 0.9, 0.4  # of a standard deviation of log s: nodes of the trapezium rule
_MOST_DEVIATION = 0.5  # that is counted with: the prior and one row have no more, whatever s
_FURTHEST = 1e150  # residuals beyond this can't be squared, and have likelihood zero all the same
# Nats below the highest node where it stops: 5e-6 of the integral is left, and 1e-16.
_ROUGHLY_NOTHING, _NOTHING = 12.0, 37.0


def pointer(function: Callable[..., Any]) -> Any:
    """A function of a module of the package as a pointer that compiled code can be given, kept
    between processes."""
    return compiled_callback(SIGNATURE, function)


@dataclasses.dataclass(frozen=True)
class NoiseKernel:
    """A model's two functions and its own numbers, which follow the common ones in `parameters`."""

    squares: Any
    misfit: Any
    own: tuple[float, ...] = ()

    def parameters(
        self, total: float, prior: ScalePrior | None, *, is_fine: bool = False
    ) -> np.ndarray:
        """As compiled code takes them. Where the scale is given, s is known to be 1; `squares` then
        goes by a scale that is about that."""
        shape, rate = (0.5, 0.5) if prior is None else (prior.shape, prior.rate)
        step = _FINE if is_fine else _ROUGH
        common = (total, shape, rate, float(prior is not None), step)
        return np.array([*common, *self.own], dtype=np.float64)

    def misfits(
        self,
        residuals: np.ndarray,
        counts: np.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> np.ndarray:
        """`misfit` of each row of residuals (many, rows)."""
        return self._each(self.misfit, residuals, counts, total, prior)

    def squares_of(
        self,
        residuals: np.ndarray,
        counts: np.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> np.ndarray:
        """`squares` of each row of residuals (many, rows)."""
        return self._each(self.squares, residuals, counts, total, prior)

    def _each(
        self,
        function: Any,
        residuals: np.ndarray,
        counts: np.ndarray | None,
        total: float,
        prior: ScalePrior | None,
    ) -> np.ndarray:
        often = np.ones(residuals.shape[1]) if counts is None else np.array(counts, dtype=float)
        parameters = self.parameters(total, prior, is_fine=True)
        values: np.ndarray = _of_each(function, np.array(residuals, order="C"), often, parameters)
        return values


@compiled
def _of_each(function, residuals, counts, parameters):
    nothing = np.zeros(0)
    values = np.empty(len(residuals))
    for row in range(len(residuals)):
        values[row] = function(residuals[row], counts, parameters, nothing, nothing)
    return values


@functools.cache
def scale_mixture(row: Any) -> tuple[Any, Any]:
    """`squares` and `misfit` of a model from its row alone, both compiled: `row(z, parameters)`
    gives minus the log density of z (less that of 0), the weight (its slope over z) and the second
    derivative. The log joint density of residuals and log s is concave in log s for every model
    that keeps to `AbstractNoise.log_density`, so that its peak is found for certain."""
    log_joint = _log_joint_of(row)
    likeliest = _likeliest_of(row, log_joint)
    return _squares_of(row, likeliest), _misfit_of(row, log_joint, likeliest)


def _inside_of(row: Any) -> Any:
    """Compiles a function that goes by a row."""
    function = row.py_func
    name = named_for(function.__module__, function.__qualname__)
    return lambda own: numba.njit(name(own), error_model="numpy", nogil=True)


def _log_joint_of(row: Any) -> Any:
    @_inside_of(row)
    def log_joint(log_s, residuals, counts, parameters):
        """Of residuals and log s, less what a perfect fit has at s = 1, and its slope and minus
        its second derivative by log s."""
        power = 2.0 * parameters[SHAPE] + parameters[TOTAL]
        of_prior = 2.0 * parameters[RATE] * math.exp(-2.0 * log_s)
        value = -power * log_s - 0.5 * of_prior
        slope, bend = of_prior - power, 2.0 * of_prior
        shrink = math.exp(-log_s)
        for i in range(len(residuals)):
            z = residuals[i] * shrink
            rho, weight, curvature = row(z, parameters)
            value -= counts[i] * rho
            slope += counts[i] * weight * z * z
            bend += counts[i] * z * z * (weight + curvature)
        return value, slope, bend

    return log_joint


def _likeliest_of(row: Any, log_joint: Any) -> Any:
    @_inside_of(row)
    def likeliest(residuals, counts, parameters):
        """The log s at which the joint density is highest, its value there and minus its second
        derivative."""
        power = 2.0 * parameters[SHAPE] + parameters[TOTAL]
        total = 2.0 * parameters[RATE]
        for i in range(len(residuals)):
            total += counts[i] * residuals[i] * residuals[i]
        log_s = 0.5 * math.log(min(total, 1e300) / power)
        # By the prior alone it still rises here, whatever the residuals are.
        low, high = 0.5 * math.log(2.0 * parameters[RATE] / power) - 1.0, np.inf
        value, slope, bend = log_joint(log_s, residuals, counts, parameters)
        for turn in range(80):
            if slope > 0.0:
                low = log_s
            else:
                high = log_s
            step = min(max(slope / bend, -2.0), 2.0) if bend > 0.0 else math.copysign(2.0, slope)
            if abs(step) < 1e-7:
                break
            moved = log_s + step
            # Newton's steps are too short where residuals are many decades apart.
            is_halved = turn > 12 and turn % 2 == 1 and high < np.inf
            if is_halved or not (low < moved < high):
                moved = 0.5 * (low + high)
            log_s = moved
            value, slope, bend = log_joint(log_s, residuals, counts, parameters)
        return log_s, value, max(bend, 1e-12)

    return likeliest


def _squares_of(row: Any, likeliest: Any) -> Any:
    @_inside_of(row)
    def squares(residuals, counts, parameters, weights, curvatures):
        for i in range(len(residuals)):
            if not abs(residuals[i]) < _FURTHEST:
                return np.inf
        log_s, value, _ = likeliest(residuals, counts, parameters)
        power = 2.0 * parameters[SHAPE] + parameters[TOTAL]
        rate = 2.0 * parameters[RATE]
        # Of a perfect fit: the same with no residuals, in closed form.
        perfect = -0.5 * power * math.log(rate / power) - 0.5 * power
        whole = rate * math.exp(min(2.0 * (perfect - value) / power, 690.0))
        if len(weights) > 0:
            shrink = math.exp(-log_s)
            factor = whole / power * shrink * shrink
            for i in range(len(residuals)):
                weights[i] = factor * row(residuals[i] * shrink, parameters)[1]
        return max(whole - rate, 0.0)

    return squares


def _misfit_of(row: Any, log_joint: Any, likeliest: Any) -> Any:
    @_inside_of(row)
    def at_given_scale(residuals, counts, parameters, weights, curvatures):
        total = 0.0
        for i in range(len(residuals)):
            rho, weight, curvature = row(residuals[i], parameters)
            total += counts[i] * rho
            if len(weights) > 0:
                weights[i] = weight
            if len(curvatures) > 0:
                curvatures[i] = curvature
        return total

    @_inside_of(row)
    def misfit(residuals, counts, parameters, weights, curvatures):
        if parameters[IS_INFERRED] == 0.0:
            return at_given_scale(residuals, counts, parameters, weights, curvatures)
        for i in range(len(residuals)):
            if not abs(residuals[i]) < _FURTHEST:
                return np.inf
        nothing = _ROUGHLY_NOTHING if parameters[STEP] > _FINE else _NOTHING
        centre, top, bend = likeliest(residuals, counts, parameters)
        # Where it is flat at its peak, its curvature does not tell how soon it falls.
        gap = parameters[STEP] * min(1.0 / math.sqrt(bend), _MOST_DEVIATION)
        for i in range(len(weights)):
            weights[i] = 0.0
        for i in range(len(curvatures)):
            curvatures[i] = 0.0
        total = 0.0
        for side in range(2):
            node = side  # the middle one belongs to the first side
            while True:
                log_s = centre + gap * (node if side == 0 else -node)
                value = log_joint(log_s, residuals, counts, parameters)[0]
                share = math.exp(value - top)
                total += share
                if len(weights) > 0:
                    shrink = math.exp(-log_s)
                    for i in range(len(residuals)):
                        _, weight, curvature = row(residuals[i] * shrink, parameters)
                        weights[i] += share * weight * shrink * shrink
                        if len(curvatures) > 0:
                            curvatures[i] += share * curvature * shrink * shrink
                if value < top - nothing:
                    break
                node += 1
        for i in range(len(weights)):
            weights[i] /= total
        for i in range(len(curvatures)):
            curvatures[i] /= total
        # With no residuals the integral over log s has a closed form.
        power = parameters[SHAPE] + 0.5 * parameters[TOTAL]
        perfect = math.lgamma(power) - math.log(2.0) - power * math.log(parameters[RATE])
        return perfect - (top + math.log(total * gap))

    return misfit


def kernel_of(row: Any, own: tuple[float, ...] = ()) -> NoiseKernel:
    """The kernel of a model that is defined outside the package, from its row alone.

    It is compiled in every process that fits with it.

    Parameters
    ----------
    row : function compiled by `numba.njit`
        As `scale_mixture` takes it.
    own : tuple of float
        The model's own numbers, which `row` finds in `parameters` from `OWN` on.
    """
    return NoiseKernel(*_pointers_of(row), own=own)


@functools.cache
def _pointers_of(row: Any) -> tuple[Any, Any]:
    make = numba.cfunc(SIGNATURE, nopython=True)
    squares, misfit = scale_mixture(row)
    return make(squares.py_func), make(misfit.py_func)

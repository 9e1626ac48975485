"""Modes of one tree's constants: Levenberg-Marquardt from several starts, by compiled code.

From each start the sum of squares is brought down first. The prior joins in only where a minimum
was found: far from one it would pull harder than the data, whose noise is not known yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.evaluation.tree import evaluate_tree
from dvisr.library.compiling import compiled

NORMAL, DECADES = 0, 1
MAX_MODES = 16
MAX_STARTS = 256
_FAR = 1e300
_RELATIVE_PRECISION = 0.05  # how well the size of a constant is known at the least, see `precision`


class Law(NamedTuple):
    """The likelihood and the prior of constants, as numbers."""

    y: np.ndarray
    inverse: np.ndarray  # (points,): what a residual is multiplied by; a row's weight is in it
    observations: float
    is_inferred: bool
    shape: float  # of the inverse gamma of s^2, where the noise is inferred
    rate: float
    constant: float  # of the log likelihood, s integrated out where it is inferred
    given_constant: float  # of the log likelihood given s
    prior: int
    first: float  # Normal: the mean; Decades: the lowest size
    second: float  # Normal: the standard deviation; Decades: the highest size


class Fit(NamedTuple):
    """Room for the descent of one tree."""

    gram: np.ndarray  # (constants, constants): slopes times slopes
    along: np.ndarray  # (constants,): slopes times residuals
    factor: np.ndarray  # a Cholesky factor
    step: np.ndarray
    trial: np.ndarray
    here: np.ndarray
    modes: np.ndarray  # (MAX_MODES, constants)
    heights: np.ndarray  # (MAX_MODES,): minus the log joint there, constants aside
    masses: np.ndarray  # (MAX_MODES,): the log of the integral about each
    widths: np.ndarray  # (MAX_MODES, constants, constants): precision there
    race: np.ndarray  # (MAX_STARTS, constants): where the starts have come to
    race_squares: np.ndarray  # (MAX_STARTS,)
    num_modes: np.ndarray  # (1,): how many modes the last tree has


def make_fit(num_constants: int) -> Fit:
    k = max(1, num_constants)
    return Fit(
        np.zeros((k, k)),
        np.zeros(k),
        np.zeros((k, k)),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros((MAX_MODES, k)),
        np.zeros(MAX_MODES),
        np.zeros(MAX_MODES),
        np.zeros((MAX_MODES, k, k)),
        np.zeros((MAX_STARTS, k)),
        np.zeros(MAX_STARTS),
        np.zeros(1, dtype=np.int64),
    )


@compiled
def log_prior(value, law):
    if law.prior == NORMAL:
        z = (value - law.first) / law.second
        return -0.5 * z * z - np.log(law.second) - 0.9189385332046727
    size = max(abs(value), 1e-4 * law.first)
    angle = np.arctan2(law.second - law.first, law.first * law.second / size + size)
    return np.log(angle) - np.log(size) - np.log(np.pi * np.log(law.second / law.first))


@compiled
def _curvature_at_zero(law):
    """Of minus the log of Decades: from the first terms of the arctangents' series."""
    ratio = law.first / law.second
    return 2.0 / 3.0 * (1.0 + ratio + ratio * ratio) / (law.first * law.first)


@compiled
def log_prior_slope(value, law):
    if law.prior == NORMAL:
        return (law.first - value) / (law.second * law.second)
    low, high = law.first, law.second
    if abs(value) < 1e-3 * low:
        return -value * _curvature_at_zero(law)
    size = abs(value)
    angle = np.arctan2(high - low, low * high / size + size)
    slope = (low / (low * low + size * size) - high / (high * high + size * size)) / angle
    return (slope - 1.0 / size) * (1.0 if value > 0.0 else -1.0)


@compiled
def majorising(value, law):
    """The curvature of a parabola above minus the log prior that touches it at `value` and at its
    mirror image: descents with it never overshoot. (Both priors are mixtures of Normals.)"""
    if law.prior == NORMAL:
        return 1.0 / (law.second * law.second)
    if abs(value) < 1e-3 * law.first:
        return _curvature_at_zero(law)
    return -log_prior_slope(value, law) / value


@compiled
def precision(value, law):
    """What the prior adds to the precision at a mode. Between its ends the heavy-tailed one has a
    negative curvature, which says nothing of how wide a posterior is; a ridge that it leaves open
    is bounded by the size of the constant itself."""
    if law.prior == NORMAL:
        return 1.0 / (law.second * law.second)
    size = value * value + law.first * law.first
    return _RELATIVE_PRECISION / size


@compiled
def misfit(squares, law):
    """Minus the log likelihood, its constant aside."""
    if law.is_inferred:
        return (law.shape + 0.5 * law.observations) * np.log1p(0.5 * squares / law.rate)
    return 0.5 * squares


@compiled
def sharpness(squares, law):
    """What the squares weigh: one over the noise variance, as far as it is known."""
    if law.is_inferred:
        return (2.0 * law.shape + law.observations) / (2.0 * law.rate + squares)
    return 1.0


@compiled
def squares_at(apply, shape, constants, law, work):
    """The sum of squares of the residuals, infinite where the tree is undefined."""
    if not evaluate_tree(apply, shape, constants, shape.num_nodes < 0, work):
        return np.inf
    total = 0.0
    for point in range(len(law.y)):
        residual = (law.y[point] - work.values[0, point]) * law.inverse[point]
        total += residual * residual
    return total if total < _FAR else np.inf


@compiled
def linearise(apply, shape, constants, law, work, fit):
    """Residuals and slopes at `constants`: the Gram matrix, the gradient, the sum of squares."""
    if not evaluate_tree(apply, shape, constants, shape.num_nodes > 0, work):
        return np.inf
    k = shape.num_constants
    total = 0.0
    for point in range(len(law.y)):
        scale = law.inverse[point]
        residual = (law.y[point] - work.values[0, point]) * scale
        work.by_first[point] = residual
        total += residual * residual
    for j in range(k):
        dot = 0.0
        for point in range(len(law.y)):
            work.slopes[0, j, point] *= law.inverse[point]
            dot += work.slopes[0, j, point] * work.by_first[point]
        fit.along[j] = dot
    for i in range(k):
        for j in range(i + 1):
            dot = 0.0
            for point in range(len(law.y)):
                dot += work.slopes[0, i, point] * work.slopes[0, j, point]
            fit.gram[i, j] = dot
            fit.gram[j, i] = dot
    if work.code[0] == -2:  # the tree is a constant alone: its slopes are set once
        for point in range(len(law.y)):
            work.slopes[0, 0, point] = 1.0
    return total if total < _FAR else np.inf


@compiled
def cholesky(matrix, k, factor):
    """The lower factor; False where the matrix is not positive definite."""
    for i in range(k):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                if not (total > 0.0 and total < _FAR):
                    return False
                factor[i, i] = np.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    return True


@compiled
def _solve(factor, k, x):
    for i in range(k):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]


@compiled
def _height(squares, constants, k, with_prior, law):
    if not with_prior:
        return squares
    value = misfit(squares, law)
    for j in range(k):
        value -= log_prior(constants[j], law)
    return value


@compiled
def _step(k, squares, damping, with_prior, constants, law, fit):
    """Solve for a step; returns the decrease that it promises, or -1."""
    weight = sharpness(squares, law) if with_prior else 2.0
    matrix = fit.widths[MAX_MODES - 1]  # lent: it is set again when a mode is kept
    for i in range(k):
        for j in range(k):
            matrix[i, j] = weight * fit.gram[i, j]
        slope = weight * fit.along[i]
        if with_prior:
            matrix[i, i] += majorising(constants[i], law)
            slope += log_prior_slope(constants[i], law)
        fit.trial[i] = slope
        fit.step[i] = slope
        matrix[i, i] += damping * matrix[i, i] + 1e-300
    if not cholesky(matrix, k, fit.factor):
        return -1.0
    _solve(fit.factor, k, fit.step)
    promised = 0.0
    for i in range(k):
        promised += 0.5 * fit.step[i] * fit.trial[i]
    return promised


@compiled
def descend(
    apply, shape, constants, with_prior, max_iterations, tolerance, hopeless, law, work, fit
):
    """Go down from `constants`, in place. Without the prior it is the sum of squares that goes
    down, and the tolerance is relative. Gives up on a way that does not lead below `hopeless`."""
    k = shape.num_constants
    squares = linearise(apply, shape, constants, law, work, fit)
    if not squares < np.inf:
        return np.inf
    height = _height(squares, constants, k, with_prior, law)
    damping = 1e-8 if shape.is_affine else 1e-3
    for iteration in range(max_iterations):
        promised = _step(k, squares, damping, with_prior, constants, law, fit)
        goal = tolerance if with_prior else tolerance * squares + 1e-300
        if promised < 0.0:
            damping = max(10.0 * damping, 1e-6)
            if damping > 1e10:
                break
            continue
        for j in range(k):
            fit.trial[j] = constants[j] + fit.step[j]
        new = squares_at(apply, shape, fit.trial, law, work)
        lower = _height(new, fit.trial, k, with_prior, law) if new < np.inf else np.inf
        if lower < height:
            gained = height - lower
            for j in range(k):
                constants[j] = fit.trial[j]
            height = lower
            damping = max(0.1 * damping, 1e-12)
            if gained < goal and promised < goal:
                break
            if iteration > 4 and height > hopeless and 20.0 * gained < height - hopeless:
                break
            squares = linearise(apply, shape, constants, law, work, fit)
            if not squares < np.inf:
                return np.inf
        else:
            if promised < goal:
                break
            damping *= 8.0
            if damping > 1e10:
                break
    return height

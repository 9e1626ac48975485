"""Descents to the modes of one tree's constants, by compiled code: Levenberg-Marquardt.

From each start the squares are brought down first (for Gaussian noise the sum of squares, see
`dvisr.noise.kernel`). The prior joins in only where a minimum was found: far from one it would pull
harder than the data, whose noise is not known yet.

Descents are of the constants themselves or, `in_logs`, of u = asinh(c / unit), about the logarithms
of their sizes: constants whose product or quotient alone the data know lie along a straight line
there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dvisr.evaluation.tree import evaluate_tree
from dvisr.library.compiling import compiled, compiled_inside
from dvisr.marginal.calls import stand_alone

NORMAL, DECADES = 0, 1
PLAIN, ON_RIDGE, IN_LOGS = 0, 1, 2  # modes: of the constants, the same on a ridge, of their logs
MAX_MODES = 32
MAX_STARTS = 256
MAX_CANDIDATES = 2048
_FAR = 1e300
_RELATIVE_PRECISION = 0.05  # how well the size of a constant is known at the least, see `precision`
_STIFF = 0.5  # the least curvature of the prior that a step in logs reckons with
_FURTHEST = 600.0  # asinh of a constant in units: beyond, sinh overflows


class Law(NamedTuple):
    """The likelihood and the prior of constants, for compiled code."""

    y: np.ndarray  # the link of the observations
    inverse: np.ndarray  # (points,): what a residual is multiplied by
    counts: np.ndarray  # (points,): how often each row was seen
    is_log: bool  # whether the model's link is the logarithm
    squares: Any  # the noise model's two functions, see `dvisr.noise.kernel`
    misfit: Any
    parameters: np.ndarray
    observations: float
    is_inferred: bool
    is_linear: bool  # whether constants that enter linearly integrate in closed form
    shape: float  # of the inverse gamma of s^2, where the noise is inferred
    rate: float
    perfect: float  # the log likelihood of a perfect fit
    given: float  # of the closed form: the constant of the log likelihood given s
    prior: int
    first: float  # Normal: the mean; Decades: the lowest size
    second: float  # Normal: the standard deviation; Decades: the highest size
    unit: float  # the size below which a constant counts as near zero


class Fit(NamedTuple):
    """Room for the descents of one tree."""

    gram: np.ndarray  # (constants, constants): slopes times slopes, weighed
    along: np.ndarray  # (constants,): slopes times residuals, weighed
    factor: np.ndarray  # a Cholesky factor
    matrix: np.ndarray  # (constants, constants)
    step: np.ndarray
    trial: np.ndarray
    here: np.ndarray
    modes: np.ndarray  # (MAX_MODES, constants)
    heights: np.ndarray  # (MAX_MODES,): minus the log joint there, constants aside
    masses: np.ndarray  # (MAX_MODES,): the log of the integral about each
    widths: np.ndarray  # (MAX_MODES, constants, constants): precision there
    kinds: np.ndarray  # (MAX_MODES,): PLAIN, ON_RIDGE or IN_LOGS
    candidates: np.ndarray  # (MAX_CANDIDATES, constants): starts, and where they have come to
    candidate_squares: np.ndarray  # (MAX_CANDIDATES,)
    is_linear: np.ndarray  # (constants,): enters linearly while the others are fixed
    is_angle: np.ndarray  # (constants,): stands inside a trigonometric function
    reach: np.ndarray  # (constants,): of a frequency, the range over the rows of what it multiplies
    row_weights: np.ndarray  # (points,)
    row_curvatures: np.ndarray  # (points,)
    row_factor: np.ndarray  # (points,): minus the slope of a residual by the value
    nothing: np.ndarray  # (0,)
    num_modes: np.ndarray  # (1,): how many modes the last tree has


def make_fit(num_constants: int, points: int) -> Fit:
    k = max(1, num_constants)

    def vector() -> np.ndarray:
        return np.zeros(k)

    return Fit(
        gram=np.zeros((k, k)),
        along=vector(),
        factor=np.zeros((k, k)),
        matrix=np.zeros((k, k)),
        step=vector(),
        trial=vector(),
        here=vector(),
        modes=np.zeros((MAX_MODES, k)),
        heights=np.zeros(MAX_MODES),
        masses=np.zeros(MAX_MODES),
        widths=np.zeros((MAX_MODES, k, k)),
        kinds=np.zeros(MAX_MODES, dtype=np.int64),
        candidates=np.zeros((MAX_CANDIDATES, k)),
        candidate_squares=np.zeros(MAX_CANDIDATES),
        is_linear=np.zeros(k, dtype=np.bool_),
        is_angle=np.zeros(k, dtype=np.bool_),
        reach=vector(),
        row_weights=np.zeros(points),
        row_curvatures=np.zeros(points),
        row_factor=np.zeros(points),
        nothing=np.zeros(0),
        num_modes=np.zeros(1, dtype=np.int64),
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
    return _RELATIVE_PRECISION / (value * value + law.first * law.first)


# The same of what descends: of the constants or, in logs, of u = asinh(c / unit).


@compiled_inside
def stretch(value, in_logs, law):
    """How fast a constant moves with what descends."""
    return np.sqrt(value * value + law.unit * law.unit) if in_logs else 1.0


@compiled_inside
def moved(value, step, in_logs, law):
    """The constant after a step of what descends."""
    if not in_logs:
        return value + step
    place = np.arcsinh(value / law.unit) + step
    return law.unit * np.sinh(min(max(place, -_FURTHEST), _FURTHEST))


@compiled_inside
def _slope(value, in_logs, law):
    """Of the log prior."""
    if not in_logs:
        return log_prior_slope(value, law)
    own = stretch(value, in_logs, law)
    return value / own + own * log_prior_slope(value, law)


@compiled_inside
def _curvature_in_logs(value, law):
    """Of minus the log prior of u, for a Normal one; what the other leaves between its ends is next
    to none."""
    if law.prior != NORMAL:
        return 0.0
    own = 2.0 * value * value + law.unit * law.unit - law.first * value
    return own / (law.second * law.second)


@compiled_inside
def _reckoned(value, in_logs, law):
    """The curvature of the prior that a step reckons with."""
    if in_logs:
        return max(_curvature_in_logs(value, law), _STIFF)
    return majorising(value, law)


@compiled_inside
def precision_of(value, in_logs, law):
    if in_logs:
        return max(_curvature_in_logs(value, law), _RELATIVE_PRECISION)
    return precision(value, law)


@compiled_inside
def _residuals(apply, shape, constants, with_slopes, law, work, fit):
    """Residuals into `work.by_first` and what slopes are multiplied by into `fit.row_factor`;
    whether the tree is defined."""
    if not evaluate_tree(apply, shape, constants, with_slopes, work):
        return False
    total = 0.0
    for point in range(len(law.y)):
        value, factor = work.values[0, point], law.inverse[point]
        if law.is_log:
            if not value > 0.0:
                return False
            factor /= value
            value = np.log(value)
        residual = (law.y[point] - value) * law.inverse[point]
        work.by_first[point] = residual
        fit.row_factor[point] = factor
        total += residual * residual
    return total < _FAR


@compiled_inside
def misfit_at(apply, shape, constants, with_prior, law, work, fit):
    """The misfit (with the prior) or the squares (without), infinite where the tree is
    undefined."""
    if not _residuals(apply, shape, constants, shape.num_nodes < 0, law, work, fit):
        return np.inf
    if with_prior:
        return law.misfit(work.by_first, law.counts, law.parameters, fit.nothing, fit.nothing)
    return law.squares(work.by_first, law.counts, law.parameters, fit.nothing, fit.nothing)


@compiled_inside
def height_of(misfit, constants, k, in_logs, law):
    """Minus the log joint, constants of the likelihood aside."""
    value = misfit
    for j in range(k):
        value -= log_prior(constants[j], law)
        if in_logs:
            value -= np.log(stretch(constants[j], in_logs, law))
    return value


@compiled_inside
def linearise(apply, shape, constants, with_prior, by_curvature, law, work, fit):
    """As `misfit_at`, with the Gram matrix of the slopes and the gradient."""
    if not _residuals(apply, shape, constants, shape.num_nodes > 0, law, work, fit):
        return np.inf
    weights = fit.row_weights
    if with_prior:
        value = law.misfit(work.by_first, law.counts, law.parameters, weights, fit.row_curvatures)
    else:
        value = law.squares(work.by_first, law.counts, law.parameters, weights, fit.nothing)
    k, points = shape.num_constants, len(law.y)
    for j in range(k):
        dot = 0.0
        for point in range(points):
            pull = law.counts[point] * weights[point] * fit.row_factor[point]
            dot += work.slopes[0, j, point] * pull * work.by_first[point]
        fit.along[j] = dot
    for point in range(points):
        weight = fit.row_curvatures[point] if by_curvature else weights[point]
        fit.row_factor[point] *= law.counts[point] * weight * fit.row_factor[point]
    for i in range(k):
        for j in range(i + 1):
            dot = 0.0
            for point in range(points):
                dot += work.slopes[0, i, point] * work.slopes[0, j, point] * fit.row_factor[point]
            fit.gram[i, j] = dot
            fit.gram[j, i] = dot
    return value


@compiled_inside
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


@compiled_inside
def solve(factor, k, x):
    for i in range(k):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]


@compiled_inside
def _step(k, damping, with_prior, in_logs, constants, law, fit):
    """Solve for a step; returns the decrease that it promises, or -1."""
    weight = 1.0 if with_prior else 2.0
    for i in range(k):
        own = stretch(constants[i], in_logs, law)
        for j in range(k):
            fit.matrix[i, j] = weight * fit.gram[i, j] * own * stretch(constants[j], in_logs, law)
        slope = weight * fit.along[i] * own
        if with_prior:
            fit.matrix[i, i] += _reckoned(constants[i], in_logs, law)
            slope += _slope(constants[i], in_logs, law)
        fit.trial[i] = slope
        fit.step[i] = slope
        fit.matrix[i, i] += damping * fit.matrix[i, i] + 1e-300
    if not cholesky(fit.matrix, k, fit.factor):
        return -1.0
    solve(fit.factor, k, fit.step)
    promised = 0.0
    for i in range(k):
        promised += 0.5 * fit.step[i] * fit.trial[i]
    return promised


@compiled_inside
def descend(
    apply, shape, constants, with_prior, in_logs, iterations, tolerance, hopeless, law, work, fit
):
    """Go down from `constants`, in place. Without the prior it is the squares that go down, and the
    tolerance is relative. Gives up on a way that does not lead below `hopeless`."""
    stand_alone()
    k, never = shape.num_constants, shape.num_nodes < 0
    value = linearise(apply, shape, constants, with_prior, never, law, work, fit)
    if not value < np.inf:
        return np.inf
    height = height_of(value, constants, k if with_prior else 0, in_logs, law)
    damping = 1e-8 if shape.is_affine else 1e-3
    for iteration in range(iterations):
        promised = _step(k, damping, with_prior, in_logs, constants, law, fit)
        goal = tolerance if with_prior else tolerance * value + 1e-300
        if promised < 0.0:
            damping = max(10.0 * damping, 1e-6)
            if damping > 1e10:
                break
            continue
        for j in range(k):
            fit.trial[j] = moved(constants[j], fit.step[j], in_logs, law)
        new = misfit_at(apply, shape, fit.trial, with_prior, law, work, fit)
        lower = height_of(new, fit.trial, k if with_prior else 0, in_logs, law)
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
            value = linearise(apply, shape, constants, with_prior, never, law, work, fit)
            if not value < np.inf:
                return np.inf
        else:
            if promised < goal:
                break
            damping *= 8.0
            if damping > 1e10:
                break
    return height

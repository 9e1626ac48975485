"""The likelihood and the prior of constants as compiled code takes them, and room to work in.

A constant is moved in plain units, or on a ridge in logs: by u = asinh(c / unit).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dvisr.library.compiling import compiled, compiled_inside, typed_once

NORMAL, DECADES = 0, 1
PLAIN, ON_RIDGE, IN_LOGS = 0, 1, 2  # modes: of the constants, the same on a ridge, of their logs
MAX_MODES = 32
MAX_STARTS = 256
MAX_CANDIDATES = 2048
_RELATIVE_PRECISION = 0.05  # how well the size of a constant is known at the least, see `precision`
_STIFF = 0.5  # the least curvature of the prior that a step in logs reckons with
_FURTHEST = 600.0  # asinh of a constant in units: beyond, sinh overflows


@typed_once
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


@typed_once
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
def slope_of(value, in_logs, law):
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
def curvature_of(value, in_logs, law):
    """The curvature of the prior that a step reckons with."""
    if in_logs:
        return max(_curvature_in_logs(value, law), _STIFF)
    return majorising(value, law)


@compiled_inside
def precision_of(value, in_logs, law):
    if in_logs:
        return max(_curvature_in_logs(value, law), _RELATIVE_PRECISION)
    return precision(value, law)

"""The integral about one mode of a tree's constants, by compiled code: Laplace's approximation.

With the noise inferred the posterior of the constants has the tails of a Student t. The integral
about a mode is then that of a t, not of a Gaussian: for Gaussian noise exact for a tree that is
linear in its constants, as far as the prior is flat there.

Where constants do the same work (x / c * c) the posterior has a ridge, along which the prior alone
decides, and its highest point may be at the edge of the domain, where it is narrow. So on a ridge
the integral is done in the constants' logarithms, along the ridge as a sum over nodes on a straight
line.
"""

from __future__ import annotations

import math

import numpy as np

from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.marginal.law import IN_LOGS, PLAIN, moved, precision_of, stretch
from dvisr.marginal.optimising import cholesky, height_of, linearise, misfit_at, solve

_NODES = 8  # on either side of a mode on a ridge, ...
_GAP = 0.5  # ... standard deviations apart


@compiled_inside
def _log_height_about(apply, mode, shape, by_curvature, law, work, fit):
    """The log of the integral about a mode and the precision there, into the mode's row; -inf where
    the precision is not positive definite."""
    stand_alone()
    k, always = shape.num_constants, shape.num_nodes > 0
    at, width = fit.modes[mode], fit.widths[mode]
    in_logs = fit.kinds[mode] == IN_LOGS
    misfit = linearise(apply, shape, at, always, by_curvature, law, work, fit)
    value = -height_of(misfit, at, k, in_logs, law)
    for i in range(k):
        own = stretch(at[i], in_logs, law)
        for j in range(k):
            width[i, j] = fit.gram[i, j] * own * stretch(at[j], in_logs, law)
        width[i, i] += precision_of(at[i], in_logs, law)
    is_definite = cholesky(width, k, fit.factor)
    if not is_definite:
        for i in range(k):
            width[i, i] *= 1.0 + 1e-9
            width[i, i] += 1e-300
        is_definite = cholesky(width, k, fit.factor)
    if in_logs:
        for i in range(k):
            own = stretch(at[i], in_logs, law)
            for j in range(k):
                width[i, j] /= own * stretch(at[j], in_logs, law)
    if not is_definite:
        return -np.inf
    for i in range(k):
        value -= np.log(fit.factor[i, i])
    half = 0.5 * k
    power = law.shape + 0.5 * law.observations
    if law.is_inferred and power > half:
        value += half * np.log(2.0 * np.pi * power) + math.lgamma(power - half)
        value -= math.lgamma(power)
    else:
        value += half * np.log(2.0 * np.pi)
    return value


@compiled_inside
def _along_ridge(apply, mode, shape, law, work, fit):
    """What to add to the log of the integral about a mode, which has just been done, where the
    posterior along its widest direction is no Gaussian."""
    stand_alone()
    k, always = shape.num_constants, shape.num_nodes > 0
    at, width, in_logs = fit.modes[mode], fit.widths[mode], fit.kinds[mode] == IN_LOGS
    # The widest direction of the correlations, by powers of the inverse.
    for i in range(k):
        own = stretch(at[i], in_logs, law)
        fit.along[i] = np.sqrt(width[i, i]) * own
        fit.step[i] = 1.0 + 0.1 * i
    for _ in range(6):
        size = 0.0
        for i in range(k):
            fit.step[i] *= fit.along[i]
        solve(fit.factor, k, fit.step)
        for i in range(k):
            fit.step[i] *= fit.along[i]
            size = max(size, abs(fit.step[i]))
        for i in range(k):
            fit.step[i] /= size
    for i in range(k):
        fit.step[i] /= fit.along[i]
    length = 0.0
    for i in range(k):
        across = 0.0
        for j in range(i, k):
            across += fit.factor[j, i] * fit.step[j]
        length += across * across
    gap = _GAP / np.sqrt(length)
    misfit = misfit_at(apply, shape, at, always, law, work, fit)
    height = height_of(misfit, at, k, in_logs, law)
    total = 1.0
    for node in range(-_NODES, _NODES + 1):
        if node == 0:
            continue
        for j in range(k):
            fit.trial[j] = moved(at[j], node * gap * fit.step[j], in_logs, law)
        misfit = misfit_at(apply, shape, fit.trial, always, law, work, fit)
        if misfit < np.inf:
            rise = height_of(misfit, fit.trial, k, in_logs, law) - height
            total += np.exp(min(-rise, 5.0))
    return np.log(total * _GAP) - 0.5 * np.log(2.0 * np.pi)


@compiled_inside
def integral_about(apply, mode, shape, law, work, fit):
    """By the curvature of the likelihood; where that is not positive, by the weights of rows."""
    k = shape.num_constants
    value = _log_height_about(apply, mode, shape, k > 0, law, work, fit)
    if not value > -np.inf:
        value = _log_height_about(apply, mode, shape, k < 0, law, work, fit)
    if fit.kinds[mode] != PLAIN and value > -np.inf:
        value += _along_ridge(apply, mode, shape, law, work, fit)
    return value

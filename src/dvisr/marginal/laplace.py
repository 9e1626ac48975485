"""log p(y | tree) of many trees by compiled code: exact where that is possible, else Laplace's
approximation about each mode that several starts find.

With the noise inferred the posterior of the constants has the tails of a Student t. The integral
about a mode is then that of a t, not of a Gaussian: exact for a tree that is linear in its
constants, as far as the prior is flat there.
"""

from __future__ import annotations

import math

import numpy as np

from dvisr.evaluation.tree import prepare
from dvisr.library.compiling import compiled
from dvisr.marginal.linear import log_marginal_if_linear
from dvisr.marginal.optimising import (
    MAX_MODES,
    MAX_STARTS,
    NORMAL,
    cholesky,
    descend,
    linearise,
    log_prior,
    misfit,
    precision,
    sharpness,
    squares_at,
)
from dvisr.marginal.starting import seed, start

UNDEFINED, NO_CONSTANTS, CLOSED_FORM, LAPLACE = -1, 0, 1, 2
_APART = 9.0  # squared distance, in standard deviations, from which two modes are two
_RACE = 4  # iterations that every start gets
_EXACTING = 1e-8  # a tolerance below which all starts are followed to their ends
_HOPE = 0.3  # of its squares: what may be left of them, of the best start, at the end
_BELOW = 20.0  # a mode so much lower than the best is left out


@compiled
def _about(apply, mode, shape, law, work, fit):
    """The log of the integral about a mode, and the precision there, into the mode's row."""
    k = shape.num_constants
    squares = linearise(apply, shape, fit.modes[mode], law, work, fit)
    weight = sharpness(squares, law)
    value = -misfit(squares, law)
    for i in range(k):
        value += log_prior(fit.modes[mode, i], law)
        for j in range(k):
            fit.widths[mode, i, j] = weight * fit.gram[i, j]
        fit.widths[mode, i, i] += precision(fit.modes[mode, i], law)
    if not cholesky(fit.widths[mode], k, fit.factor):
        for i in range(k):
            fit.widths[mode, i, i] *= 1.0 + 1e-9
            fit.widths[mode, i, i] += 1e-300
        if not cholesky(fit.widths[mode], k, fit.factor):
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


@compiled
def _apart(k, one, two, width):
    total = 0.0
    for i in range(k):
        for j in range(k):
            total += (one[i] - two[i]) * width[i, j] * (one[j] - two[j])
    return total


@compiled
def _is_new(count, k, constants, squares, tolerance, law, fit):
    """Whether to go on from here: it is no mode already kept, or lies below one that was kept on
    its way down, whose width then says little."""
    height = misfit(squares, law)
    for j in range(k):
        height -= log_prior(constants[j], law)
    for mode in range(count):
        if height < fit.heights[mode] - tolerance - 1e-9:
            continue
        if _apart(k, constants, fit.modes[mode], fit.widths[mode]) < _APART:
            return False
    return True


@compiled
def _copy(k, source, goal):
    for j in range(k):
        goal[j] = source[j]


@compiled
def _keep(apply, count, constants, shape, law, work, fit):
    """Keep a mode if it is none of those already kept; how many there are then."""
    k = shape.num_constants
    squares = squares_at(apply, shape, constants, law, work)
    if not squares < np.inf:
        return count
    height = misfit(squares, law)
    for j in range(k):
        height -= log_prior(constants[j], law)
    for mode in range(count):
        if _apart(k, constants, fit.modes[mode], fit.widths[mode]) < _APART:
            if height < fit.heights[mode] - 1e-9:
                _copy(k, constants, fit.modes[mode])
                fit.heights[mode] = height
                fit.masses[mode] = _about(apply, mode, shape, law, work, fit)
            return count
    place = count
    if count == MAX_MODES - 1:  # the last row is lent to the descent
        place = 0 * count
        for mode in range(count):
            if fit.heights[mode] > fit.heights[place]:
                place = mode
        if height >= fit.heights[place]:
            return count
    _copy(k, constants, fit.modes[place])
    fit.heights[place] = height
    fit.masses[place] = _about(apply, place, shape, law, work, fit)
    return max(count, place + 1)


@compiled
def _mirrored(apply, count, shape, law, work, fit):
    """Modes with some signs reversed, where that changes nothing: they are found for certain."""
    k = shape.num_constants
    if (law.prior == NORMAL and law.first != 0.0) or k > 4 or count == 0:
        return count
    best = 0
    for mode in range(count):
        if fit.heights[mode] < fit.heights[best]:
            best = mode
    for signs in range(1, 2**k):
        for j in range(k):
            fit.here[j] = fit.modes[best, j] * (-1.0 if (signs >> j) & 1 else 1.0)
        squares = squares_at(apply, shape, fit.here, law, work)
        if not squares < np.inf:
            continue
        height = misfit(squares, law)
        for j in range(k):
            height -= log_prior(fit.here[j], law)
        if abs(height - fit.heights[best]) < 1e-7 * (1.0 + abs(height)):
            count = _keep(apply, count, fit.here, shape, law, work, fit)
    return count


@compiled
def _turned(apply, count, tolerance, shape, law, work, fit):
    """Modes with a constant a turn further, where that changes nothing: it is a phase. The prior is
    another there, so that the mode is moved a little."""
    if not shape.is_periodic:
        return count
    k, mode = shape.num_constants, 0 * count
    while mode < count:
        height = misfit(squares_at(apply, shape, fit.modes[mode], law, work), law)
        for step in range(2 * k):
            _copy(k, fit.modes[mode], fit.here)
            fit.here[step // 2] += 2.0 * np.pi * (1.0 if step % 2 else -1.0)
            moved = misfit(squares_at(apply, shape, fit.here, law, work), law)
            if abs(moved - height) < 1e-7 * (1.0 + abs(height)):
                descend(apply, shape, fit.here, k > 0, 25, tolerance, np.inf, law, work, fit)
                count = _keep(apply, count, fit.here, shape, law, work, fit)
        mode += 1
    return count


@compiled
def _race(apply, starts, tolerance, shape, law, work, fit, units, state):
    """A few iterations from each start; where they have come to goes into `fit.race`, and how many
    are defined is returned. Most starts lead nowhere, and that shows early."""
    k = shape.num_constants
    # Comparisons rather than plain True, False and 0: for each of those Numba compiles a copy.
    never = k < 0
    count, undefined, number = 0 * k, 0, 0
    while number < starts:
        start(number + undefined, shape, fit.here, law, work, units, state)
        number += 1
        squares = descend(apply, shape, fit.here, never, _RACE, tolerance, np.inf, law, work, fit)
        if squares < np.inf:
            _copy(k, fit.here, fit.race[count])
            fit.race_squares[count] = squares
            count += 1
        elif undefined < 2 * starts:  # another start in its place
            undefined += 1
            number -= 1
    return count


@compiled
def find_modes(apply, tokens, shape, num_starts, tolerance, bar, law, work, fit, units, state):
    """Distinct modes of the constants' posterior, in `fit`; how many there are. Where even the best
    start is far below `bar`, a log marginal likelihood, it is left where it is."""
    k = shape.num_constants
    always, never = k >= 0, k < 0
    seed(tokens, shape.num_nodes, state)
    starts = 1 if shape.is_affine else (3 * num_starts if shape.is_periodic else num_starts)
    starts = min(starts, MAX_STARTS)
    count = _race(apply, starts, tolerance, shape, law, work, fit, units, state)
    order = np.argsort(fit.race_squares[:count])
    # To find every mode takes every start to its end; to find the best, some of the best.
    finalists = count if tolerance < _EXACTING else min(count, max(3, starts // 3))
    found, least = 0 * k, np.inf
    for place in range(finalists):
        number = order[place]
        _copy(k, fit.race[number], fit.here)
        squares = fit.race_squares[number]
        if place == 0 and law.constant - misfit(_HOPE * squares, law) < bar:
            return _keep(apply, found, fit.here, shape, law, work, fit)
        squares = descend(apply, shape, fit.here, never, 25, tolerance, least, law, work, fit)
        # What is hopelessly far from the best so far is no mode of the posterior that matters.
        if not squares < np.inf or misfit(squares, law) > misfit(least, law) + _BELOW + 5.0 * k:
            continue
        least = min(least, squares)
        if found and not _is_new(found, k, fit.here, squares, tolerance, law, fit):
            continue
        height = descend(apply, shape, fit.here, always, 100, tolerance, np.inf, law, work, fit)
        if height < np.inf:
            found = _keep(apply, found, fit.here, shape, law, work, fit)
    found = _mirrored(apply, found, shape, law, work, fit)
    return _turned(apply, found, tolerance, shape, law, work, fit)


@compiled
def _sum_of_modes(count, fit):
    lowest = np.inf
    for mode in range(count):
        lowest = min(lowest, fit.heights[mode])
    top, total = -np.inf, 0.0
    for mode in range(count):
        if fit.heights[mode] < lowest + _BELOW:
            top = max(top, fit.masses[mode])
    for mode in range(count):
        if fit.heights[mode] < lowest + _BELOW and fit.masses[mode] > -np.inf:
            total += np.exp(fit.masses[mode] - top)
    return top + np.log(total) if total > 0.0 else -np.inf


@compiled
def fit_one(
    apply, tokens, language, leaves, num_starts, tolerance, bar, law, work, fit, units, state, best
):
    """log p(y | tree) and how it was found; the best constants go into `best`."""
    shape = prepare(apply, tokens, language, leaves, work)
    if not shape.is_defined:
        return -np.inf, UNDEFINED
    k = shape.num_constants
    if k == 0:
        squares = squares_at(apply, shape, best, law, work)
        if not squares < np.inf:
            return -np.inf, UNDEFINED
        return law.constant - misfit(squares, law), NO_CONSTANTS
    count = find_modes(
        apply, tokens, shape, num_starts, tolerance, bar, law, work, fit, units, state
    )
    fit.num_modes[0] = count
    if count == 0:
        return -np.inf, UNDEFINED
    lowest = 0
    for mode in range(count):
        if fit.heights[mode] < fit.heights[lowest]:
            lowest = mode
    _copy(k, fit.modes[lowest], best)
    value = law.constant + _sum_of_modes(count, fit)
    if shape.is_affine and law.prior == NORMAL:
        value = log_marginal_if_linear(apply, shape, law, work, fit)
        return value, CLOSED_FORM
    return value, LAPLACE


@compiled
def fit_many(
    apply,
    trees,
    language,
    leaves,
    num_starts,
    tolerance,
    bar,
    law,
    work,
    fit,
    units,
    values,
    methods,
    best,
):
    state = np.zeros(1, dtype=np.uint64)
    for tree in range(len(trees)):
        values[tree], methods[tree] = fit_one(
            apply, trees[tree], language, leaves, num_starts, tolerance, bar, law, work, fit, units,
            state, best[tree],
        )  # fmt: skip


@compiled
def squares_many(apply, tokens, language, leaves, constants, law, work, squares):
    """The sums of squares of one tree for many vectors of constants."""
    shape = prepare(apply, tokens, language, leaves, work)
    for row in range(len(constants)):
        squares[row] = np.inf
        if shape.is_defined:
            squares[row] = squares_at(apply, shape, constants[row], law, work)

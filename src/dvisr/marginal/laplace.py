"""log p(y | tree) of many trees by compiled code: exact where that is possible, else Laplace's
approximation about each mode that several starts find.

With the noise inferred the posterior of the constants has the tails of a Student t. The integral
about a mode is then that of a t, not of a Gaussian: exact for a tree that is linear in its
constants, as far as the prior is flat there.
"""

from __future__ import annotations

import math

import numpy as np

from dvisr.library.compiling import compiled
from dvisr.marginal.evaluating import CONSTANT, prepare
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

UNDEFINED, NO_CONSTANTS, CLOSED_FORM, LAPLACE = -1, 0, 1, 2
_APART = 9.0  # squared distance, in standard deviations, from which two modes are two
_RACE = 3  # iterations that every start gets
_EXACTING = 1e-8  # a tolerance below which all starts are followed to their ends
_HOPE = 0.3  # of its squares: what may be left of them, of the best start, at the end
_BELOW = 20.0  # a mode so much lower than the best is left out


@compiled
def _random(state):
    """splitmix64: the next of a sequence, uniform between 0 and 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def _seed(tokens, num_nodes, state):
    """From the tree itself, so that it does not matter which trees are fitted before it."""
    state[0] = np.uint64(0x243F6A8885A308D3)
    for position in range(num_nodes):
        state[0] = (state[0] ^ np.uint64(tokens[position] + 1)) * np.uint64(0x100000001B3)
        _random(state)


@compiled
def _start(number, shape, constants, law, work, units, state):
    """Starting values: ones, then sizes over some decades in units of the data, and now and then a
    value of the data themselves."""
    for j in range(shape.num_constants):
        if number == 0:
            constants[j] = 1.0
            continue
        if _random(state) < 0.25:
            position = int(_random(state) * shape.num_nodes)
            point = int(_random(state) * len(law.y))
            value = work.values[position, point]
            if work.state[position] != 0 or _random(state) < 0.2:
                value = law.y[point]
            constants[j] = value if abs(value) < 1e100 else 1.0
            continue
        spread = 1.0 if number < 4 else 1.7
        size = 10.0 ** (spread * (2.0 * _random(state) - 1.0))
        unit = units[int(_random(state) * len(units))]
        constants[j] = size * unit * (1.0 if _random(state) < 0.5 else -1.0)


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
def _turned(apply, count, shape, law, work, fit):
    """Modes with a constant a turn further, where that changes nothing: it is a phase."""
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
        _start(number + undefined, shape, fit.here, law, work, units, state)
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
    _seed(tokens, shape.num_nodes, state)
    starts = 1 if shape.is_affine else (3 * num_starts if shape.is_periodic else num_starts)
    starts = min(starts, MAX_STARTS)
    count = _race(apply, starts, tolerance, shape, law, work, fit, units, state)
    order = np.argsort(fit.race_squares[:count])
    # To find every mode takes every start to its end; to find the best, some of the best.
    finalists = count if tolerance < _EXACTING else min(count, max(2, starts // 4))
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
    return _turned(apply, found, shape, law, work, fit)


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
def _given_noise(log_s, outside, singular, along, law):
    """The log joint density of the data and log s, constants aside; s is 1 where it is given."""
    variance = np.exp(2.0 * log_s)
    value = -0.5 * outside / variance
    for i in range(len(singular)):
        # Prior and data pull against each other along this direction.
        spread = (law.second * singular[i]) ** 2
        value -= 0.5 * along[i] ** 2 / (variance + spread) + 0.5 * np.log1p(spread / variance)
    if law.is_inferred:
        value -= (law.observations + 2.0 * law.shape) * log_s + law.rate / variance
    return value


@compiled
def _linear(apply, shape, law, work, fit):
    """Normal constants of a linear tree in closed form, for each s where the noise is inferred;
    then s by the trapezium rule in log s, which is as good as exact for so smooth a peak. By a
    singular value decomposition: constants that do the same work leave nothing of a Gram matrix."""
    k, points = shape.num_constants, len(law.y)
    for j in range(k):
        fit.here[j] = law.first
    squares = linearise(apply, shape, fit.here, law, work, fit)
    slopes = np.empty((points, k))
    largest = 0.0
    for point in range(points):
        for j in range(k):
            # A constant alone keeps its slopes as they are, see `linearise`.
            alone = law.inverse[point] if work.code[0] == CONSTANT else 1.0
            slopes[point, j] = work.slopes[0, j, point] * alone
            largest = max(largest, abs(slopes[point, j]))
    if not (squares < np.inf and largest < 1e150):
        return -np.inf
    left, singular, _ = np.linalg.svd(slopes, full_matrices=False)
    along = np.zeros(len(singular))
    outside = 0.0
    for i in range(len(singular)):
        for point in range(points):
            along[i] += left[point, i] * work.by_first[point]
    for point in range(points):
        rest = work.by_first[point]
        for i in range(len(singular)):
            rest -= left[point, i] * along[i]
        outside += rest * rest
    if not law.is_inferred:
        return law.given_constant + _given_noise(0.0, outside, singular, along, law)
    power = law.observations + 2.0 * law.shape
    centre = 0.5 * np.log((2.0 * law.rate + outside) / power)
    low = centre - 1.0 - 9.0 / np.sqrt(power)
    # Where prior and data disagree the peak lies above, where noise explains what the constants
    # should. The density is below exp(-power * log s): beyond `high` next to nothing is left.
    above = 0.5 * np.log((2.0 * law.rate + squares) / power)
    reached = max(
        _given_noise(centre, outside, singular, along, law),
        _given_noise(above, outside, singular, along, law),
    )
    high = (42.0 - reached) / power
    gap = min(0.15, 0.35 / np.sqrt(power))
    top, total = -np.inf, 0.0
    for node in range(int((high - low) / gap) + 2):
        value = _given_noise(low + gap * node, outside, singular, along, law)
        if value > top:
            total = total * np.exp(top - value) + 1.0 if top > -np.inf else 1.0
            top = value
        else:
            total += np.exp(value - top)
    log_prior_of_noise = np.log(2.0) + law.shape * np.log(law.rate) - math.lgamma(law.shape)
    return law.given_constant + top + np.log(total * gap) + log_prior_of_noise


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
        value = _linear(apply, shape, law, work, fit)
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

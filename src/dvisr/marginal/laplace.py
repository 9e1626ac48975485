"""log p(y | tree) of many trees by compiled code: exact where that is possible, else Laplace's
approximation about each mode that descents from several starts find.

With the noise inferred the posterior of the constants has the tails of a Student t. The integral
about a mode is then that of a t, not of a Gaussian: for Gaussian noise exact for a tree that is
linear in its constants, as far as the prior is flat there.

Where constants do the same work (x / c * c) the posterior has a ridge, along which the prior alone
decides, and its highest point may be at the edge of the domain, where it is narrow. So on a ridge
the mode of the constants' logarithms is looked for too.
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
    height_of,
    linearise,
    misfit_at,
    precision,
)
from dvisr.marginal.starting import propose, random, seed

UNDEFINED, NO_CONSTANTS, CLOSED_FORM, LAPLACE = -1, 0, 1, 2
_APART = 9.0  # squared distance, in standard deviations, from which two modes are two
_RACE = 4  # iterations that every start gets
_EXACTING = 1e-8  # a tolerance below which all starts are followed to their ends
_HOPE = 0.3  # of its squares: what may be left of them, of the best start, at the end
_BELOW = 20.0  # a mode so much lower than the best is left out
_RIDGE = 1e-3  # of a diagonal entry: what others leave of it where constants do the same work
_FROM_PRIOR = 6  # starts over the prior, where it is at odds with the best fit


@compiled
def _log_height_about(apply, mode, shape, by_curvature, law, work, fit):
    """The log of the integral about a mode and the precision there, into the mode's row; -inf where
    the precision is not positive definite."""
    k, always = shape.num_constants, shape.num_nodes > 0
    misfit = linearise(apply, shape, fit.modes[mode], always, by_curvature, law, work, fit)
    value = -height_of(misfit, fit.modes[mode], k, k < 0, law)
    for i in range(k):
        for j in range(k):
            fit.widths[mode, i, j] = fit.gram[i, j]
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
def _about(apply, mode, shape, law, work, fit):
    """By the curvature of the likelihood; where that is not positive, by the weights of rows."""
    k = shape.num_constants
    value = _log_height_about(apply, mode, shape, k > 0, law, work, fit)
    if value > -np.inf:
        return value
    return _log_height_about(apply, mode, shape, k < 0, law, work, fit)


@compiled
def _apart(k, one, two, width):
    total = 0.0
    for i in range(k):
        for j in range(k):
            total += (one[i] - two[i]) * width[i, j] * (one[j] - two[j])
    return total


@compiled
def _is_new(count, k, constants, height, tolerance, fit):
    """Whether to go on from here: it is no mode already kept, or lies below one that was kept on
    its way down, whose width then says little."""
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
def _height_at(apply, shape, constants, law, work, fit):
    misfit = misfit_at(apply, shape, constants, shape.num_nodes > 0, law, work, fit)
    return height_of(misfit, constants, shape.num_constants, shape.num_nodes < 0, law)


@compiled
def _keep(apply, count, constants, is_ridge, shape, law, work, fit):
    """Keep a mode if it is none of those already kept; how many there are then."""
    k = shape.num_constants
    height = _height_at(apply, shape, constants, law, work, fit)
    if not height < np.inf:
        return count
    for mode in range(count):
        if _apart(k, constants, fit.modes[mode], fit.widths[mode]) < _APART:
            if not is_ridge and height < fit.heights[mode] - 1e-9:
                _copy(k, constants, fit.modes[mode])
                fit.heights[mode] = height
                fit.masses[mode] = _about(apply, mode, shape, law, work, fit)
            return count
    place = count
    if count == MAX_MODES:
        place = 0 * count
        for mode in range(count):
            if fit.heights[mode] > fit.heights[place]:
                place = mode
        if height >= fit.heights[place]:
            return count
    _copy(k, constants, fit.modes[place])
    fit.heights[place] = height
    fit.is_ridge[place] = is_ridge
    fit.masses[place] = _about(apply, place, shape, law, work, fit)
    return max(count, place + 1)


@compiled
def _best_mode(count, fit):
    """Where the posterior is highest; on a ridge, where most of it lies."""
    best = 0
    for mode in range(count):
        if fit.is_ridge[mode] and not fit.is_ridge[best]:
            if fit.masses[mode] > fit.masses[best] + 2.0:
                best = mode
        elif fit.is_ridge[best] and not fit.is_ridge[mode]:
            if fit.masses[mode] > fit.masses[best] - 2.0:
                best = mode
        elif fit.heights[mode] < fit.heights[best]:
            best = mode
    return best


@compiled
def _mirrored(apply, count, shape, law, work, fit):
    """Modes with some signs reversed, where that changes nothing: they are found for certain."""
    k = shape.num_constants
    if (law.prior == NORMAL and law.first != 0.0) or k > 4:
        return count
    for mode in range(min(count, 4)):
        height = fit.heights[mode]
        for signs in range(1, 2**k):
            for j in range(k):
                fit.here[j] = fit.modes[mode, j] * (-1.0 if (signs >> j) & 1 else 1.0)
            mirrored = _height_at(apply, shape, fit.here, law, work, fit)
            if abs(mirrored - height) < 1e-7 * (1.0 + abs(height)):
                count = _keep(apply, count, fit.here, fit.is_ridge[mode], shape, law, work, fit)
    return count


@compiled
def _turned(apply, count, tolerance, shape, law, work, fit):
    """Modes with a constant a turn further, where that changes nothing: it is a phase. The prior is
    another there, so that the mode is moved a little."""
    if not shape.is_periodic:
        return count
    k, always, never = shape.num_constants, shape.num_nodes > 0, count < 0
    # The highest first: a mode found late may take the place of a lower one, and has its turn too.
    heights, start = np.full(MAX_MODES, np.nan), np.empty(k)
    for _ in range(4 * MAX_MODES):
        mode = -1
        for place in range(count):
            is_due = fit.heights[place] != heights[place]
            if is_due and (mode < 0 or fit.heights[place] < fit.heights[mode]):
                mode = place
        if mode < 0:
            break
        heights[mode] = fit.heights[mode]
        _copy(k, fit.modes[mode], start)
        misfit = misfit_at(apply, shape, start, always, law, work, fit)
        for step in range(2 * k):
            _copy(k, start, fit.here)
            fit.here[step // 2] += 2.0 * np.pi * (1.0 if step % 2 else -1.0)
            moved = misfit_at(apply, shape, fit.here, always, law, work, fit)
            if abs(moved - misfit) < 1e-7 * (1.0 + abs(misfit)):
                descend(
                    apply, shape, fit.here, always, never, 25, tolerance, np.inf, law, work, fit
                )
                count = _keep(apply, count, fit.here, never, shape, law, work, fit)
    return count


@compiled
def _race(apply, num_starts, tolerance, shape, language, law, work, fit, units, state):
    """Of many candidates the most promising get a few iterations each; how many of those there are,
    in order, at the beginning of `fit.candidates`. Most starts lead nowhere, and that shows
    early."""
    k = shape.num_constants
    # Comparisons rather than plain True, False and 0: for each of those Numba compiles a copy.
    never = k < 0
    count = propose(apply, num_starts, shape, language, law, work, fit, units, state)
    order = np.argsort(fit.candidate_squares[:count])
    chosen = fit.candidates[:count][order[: min(count, num_starts, MAX_STARTS)]].copy()
    for number in range(len(chosen)):
        _copy(k, chosen[number], fit.here)
        squares = descend(
            apply, shape, fit.here, never, never, _RACE, tolerance, np.inf, law, work, fit
        )
        _copy(k, fit.here, chosen[number])
        fit.candidate_squares[number] = squares
    order = np.argsort(fit.candidate_squares[: len(chosen)])
    for number in range(len(chosen)):
        _copy(k, chosen[order[number]], fit.candidates[number])
    fit.candidate_squares[: len(chosen)] = fit.candidate_squares[: len(chosen)][order]
    return len(chosen)


@compiled
def _is_on_ridge(k, fit):
    """Whether the squares leave a combination of constants open: after a Cholesky factorisation of
    the Gram matrix next to nothing is left of a diagonal entry."""
    for i in range(k):
        for j in range(k):
            fit.matrix[i, j] = fit.gram[i, j]
        fit.matrix[i, i] += 1e-12 * fit.gram[i, i] + 1e-300
    if not cholesky(fit.matrix, k, fit.factor):
        return True
    for i in range(k):  # noqa: SIM110 (compiled)
        if fit.factor[i, i] * fit.factor[i, i] < _RIDGE * fit.matrix[i, i]:
            return True
    return False


@compiled
def _has_no_hope(apply, shape, constants, bar, law, work, fit):
    """Whether even a much better fit than this one would not come up to `bar`."""
    if not misfit_at(apply, shape, constants, shape.num_nodes > 0, law, work, fit) < np.inf:
        return True
    for point in range(len(law.y)):
        work.by_first[point] *= np.sqrt(_HOPE)
    hoped = law.misfit(work.by_first, law.counts, law.parameters, fit.nothing, fit.nothing)
    return law.perfect - hoped < bar


@compiled
def _over_the_prior(apply, found, tolerance, shape, law, work, fit, state):
    """Modes from starts over a Normal prior. Where it is at odds with the best fit, descents that
    come from there have a long way, and other modes may be higher."""
    k, always, never = shape.num_constants, shape.num_nodes > 0, shape.num_nodes < 0
    for _ in range(_FROM_PRIOR):
        for j in range(k):
            # The sum of three is near enough to a Normal.
            z = 2.0 * (random(state) + random(state) + random(state) - 1.5)
            fit.here[j] = law.first + law.second * z
        height = descend(
            apply, shape, fit.here, always, never, 100, tolerance, np.inf, law, work, fit
        )
        if height < np.inf:
            found = _keep(apply, found, fit.here, never, shape, law, work, fit)
    return found


@compiled
def find_modes(
    apply, tokens, shape, language, num_starts, tolerance, bar, law, work, fit, units, state
):
    """Distinct modes of the constants' posterior, in `fit`; how many there are. Where even the best
    start is far below `bar`, a log marginal likelihood, it is left where it is."""
    k = shape.num_constants
    always, never = k >= 0, k < 0
    seed(tokens, shape.num_nodes, state)
    count = _race(apply, num_starts, tolerance, shape, language, law, work, fit, units, state)
    # To find every mode takes every start to its end; to find the best, some of the best.
    finalists = count if tolerance < _EXACTING else min(count, max(3, num_starts // 3))
    found, least, least_misfit, strain = 0 * k, np.inf, np.inf, 0.0
    for place in range(finalists):
        _copy(k, fit.candidates[place], fit.here)
        if not fit.candidate_squares[place] < np.inf:
            continue
        if place == 0 and _has_no_hope(apply, shape, fit.here, bar, law, work, fit):
            return _keep(apply, found, fit.here, never, shape, law, work, fit)
        squares = descend(
            apply, shape, fit.here, never, never, 25, tolerance, least, law, work, fit
        )
        if not squares < np.inf:
            continue
        is_ridge = k > 1 and _is_on_ridge(k, fit)
        misfit = misfit_at(apply, shape, fit.here, always, law, work, fit)
        # What is hopelessly far from the best so far is no mode of the posterior that matters.
        if misfit > least_misfit + _BELOW + 5.0 * k:
            continue
        least, least_misfit = min(least, squares), min(least_misfit, misfit)
        height = height_of(misfit, fit.here, k, never, law)
        if found and not _is_new(found, k, fit.here, height, tolerance, fit):
            continue
        _copy(k, fit.here, fit.candidates[place])
        reached = descend(
            apply, shape, fit.here, always, never, 100, tolerance, np.inf, law, work, fit
        )
        strain = max(strain, height - reached)
        if reached < np.inf:
            found = _keep(apply, found, fit.here, never, shape, law, work, fit)
        if is_ridge:
            _copy(k, fit.candidates[place], fit.here)
            reached = descend(
                apply, shape, fit.here, always, always, 100, tolerance, np.inf, law, work, fit
            )
            if reached < np.inf:
                found = _keep(apply, found, fit.here, always, shape, law, work, fit)
    if law.prior == NORMAL and strain > _BELOW and not shape.is_affine:
        found = _over_the_prior(apply, found, tolerance, shape, law, work, fit, state)
    found = _mirrored(apply, found, shape, law, work, fit)
    return _turned(apply, found, tolerance, shape, law, work, fit)


@compiled
def _sum_of_modes(count, fit):
    lowest = np.inf
    for mode in range(count):
        if not fit.is_ridge[mode]:
            lowest = min(lowest, fit.heights[mode])
    top, total = -np.inf, 0.0
    for mode in range(count):
        if fit.is_ridge[mode] or fit.heights[mode] < lowest + _BELOW:
            top = max(top, fit.masses[mode])
    for mode in range(count):
        is_counted = fit.is_ridge[mode] or fit.heights[mode] < lowest + _BELOW
        if is_counted and fit.masses[mode] > -np.inf:
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
        misfit = misfit_at(apply, shape, best, k == 0, law, work, fit)
        if not misfit < np.inf:
            return -np.inf, UNDEFINED
        return law.perfect - misfit, NO_CONSTANTS
    count = find_modes(
        apply, tokens, shape, language, num_starts, tolerance, bar, law, work, fit, units, state
    )
    fit.num_modes[0] = count
    if count == 0:
        return -np.inf, UNDEFINED
    _copy(k, fit.modes[_best_mode(count, fit)], best)
    value = law.perfect + _sum_of_modes(count, fit)
    if shape.is_affine and law.prior == NORMAL and law.is_linear:
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
def misfits_many(apply, tokens, language, leaves, constants, law, work, fit, misfits, residuals):
    """Of one tree at many vectors of constants: how far each is from a perfect fit, in nats, and
    its residuals (where there is room for them); infinite and NaN where it is undefined."""
    shape = prepare(apply, tokens, language, leaves, work)
    for row in range(len(constants)):
        misfits[row] = np.inf
        if shape.is_defined:
            always = shape.num_nodes > 0
            misfits[row] = misfit_at(apply, shape, constants[row], always, law, work, fit)
        for point in range(residuals.shape[1] if row < len(residuals) else 0):
            is_defined = misfits[row] < np.inf
            residuals[row, point] = work.by_first[point] if is_defined else np.nan

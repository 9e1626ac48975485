"""log p(y | tree) of many trees by compiled code: exact where that is possible, else the sum of the
integrals about each mode. On a ridge that is bent, a straight line in the constants' logarithms
leaves it: of the integrals in plain units and in logarithms, which are estimates of one, the larger
counts."""

from __future__ import annotations

import numpy as np

from dvisr.evaluation.tree import prepare
from dvisr.library.compiling import compiled, compiled_inside, lent
from dvisr.marginal.keeping import copy
from dvisr.marginal.law import IN_LOGS, NORMAL, ON_RIDGE, PLAIN
from dvisr.marginal.linear import log_marginal_if_linear
from dvisr.marginal.modes import find_modes
from dvisr.marginal.optimising import descend, misfit_at

UNDEFINED, NO_CONSTANTS, CLOSED_FORM, LAPLACE = -1, 0, 1, 2
_BELOW = 20.0  # a mode so much lower than the best is left out
_SAME = 1e-6  # nats between modes that are listed once
_FEW = 8  # steps, where a start is all but a mode


@compiled_inside
def _best_mode(count, fit):
    """Where the posterior is highest; on a ridge, where most of it lies."""
    best = 0
    for mode in range(count):
        if fit.kinds[mode] == IN_LOGS and fit.kinds[best] != IN_LOGS:
            if fit.masses[mode] > fit.masses[best] + 2.0:
                best = mode
        elif fit.kinds[best] == IN_LOGS and fit.kinds[mode] != IN_LOGS:
            if fit.masses[mode] > fit.masses[best] - 2.0:
                best = mode
        elif fit.heights[mode] < fit.heights[best]:
            best = mode
    return best


@compiled_inside
def _log_mass(count, kind, lowest, fit):
    """Of all modes of a kind together."""
    top, total = -np.inf, 0.0
    for mode in range(count):
        if fit.kinds[mode] == kind and (kind == IN_LOGS or fit.heights[mode] < lowest + _BELOW):
            top = max(top, fit.masses[mode])
    if not top > -np.inf:
        return -np.inf
    for mode in range(count):
        if fit.kinds[mode] == kind and (kind == IN_LOGS or fit.heights[mode] < lowest + _BELOW):
            total += np.exp(fit.masses[mode] - top)
    return top + np.log(total)


@compiled_inside
def _sum_of_modes(count, fit):
    lowest = np.inf
    for mode in range(count):
        if fit.kinds[mode] != IN_LOGS:
            lowest = min(lowest, fit.heights[mode])
    one = _log_mass(count, PLAIN + 0 * count, lowest, fit)
    two = max(
        _log_mass(count, ON_RIDGE + 0 * count, lowest, fit),
        _log_mass(count, IN_LOGS + 0 * count, lowest, fit),
    )
    high, low = max(one, two), min(one, two)
    return high + np.log1p(np.exp(low - high)) if low > -np.inf else high


@compiled_inside
def _list_modes(k, count, best, modes, fit):
    """The best, then others that are not much lower; of those that are equally high, as mirror
    images are, one."""
    lowest, last = fit.heights[best], -np.inf
    for mode in range(count):
        lowest = min(lowest, fit.heights[mode])
    for place in range(len(modes)):
        own = best if place == 0 else -1
        for mode in range(count if place > 0 else 0):
            height = fit.heights[mode]
            is_high = height < lowest + _BELOW
            is_new = height > last + _SAME and abs(height - fit.heights[best]) > _SAME
            if is_high and is_new and (own < 0 or height < fit.heights[own]):
                own = mode
        if own < 0:
            break
        last = fit.heights[own] if place > 0 else last
        copy(k, fit.modes[own], modes[place])


@compiled_inside
def fit_one(
    apply, tokens, language, leaves, num_starts, starts, tolerance, bar, law, work, fit, units,
    state, best, modes,
):  # fmt: skip
    """log p(y | tree) and how it was found; the best constants go into `best`, and with those of
    other high modes into `modes`, as far as there are any. Descents begin at `num_starts` starts
    that are made and at `starts` (starts, constants; NaN for none)."""
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
        apply, tokens, shape, language, num_starts, starts, tolerance, bar, law, work, fit, units,
        state,
    )  # fmt: skip
    fit.num_modes[0] = count
    if count == 0:
        return -np.inf, UNDEFINED
    highest = _best_mode(count, fit)
    copy(k, fit.modes[highest], best)
    _list_modes(k, count, highest, modes, fit)
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
    starts,
    tolerance,
    bars,
    law,
    work,
    fit,
    units,
    values,
    methods,
    best,
    modes,
):
    """`starts` are (trees, starts, constants), to be gone from besides `num_starts` others. Into
    `modes` (trees, modes, constants) go the highest modes."""
    state = np.zeros(1, dtype=np.uint64)
    language, law, work, fit = lent(language), lent(law), lent(work), lent(fit)
    for tree in range(len(trees)):
        values[tree], methods[tree] = fit_one(
            apply, trees[tree], language, leaves, num_starts, starts[tree], tolerance, bars[tree],
            law, work, fit, units, state, best[tree], modes[tree],
        )  # fmt: skip


@compiled
def follow_many(apply, trees, language, leaves, starts, tolerance, law, work, fit, values, modes):
    """The log likelihoods at the best constants that a few steps lead to from `starts`, (trees,
    starts, constants); where each leads to goes into `modes`, or NaN. The tolerance is in nats."""
    language, law, work, fit = lent(language), lent(law), lent(work), lent(fit)
    for tree in range(len(trees)):
        values[tree] = -np.inf
        shape = prepare(apply, trees[tree], language, leaves, work)
        if not shape.is_defined:
            continue
        k, always, never = shape.num_constants, shape.num_nodes > 0, shape.num_nodes < 0
        if k == 0:
            misfit = misfit_at(apply, shape, fit.here, always, law, work, fit)
            if misfit < np.inf:
                values[tree] = law.perfect - misfit
            continue
        with_prior = law.prior == NORMAL  # far from it the squares alone would lead elsewhere
        least = tolerance if with_prior else 2.0 * tolerance / law.observations
        for number in range(starts.shape[1]):
            if np.isnan(starts[tree, number, 0]):
                continue
            copy(k, starts[tree, number], fit.here)
            descend(apply, shape, fit.here, with_prior, never, _FEW, least, np.inf, law, work, fit)
            misfit = misfit_at(apply, shape, fit.here, always, law, work, fit)
            if misfit < np.inf:
                values[tree] = max(values[tree], law.perfect - misfit)
                copy(k, fit.here, modes[tree, number])


@compiled
def misfits_many(apply, tokens, language, leaves, constants, law, work, fit, misfits, residuals):
    """Of one tree at many vectors of constants: how far each is from a perfect fit, in nats, and
    its residuals (where there is room for them); infinite and NaN where it is undefined."""
    language, law, work, fit = lent(language), lent(law), lent(work), lent(fit)
    shape = prepare(apply, tokens, language, leaves, work)
    own = work.by_first
    for row in range(len(constants)):
        misfits[row] = np.inf
        if shape.is_defined:
            always = shape.num_nodes > 0
            misfits[row] = misfit_at(apply, shape, constants[row], always, law, work, fit)
        for point in range(residuals.shape[1] if row < len(residuals) else 0):
            is_defined = misfits[row] < np.inf
            residuals[row, point] = own[point] if is_defined else np.nan

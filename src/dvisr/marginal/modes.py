"""Distinct modes of one tree's constants, by compiled code: descents from several starts, and on
ridges the modes of the constants' logarithms."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.marginal.keeping import APART, apart, copy, keep, mirrored, turned
from dvisr.marginal.law import IN_LOGS, MAX_STARTS, NORMAL, ON_RIDGE, PLAIN, log_prior
from dvisr.marginal.optimising import EXACTING, cholesky, descend, height_of, misfit_at
from dvisr.marginal.starting import from_normal, is_tried_alone, propose, seed

_CLOSE = 1.0  # squared distance from a mode, in standard deviations, that leads to it
_HALF_A_RACE = 2  # iterations that every start gets, and the better half once more
_HOPE = 0.3  # of its squares: what may be left of them, of the best start, at the end
_FEWEST_STARTS = 3  # of a constant that is tried alone: the lowest of where it was tried
_FIRST_STARTS, _FIRST_HOPE = 2, 0.05  # the same after the first starts
_BELOW = 20.0  # a mode so much lower than the best is left out, ...
_FAR_BELOW = 8.0  # ... and a start that was raced and is so much lower, where only the best counts
_RIDGE = 1e-3  # of a diagonal entry: what others leave of it where constants do the same work
_FROM_PRIOR = 6  # starts over the prior at the least, where it is at odds with the best fit
_SAME = 1e-3  # nats: ridges that fit equally well are one


@compiled_inside
def _is_new(count, k, constants, height, tolerance, law, fit):
    """Whether to go on from here: it is no mode already kept, or lies below one that was kept on
    its way down, whose width then says little."""
    for mode in range(count):
        if fit.kinds[mode] != PLAIN or height < fit.heights[mode] - tolerance - 1e-9:
            continue
        if apart(k, constants, mode, law, fit) < APART:
            return False
    return True


@compiled_inside
def _is_beaten(apply, count, least_misfit, shape, law, work, fit):
    """Whether a start that has been raced, in `fit.here`, has all but reached a mode already kept,
    or is far below the best; a Normal prior may favour what fits worse."""
    k, always = shape.num_constants, shape.num_nodes > 0
    for mode in range(count):
        if fit.kinds[mode] == PLAIN and apart(k, fit.here, mode, law, fit) < _CLOSE:
            return True
    if law.prior == NORMAL:
        return False
    misfit = misfit_at(apply, shape, fit.here, always, law, work, fit)
    return misfit > least_misfit + _FAR_BELOW


@compiled_inside
def _put_in_order(k, count, wanted, fit):
    """The best candidates first, as many as are wanted."""
    for place in range(wanted):
        best = place
        for other in range(place + 1, count):
            if fit.candidate_squares[other] < fit.candidate_squares[best]:
                best = other
        if best == place:
            continue
        squares = fit.candidate_squares[place]
        fit.candidate_squares[place] = fit.candidate_squares[best]
        fit.candidate_squares[best] = squares
        for j in range(k):
            value = fit.candidates[place, j]
            fit.candidates[place, j] = fit.candidates[best, j]
            fit.candidates[best, j] = value


@compiled_inside
def _has_no_hope(apply, shape, constants, hope, bar, law, work, fit):
    """Whether even a fit with only that share of this one's squares would not come up to `bar`."""
    if bar == -np.inf:
        return False
    if not misfit_at(apply, shape, constants, shape.num_nodes > 0, law, work, fit) < np.inf:
        return True
    residuals = work.by_first
    for point in range(len(residuals)):
        residuals[point] *= np.sqrt(hope)
    hoped = law.misfit(residuals, law.counts, law.parameters, fit.nothing, fit.nothing)
    return law.perfect - hoped < bar


@compiled_inside
def _run(apply, number, tolerance, shape, law, work, fit):
    """A candidate half of its way in a race."""
    # A comparison rather than plain False: for each of those Numba compiles a copy.
    never = shape.num_nodes < 0
    fit.candidate_squares[number] = descend(
        apply, shape, fit.candidates[number], never, never, _HALF_A_RACE, tolerance, np.inf, law,
        work, fit,
    )  # fmt: skip


@compiled_inside
def _race(apply, num_starts, tolerance, bar, shape, language, law, work, fit, units, state):
    """Of many candidates the most promising get a few iterations each; how many of those there are,
    in order, at the beginning of `fit.candidates`. Most starts lead nowhere, and that shows
    early; and so does a tree that has no hope to come up to `bar`."""
    stand_alone()
    k = shape.num_constants
    count = propose(apply, num_starts, shape, language, law, work, fit, units, state)
    chosen = min(count, num_starts, MAX_STARTS)
    if tolerance >= EXACTING and is_tried_alone(k, fit):
        chosen = min(chosen, max(_FEWEST_STARTS, num_starts // 2))
    _put_in_order(k, count, chosen, fit)
    if shape.is_affine and law.is_linear and chosen == 1:
        return chosen  # it has been solved for
    for number in range(chosen):
        if number == _FIRST_STARTS:
            best = 0 if fit.candidate_squares[0] <= fit.candidate_squares[1] else 1
            copy(k, fit.candidates[best], fit.here)
            if _has_no_hope(apply, shape, fit.here, _FIRST_HOPE, bar, law, work, fit):
                chosen = number
                break
        _run(apply, number, tolerance, shape, law, work, fit)
    # Those that are behind after half of the way are left there.
    if tolerance >= EXACTING and chosen > 2:
        _put_in_order(k, chosen, chosen, fit)
    for number in range(chosen if tolerance < EXACTING else (chosen + 1) // 2):
        _run(apply, number, tolerance, shape, law, work, fit)
    _put_in_order(k, chosen, chosen, fit)
    return chosen


@compiled_inside
def _is_on_ridge(k, fit):
    """Whether the squares leave a combination of constants open: after a Cholesky factorisation of
    the Gram matrix next to nothing is left of a diagonal entry."""
    for i in range(k):
        for j in range(k):
            fit.matrix[i, j] = fit.gram[i, j]
        fit.matrix[i, i] += 1e-12 * fit.gram[i, i] + 1e-300
    if not cholesky(fit.matrix, k, fit.factor):
        return True
    left = 1.0
    for i in range(k):
        left = min(left, fit.factor[i, i] * fit.factor[i, i] / fit.matrix[i, i])
    return left < _RIDGE


@compiled_inside
def _over_the_prior(apply, found, num_starts, tolerance, shape, law, work, fit, state):
    """Modes from starts over a Normal prior. Where it is at odds with the best fit, descents that
    come from there have a long way, and other modes may be higher."""
    k, always, never = shape.num_constants, shape.num_nodes > 0, shape.num_nodes < 0
    for _ in range(max(_FROM_PRIOR, num_starts // 4)):
        for j in range(k):
            fit.here[j] = from_normal(law, state)
        height = descend(
            apply, shape, fit.here, always, never, 100, tolerance, np.inf, law, work, fit
        )
        if height < np.inf:
            kind = ON_RIDGE if k > 1 and _is_on_ridge(k, fit) else PLAIN
            found = keep(apply, found, fit.here, kind, shape, law, work, fit)
    return found


@compiled_inside
def _signs(k, constants):
    signs = 0
    for j in range(k):
        signs = 2 * signs + (1 if constants[j] > 0.0 else 0)
    return signs


@compiled_inside
def _finalists(
    apply, num_starts, given, tolerance, bar, shape, language, law, work, fit, units, state
):
    """Starts that are followed to their ends, at the beginning of `fit.candidates`; how many."""
    k = shape.num_constants
    finalists = 0 * k
    if num_starts > 0:
        count = _race(
            apply, num_starts, tolerance, bar, shape, language, law, work, fit, units, state
        )
        # To find every mode takes every start to its end; to find the best, some of the best.
        finalists = count if tolerance < EXACTING else min(count, max(3, num_starts // 3))
    for number in range(len(given)):
        copy(k, given[number], fit.candidates[finalists])
        fit.candidate_squares[finalists] = np.inf if np.isnan(given[number, 0]) else 0.0
        finalists += 1
    return finalists


@compiled_inside
def find_modes(
    apply, tokens, shape, language, num_starts, given, tolerance, bar, law, work, fit, units, state
):
    """Distinct modes of the constants' posterior, in `fit`; how many there are. Where even the best
    start is far below `bar`, a log marginal likelihood, it is left where it is. Descents begin at
    `num_starts` starts of its own, and at those that are given (starts, constants; NaN for none).
    """
    stand_alone()
    k = shape.num_constants
    always, never, plain = k >= 0, k < 0, PLAIN + 0 * k
    seed(tokens, shape.num_nodes, state)
    finalists = _finalists(
        apply, num_starts, given, tolerance, bar, shape, language, law, work, fit, units, state
    )
    found, least, least_misfit, lowest, strain = 0 * k, np.inf, np.inf, np.inf, 0.0
    ridge_misfit, ridge_signs = np.inf, -1
    highest_prior = k * log_prior(law.first, law)
    for place in range(finalists):
        copy(k, fit.candidates[place], fit.here)
        if not fit.candidate_squares[place] < np.inf:
            continue
        is_rough = found and tolerance >= EXACTING
        if is_rough and _is_beaten(apply, found, least_misfit, shape, law, work, fit):
            continue
        if place == 0 and _has_no_hope(apply, shape, fit.here, _HOPE, bar, law, work, fit):
            return keep(apply, found, fit.here, plain, shape, law, work, fit)
        squares = descend(
            apply, shape, fit.here, never, never, 25, tolerance, least, law, work, fit
        )
        if not squares < np.inf:
            continue
        is_ridge = k > 1 and _is_on_ridge(k, fit)
        misfit = misfit_at(apply, shape, fit.here, always, law, work, fit)
        # What is hopelessly far from the best so far is no mode of the posterior that matters. A
        # prior may be at odds with the best fit: then it is the other modes that matter.
        if law.prior == NORMAL:
            if misfit - highest_prior > lowest + _BELOW + 5.0 * k:
                continue
        elif misfit > least_misfit + _BELOW + 5.0 * k:
            continue
        height = height_of(misfit, fit.here, k, never, law)
        if is_ridge:
            # All starts that end on one ridge lead to the same places.
            if abs(misfit - ridge_misfit) < _SAME and ridge_signs == _signs(k, fit.here):
                continue
            ridge_misfit, ridge_signs = misfit, _signs(k, fit.here)
        elif found and not _is_new(found, k, fit.here, height, tolerance, law, fit):
            continue
        copy(k, fit.here, fit.candidates[place])
        reached = descend(
            apply, shape, fit.here, always, never, 100, tolerance, np.inf, law, work, fit
        )
        strain = max(strain, height - reached)
        if law.prior != NORMAL or height - reached < _BELOW:
            least, least_misfit = min(least, squares), min(least_misfit, misfit)
        if reached < np.inf:
            lowest = min(lowest, reached)
            kind = ON_RIDGE if is_ridge else PLAIN
            found = keep(apply, found, fit.here, kind, shape, law, work, fit)
        if is_ridge:
            copy(k, fit.candidates[place], fit.here)
            reached = descend(
                apply, shape, fit.here, always, always, 100, tolerance, np.inf, law, work, fit
            )
            if reached < np.inf:
                kind = IN_LOGS + 0 * k
                found = keep(apply, found, fit.here, kind, shape, law, work, fit)
    if law.prior == NORMAL and strain > _BELOW and not shape.is_affine:
        found = _over_the_prior(apply, found, num_starts, tolerance, shape, law, work, fit, state)
    found = mirrored(apply, found, shape, law, work, fit)
    return turned(apply, found, tolerance, shape, law, work, fit)

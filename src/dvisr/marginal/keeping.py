"""Modes of one tree's constants that are kept, each once, and those that follow from them: mirror
images, and phases a turn further."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.marginal.integrals import integral_about
from dvisr.marginal.law import IN_LOGS, MAX_MODES, NORMAL, log_prior, stretch
from dvisr.marginal.optimising import EXACTING, descend, height_of, misfit_at

APART = 9.0  # squared distance, in standard deviations, from which two modes are two


@compiled_inside
def copy(k, source, goal):
    for j in range(k):
        goal[j] = source[j]


@compiled_inside
def apart(k, constants, mode, law, fit):
    """The squared distance from a mode, in standard deviations."""
    in_logs = fit.kinds[mode] == IN_LOGS
    at, total = fit.modes[mode], 0.0
    for i in range(k):
        # Room for descents, free here.
        fit.step[i] = constants[i] - at[i]
        if in_logs:
            apart = np.arcsinh(constants[i] / law.unit) - np.arcsinh(at[i] / law.unit)
            fit.step[i] = apart * stretch(at[i], in_logs, law)
    for i in range(k):
        for j in range(k):
            total += fit.step[i] * fit.widths[mode, i, j] * fit.step[j]
    return total


@compiled_inside
def _height_at(apply, shape, constants, law, work, fit):
    misfit = misfit_at(apply, shape, constants, shape.num_nodes > 0, law, work, fit)
    return height_of(misfit, constants, shape.num_constants, shape.num_nodes < 0, law)


@compiled_inside
def keep(apply, count, constants, kind, shape, law, work, fit):
    """Keep a mode if it is none of those already kept; how many there are then."""
    stand_alone()
    k = shape.num_constants
    height = _height_at(apply, shape, constants, law, work, fit)
    if not height < np.inf:
        return count
    for mode in range(count):
        is_alike = (kind == IN_LOGS) == (fit.kinds[mode] == IN_LOGS)
        if is_alike and apart(k, constants, mode, law, fit) < APART:
            if kind != IN_LOGS and height < fit.heights[mode] - 1e-9:
                copy(k, constants, fit.modes[mode])
                fit.heights[mode] = height
                fit.kinds[mode] = kind
                fit.masses[mode] = integral_about(apply, mode, shape, law, work, fit)
            return count
    place = count
    if count == MAX_MODES:
        place = 0 * count
        for mode in range(count):
            if fit.heights[mode] > fit.heights[place]:
                place = mode
        if height >= fit.heights[place]:
            return count
    copy(k, constants, fit.modes[place])
    fit.heights[place] = height
    fit.kinds[place] = kind
    fit.masses[place] = integral_about(apply, place, shape, law, work, fit)
    return max(count, place + 1)


@compiled_inside
def mirrored(apply, count, shape, law, work, fit):
    """Modes with some signs reversed, where that changes nothing: they are found for certain."""
    stand_alone()
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
                count = keep(apply, count, fit.here, fit.kinds[mode], shape, law, work, fit)
    return count


@compiled_inside
def _keep_copy(count, k, mode, constants, law, fit):
    """Keep a mode that differs from another by the prior alone, if it is none of those already
    kept; how many there are then."""
    for other in range(count):
        is_plain = fit.kinds[other] != IN_LOGS
        if is_plain and apart(k, constants, other, law, fit) < APART:
            return count
    lost = 0.0
    for j in range(k):
        lost += log_prior(fit.modes[mode, j], law) - log_prior(constants[j], law)
    height, mass = fit.heights[mode] + lost, fit.masses[mode] - lost
    place = count
    if count == MAX_MODES:
        place = 0 * count
        for other in range(count):
            if fit.heights[other] > fit.heights[place]:
                place = other
        if height >= fit.heights[place] or place == mode:
            return count
    copy(k, constants, fit.modes[place])
    fit.heights[place], fit.masses[place] = height, mass
    fit.kinds[place] = fit.kinds[mode]
    for i in range(k):
        copy(k, fit.widths[mode, i], fit.widths[place, i])
    return max(count, place + 1)


@compiled_inside
def _due(count, heights, fit):
    """The highest mode that has not had its turn, or -1. A mode found late may take the place of a
    lower one, and has its turn too."""
    mode = -1
    for place in range(count):
        is_due = fit.heights[place] != heights[place] and fit.kinds[place] != IN_LOGS
        if is_due and (mode < 0 or fit.heights[place] < fit.heights[mode]):
            mode = place
    return mode


@compiled_inside
def turned(apply, count, tolerance, shape, law, work, fit):
    """Modes with a constant a turn further, where that changes nothing: it is a phase. The prior is
    another there, so that the mode is moved a little; where only the best mode counts, that is
    left out, and a constant that is no phase at the first mode is taken for none."""
    stand_alone()
    if not shape.is_periodic:
        return count
    k, always, never = shape.num_constants, shape.num_nodes > 0, count < 0
    is_exacting = tolerance < EXACTING
    heights, start, is_phase = np.full(MAX_MODES, np.nan), np.empty(k), np.ones(k, dtype=np.bool_)
    for number in range(4 * MAX_MODES):
        mode = _due(count, heights, fit)
        if mode < 0 or not is_phase.any():
            break
        heights[mode], kind = fit.heights[mode], fit.kinds[mode]
        copy(k, fit.modes[mode], start)
        misfit = 0.0
        if is_exacting or number == 0:
            misfit = misfit_at(apply, shape, start, always, law, work, fit)
        for step in range(2 * k):
            if not is_phase[step // 2]:
                continue
            copy(k, start, fit.here)
            fit.here[step // 2] += 2.0 * np.pi * (1.0 if step % 2 else -1.0)
            if is_exacting or number == 0:
                moved = misfit_at(apply, shape, fit.here, always, law, work, fit)
                if not abs(moved - misfit) < 1e-7 * (1.0 + abs(misfit)):
                    is_phase[step // 2] = is_exacting
                    continue
            if not is_exacting:
                count = _keep_copy(count, k, mode, fit.here, law, fit)
                continue
            descend(apply, shape, fit.here, always, never, 25, tolerance, np.inf, law, work, fit)
            count = keep(apply, count, fit.here, kind, shape, law, work, fit)
    return count

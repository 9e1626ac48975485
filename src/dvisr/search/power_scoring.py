"""Which products of powers of columns come nearest to given values: the compiled part of
`search.powers`.

In logarithms a product of powers is a sum, and its exponents are a least squares problem whose
answer must be whole or half numbers: the nearest such point is looked for one exponent after the
other, and several of the best are kept at each (Babai's nearest plane, with a beam).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.library.compiling import compiled

MOST_HALVES = 8  # exponents are counted in halves: up to the fourth power
_BEAM, _SCORED = 5, 3  # points that are kept on the way, and that are compared with the values
_FURTHEST = 1e6  # an exponent beyond it is none
_NEAREST = 3  # values that are tried for an exponent
_ASSUMED = 0.02  # the noise, relative to the values, that the cost of exponents is held against
_SPREAD = 1.5  # of exponents before the data


@compiled
def _equations(logs, target, shares, has_factor, gram, along, scaled):
    """The normal equations, with a free factor or without; the sum of the shares."""
    count, rows = logs.shape
    total = 0.0
    for row in range(rows):
        total += shares[row]
    for one in range(count):
        middle = 0.0
        if has_factor:
            for row in range(rows):
                middle += shares[row] * logs[one, row]
            middle /= total
        dot = 0.0
        for row in range(rows):
            scaled[row] = shares[row] * (logs[one, row] - middle)
            dot += scaled[row] * target[row]
        along[one] = dot
        # Of one side less its middle: the other's would cancel.
        for two in range(one + 1):
            dot = 0.0
            for row in range(rows):
                dot += scaled[row] * logs[two, row]
            gram[one, two] = dot
    return total


@compiled
def _factorised(gram, along, ridge):
    """The lower triangle becomes Cholesky's, `along` the solution; whether there is one."""
    count = len(along)
    for one in range(count):
        for two in range(one + 1):
            value = gram[one, two] + (ridge if one == two else 0.0)
            for k in range(two):
                value -= gram[one, k] * gram[two, k]
            if one == two:
                if not value > 1e-12 * ridge:
                    return False
                gram[one, one] = np.sqrt(value)
            else:
                gram[one, two] = value / gram[two, two]
    for one in range(count):
        for k in range(one):
            along[one] -= gram[one, k] * along[k]
        along[one] /= gram[one, one]
    for one in range(count - 1, -1, -1):
        for k in range(one + 1, count):
            along[one] -= gram[k, one] * along[k]
        along[one] /= gram[one, one]
        if not np.isfinite(along[one]):
            return False
    return True


@compiled
def _copy(source, one, target, two, first):
    for place in range(first, source.shape[1]):
        target[two, place] = source[one, place]


@compiled
def _nearest_points(gram, solution, costs, steps, beam, kept, spent, room):
    """The best points with whole or half coordinates, in halves, from the last exponent to the
    first; how many there are. `beam` and `spent` have them, `kept` and `room` are to work in."""
    count, used = len(solution), 1
    spent[0] = 0.0
    for one in range(count - 1, -1, -1):
        size, made = gram[one, one], 0
        for state in range(used):
            shift = 0.0
            for k in range(one + 1, count):
                shift += gram[k, one] * (0.5 * beam[state, k] - solution[k])
            centre = solution[one] - shift / size
            if not abs(centre) < _FURTHEST:
                continue
            step = steps[one]
            middle = step * round(2.0 * centre / step)
            for offset in range(_NEAREST):
                value = middle + step * (offset - _NEAREST // 2)
                if abs(value) > MOST_HALVES:
                    continue
                exponent = int(value)
                gap = size * (0.5 * exponent - centre)
                cost = spent[state] + gap * gap + costs[exponent + MOST_HALVES]
                place = made
                if made == _BEAM:
                    if cost >= room[made - 1]:
                        continue
                    place = made - 1
                else:
                    made += 1
                while place > 0 and room[place - 1] > cost:
                    room[place] = room[place - 1]
                    _copy(kept, place - 1, kept, place, one)
                    place -= 1
                room[place] = cost
                _copy(beam, state, kept, place, one + 1)
                kept[place, one] = exponent
        used = made
        for state in range(used):
            spent[state] = room[state]
            _copy(kept, state, beam, state, one)
    return used


@compiled
def _squares(target, weights, logs, is_negative, exponents, has_factor, values):
    """What the product leaves of the values, with the best factor or without."""
    rows = len(target)
    own, cross, whole = 0.0, 0.0, 0.0
    for row in range(rows):
        if not weights[row] > 0.0:
            continue
        total, is_flipped = 0.0, False
        for column in range(len(exponents)):
            exponent = exponents[column]
            if exponent != 0:
                total += 0.5 * exponent * logs[column, row]
                if is_negative[column, row] and exponent % 4 != 0:
                    is_flipped = not is_flipped
        value = np.exp(min(total, 300.0))
        values[row] = -value if is_flipped else value
        own += weights[row] * value * value
        cross += weights[row] * values[row] * target[row]
        whole += weights[row] * target[row] * target[row]
    factor = cross / own if has_factor and own > 0.0 else 1.0
    left = 0.0
    for row in range(rows):
        if weights[row] > 0.0:
            gap = target[row] - factor * values[row]
            left += weights[row] * gap * gap
    return left


class _Room(NamedTuple):
    """To work in, for one target after the other."""

    gram: np.ndarray
    along: np.ndarray
    beam: np.ndarray
    kept: np.ndarray
    spent: np.ndarray
    room: np.ndarray
    shares: np.ndarray
    logs: np.ndarray
    values: np.ndarray
    priced: np.ndarray


@compiled
def _room(count, rows, num_costs):
    return _Room(
        np.empty((count, count)),
        np.empty(count),
        np.zeros((_BEAM, count), dtype=np.int64),
        np.zeros((_BEAM, count), dtype=np.int64),
        np.empty(_BEAM),
        np.empty(_BEAM),
        np.empty(rows),
        np.empty(rows),
        np.zeros(rows),
        np.empty(num_costs),
    )


@compiled
def _note(points, count, last, costs, score, exponents, scores):
    """Into the list of the best of one target; the exponent of the last column must not be 0, where
    that is asked for."""
    for column in range(count):
        score -= costs[points[column] + MOST_HALVES]
    place = len(scores) - 1
    if not score > scores[place] or (last and points[count - 1] == 0):
        return
    while place > 0 and scores[place - 1] < score:
        scores[place] = scores[place - 1]
        exponents[place] = exponents[place - 1]
        place -= 1
    scores[place] = score
    for column in range(count):
        exponents[place, column] = points[column]


@compiled
def _look(
    target, weights, logs, is_negative, steps, costs, has_factor, last, half, floor, room,
    exponents, scores,
):  # fmt: skip
    """The best products for one target."""
    used = 0
    for row in range(len(target)):
        value = target[row]
        is_used = weights[row] > 0.0 and value != 0.0
        used += is_used
        room.shares[row] = weights[row] * value * value if is_used else 0.0
        room.logs[row] = np.log(abs(value)) if is_used else 0.0
    if used < 2:
        return
    total = _equations(logs, room.logs, room.shares, has_factor, room.gram, room.along, room.values)
    noise = _ASSUMED * _ASSUMED * total / used
    if not (noise > 0.0 and np.isfinite(noise)):
        return
    if not _factorised(room.gram, room.along, noise / (_SPREAD * _SPREAD)):
        return
    room.priced[:] = 2.0 * noise * costs
    found = _nearest_points(
        room.gram, room.along, room.priced, steps, room.beam, room.kept, room.spent, room.room
    )
    for state in range(min(found, _SCORED)):
        points = room.beam[state]
        left = _squares(target, weights, logs, is_negative, points, has_factor, room.values)
        _note(points, len(logs), last, costs, -half * np.log(left + floor), exponents, scores)


@compiled
def nearest_powers(
    targets, weights, logs, is_negative, steps, costs, has_factor, half, floor, exponents, scores,
):  # fmt: skip
    """For each of the targets (items, rows) the best products of the columns (columns, rows), into
    `exponents` (items, best, columns), in halves, and `scores` (items, best): that of the log
    joint, about: -half log(squares + floor) less the costs of the exponents, in nats."""
    room = _room(len(logs), targets.shape[1], len(costs))
    for item in range(len(targets)):
        _look(
            targets[item], weights[item], logs, is_negative, steps, costs, has_factor, False, half,
            floor, room, exponents[item], scores[item],
        )  # fmt: skip


@compiled
def nearest_with_another(
    targets, weights, logs, is_negative, steps, others, other_is_negative, pairs, has_halves,
    costs, has_factor, half, floor, exponents, scores,
):  # fmt: skip
    """As `nearest_powers` for pairs (pairs, 2) of a target and another function, to a power as if
    it were one more column, the last. The logarithms of these are `others` (functions, rows)."""
    count, rows = logs.shape
    own_logs, own_negative = np.empty((count + 1, rows)), np.empty((count + 1, rows), np.bool_)
    own_logs[:count], own_negative[:count] = logs, is_negative
    own_steps = np.full(count + 1, 2, np.int64)
    own_steps[:count] = steps
    room = _room(count + 1, rows, len(costs))
    for item in range(len(pairs)):
        target, other = pairs[item]
        own_logs[count], own_negative[count] = others[other], other_is_negative[other]
        own_steps[count] = 1 if has_halves and not other_is_negative[other].any() else 2
        _look(
            targets[target], weights[target], own_logs, own_negative, own_steps, costs, has_factor,
            True, half, floor, room, exponents[item], scores[item],
        )  # fmt: skip

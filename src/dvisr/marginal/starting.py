"""Where descents start: the same for a tree whichever trees are fitted beside it.

Constants that enter linearly are solved for, so that only the others are tried: frequencies cell by
cell over the range that the rows can resolve or the prior allows, phases around the circle, the
rest over decades in units of the data.
"""

from __future__ import annotations

import numpy as np

from dvisr.evaluation.tree import CONSTANT, EACH, FIRST, JOINT, evaluate_tree
from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.marginal.law import MAX_CANDIDATES, NORMAL
from dvisr.marginal.optimising import cholesky, linearise, misfit_at, solve

_CELLS_A_LOBE = 4.0  # frequencies tried in each width of a peak, 2 pi over the reach
_FEWEST_CELLS = 8
_MOST_GAINED = 1.0 - 1e-8  # of the squares: beyond, what is left of them would be rounding
_FREE, _AFFINE, _CURVED = 0, 1, 2


@compiled_inside
def random(state):
    """splitmix64: the next of a sequence, uniform between 0 and 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled_inside
def from_normal(law, state):
    """A value of about the Normal prior: the sum of three is near enough."""
    return law.first + 2.0 * law.second * (random(state) + random(state) + random(state) - 1.5)


@compiled_inside
def seed(tokens, num_nodes, state):
    """From the tree itself, so that it does not matter which trees are fitted before it."""
    state[0] = np.uint64(0x243F6A8885A308D3)
    for position in range(num_nodes):
        state[0] = (state[0] ^ np.uint64(tokens[position] + 1)) * np.uint64(0x100000001B3)
        random(state)


@compiled_inside
def _is_affine(shape, language, work, is_free, state):
    """Whether the tree is affine in the constants that are free, all others fixed. `state` is
    scratch."""
    for position in range(shape.num_nodes - 1, -1, -1):
        token = work.token[position]
        arity = language.arities[token]
        if arity == 0:
            is_constant = work.code[position] == CONSTANT
            is_moved = is_constant and is_free[work.low[position]]
            state[position] = _AFFINE if is_moved else _FREE
            continue
        first = state[position + 1]
        second = state[work.right[position]] if arity == 2 else _FREE
        linearity = language.linearity[token]
        if first == _FREE and second == _FREE:
            state[position] = _FREE
        elif first == _CURVED or second == _CURVED:
            return False
        elif (
            linearity == JOINT
            or (linearity == EACH and (first == _FREE or second == _FREE))
            or (linearity == FIRST and second == _FREE)
        ):
            state[position] = _AFFINE
        else:
            return False
    return True


@compiled_inside
def study(apply, shape, language, law, work, fit):
    """Which constants enter linearly, which are angles, and how far a frequency reaches. The
    linear ones are found one by one, the last first, so that the set can't be enlarged."""
    stand_alone()
    k = shape.num_constants
    state = np.zeros(shape.num_nodes, dtype=np.int64)
    for j in range(k):
        fit.is_linear[j] = False
        fit.is_angle[j] = False
        fit.reach[j] = 0.0
        fit.here[j] = 1.0
    if not law.is_log:
        for j in range(k - 1, -1, -1):
            fit.is_linear[j] = True
            if not _is_affine(shape, language, work, fit.is_linear, state):
                fit.is_linear[j] = False
    if not shape.is_periodic:
        return
    is_known = evaluate_tree(apply, shape, fit.here, k > 0, work)
    for value in (0.1, -1.0, 10.0):
        if not is_known:
            for j in range(k):
                fit.here[j] = value
            is_known = evaluate_tree(apply, shape, fit.here, k > 0, work)
    for position in range(shape.num_nodes):
        if not language.is_trig[work.token[position]]:
            continue
        operand = position + 1
        for j in range(work.low[operand], work.high[operand]):
            fit.is_angle[j] = True
            low, high, slopes = np.inf, -np.inf, work.slopes[operand, j]
            for point in range(len(slopes)):
                low = min(low, slopes[point])
                high = max(high, slopes[point])
            if is_known and high - low > 1e-9 * max(abs(low), abs(high)):
                fit.reach[j] = max(fit.reach[j], high - low)


@compiled_inside
def _num_cells(j, most, law, fit):
    """Cells of a frequency up to the highest that evenly spaced rows could resolve, or the prior
    allows: rows that are not even resolve higher ones."""
    cell = 2.0 * np.pi / (_CELLS_A_LOBE * fit.reach[j])
    highest = np.pi * max(1.0, len(law.y) - 1.0) / fit.reach[j]
    if law.prior == NORMAL:
        highest = abs(law.first) + 4.0 * law.second
    return int(min(max(highest / cell + 1.0, _FEWEST_CELLS), most))


@compiled_inside
def _drawn(number, j, most, is_scanned, shape, law, work, fit, units, state):
    """A value to start constant j from."""
    if fit.is_angle[j]:
        if fit.reach[j] > 0.0:
            cells = _num_cells(j, most, law, fit)
            cell = 2.0 * np.pi / (_CELLS_A_LOBE * fit.reach[j])
            place = number // 2 if is_scanned else int(random(state) * cells)
            sign = 1.0 if number % 2 == 0 else -1.0
            if not is_scanned:
                sign = 1.0 if random(state) < 0.5 else -1.0
            return sign * cell * (place % cells + random(state))
        return np.pi * (2.0 * random(state) - 1.0)
    if law.prior == NORMAL and random(state) < 0.3:
        return from_normal(law, state)
    if random(state) < 0.25:
        position = int(random(state) * shape.num_nodes)
        point = int(random(state) * len(law.y))
        value = work.values[position, point]
        if work.state[position] != 0 or random(state) < 0.2:
            value = law.y[point]
        return value if abs(value) < 1e100 else 1.0
    spread = 1.0 if number < 4 else 1.7
    size = 10.0 ** (spread * (2.0 * random(state) - 1.0))
    unit = units[int(random(state) * len(units))]
    return size * unit * (1.0 if random(state) < 0.5 else -1.0)


@compiled_inside
def project(apply, shape, law, work, fit, constants):
    """Solve for the constants that enter linearly, in place; the squares there."""
    k, never, num_linear = shape.num_constants, shape.num_nodes < 0, 0
    for j in range(k):
        num_linear += fit.is_linear[j]
    if num_linear == 0:
        return misfit_at(apply, shape, constants, never, law, work, fit)
    squares = linearise(apply, shape, constants, never, never, law, work, fit)
    if not squares < np.inf:
        return np.inf
    count = 0
    for i in range(k):
        if not fit.is_linear[i]:
            continue
        fit.step[count] = fit.along[i]
        row = 0
        for j in range(k):
            if fit.is_linear[j]:
                fit.matrix[count, row] = fit.gram[i, j]
                row += 1
        fit.matrix[count, count] *= 1.0 + 1e-9
        fit.matrix[count, count] += 1e-300
        count += 1
    if not cholesky(fit.matrix, count, fit.factor):
        return squares
    solve(fit.factor, count, fit.step)
    promised, row = 0.0, 0
    for j in range(k):
        fit.trial[j] = constants[j]
        if fit.is_linear[j]:
            fit.trial[j] += fit.step[row]
            promised += fit.step[row] * fit.along[j]
            row += 1
    if law.is_linear and promised < _MOST_GAINED * squares:
        solved = squares - promised
    else:
        solved = misfit_at(apply, shape, fit.trial, never, law, work, fit)
    if not solved < squares:
        return squares
    for j in range(k):
        constants[j] = fit.trial[j]
    return solved


@compiled_inside
def propose(apply, num_starts, shape, language, law, work, fit, units, state):
    """Starts with what enters linearly solved for, into `fit.candidates`; how many are defined."""
    stand_alone()
    k = shape.num_constants
    study(apply, shape, language, law, work, fit)
    num_frequencies, num_angles, num_linear, frequency = 0, 0, 0, 0
    for j in range(k):
        num_linear += fit.is_linear[j]
        num_angles += fit.is_angle[j] and not fit.is_linear[j]
        if fit.reach[j] > 0.0 and not fit.is_linear[j]:
            num_frequencies += 1
            frequency = j
    if num_linear == k:
        wanted = 1
    elif num_frequencies == 1:
        most = min(8 * num_starts, MAX_CANDIDATES // 2)
        wanted = 2 * _num_cells(frequency, most, law, fit) * min(num_angles, 3)
    else:
        wanted = (16 if num_frequencies > 0 else 4) * num_starts
    wanted = min(wanted, MAX_CANDIDATES)
    most = max(_FEWEST_CELLS, min(8 * num_starts, MAX_CANDIDATES // 2))
    count, tried = 0 * k, 0
    while count < wanted and tried < 3 * wanted:
        for j in range(k):
            fit.here[j] = 1.0
            if (tried > 0 and not fit.is_linear[j]) or fit.is_angle[j]:
                fit.here[j] = _drawn(
                    tried, j, most, num_frequencies == 1, shape, law, work, fit, units, state
                )
        tried += 1
        squares = project(apply, shape, law, work, fit, fit.here)
        if squares < np.inf:
            for j in range(k):
                fit.candidates[count, j] = fit.here[j]
            fit.candidate_squares[count] = squares
            count += 1
    return _lowest_along(k, count, fit) if is_tried_alone(k, fit) else count


@compiled_inside
def is_tried_alone(k, fit):
    """Whether all constants but one enter linearly, and are solved for."""
    num_tried = 0
    for j in range(k):
        num_tried += not fit.is_linear[j]
    return num_tried == 1


@compiled_inside
def _lowest_along(k, count, fit):
    """Where one constant alone is tried: of the candidates in its order, those that are lower than
    their neighbours; all others are on the way to one of these."""
    stand_alone()
    tried = 0
    while fit.is_linear[tried]:
        tried += 1
    order = np.argsort(fit.candidates[:count, tried])
    is_kept = np.zeros(count, dtype=np.bool_)
    for place in range(count):
        own = fit.candidate_squares[order[place]]
        before = place == 0 or own <= fit.candidate_squares[order[place - 1]]
        after = place == count - 1 or own < fit.candidate_squares[order[place + 1]]
        is_kept[order[place]] = before and after
    kept = 0 * k
    for number in range(count):
        if is_kept[number]:
            for j in range(k):
                fit.candidates[kept, j] = fit.candidates[number, j]
            fit.candidate_squares[kept] = fit.candidate_squares[number]
            kept += 1
    return kept

"""Which functions of a table come nearest to the values that contexts ask for: the compiled part of
`search.matching`."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled

_KINDS = 4  # g, g * c, g + c, g * c + c
BLOCK = 256  # functions that are compared at once: their values stay in a core's nearest cache


@compiled
def _insert(function, kind, score, functions, kinds, scores):
    """Into lists that are in order, the best first."""
    place = len(scores) - 1
    while place > 0 and scores[place - 1] < score:
        scores[place] = scores[place - 1]
        functions[place], kinds[place] = functions[place - 1], kinds[place - 1]
        place -= 1
    scores[place], functions[place], kinds[place] = score, function, kind


@compiled
def sums_over_rows(values, start, stop, targets, weights, sums):
    """Weighted sums over the rows of g, g^2 and t g, for a block of functions."""
    count = stop - start
    one, two, three = sums[0, :count], sums[1, :count], sums[2, :count]
    sums[:, :count] = 0.0
    rows = len(targets)
    fours = rows - rows % 4
    # A loop for each sum: where several arrays are written to, LLVM makes no vectors.
    for row in range(0, fours, 4):
        w0, w1, w2, w3 = weights[row], weights[row + 1], weights[row + 2], weights[row + 3]
        b0, b1 = w0 * targets[row], w1 * targets[row + 1]
        b2, b3 = w2 * targets[row + 2], w3 * targets[row + 3]
        v0, v1 = values[row, start:stop], values[row + 1, start:stop]
        v2, v3 = values[row + 2, start:stop], values[row + 3, start:stop]
        for place in range(count):
            one[place] += (w0 * v0[place] + w1 * v1[place]) + (w2 * v2[place] + w3 * v3[place])
        for place in range(count):
            x0, x1, x2, x3 = v0[place], v1[place], v2[place], v3[place]
            two[place] += (w0 * x0 * x0 + w1 * x1 * x1) + (w2 * x2 * x2 + w3 * x3 * x3)
        for place in range(count):
            three[place] += (b0 * v0[place] + b1 * v1[place]) + (b2 * v2[place] + b3 * v3[place])
    for row in range(fours, rows):
        weight, own = weights[row], values[row, start:stop]
        both = weight * targets[row]
        for place in range(count):
            one[place] += weight * own[place]
        for place in range(count):
            two[place] += weight * own[place] * own[place]
        for place in range(count):
            three[place] += both * own[place]


@compiled
def _least(all_one, all_t, all_tt, sums, shares, floor, limit, least):
    """The squares that g * c + c leaves, which no other kind comes below, for a block; how many of
    them are within the limit."""
    about = all_tt - all_t * all_t / all_one
    per_one, slope = 1.0 / all_one, all_t / all_one
    one, two, three = sums[0], sums[1], sums[2]
    within = 0
    for place in range(len(least)):
        g, gg = one[place], two[place]
        own = gg - g * g * per_one
        cross = three[place] - slope * g
        explained = cross * cross / own if own > 1e-9 * gg else 0.0
        least[place] = about - explained
    for place in range(len(least)):
        within += least[place] + floor < limit * shares[place]
    return within


@compiled
def _squares(all_one, all_t, all_tt, g, gg, tg, least, squares):
    """What each kind leaves."""
    gap = all_t - g
    squares[0] = all_tt - 2.0 * tg + gg
    squares[1] = all_tt - tg * tg / gg if gg > 0.0 else all_tt
    squares[2] = squares[0] - gap * gap / all_one
    squares[3] = least


@compiled
def match(
    targets, weights, log_prior, room, values, table_prior, sizes, costs, extra, half, floor,
    functions, kinds, scores,
):  # fmt: skip
    """The score is that of the log joint, about: -half log(squares + floor) + log prior."""
    num_contexts, num_functions = targets.shape[0], len(table_prior)
    sums, least, squares = np.empty((3, BLOCK)), np.empty(BLOCK), np.empty(_KINDS)
    shares, limits = np.exp(table_prior / half), np.full((num_contexts, _KINDS), np.inf)
    whole = np.empty((num_contexts, 3))
    for context in range(num_contexts):
        target, weight = targets[context], weights[context]
        whole[context, 0], whole[context, 1] = weight.sum(), (weight * target).sum()
        whole[context, 2] = (weight * target**2).sum()
    for start in range(0, num_functions, BLOCK):
        stop = min(start + BLOCK, num_functions)
        block, of_block = least[: stop - start], shares[start:stop]
        for context in range(num_contexts):
            one, t, tt = whole[context]
            own = limits[context]
            sums_over_rows(values, start, stop, targets[context], weights[context], sums)
            if _least(one, t, tt, sums, of_block, floor, own[0], block) == 0:
                continue
            for place in range(stop - start):
                function = start + place
                left = room[context] - sizes[function]
                if block[place] + floor >= own[0] * of_block[place] or left < 0:
                    continue
                g, gg, tg = sums[0, place], sums[1, place], sums[2, place]
                _squares(one, t, tt, g, gg, tg, block[place], squares)
                for kind in range(_KINDS):
                    found = max(squares[kind], 0.0) + floor
                    if found >= own[kind] * of_block[place] or extra[kind] > left:
                        continue
                    score = log_prior[context] + table_prior[function] + costs[kind]
                    score -= half * np.log(found)
                    if score > scores[context, -1]:
                        _insert(
                            function, kind, score, functions[context], kinds[context],
                            scores[context],
                        )  # fmt: skip
                        for other in range(_KINDS):
                            ahead = log_prior[context] + costs[other] - scores[context, -1]
                            own[other] = np.exp(min(ahead / half, 700.0))

"""Which functions of a table come nearest to the values that contexts ask for: the compiled part of
`search.matching`."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled

_KINDS = 4  # g, g * c, g + c, g * c + c
_BLOCK = 512  # functions that are compared at once


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
def _sums(values, start, stop, targets, weights, sums):
    """Weighted sums over the rows of g, g^2 and t g, for a block of functions."""
    sums[:, : stop - start] = 0.0
    for row in range(len(targets)):
        weight = weights[row]
        both = weight * targets[row]
        own = values[row, start:stop]
        for place in range(stop - start):
            value = own[place]
            scaled = weight * value
            sums[0, place] += scaled
            sums[1, place] += scaled * value
            sums[2, place] += both * value


@compiled
def _least(count, all_one, all_t, all_tt, sums):
    """The squares that g * c + c leaves, which no other kind comes below, into the last row."""
    about = all_tt - all_t * all_t / all_one
    for place in range(count):
        g, gg, tg = sums[0, place], sums[1, place], sums[2, place]
        own = gg - g * g / all_one
        cross = tg - all_t * g / all_one
        explained = cross * cross / own
        sums[3, place] = about - explained if own > 1e-9 * gg else about


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
    num_functions = len(table_prior)
    sums, squares, limits = np.empty((4, _BLOCK)), np.empty(_KINDS), np.empty(_KINDS)
    shares = np.exp(table_prior / half)
    for context in range(len(targets)):
        target, weight = targets[context], weights[context]
        all_one, all_t, all_tt = weight.sum(), (weight * target).sum(), (weight * target**2).sum()
        own_functions, own_kinds, own_scores = functions[context], kinds[context], scores[context]
        limits[:] = np.inf
        for start in range(0, num_functions, _BLOCK):
            stop = min(start + _BLOCK, num_functions)
            _sums(values, start, stop, target, weight, sums)
            _least(stop - start, all_one, all_t, all_tt, sums)
            for place in range(stop - start):
                function = start + place
                left = room[context] - sizes[function]
                if sums[3, place] + floor >= limits[0] * shares[function] or left < 0:
                    continue
                g, gg, tg = sums[0, place], sums[1, place], sums[2, place]
                _squares(all_one, all_t, all_tt, g, gg, tg, sums[3, place], squares)
                for kind in range(_KINDS):
                    found = max(squares[kind], 0.0) + floor
                    if found >= limits[kind] * shares[function] or extra[kind] > left:
                        continue
                    score = log_prior[context] + table_prior[function] + costs[kind]
                    score -= half * np.log(found)
                    if score > own_scores[-1]:
                        _insert(function, kind, score, own_functions, own_kinds, own_scores)
                        for other in range(_KINDS):
                            ahead = log_prior[context] + costs[other] - own_scores[-1]
                            limits[other] = np.exp(min(ahead / half, 700.0))

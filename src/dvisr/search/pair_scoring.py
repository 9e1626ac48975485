"""Which pairs of functions come nearest to the values that are asked for: the compiled part of
`search.pairing`."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled

# What is done with two functions.
PLUS, MINUS, FROM, SCALED_PLUS, SCALED_MINUS, SECOND, FIRST, BOTH = range(8)
_PARTNERS_AT_ONCE = 256  # whose products with one function are worked out together
_CANCELLED = 1e-13  # of the squares that were subtracted from each other: what is left is no more


@compiled
def squares_left(kind, whole, ff, gg, fg, tf, tg):
    """The squares that a pair leaves."""
    if kind == PLUS:
        return whole + ff + gg + 2.0 * (fg - tf - tg)
    if kind == MINUS:
        return whole + ff + gg + 2.0 * (tg - tf - fg)
    if kind == FROM:
        return whole + ff + gg + 2.0 * (tf - tg - fg)
    if kind == SCALED_PLUS:
        return whole - (tf + tg) ** 2 / (ff + gg + 2.0 * fg)
    if kind == SCALED_MINUS:
        return whole - (tf - tg) ** 2 / (ff + gg - 2.0 * fg)
    if kind == SECOND:
        return whole + ff - 2.0 * tf - (tg - fg) ** 2 / gg
    if kind == FIRST:
        return whole + gg - 2.0 * tg - (tf - fg) ** 2 / ff
    return whole - (gg * tf**2 - 2.0 * fg * tf * tg + ff * tg**2) / (ff * gg - fg**2)


@compiled
def _product(scaled, columns, start, stop, products):
    """Of one function with those of a block: summed over the rows, four at a time."""
    products[:] = 0.0
    rows = len(scaled)
    fours = rows - rows % 4
    for row in range(0, fours, 4):
        f0, f1, f2, f3 = scaled[row], scaled[row + 1], scaled[row + 2], scaled[row + 3]
        v0, v1 = columns[row, start:stop], columns[row + 1, start:stop]
        v2, v3 = columns[row + 2, start:stop], columns[row + 3, start:stop]
        for place in range(len(products)):
            products[place] += (f0 * v0[place] + f1 * v1[place]) + (f2 * v2[place] + f3 * v3[place])
    for row in range(fours, rows):
        factor, values = scaled[row], columns[row, start:stop]
        for place in range(len(products)):
            products[place] += factor * values[place]


@compiled
def _within(whole, ff, tf, squares, with_target, products, shares, floor, limit, least):
    """What is left with both factors free, for a block: no other kind leaves less. Infinite for
    functions that can't be told apart. How many are within the limit."""
    within = 0
    for place in range(len(least)):
        gg, tg, fg = squares[place], with_target[place], products[place]
        apart = ff * gg - fg * fg
        left = whole - (gg * tf * tf - 2.0 * fg * tf * tg + ff * tg * tg) / apart
        least[place] = left if apart > 1e-12 * ff * gg else np.inf
    for place in range(len(least)):
        within += least[place] + floor < limit * shares[place]
    return within


@compiled
def best_partners(
    scaled, columns, start, squares, with_target, whole, log_prior, costs, num_kinds, half, floor,
    partners, kinds, scores,
):  # fmt: skip
    """For each function of a block the best partners among those after it. The score is about that
    of the log joint: -half log(squares + floor) + log prior."""
    count = len(squares)
    products, least = np.empty(_PARTNERS_AT_ONCE), np.empty(_PARTNERS_AT_ONCE)
    shares = np.exp(log_prior / half)
    highest = costs[:num_kinds].max()
    for row in range(len(scaled)):
        first = start + row
        ff, tf = squares[first], with_target[first]
        own = scores[row]
        limit = np.exp(min((log_prior[first] + highest - own[-1]) / half, 700.0))
        for begin in range(first + 1, count, _PARTNERS_AT_ONCE):
            end = min(begin + _PARTNERS_AT_ONCE, count)
            block, left_of = products[: end - begin], least[: end - begin]
            _product(scaled[row], columns, begin, end, block)
            within = _within(
                whole, ff, tf, squares[begin:end], with_target[begin:end], block,
                shares[begin:end], floor, limit, left_of,
            )  # fmt: skip
            if within == 0:
                continue
            for second in range(begin, end):
                if left_of[second - begin] + floor >= limit * shares[second]:
                    continue
                gg, tg, fg = squares[second], with_target[second], block[second - begin]
                doubt = _CANCELLED * (whole + ff + gg)
                for kind in range(num_kinds):
                    left = max(squares_left(kind, whole, ff, gg, fg, tf, tg), doubt) + floor
                    score = log_prior[first] + log_prior[second] + costs[kind] - half * np.log(left)
                    if score > own[-1]:
                        place = len(own) - 1
                        while place > 0 and own[place - 1] < score:
                            own[place] = own[place - 1]
                            partners[row, place] = partners[row, place - 1]
                            kinds[row, place] = kinds[row, place - 1]
                            place -= 1
                        own[place], partners[row, place], kinds[row, place] = score, second, kind
                        ahead = log_prior[first] + highest - own[-1]
                        limit = np.exp(min(ahead / half, 700.0))

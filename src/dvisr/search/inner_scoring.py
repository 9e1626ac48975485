"""Which functions with a constant inside come nearest to the values that holes must hold: the
compiled part of `search.inner`."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled
from dvisr.search.scoring import BLOCK, sums_over_rows

_CANCELLED = 1e-10  # of a sum of squares: what is less is what rounding leaves


@compiled
def _left(one, t, tt, g, gg, tg, has_offset, offset, floor):
    """The squares that are left with a factor, or with an offset as well, times what that costs."""
    least, left = _CANCELLED * tt, np.inf
    if gg > 0.0:
        left = max(tt - tg * tg / gg, least) + floor
    if has_offset:
        own, cross = gg - g * g / one, tg - t * g / one
        if own > _CANCELLED * gg:
            beside = offset * (max(tt - t * t / one - cross * cross / own, least) + floor)
            left = min(left, beside)
    return left


@compiled
def nearest_entries(
    targets, weights, values, starts, shares, has_offset, offset, floors, found
):  # fmt: skip
    """Into `found` (contexts, count), for each context the entries of the nearest functions, each
    function once, the nearest first. Entries are columns of `values` (rows, entries), those of a
    function from one of `starts` to the next. The squares that are left are multiplied by
    `shares`, one a function, and, with an offset, by `offset`."""
    num_functions, num_entries = len(starts) - 1, values.shape[1]
    sums, best = np.empty((3, BLOCK)), np.empty(num_functions)
    entries = np.empty(num_functions, np.int64)
    for context in range(len(targets)):
        target, weight = targets[context], weights[context]
        one, t, tt = weight.sum(), (weight * target).sum(), (weight * target**2).sum()
        best[:], entries[:], function = np.inf, starts[:-1], 0
        for start in range(0, num_entries, BLOCK):
            stop = min(start + BLOCK, num_entries)
            sums_over_rows(values, start, stop, target, weight, sums)
            for place in range(stop - start):
                entry = start + place
                while starts[function + 1] <= entry:
                    function += 1
                g, gg, tg = sums[0, place], sums[1, place], sums[2, place]
                left = shares[function] * _left(
                    one, t, tt, g, gg, tg, has_offset[context], offset, floors[context]
                )
                if left < best[function]:
                    best[function], entries[function] = left, entry
        for place in range(found.shape[1]):
            nearest = np.argmin(best)
            found[context, place], best[nearest] = entries[nearest], np.inf

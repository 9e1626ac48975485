"""Which rows of values are the same function: equal up to rounding, found by hashing."""

from __future__ import annotations

import numba
import numpy as np

# Values are compared by their leading 52 - 14 = 38 bits: about 11 decimal digits. Two trees of one
# function differ by a few units in the 52nd, so they agree; two functions that agree so far at
# every point of the data can't be told apart by them anyway.
_DROPPED_BITS = 14


@numba.njit(parallel=True, cache=True)
def hash_rows(values):
    """A 64-bit hash of each row, taken of its rounded values."""
    num_rows, num_points = values.shape
    hashes = np.empty(num_rows, dtype=np.uint64)
    bits = values.view(np.uint64)
    for row in numba.prange(num_rows):
        h = np.uint64(0x9E3779B97F4A7C15)
        for point in range(num_points):
            rounded = _rounded(bits[row, point])
            # The finaliser of the splitmix64 generator mixes every bit into every other.
            h = (h ^ rounded) * np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(29)
            h *= np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(32)
        hashes[row] = h
    return hashes


@numba.njit(inline="always")
def _rounded(word):
    if word == np.uint64(1 << 63):  # -0.0 is 0.0
        return np.uint64(0)
    return (word + np.uint64(1 << (_DROPPED_BITS - 1))) >> np.uint64(_DROPPED_BITS)


@numba.njit(parallel=True, cache=True)
def _all_agree(values, members, starts):
    """Whether the rows of every group really are equal after rounding: guards against the one
    chance in a million million that two functions share a hash."""
    bits = values.view(np.uint64)
    num_bad = 0
    for group in numba.prange(len(starts) - 1):
        first = members[starts[group]]
        for place in range(starts[group] + 1, starts[group + 1]):
            other = members[place]
            for point in range(bits.shape[1]):
                if _rounded(bits[first, point]) != _rounded(bits[other, point]):
                    num_bad += 1
                    break
    return num_bad == 0


def group_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows sorted by function: `members` (row numbers), `starts` (where each group begins, and
    the end), and the groups' hashes. Within a group rows keep their order."""
    hashes = hash_rows(values)
    members, starts, group_hashes = group_hashed(hashes)
    if not _all_agree(values, members, starts):
        raise RuntimeError("two different functions have the same 64-bit hash")
    return members, starts, group_hashes


def group_hashed(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    members = np.argsort(hashes, kind="stable")
    ordered = hashes[members]
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.append(np.flatnonzero(is_first), len(ordered))
    return members, starts, ordered[is_first]

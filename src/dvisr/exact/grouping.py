"""Which rows of values are the same function: equal up to rounding, found by hashing."""

from __future__ import annotations

import numba
import numpy as np

# Values are compared by their leading 52 - 14 = 38 bits: about 11 decimal digits. Two trees of one
# function differ by a few units in the 52nd, so they agree; two functions that agree so far at
# every point of the data can't be told apart by them anyway.
_DROPPED_BITS = 14


@numba.njit(cache=True, nogil=True)
def hash_rows(values):
    """Of each row's rounded values a 64-bit hash, and a second one of 32 bits to check it by."""
    num_rows, num_points = values.shape
    hashes = np.empty(num_rows, dtype=np.uint64)
    checks = np.empty(num_rows, dtype=np.uint32)
    bits = values.view(np.uint64)
    for row in range(num_rows):
        h = np.uint64(0x9E3779B97F4A7C15)
        g = np.uint64(0xD1B54A32D192ED03)
        for point in range(num_points):
            rounded = _rounded(bits[row, point])
            # Multiply and fold, as the splitmix64 generator does, so that every bit matters.
            h = (h ^ rounded) * np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(29)
            h *= np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(32)
            g = (g ^ rounded) * np.uint64(0xFF51AFD7ED558CCD)
            g ^= g >> np.uint64(33)
        hashes[row] = h
        checks[row] = np.uint32(g >> np.uint64(32))
    return hashes, checks


@numba.njit(inline="always")
def _rounded(word):
    if word == np.uint64(1 << 63):  # -0.0 is 0.0
        return np.uint64(0)
    return (word + np.uint64(1 << (_DROPPED_BITS - 1))) >> np.uint64(_DROPPED_BITS)


def group_hashed(
    hashes: np.ndarray, checks: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows sorted by function: `members` (row numbers), `starts` (where each group begins, and
    the end), and the groups' hashes. Within a group rows keep their order."""
    members = np.argsort(hashes, kind="stable")
    ordered = hashes[members]
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.append(np.flatnonzero(is_first), len(ordered))
    if checks is not None:
        check = checks[members]
        if (check[1:] != check[:-1])[~is_first[1:]].any():
            raise RuntimeError("two different functions have the same 64-bit hash")
    return members, starts, ordered[is_first]

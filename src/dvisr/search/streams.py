"""Random numbers in compiled code.

A *stream* is the state of a generator, SplitMix64, in an array of one number. Numba's own generator
has one state a thread, so what it gives would depend on who else draws from it.
"""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


def new_stream(rng: np.random.Generator) -> np.ndarray:
    """A stream that starts where the generator says."""
    return rng.integers(0, 2**64, size=1, dtype=np.uint64)


@compiled
def uniform(stream):
    """The next number, in [0, 1)."""
    stream[0] += _STEP
    bits = stream[0]
    bits = (bits ^ (bits >> _S30)) * _FIRST
    bits = (bits ^ (bits >> _S27)) * _SECOND
    bits ^= bits >> _S31
    return np.float64(bits >> _S11) * 2.0**-53


@compiled
def integer_below(number, stream):
    """One of 0 ... number - 1; 0 if there is none."""
    return int(uniform(stream) * number)


@compiled
def index_by_weight(cumulative, stream):
    """An index, with a probability in proportion to its weight; `cumulative` has the sums of the
    weights up to each index."""
    point = uniform(stream) * cumulative[-1]
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > point:
            high = middle
        else:
            low = middle + 1
    # Rounding can put the point at the end, where the last indices may have no weight.
    while low > 0 and cumulative[low] == cumulative[low - 1]:
        low -= 1
    return low

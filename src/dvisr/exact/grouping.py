"""Which rows of values are the same function: equal up to rounding, found by fingerprints.

A fingerprint is a weighted mean of the logarithms of a row's values, with weights drawn at random
once and for all. Rows that differ by rounding alone have fingerprints that differ by rounding
alone, however many points there are; so rows are sorted by one fingerprint, and neighbours that
agree in two independent ones are the same function.
"""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled

# Means of logarithms (base 2) this close are equal. Trees of one function differ by a few units in
# the last place, 1e-15; functions that agree to 14 digits on average can't be told apart.
TOLERANCE = 1.5e-14
_MAX_POINTS_OF_WEIGHTS = 4096


def _weights() -> np.ndarray:
    """By fingerprint, by what a value is (positive, negative), by point; then for zeros."""
    return np.random.default_rng(20_250_601).uniform(0.5, 1.5, (2, 4, _MAX_POINTS_OF_WEIGHTS))


WEIGHTS = _weights()


@compiled
def _fingerprints(values, weights):
    num_rows, num_points = values.shape
    prints = np.empty((2, num_rows))
    for row in range(num_rows):
        for which in range(2):
            total = 0.0
            lost = 0.0  # Kahan's compensation: no rounding error grows with the points
            for point in range(num_points):
                value = values[row, point]
                place = point % weights.shape[2]
                if value > 0.0:
                    term = weights[which, 0, place] * np.log2(value)
                elif value < 0.0:
                    term = weights[which, 1, place] * np.log2(-value) + weights[which, 2, place]
                else:
                    term = 7.0 * weights[which, 3, place]
                term -= lost
                grown = total + term
                lost = (grown - total) - term
                total = grown
            prints[which, row] = total / num_points
    return prints


def fingerprints(values: np.ndarray) -> np.ndarray:
    """(2, rows) for values (rows, points)."""
    found: np.ndarray = _fingerprints(np.ascontiguousarray(values), WEIGHTS)
    return found


@compiled
def _starts(prints, members, tolerance):
    """Where, in sorted order, a row is another function than the first row of its group."""
    is_first = np.ones(len(members), dtype=np.bool_)
    head = 0
    for place in range(1, len(members)):
        row, leader = members[place], members[head]
        if (
            abs(prints[0, row] - prints[0, leader]) <= tolerance
            and abs(prints[1, row] - prints[1, leader]) <= tolerance
        ):
            is_first[place] = False
        else:
            head = place
    return is_first


def group(prints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows sorted by function: `members` (row numbers) and `starts` (where each group begins, and
    the end). Within a group, rows with equal fingerprints keep their order."""
    members = np.argsort(prints[0], kind="stable")
    is_first = _starts(prints, members, TOLERANCE)
    return members, np.append(np.flatnonzero(is_first), len(members))

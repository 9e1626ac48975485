"""Rows that are seen more than once: copies, or measurements that happen to agree."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

_LEAST_STEPS = 5  # differences of y, below which a grid can't be told from chance
_MOST_CELLS = 100_000


def rounding(y: np.ndarray) -> float:
    """The step of which all differences of y are multiples; 0 if there is none."""
    gaps = np.diff(np.unique(y))
    if len(gaps) < _LEAST_STEPS:
        return 0.0
    step = float(gaps.min())
    steps = gaps / step
    return step if np.abs(steps - np.round(steps)).max() < 1e-3 else 0.0


def expected_distinct(X: np.ndarray, y: np.ndarray, counts: np.ndarray, noise: float) -> float:
    """How many distinct rows as many observations would be, if each had noise of its own.

    Parameters
    ----------
    X, y, counts
        Distinct rows, and how often each was seen.
    noise
        The standard deviation of the noise, in units of y.

    Notes
    -----
    Without rounding no two observations agree. With it, those at one x share the cells of a grid.
    """
    seen, step = float(counts.sum()), rounding(y)
    if step == 0.0:
        return seen
    width = noise / step
    if not (math.isfinite(width) and width > 0.0 and 12.0 * width < _MOST_CELLS):
        return seen
    reach = math.ceil(6.0 * width) + 1
    chance = np.diff(ndtr((np.arange(-reach, reach + 2) - 0.5) / width))
    _, group = np.unique(X, axis=0, return_inverse=True)
    total = np.bincount(group.ravel(), weights=counts)
    log_missed = np.log1p(-np.minimum(chance, 1.0 - 1e-12))
    return float(sum(-np.expm1(count * log_missed).sum() for count in total))

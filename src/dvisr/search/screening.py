"""Which columns to look at first, where there are many: those that explain most of the target.

Nothing is left out for it: it decides what a search begins with, not what it may find.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

_MOST_ROWS = 2000
_MOST_BINS = 5
_ROWS_A_CELL = 8  # of a pair of columns, about
_CHANCE = 2.0  # standard deviations by which squares may be explained by chance


def leading_columns(X: np.ndarray, y: np.ndarray, most: int) -> np.ndarray:
    """The numbers of at most so many columns, the first ones first; all of them, in their order,
    where there are no more.

    Columns are cut into bins of about as many rows each. The column, or the pair of columns, whose
    cells' means explain most of the target's ranks comes first, the next is that which explains
    most of what is left, and so on. Pairs see what no column shows by itself, as a product of two
    whose means are zero.
    """
    if X.shape[1] <= most:
        return np.arange(X.shape[1])
    rows = np.arange(len(y))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))
    from scipy.stats import rankdata  # takes long to import, and few tables need it

    bins, is_in = _binned(X[rows])
    left = ndtri((rankdata(y[rows]) - 0.5) / len(rows))
    chosen: list[int] = []
    for _ in range(3 * most):
        one, two, gain = _best(bins, is_in, left)
        if gain <= 0.0:
            break
        chosen += [column for column in dict.fromkeys((one, two)) if column not in chosen]
        if len(chosen) >= most:
            break
        cells = np.unique(bins[:, one] * _MOST_BINS + bins[:, two], return_inverse=True)[1]
        left = left - (np.bincount(cells, left) / np.bincount(cells))[cells]
    gains, _ = _gains(bins, is_in, left)
    rest = [int(c) for c in np.argsort(-np.diag(gains), kind="stable") if c not in chosen]
    return np.array([*chosen, *rest][:most])


def _binned(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each row in each column, and the same as 0 and 1, (rows, columns * bins)."""
    count = int(np.clip(np.sqrt(len(X) / _ROWS_A_CELL), 2, _MOST_BINS))
    from scipy.stats import rankdata

    ranks = (rankdata(X, axis=0) - 0.5) / len(X)
    bins = np.minimum((count * ranks).astype(int), count - 1)
    is_in = (bins[:, :, None] == np.arange(_MOST_BINS)).astype(float)
    return bins, is_in.reshape(len(X), -1)


def _gains(bins: np.ndarray, is_in: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each pair of columns, and on the diagonal of each column: the squares that its cells'
    means explain, less what chance would, and the standard deviation of the latter."""
    count = bins.shape[1]
    shape = (count, _MOST_BINS, count, _MOST_BINS)
    rows = (is_in.T @ is_in).reshape(shape)
    sums = ((is_in * left[:, None]).T @ is_in).reshape(shape)
    squares = (sums**2 / np.maximum(rows, 1.0)).sum(axis=(1, 3))
    free = (rows > 0.0).sum(axis=(1, 3)) - 1.0
    variance = float((left**2).mean())
    return squares - variance * free, variance * np.sqrt(2.0 * np.maximum(free, 0.0))


def _best(bins: np.ndarray, is_in: np.ndarray, left: np.ndarray) -> tuple[int, int, float]:
    """The pair, or the column as a pair with itself, that explains most beyond chance."""
    gains, chance = _gains(bins, is_in, left)
    sure = gains - _CHANCE * chance
    one, two = divmod(int(np.argmax(sure)), len(sure))
    return one, two, float(sure[one, two])

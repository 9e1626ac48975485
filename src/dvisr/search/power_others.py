"""What products of powers are tried with: functions that stand in them beside powers of columns, as
x - u, cos(x), 1 - x^2 or log(x / u), and other products, which are small."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.library import Library
from dvisr.search.matching import Matching
from dvisr.search.power_scoring import MOST_HALVES

# What has one of these at its root is a product of powers of other functions.
_OF_PRODUCTS = ("*", "/", "^", "square", "cube", "sqrt", "inv", "neg", "abs")
_MOST = 20_000
_WIDEST, _HALVINGS = 1e3, 50  # nats below the largest sum, and how often these are halved


@dataclasses.dataclass(frozen=True)
class Others:
    """Of a table of likely functions those that are no products, nor columns or numbers, and have
    no zero: the likeliest first.

    Parameters
    ----------
    trees : ndarray of shape (functions, max_tokens)
    log_prior : ndarray of shape (functions,)
    logs, is_negative : ndarray of shape (functions, rows)
        Of the sizes of their values at the rows that are compared; their signs.
    """

    trees: np.ndarray
    log_prior: np.ndarray
    logs: np.ndarray
    is_negative: np.ndarray

    @classmethod
    def of(cls, library: Library, matching: Matching) -> Others:
        products = {library.find(name) for name in _OF_PRODUCTS}
        roots = [n for n, token in enumerate(library) if token.arity > 0 and n not in products]
        chosen = np.flatnonzero(np.isin(matching.trees[:, 0], roots))
        chosen = chosen[np.argsort(-matching.log_prior[chosen], kind="stable")][:_MOST]
        values = matching.values[chosen]
        kept = (values != 0.0).all(axis=1) & ~np.all(values == values[:, :1], axis=1)
        chosen, values = chosen[kept], values[kept]
        return cls(
            matching.trees[chosen],
            matching.log_prior[chosen],
            np.ascontiguousarray(np.log(np.abs(values))),
            np.ascontiguousarray(values < 0.0),
        )

    def tokens(self, number: int) -> tuple[int, ...]:
        tree = self.trees[number]
        return tuple(int(token) for token in tree[tree >= 0])


def small_products(
    steps: np.ndarray, costs: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest, at most so many: exponents (products, columns), in halves and by steps, and
    what they cost. What the first columns have of one of them is as cheap as it or cheaper, so that
    columns can be taken in turn."""
    found, total = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
    halves = np.arange(-MOST_HALVES, MOST_HALVES + 1)
    for step in steps:
        allowed = halves[halves % step == 0]
        grid = total[:, None] + costs[allowed + MOST_HALVES]
        order = np.argsort(grid, axis=None, kind="stable")[:most]
        rows, places = np.unravel_index(order, grid.shape)
        found = np.column_stack([found[rows], allowed[places]])
        total = grid.ravel()[order]
    return found, total


def likeliest_pairs(ones: np.ndarray, others: np.ndarray, most: int) -> np.ndarray:
    """The pairs (pairs, 2) of the largest sums, at most so many; the others are in order, the
    largest first. The sums themselves would be too many to write down."""
    chosen = np.flatnonzero(np.isfinite(ones))
    if len(chosen) == 0 or len(others) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    ones = ones[chosen]
    counts = np.full(len(ones), len(others) if most > 0 else 0)
    if len(ones) * len(others) > most > 0:
        low, high = float(ones.max() + others.max()) - _WIDEST, float(ones.max() + others.max())
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            counts = np.searchsorted(-others, ones - middle, side="right")
            low, high = (low, middle) if counts.sum() <= most else (middle, high)
        counts = np.searchsorted(-others, ones - high, side="right")
        # Where many sums are equal, more of them are no less than the bar.
        counts = np.diff(np.minimum(np.cumsum(counts), most), prepend=0)
    second = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([np.repeat(chosen, counts), second], axis=1)

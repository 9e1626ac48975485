"""Functions of one size before equal ones are merged, column by column."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Rows:
    """A chunk of them, as an operator makes them of its operands' entries."""

    values: np.ndarray
    is_defined: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    left: np.ndarray
    right: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Functions of one size and class before equal ones are merged."""

    values: np.ndarray
    prints: np.ndarray
    scores: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    job: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @staticmethod
    def empty(num_rows: int, points: int, num_kinds: int) -> Candidates:
        values = np.empty((num_rows if points else 0, points))
        scores, counts = np.empty((2, num_rows))
        operands = np.empty((3, num_rows), dtype=np.int32)
        weights = np.empty((num_rows, num_kinds))
        return Candidates(values, np.empty((2, num_rows)), scores, counts, weights, *operands)

    def first(self, num_rows: int) -> Candidates:
        rows = (self.scores, self.counts, self.weights, self.job, self.left, self.right)
        kept = (array[:num_rows] for array in rows)
        return Candidates(self.values[:num_rows], self.prints[:, :num_rows], *kept)


def summed(numbers: np.ndarray, members: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if not len(numbers):
        return numbers
    return np.add.reduceat(numbers[members], starts[:-1])

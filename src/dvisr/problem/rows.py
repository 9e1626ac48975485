"""Rows on their way in: equal ones are one row seen several times, in sorted order, before anything
else is done with them. So integer weights are copies to the last bit, and the order of rows does
not matter to the posterior."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dvisr.types import Dataset, as_numbers


@dataclasses.dataclass(frozen=True)
class Rows:
    """Distinct rows.

    Parameters
    ----------
    data : Dataset
    weights : ndarray of shape (rows,), optional
        How often each was seen; None: once each.
    position : ndarray of shape (rows,)
        The place of its first occurrence in the table as it was given.
    """

    data: Dataset
    weights: np.ndarray | None
    position: np.ndarray


def distinct_rows(data: Dataset, sample_weight: Any = None) -> Rows:
    """The distinct rows of a table, those of weight 0 left out.

    Raises
    ------
    ValueError
        For weights that are negative, not numbers, too few, or all zero.
    """
    weights = _checked_weights(sample_weight, len(data.y))
    kept = np.flatnonzero(weights > 0.0)
    columns = [data.X[kept], data.y[kept, None]]
    if data.y_err is not None:
        columns.append(data.y_err[kept, None])
    rows, first, places = np.unique(
        np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True
    )
    counts = np.bincount(places.reshape(-1), weights=weights[kept], minlength=len(rows))
    width = data.X.shape[1]
    bars = rows[:, width + 1].copy() if data.y_err is not None else None
    X, y = np.ascontiguousarray(rows[:, :width]), rows[:, width].copy()
    return Rows(
        Dataset(X, y, bars, data.feature_names),
        None if (counts == 1.0).all() else counts,
        kept[first],
    )


def _checked_weights(sample_weight: Any, num_rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(num_rows)
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(num_rows, weights)
    weights = as_numbers(weights, "sample_weight")
    if weights.shape != (num_rows,):
        raise ValueError(
            f"sample_weight must be one number a row, of shape ({num_rows},), not {weights.shape}"
        )
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(
            f"sample_weight must not be negative, but is {weights[row]:g} in row {row + 1}: it "
            f"says how often a row was seen"
        )
    if not (weights > 0.0).any():
        raise ValueError("every row has a sample_weight of zero: give at least one more than that")
    return weights

"""Shared types: the checked table of numbers that every other room may rely on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Finite float64 numbers: X (rows, columns), y (rows,), and error bars above zero or None."""

    X: np.ndarray
    y: np.ndarray
    y_err: np.ndarray | None
    feature_names: tuple[str, ...]

    @classmethod
    def create(
        cls,
        X: Any,
        y: Any,
        y_err: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Dataset:
        """From arrays, lists or data frames; a `ValueError` says which column is at fault."""
        names, columns = _columns(X, feature_names)
        target = _one_column(y, "y")
        bars = None if y_err is None else _one_column(y_err, "y_err")
        if not columns:
            raise ValueError("X has no columns: give at least one")
        if len(target) == 0:
            raise ValueError("there are no rows: give at least one")
        for name, column in zip(names, columns, strict=True):
            if len(column) != len(target):
                raise ValueError(
                    f"X has {len(column)} rows and y has {len(target)}: they must be as many"
                    if len(set(map(len, columns))) == 1
                    else f"column {name!r} has {len(column)} rows and y has {len(target)}"
                )
        if bars is not None:
            if len(bars) != len(target):
                raise ValueError(f"y_err has {len(bars)} rows and y has {len(target)}")
            if not (bars > 0.0).all():
                row = int(np.flatnonzero(~(bars > 0.0))[0]) + 1
                raise ValueError(f"y_err must be above zero, but is {bars[row - 1]:g} in row {row}")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two columns are called {repeated[0]!r}: rename one")
        return cls(np.stack(columns, axis=1), target, bars, tuple(names))


def _columns(X: Any, names: Sequence[str] | None) -> tuple[list[str], list[np.ndarray]]:
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):  # pandas, polars and their like
        found = [str(name) for name in X.columns]
        if len(set(X.columns)) < len(found):
            twice = sorted(name for name in set(found) if found.count(name) > 1)
            raise ValueError(f"two columns are called {twice[0]!r}: rename one")
        raw = [X[name] for name in X.columns]
    else:
        table = X if isinstance(X, np.ndarray) else np.asarray(X)
        if table.ndim != 2:
            raise ValueError(
                f"X must be a table of rows and columns, but has {table.ndim} dimension(s): "
                f"reshape a single column with X.reshape(-1, 1)"
            )
        found = [f"x{column}" for column in range(table.shape[1])]
        raw = [table[:, column] for column in range(table.shape[1])]
    if names is not None:
        if isinstance(names, str) or len(names) != len(found):
            raise ValueError(f"{len(found)} columns need as many feature names, not {names!r}")
        found = [str(name) for name in names]
    return found, [
        as_numbers(column, f"column {name!r}") for name, column in zip(found, raw, strict=True)
    ]


def _one_column(values: Any, name: str) -> np.ndarray:
    if hasattr(values, "columns") and len(values.columns) == 1:
        values = values[values.columns[0]]
    array = values if np.ma.isMaskedArray(values) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must be one column of numbers, not of shape {array.shape}")
    return as_numbers(array, name)


def as_numbers(values: Any, what: str) -> np.ndarray:
    """One column as finite float64, or a `ValueError` that names it."""
    if np.ma.is_masked(values):
        row = int(np.flatnonzero(np.ma.getmaskarray(values))[0]) + 1
        raise ValueError(f"{what} has a missing value in row {row}: remove that row")
    array = np.asarray(values)
    if array.dtype.kind in "Mm":
        raise ValueError(f"{what} holds dates or times: turn them into numbers first")
    if array.dtype.kind == "c":
        raise ValueError(f"{what} holds complex numbers: only real ones can be used")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{what} holds text, not numbers: leave it out or encode it")
    if array.dtype.kind == "O":
        _refuse_text(array, what)
        array = np.array([_as_number(value, row, what) for row, value in enumerate(array, 1)])
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        problem = "a missing value" if np.isnan(numbers[row]) else "an infinite value"
        raise ValueError(f"{what} has {problem} in row {row + 1}: remove that row or fill it in")
    return numbers


def _as_number(value: Any, row: int, what: str) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{what} has {value!r:.40} in row {row}, which is no number: mend that row or remove it"
        ) from None


def _refuse_text(array: np.ndarray, what: str) -> None:
    """Name the first text that is no number; if all are, say so."""
    texts = [(row, value) for row, value in enumerate(array, 1) if isinstance(value, (str, bytes))]
    if not texts:
        return
    for row, value in texts:
        try:
            float(value)
        except ValueError:
            raise ValueError(
                f"{what} holds text in row {row} ({value!r:.40}), not a number: mend that row or "
                f"remove it"
            ) from None
    raise ValueError(f"{what} holds text: turn it into numbers first")

"""From what scikit-learn's users pass to a checked table, and back at predict."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import _check_sample_weight, validate_data

from dvisr.types import Dataset, as_numbers


@dataclasses.dataclass(frozen=True)
class Table:
    """Distinct rows in one order, and how often each was seen (None: once each). So a weight of 2
    is the row twice to the last bit, and the order of rows does not matter."""

    data: Dataset
    weights: np.ndarray | None


def checked_table(model: Any, X: Any, y: Any, sample_weight: Any, y_err: Any) -> Table:
    """Sets `n_features_in_` and `feature_names_in_` on the model."""
    if y is None:
        raise ValueError("this regressor requires y to be passed, but the target y is None")
    names = _column_names(X)
    X, y = _validated(model, X, y, y_numeric=True, ensure_min_samples=1)
    bars = None if y_err is None else as_numbers(np.asarray(y_err).reshape(-1), "y_err")
    names = names or [f"x{column}" for column in range(X.shape[1])]
    data = Dataset.create(X, y, bars, names)
    if sample_weight is None:
        weights = np.ones(len(data.y))
    else:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if not (weights >= 0.0).all():
            raise ValueError("sample_weight must not be negative: it says how often a row was seen")
        if not (weights > 0.0).any():
            raise ValueError("every row has a sample_weight of 0: give at least one more than that")
    return _distinct(data, weights)


def _distinct(data: Dataset, weights: np.ndarray) -> Table:
    kept = weights > 0.0
    columns = [data.X[kept], data.y[kept, None]]
    if data.y_err is not None:
        columns.append(data.y_err[kept, None])
    rows, places = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    counts = np.bincount(places.reshape(-1), weights=weights[kept], minlength=len(rows))
    width = data.X.shape[1]
    X, y = np.ascontiguousarray(rows[:, :width]), rows[:, width].copy()
    bars = rows[:, width + 1].copy() if data.y_err is not None else None
    distinct = Dataset(X, y, bars, data.feature_names)
    return Table(distinct, None if (counts == 1.0).all() else counts)


def checked_rows(model: Any, X: Any, names: tuple[str, ...]) -> np.ndarray:
    """New rows, their columns in the order of those that were fitted: matched by name where both
    have names."""
    given = _column_names(X)
    if given is not None and hasattr(model, "feature_names_in_") and set(given) >= set(names):
        own = dict(zip(given, X.columns, strict=True))
        X = pd.DataFrame({name: as_numbers(X[own[name]], f"column {name!r}") for name in names})
    return np.asarray(_validated(model, X, reset=False))


def _validated(model: Any, X: Any, *others: Any, **options: Any) -> Any:
    try:
        return validate_data(model, _plain(X), *others, dtype=np.float64, **options)
    except OverflowError:
        raise ValueError("the data hold a number that is too large for float64") from None


def checked_bars(y_err: Any, num_rows: int) -> np.ndarray | None:
    if y_err is None:
        return None
    bars = as_numbers(np.atleast_1d(np.asarray(y_err)).reshape(-1), "y_err")
    if len(bars) not in (1, num_rows):
        raise ValueError(f"y_err has {len(bars)} rows and X has {num_rows}")
    bars = np.broadcast_to(bars, (num_rows,))
    if not (bars > 0.0).all():
        raise ValueError("y_err must be above zero in every row")
    return bars


def _column_names(X: Any) -> list[str] | None:
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return None
    return [str(name) for name in X.columns]


def _plain(X: Any) -> Any:
    """A frame's columns as numbers, with an error that names the one that has none. Of others, what
    scikit-learn would take for numbers is refused."""
    names = _column_names(X)
    if names is None:
        if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
            raise ValueError("X holds dates or times: turn them into numbers first")
        if np.ma.is_masked(X):
            raise ValueError("X has a missing value: remove its row or fill it in")
        return X
    if len(set(names)) < len(names):
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        raise ValueError(f"two columns are called {twice[0]!r}: rename one")
    columns = {name: as_numbers(X[name], f"column {name!r}") for name in X.columns}
    is_mixed = 0 < sum(isinstance(name, str) for name in columns) < len(columns)
    return pd.DataFrame({str(n): c for n, c in columns.items()} if is_mixed else columns)


def checked_number(value: Any, name: str, least: int) -> int | None:
    if value is None:
        return None
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def checked_seconds(value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds > 0.0:
        raise ValueError(f"max_time must be a number of seconds above 0 or None, not {value!r}")
    return seconds


def checked_threads(n_jobs: Any) -> int | None:
    """As scikit-learn counts: -1 is all cores, -2 all but one. None is all cores too."""
    import os

    if n_jobs is None:
        return None
    is_whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not is_whole or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or a whole number other than 0, not {n_jobs!r}")
    cores = os.cpu_count() or 1
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def checked_seed(random_state: Any) -> int:
    """A seed from what scikit-learn takes: None is a seed of its own each time."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(0, 2**31 - 1))

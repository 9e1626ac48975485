"""From what scikit-learn's users pass to a checked table, and back at predict. Every column is
checked once: those of a frame here, by name; those of an array by scikit-learn, which is imported
where it is used: it takes long to import, and the commands have tables of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from dvisr.settings import FitSettings
from dvisr.types import Dataset, as_numbers


def checked_table(model: Any, X: Any, y: Any, y_err: Any) -> Dataset:
    """Sets `n_features_in_` and `feature_names_in_` on the model."""
    from sklearn.utils.validation import _check_y, check_consistent_length

    if y is None:
        raise ValueError("this regressor requires y to be passed, but the target y is None")
    names = _column_names(X)
    if names is None:
        table, target = _validated(model, X, y, y_numeric=True, ensure_min_samples=1)
        names = [f"x{column}" for column in range(table.shape[1])]
    else:
        table = _frame_as_numbers(model, X, names, reset=True)
        target = _check_y(y, y_numeric=True)
        check_consistent_length(table, target)
        if len(table) == 0:
            raise ValueError("there are no rows: give at least one")
    bars = checked_bars(y_err, len(target))
    # scikit-learn lets dates and text through in y.
    return Dataset(np.ascontiguousarray(table), as_numbers(target, "y").copy(), bars, tuple(names))


def name_of(y: Any) -> str:
    """What a Series, or a frame of one column, is called; y without a name."""
    if len(getattr(y, "columns", ())) == 1:
        return str(y.columns[0])
    name = getattr(y, "name", None)
    return "y" if name is None or callable(name) or not str(name) else str(name)


def checked_rows(model: Any, X: Any, names: tuple[str, ...]) -> np.ndarray:
    """New rows, their columns in the order of those that were fitted: matched by name where both
    have names."""
    given = _column_names(X)
    if given is None:
        return np.asarray(_validated(model, X, reset=False))
    if hasattr(model, "feature_names_in_") and set(given) >= set(names):
        own = dict(zip(given, X.columns, strict=True))
        X = pd.DataFrame({name: X[own[name]] for name in names})
        given = list(names)
    return _frame_as_numbers(model, X, given, reset=False)


def checked_bars(y_err: Any, num_rows: int) -> np.ndarray | None:
    """Error bars: one for all rows, or one a row."""
    if y_err is None:
        return None
    if np.size(y_err) == 1:
        y_err = np.full(num_rows, np.asarray(y_err).reshape(-1)[0])
    bars = as_numbers(np.atleast_1d(np.asarray(y_err)).reshape(-1), "y_err")
    if len(bars) != num_rows:
        raise ValueError(f"y_err has {len(bars)} rows and the table has {num_rows}")
    if not (bars > 0.0).all():
        row = int(np.flatnonzero(~(bars > 0.0))[0])
        raise ValueError(f"y_err must be above zero, but is {bars[row]:g} in row {row + 1}")
    return bars


def checked_settings(value: Any) -> FitSettings:
    if value is None:
        return FitSettings()
    if not isinstance(value, FitSettings):
        raise ValueError(f"settings must be a FitSettings or None, not {value!r}")
    return value


def checked_seconds(value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds > 0.0:
        raise ValueError(f"max_time must be a number of seconds above 0 or None, not {value!r}")
    return seconds


def _validated(model: Any, X: Any, *others: Any, **options: Any) -> Any:
    """By scikit-learn; what it would take for numbers and is none is refused."""
    from sklearn.utils.validation import validate_data

    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        raise ValueError("X holds dates or times: turn them into numbers first")
    if np.ma.is_masked(X):
        raise ValueError("X has a missing value: remove its row or fill it in")
    try:
        return validate_data(model, X, *others, dtype=np.float64, **options)
    except OverflowError:
        raise ValueError("the data hold a number that is too large for float64") from None


def _column_names(X: Any) -> list[str] | None:
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return None
    return [str(name) for name in X.columns]


def _frame_as_numbers(model: Any, X: Any, names: list[str], *, reset: bool) -> np.ndarray:
    """A frame's columns as numbers, with an error that names the one that has none."""
    from sklearn.utils.validation import validate_data

    if len(set(names)) < len(names):
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        raise ValueError(f"two columns are called {twice[0]!r}: rename one")
    if not names:
        raise ValueError("X has no columns: give at least one")
    columns = [as_numbers(X[name], f"column {name!r}") for name in X.columns]
    plain = pd.DataFrame(dict(zip(names, columns, strict=True)))
    if not all(isinstance(name, str) for name in X.columns) and not any(
        isinstance(name, str) for name in X.columns
    ):
        plain.columns = list(X.columns)  # scikit-learn takes no note of names that are numbers
    validate_data(model, plain, reset=reset, skip_check_array=True)
    return np.stack(columns, axis=1)

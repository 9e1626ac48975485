"""Fits whose columns and target have hostile names, made once a process."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd

from dvisr import DVISRRegressor
from dvisr.estimator import FitWarning

HOSTILE = "</script><img src=x onerror=alert(1)>"
TEX = r"$$\alpha$$"
TARGET = "<b onclick=alert(2)>force</b>"


@functools.cache
def one_column() -> DVISRRegressor:
    """A line through twenty rows; two functions share the probability."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2.0, 20)
    y = pd.Series(2.0 * x + 0.4 + 0.1 * rng.standard_normal(20), name=TARGET)
    return _fitted(pd.DataFrame({TEX: x}), y)


@functools.cache
def several_columns() -> DVISRRegressor:
    """A line in one of three columns, with one row far off, and error bars."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(0.5, 2.0, (24, 3)), columns=[HOSTILE, "mass", TEX])
    y = 1.5 * X[HOSTILE] + 0.3 + 0.05 * rng.standard_normal(24)
    y[5] += 3.0
    return _fitted(X, y.rename(TARGET), y_err=0.05)


def _fitted(X: pd.DataFrame, y: pd.Series, **options: float) -> DVISRRegressor:
    model = DVISRRegressor(operators=("+", "*"), max_tokens=5, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return model.fit(X, y, **options)

"""`DVISRRegressor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dvisr.estimator.saving import load
from dvisr.estimator.table import FitWarning

if TYPE_CHECKING:
    from dvisr.estimator.regressor import DVISRRegressor

__all__ = ["DVISRRegressor", "FitWarning", "load"]


def __getattr__(name: str) -> Any:
    """scikit-learn, which the commands do without, takes long to import."""
    if name != "DVISRRegressor":
        raise AttributeError(f"module 'dvisr.estimator' has no attribute {name!r}")
    from dvisr.estimator.regressor import DVISRRegressor

    globals()[name] = DVISRRegressor
    return DVISRRegressor

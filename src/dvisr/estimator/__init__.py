"""`DVISRRegressor`."""

from dvisr.estimator.regressor import DVISRRegressor, FitWarning
from dvisr.estimator.saving import load

__all__ = ["DVISRRegressor", "FitWarning", "load"]

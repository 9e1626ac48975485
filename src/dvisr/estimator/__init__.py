"""`DVISRRegressor`."""

from dvisr.estimator.loading import load
from dvisr.estimator.regressor import DVISRRegressor, FitWarning

__all__ = ["DVISRRegressor", "FitWarning", "load"]

"""`DVISRRegressor`."""

from dvisr.estimator.regressor import DVISRRegressor, FitWarning

__all__ = ["DVISRRegressor", "FitWarning"]

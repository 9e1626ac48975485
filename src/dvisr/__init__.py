"""dvisr: symbolic regression with a posterior."""

from __future__ import annotations

from dvisr.comparing import Comparison, compare
from dvisr.constants import Decades, Normal
from dvisr.constraints import Grammar
from dvisr.estimator import DVISRRegressor, FitWarning, load
from dvisr.exact import ExactPosterior, exact_posterior
from dvisr.expression import Expression, parse
from dvisr.library import Library, new_operator
from dvisr.noise import Gaussian, Relative, Student
from dvisr.settings import FitSettings

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "DVISRRegressor",
    "Decades",
    "ExactPosterior",
    "Expression",
    "FitSettings",
    "FitWarning",
    "Gaussian",
    "Grammar",
    "Library",
    "Normal",
    "Relative",
    "Student",
    "compare",
    "exact_posterior",
    "load",
    "new_operator",
    "parse",
]

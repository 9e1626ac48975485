"""dvisr: symbolic regression with a posterior."""

from __future__ import annotations

from dvisr.comparing import Comparison, compare
from dvisr.constants import Decades, Normal
from dvisr.constraints import Grammar
from dvisr.estimator import DVISRRegressor, FitWarning, load
from dvisr.exact import ExactPosterior, exact_posterior
from dvisr.expression import Expression, parse
from dvisr.library import Library, new_operator

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "DVISRRegressor",
    "Decades",
    "ExactPosterior",
    "Expression",
    "FitWarning",
    "Grammar",
    "Library",
    "Normal",
    "compare",
    "exact_posterior",
    "load",
    "new_operator",
    "parse",
]

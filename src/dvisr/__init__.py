"""dvisr: symbolic regression with a posterior."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "comparing": ("Comparison", "compare"),
    "constants": ("Decades", "Normal"),
    "constraints": ("Grammar",),
    "estimator": ("DVISRRegressor", "FitWarning", "load"),
    "exact": ("ExactPosterior", "exact_posterior"),
    "expression": ("Expression", "parse"),
    "library": ("Library", "new_operator"),
    "noise": ("Gaussian", "Relative", "Student"),
    "settings": ("FitSettings",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """What is asked for is imported then: most of it takes seconds to import."""
    if name not in _HOME:
        raise AttributeError(f"module 'dvisr' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"dvisr.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""dvisr: symbolic regression with a posterior."""

from __future__ import annotations

from dvisr.constraints import Grammar
from dvisr.exact import ExactPosterior, exact_posterior
from dvisr.expression import Expression, parse
from dvisr.library import Library, new_operator

__version__ = "0.1.0"

__all__ = [
    "ExactPosterior",
    "Expression",
    "Grammar",
    "Library",
    "exact_posterior",
    "new_operator",
    "parse",
]

"""Expressions on the host: read, printed, compared."""

from dvisr.expression.canonical import canonical_form
from dvisr.expression.mathml import mathml
from dvisr.expression.parsing import ParseError, parse
from dvisr.expression.printing import infix, latex
from dvisr.expression.symbolic import simplified, to_sympy
from dvisr.expression.tree import Expression, fold

__all__ = [
    "Expression",
    "ParseError",
    "canonical_form",
    "fold",
    "infix",
    "latex",
    "mathml",
    "parse",
    "simplified",
    "to_sympy",
]

"""Expressions on the host: read, printed, compared."""

from dvisr.expression.canonical import canonical_form
from dvisr.expression.lexing import ParseError
from dvisr.expression.mathml import mathml
from dvisr.expression.parsing import parse, parse_with_parameters
from dvisr.expression.printing import infix, latex
from dvisr.expression.python_source import python_arguments, python_source
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
    "parse_with_parameters",
    "python_arguments",
    "python_source",
    "simplified",
    "to_sympy",
]

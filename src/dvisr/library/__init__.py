"""The language's symbols: `Token` and `Library`."""

from dvisr.library.collection import CONSTANT, Library, literal
from dvisr.library.operators import INFIX, OPERATORS
from dvisr.library.tokens import (
    Kind,
    Linearity,
    OperatorFunction,
    Parity,
    Precedence,
    Role,
    Token,
    new_operator,
)

__all__ = [
    "CONSTANT",
    "INFIX",
    "OPERATORS",
    "Kind",
    "Library",
    "Linearity",
    "OperatorFunction",
    "Parity",
    "Precedence",
    "Role",
    "Token",
    "literal",
    "new_operator",
]

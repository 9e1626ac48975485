"""The operators that come with the package, by the name a user types."""

from __future__ import annotations

import dataclasses
from typing import Any

from dvisr.library.tokens import Precedence, Role, Token, new_operator


def _declared(operator: Token, **fields: Any) -> Token:
    """With fields that `new_operator` does not offer: names that are no identifiers, and roles. A
    user's operator with one of these roles would be a built-in one under another name."""
    return dataclasses.replace(operator, **fields)


ADD = _declared(
    new_operator(
        "add",
        2,
        lambda np, a, b: a + b,
        derivatives=(lambda np, a, b: 1.0 + 0.0 * a, lambda np, a, b: 1.0 + 0.0 * a),
        is_commutative=True,
        is_associative=True,
        linearity="joint",
        latex="#1 + #2",
        sympy=lambda sp, a, b: a + b,
    ),
    name="+",
    role=Role.SUM,
    precedence=Precedence.SUM,
)
SUBTRACT = _declared(
    new_operator(
        "subtract",
        2,
        lambda np, a, b: a - b,
        derivatives=(lambda np, a, b: 1.0 + 0.0 * a, lambda np, a, b: -1.0 + 0.0 * a),
        linearity="joint",
        latex="#1 - #2",
        sympy=lambda sp, a, b: a - b,
    ),
    name="-",
    role=Role.DIFFERENCE,
    precedence=Precedence.SUM,
)
MULTIPLY = _declared(
    new_operator(
        "multiply",
        2,
        lambda np, a, b: a * b,
        derivatives=(lambda np, a, b: b, lambda np, a, b: a),
        is_commutative=True,
        is_associative=True,
        linearity="each",
        latex=r"#1 \cdot #2",
        sympy=lambda sp, a, b: a * b,
    ),
    name="*",
    role=Role.PRODUCT,
    precedence=Precedence.PRODUCT,
)
DIVIDE = _declared(
    new_operator(
        "divide",
        2,
        lambda np, a, b: a / b,
        derivatives=(lambda np, a, b: 1.0 / b, lambda np, a, b: -a / b / b),
        linearity="first",
        latex=r"\frac{#1}{#2}",
        sympy=lambda sp, a, b: a / b,
    ),
    name="/",
    role=Role.QUOTIENT,
    precedence=Precedence.PRODUCT,
)
POWER = _declared(
    new_operator(
        "power",
        2,
        lambda np, a, b: np.power(a, b),
        derivatives=(
            lambda np, a, b: b * np.power(a, b - 1.0),
            # By the exponent there is a derivative only where the base is positive: elsewhere this
            # is not finite, which counts as 0.
            lambda np, a, b: np.power(a, b) * np.log(a),
        ),
        latex="{#1}^{#2}",
        sympy=lambda sp, a, b: a**b,
    ),
    name="^",
    role=Role.POWER,
    precedence=Precedence.POWER,
)
SIN = new_operator(
    "sin",
    1,
    lambda np, x: np.sin(x),
    derivatives=lambda np, x: np.cos(x),
    is_trig=True,
    parity="odd",
    latex=r"\sin\left(#1\right)",
    sympy=lambda sp, x: sp.sin(x),
)
COS = new_operator(
    "cos",
    1,
    lambda np, x: np.cos(x),
    derivatives=lambda np, x: -np.sin(x),
    is_trig=True,
    parity="even",
    latex=r"\cos\left(#1\right)",
    sympy=lambda sp, x: sp.cos(x),
)
TAN = new_operator(
    "tan",
    1,
    lambda np, x: np.tan(x),
    derivatives=lambda np, x: 1.0 + np.tan(x) * np.tan(x),
    is_trig=True,
    parity="odd",
    latex=r"\tan\left(#1\right)",
    sympy=lambda sp, x: sp.tan(x),
)
EXP = new_operator(
    "exp",
    1,
    lambda np, x: np.exp(x),
    derivatives=lambda np, x: np.exp(x),
    inverse="log",
    latex=r"\exp\left(#1\right)",
    sympy=lambda sp, x: sp.exp(x),
)
LOG = new_operator(
    "log",
    1,
    lambda np, x: np.log(x),
    derivatives=lambda np, x: 1.0 / x,
    inverse="exp",
    latex=r"\log\left(#1\right)",
    sympy=lambda sp, x: sp.log(x),
)
SQRT = new_operator(
    "sqrt",
    1,
    lambda np, x: np.sqrt(x),
    derivatives=lambda np, x: 0.5 / np.sqrt(x),
    inverse="square",
    latex=r"\sqrt{#1}",
    sympy=lambda sp, x: sp.sqrt(x),
)
SQUARE = _declared(
    new_operator(
        "square",
        1,
        lambda np, x: x * x,
        derivatives=lambda np, x: 2.0 * x,
        inverse="sqrt",
        parity="even",
        latex=r"\left(#1\right)^{2}",
        sympy=lambda sp, x: x**2,
    ),
    role=Role.WHOLE_POWER,
    exponent=2,
)
CUBE = _declared(
    new_operator(
        "cube",
        1,
        lambda np, x: x * x * x,
        derivatives=lambda np, x: 3.0 * x * x,
        parity="odd",
        latex=r"\left(#1\right)^{3}",
        sympy=lambda sp, x: x**3,
    ),
    role=Role.WHOLE_POWER,
    exponent=3,
)
NEG = _declared(
    new_operator(
        "neg",
        1,
        lambda np, x: -x,
        derivatives=lambda np, x: -1.0 + 0.0 * x,
        inverse="neg",
        parity="odd",
        linearity="joint",
        latex="-#1",
        sympy=lambda sp, x: -x,
    ),
    role=Role.NEGATIVE,
    precedence=Precedence.SIGN,
)
INV = _declared(
    new_operator(
        "inv",
        1,
        lambda np, x: 1.0 / x,
        derivatives=lambda np, x: -1.0 / x / x,
        inverse="inv",
        parity="odd",
        latex=r"\frac{1}{#1}",
        sympy=lambda sp, x: 1 / x,
    ),
    role=Role.RECIPROCAL,
)
ABS = new_operator(
    "abs",
    1,
    lambda np, x: np.abs(x),
    derivatives=lambda np, x: np.sign(x),
    parity="even",
    latex=r"\left|#1\right|",
    sympy=lambda sp, x: sp.Abs(x),
)
TANH = new_operator(
    "tanh",
    1,
    lambda np, x: np.tanh(x),
    derivatives=lambda np, x: 1.0 - np.tanh(x) * np.tanh(x),
    parity="odd",
    latex=r"\tanh\left(#1\right)",
    sympy=lambda sp, x: sp.tanh(x),
)

OPERATORS: dict[str, Token] = {
    operator.name: operator
    for operator in (
        ADD,
        SUBTRACT,
        MULTIPLY,
        DIVIDE,
        POWER,
        SIN,
        COS,
        TAN,
        EXP,
        LOG,
        SQRT,
        SQUARE,
        CUBE,
        NEG,
        INV,
        ABS,
        TANH,
    )
}
INFIX = frozenset(
    name
    for name, operator in OPERATORS.items()
    if operator.arity == 2 and operator.precedence is not None
)

"""Infix text and LaTeX, in the tree's own order and with only the parentheses that are needed."""

from __future__ import annotations

import re

from dvisr.expression.tree import Expression, fold
from dvisr.library import INFIX, Kind, Token

# How tightly a text holds together; an operand looser than its place allows gets parentheses.
SUM, PRODUCT, SIGN, POWER, ATOM = 1, 2, 3, 4, 5
PRECEDENCE = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "^": POWER}

_Text = tuple[str, int]


def binds(symbol: str) -> tuple[int, int]:
    """The least precedence that the left and the right operand of an infix operator must have to
    belong to it without parentheses. Powers group from the right, the others from the left."""
    own = PRECEDENCE[symbol]
    return (own + 1, own) if symbol == "^" else (own, own + 1)


def infix(expression: Expression, *, digits: int = 6) -> str:
    """Text that `parse` reads back to the same tree. Constants print as `c`, or as their values
    (to so many digits, no longer the same tree) where the expression has them."""

    def combine(token: Token, index: int, operands: list[_Text]) -> _Text:
        if token.kind is Kind.CONSTANT and expression.constants is not None:
            return _number(f"{expression.constants[index]:.{digits}g}")
        if token.kind is Kind.LITERAL:
            return _number(token.name)
        if token.is_leaf:
            return token.name, ATOM
        if token.name == "neg":
            return _negated(expression, operands[0]), SIGN
        if token.name in INFIX:
            left, right = binds(token.name)
            # A sign is read as part of a right operand wherever it stands: x0 ^ -x1.
            first, second = _held(operands[0], left), _held(operands[1], min(right, SIGN))
            return f"{first} {token.name} {second}", PRECEDENCE[token.name]
        return f"{token.name}({', '.join(text for text, _ in operands)})", ATOM

    return fold(expression, combine)[0]


def _number(text: str) -> _Text:
    if text.startswith("-"):
        return text, SIGN
    return text, PRODUCT if r"\cdot" in text else ATOM


def _negated(expression: Expression, operand: _Text) -> str:
    library = expression.library
    literals = {library[i].name: library[i].value for i in library.ids_of_kind(Kind.LITERAL)}
    # Where the library has a literal -1, "-1" is that; the negation of the literal 1 is "-(1)".
    value = literals.get(operand[0], -1.0)
    if value >= 0.0 and -value in literals.values():
        return f"-({operand[0]})"
    return f"-{_held(operand, SIGN)}"


def _held(operand: _Text, least: int) -> str:
    text, precedence = operand
    return text if precedence >= least else f"({text})"


def latex(expression: Expression, *, digits: int = 6) -> str:
    """LaTeX for reading. Column names are set upright and escaped."""

    def combine(token: Token, index: int, operands: list[_Text]) -> _Text:
        if token.kind is Kind.CONSTANT:
            if expression.constants is None:
                return _subscripted("c", index, expression.num_constants), ATOM
            return _number(_latex_float(expression.constants[index], digits))
        if token.kind is Kind.VARIABLE:
            return _latex_name(token.column_name), ATOM
        if token.kind is Kind.LITERAL:
            return _number(token.latex or token.name)
        if token.name == "neg":
            return f"-{_bracketed(operands[0], POWER)}", SIGN
        if token.name in ("+", "-", "*", "^"):
            left, right = binds(token.name)
            if token.name == "^":
                right = SUM  # an exponent is set apart by its height
            parts = [_bracketed(operands[0], left), _bracketed(operands[1], right)]
            return _filled(token.latex or "", parts), PRECEDENCE[token.name]
        template = token.latex or rf"\operatorname{{{token.name.replace('_', chr(92) + '_')}}}" + (
            r"\left(#1\right)" if token.arity == 1 else r"\left(#1, #2\right)"
        )
        # A fraction or a power needs brackets as the base of a power, and nowhere else.
        is_atom = token.name not in ("/", "inv", "square", "cube")
        return _filled(template, [text for text, _ in operands]), ATOM if is_atom else POWER

    return fold(expression, combine)[0]


def _bracketed(operand: _Text, least: int) -> str:
    text, precedence = operand
    return text if precedence >= least else rf"\left({text}\right)"


def _filled(template: str, parts: list[str]) -> str:
    # In one pass, so that a "#2" inside the first operand's text stays what it is.
    return re.sub(r"#([12])", lambda match: parts[int(match[1]) - 1], template)


def _subscripted(letter: str, index: int, count: int) -> str:
    return letter if count == 1 else f"{letter}_{{{index}}}"


def _latex_float(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


_LATEX_ESCAPES = {
    "\\": r"\backslash{}",
    "~": r"\sim{}",
    "^": r"\hat{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "<": r"{<}",
    ">": r"{>}",
}


def _latex_name(name: str) -> str:
    indexed = re.fullmatch(r"([A-Za-z])_?(\d+)", name, re.ASCII)
    if indexed:
        return f"{indexed[1]}_{{{indexed[2]}}}"
    if re.fullmatch(r"[A-Za-z]", name, re.ASCII):
        return name
    escaped = "".join(_LATEX_ESCAPES.get(character, character) for character in name)
    return rf"\mathrm{{{escaped}}}".replace(" ", r"\ ")

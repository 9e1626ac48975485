"""Infix text and LaTeX, in the tree's own order and with only the parentheses that are needed."""

from __future__ import annotations

import re

from dvisr.expression.tree import Expression, fold
from dvisr.library import Kind, Precedence, Role, Token

_FRACTIONS_AND_POWERS = (Role.QUOTIENT, Role.RECIPROCAL, Role.WHOLE_POWER)

_SIGNS = (Role.SUM, Role.DIFFERENCE)

_Text = tuple[str, Precedence]


def least_precedences(operator: Token) -> tuple[int, int]:
    """The least precedence that the left and the right operand of an infix operator must have to
    stand without parentheses. Powers group from the right, the others from the left."""
    assert operator.precedence is not None
    own = int(operator.precedence)
    return (own + 1, own) if operator.role is Role.POWER else (own, own + 1)


def infix(expression: Expression, *, digits: int = 6) -> str:
    """Write an expression as text.

    Parameters
    ----------
    expression : Expression
    digits : int, default=6
        The significant digits of constants that have values.

    Returns
    -------
    str
        Text that `parse` reads back to the same tree, if the constants have no values; they are
        written as `c`. With values, it is for reading: x - 0.5, not x + -0.5.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import infix
    >>> expression = parse("(x+c)*x", Library.create(["+", "*"], ["x"], constants=True))
    >>> infix(expression), infix(expression.with_constants([2.5]))
    ('(x + c) * x', '(x + 2.5) * x')
    """

    def combine(token: Token, index: int, operands: list[_Text]) -> _Text:
        if token.kind is Kind.CONSTANT and expression.constants is not None:
            return _number(f"{expression.constants[index]:.{digits}g}")
        if token.kind is Kind.LITERAL:
            return _number(token.name)
        if token.is_leaf:
            return token.name, Precedence.ATOM
        if token.precedence is None:
            return f"{token.name}({', '.join(text for text, _ in operands)})", Precedence.ATOM
        if token.arity == 1:
            return _negated(expression, operands[0]), token.precedence
        left, right = least_precedences(token)
        # A sign is read as part of a right operand wherever it stands: x0 ^ -x1.
        first = _parenthesised(operands[0], left)
        second = _parenthesised(operands[1], min(right, Precedence.SIGN))
        if expression.constants is not None and token.role in _SIGNS:
            return _sum(first, token.role, second), token.precedence
        return f"{first} {token.name} {second}", token.precedence

    return fold(expression, combine)[0]


def _sum(first: str, role: Role, second: str) -> str:
    """With the sign of what is added, where it begins with one, taken into the operator. The sign
    is that of the leftmost factor of a product, so of the whole."""
    is_negative = role is Role.DIFFERENCE
    while second.startswith("-"):
        is_negative, second = not is_negative, second[1:]
    return f"{first} {'-' if is_negative else '+'} {second}"


def _number(text: str) -> _Text:
    if text.startswith("-"):
        return text, Precedence.SIGN
    return text, Precedence.PRODUCT if r"\cdot" in text else Precedence.ATOM


def _negated(expression: Expression, operand: _Text) -> str:
    library = expression.library
    literals = {library[i].name: library[i].value for i in library.ids_of_kind(Kind.LITERAL)}
    # Where the library has a literal -1, "-1" is that; the negation of the literal 1 is "-(1)".
    value = literals.get(operand[0], -1.0)
    if value >= 0.0 and -value in literals.values():
        return f"-({operand[0]})"
    return f"-{_parenthesised(operand, Precedence.SIGN)}"


def _parenthesised(operand: _Text, least: int) -> str:
    text, precedence = operand
    return text if precedence >= least else f"({text})"


def latex(expression: Expression, *, digits: int = 6) -> str:
    """Write an expression as LaTeX.

    Parameters
    ----------
    expression : Expression
    digits : int, default=6
        The significant digits of constants that have values. Others are called c, or c_0, c_1, ...
        where there are several.

    Returns
    -------
    str
        LaTeX for math mode. Column names of several letters are set upright, and escaped.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import latex
    >>> library = Library.create(["/", "sqrt"], ["x0", "speed"])
    >>> print(latex(parse("sqrt(x0) / speed", library)))
    \\frac{\\sqrt{x_{0}}}{\\mathrm{speed}}
    """

    def combine(token: Token, index: int, operands: list[_Text]) -> _Text:
        if token.kind is Kind.CONSTANT:
            if expression.constants is None:
                return _subscripted("c", index, expression.num_constants), Precedence.ATOM
            return _number(_latex_float(expression.constants[index], digits))
        if token.kind is Kind.VARIABLE:
            return _latex_name(token.column_name), Precedence.ATOM
        if token.kind is Kind.LITERAL:
            return _number(token.latex or token.name)
        if token.role is Role.NEGATIVE:
            return f"-{_bracketed(operands[0], Precedence.POWER)}", Precedence.SIGN
        if token.precedence is not None and token.role is not Role.QUOTIENT:
            left, right = least_precedences(token)
            if token.role is Role.POWER:
                right = Precedence.SUM  # an exponent is set apart by its height
            parts = [_bracketed(operands[0], left), _bracketed(operands[1], right)]
            if expression.constants is not None and token.role in _SIGNS:
                return _sum(parts[0], token.role, parts[1]), token.precedence
            return _filled(token.latex or "", parts), token.precedence
        template = token.latex or rf"\operatorname{{{token.name.replace('_', chr(92) + '_')}}}" + (
            r"\left(#1\right)" if token.arity == 1 else r"\left(#1, #2\right)"
        )
        # A fraction or a power needs brackets as the base of a power, and nowhere else.
        is_atom = token.role not in _FRACTIONS_AND_POWERS
        precedence = Precedence.ATOM if is_atom else Precedence.POWER
        return _filled(template, [text for text, _ in operands]), precedence

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

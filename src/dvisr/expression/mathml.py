"""An expression as MathML, which browsers typeset themselves. Names are escaped: whatever a column
is called, it stays text."""

from __future__ import annotations

import dataclasses
import html
import re

from dvisr.expression.printing import least_precedences
from dvisr.expression.tree import Expression, fold
from dvisr.library import OPERATORS, Kind, Precedence, Role, Token
from dvisr.text import printable


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Markup, how tightly it binds, and the markup of its negative where it begins with a sign: a
    sum of x and -2 is written as x - 2."""

    markup: str
    precedence: Precedence
    negative: str | None = None


def mathml(expression: Expression, *, digits: int = 4, left: str | None = None) -> str:
    """Write an expression as MathML.

    Parameters
    ----------
    expression : Expression
    digits : int, default=4
        The significant digits of constants that have values. Others are called c, or c with their
        number where there are several.
    left : str, optional
        The name of what the expression equals, as in `left = expression`.

    Returns
    -------
    str
        A `math` element for a page of HTML.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import mathml
    >>> library = Library.create(["+"], ["speed"], constants=True)
    >>> print(mathml(parse("speed + c", library).with_constants([-2.5])))
    <math><mrow><mi>speed</mi><mo>−</mo><mn>2.5</mn></mrow></math>
    """

    def combine(token: Token, index: int, operands: list[_Piece]) -> _Piece:
        if token.kind is Kind.CONSTANT:
            if expression.constants is None:
                return _Piece(constant_name(index, expression.num_constants), Precedence.ATOM)
            return _number(expression.constants[index], digits)
        if token.kind is Kind.VARIABLE:
            return _Piece(name_as_mathml(token.column_name), Precedence.ATOM)
        if token.kind is Kind.LITERAL:
            is_named = not re.fullmatch(r"-?[0-9.e+-]+", token.name)
            return _named_literal(token) if is_named else _number(token.value, 12)
        return _operation(token, operands)

    body = fold(expression, combine).markup
    if left is not None:
        body = f"<mrow>{name_as_mathml(left)}<mo>=</mo>{body}</mrow>"
    return f"<math>{body}</math>"


def constant_name(index: int, count: int) -> str:
    """c, or c with its number."""
    if count == 1:
        return "<mi>c</mi>"
    return f"<msub><mi>c</mi><mn>{index}</mn></msub>"


def name_as_mathml(name: str) -> str:
    """A column's name: a letter with a number as an index, others as they are."""
    indexed = re.fullmatch(r"([A-Za-z])_?(\d+)", name, re.ASCII)
    if indexed:
        return f"<msub><mi>{indexed[1]}</mi><mn>{indexed[2]}</mn></msub>"
    tag = "mi" if re.fullmatch(r"\w+", name) else "mtext"
    return f"<{tag}>{html.escape(printable(name))}</{tag}>"


def _named_literal(token: Token) -> _Piece:
    text = "π" if token.name == "pi" else token.name
    return _Piece(f"<mi>{html.escape(text)}</mi>", Precedence.ATOM)


def _number(value: float, digits: int) -> _Piece:
    mantissa, _, exponent = f"{abs(value):.{digits}g}".partition("e")
    markup, precedence = f"<mn>{mantissa}</mn>", Precedence.ATOM
    if exponent:
        power = _signed(f"<mn>{abs(int(exponent))}</mn>", int(exponent) < 0)
        markup = f"<mrow>{markup}<mo>×</mo><msup><mn>10</mn>{power}</msup></mrow>"
        precedence = Precedence.PRODUCT
    if value < 0.0:
        return _Piece(_signed(markup, True), Precedence.SIGN, markup)
    return _Piece(markup, precedence)


def _signed(markup: str, is_negative: bool) -> str:
    return f"<mrow><mo>−</mo>{markup}</mrow>" if is_negative else markup


def _operation(token: Token, operands: list[_Piece]) -> _Piece:
    role = token.role
    if role in (Role.SUM, Role.DIFFERENCE):
        return _sum(operands[0], operands[1], role is Role.SUM)
    if role is Role.PRODUCT:
        return _product(token, operands[0], operands[1])
    if role in (Role.QUOTIENT, Role.RECIPROCAL):
        top = operands[0] if role is Role.QUOTIENT else _Piece("<mn>1</mn>", Precedence.ATOM)
        return _fraction(top, operands[-1])
    if role is Role.NEGATIVE:
        has_sign = operands[0].negative is not None
        inner = _bracketed(operands[0], Precedence.ATOM if has_sign else Precedence.PRODUCT)
        return _Piece(_signed(inner, True), Precedence.SIGN, inner)
    if role in (Role.POWER, Role.WHOLE_POWER):
        base = _bracketed(operands[0], Precedence.ATOM)
        exponent = operands[1].markup if role is Role.POWER else f"<mn>{token.exponent}</mn>"
        return _Piece(f"<msup>{base}{exponent}</msup>", Precedence.POWER)
    inside = "<mo>,</mo>".join(operand.markup for operand in operands)
    if token is OPERATORS["sqrt"]:
        return _Piece(f"<msqrt>{inside}</msqrt>", Precedence.ATOM)
    if token is OPERATORS["abs"]:
        return _Piece(f"<mrow><mo>|</mo>{inside}<mo>|</mo></mrow>", Precedence.ATOM)
    called = f"<mi>{html.escape(token.name)}</mi><mo>&#x2061;</mo>"
    return _Piece(f"<mrow>{called}{_in_brackets(inside)}</mrow>", Precedence.ATOM)


def _sum(first: _Piece, second: _Piece, is_sum: bool) -> _Piece:
    sign = "+" if is_sum else "−"
    term = _bracketed(second, Precedence.PRODUCT)
    if second.negative is not None:
        sign, term = "−" if is_sum else "+", second.negative
    return _Piece(f"<mrow>{first.markup}<mo>{sign}</mo>{term}</mrow>", Precedence.SUM)


def _product(token: Token, first: _Piece, second: _Piece) -> _Piece:
    least, next_least = least_precedences(token)

    def written(one: str, two: str) -> str:
        return f"<mrow>{one}<mo>·</mo>{two}</mrow>"

    left = _bracketed(first, least)
    right = _bracketed(second, next_least if second.negative is None else Precedence.ATOM)
    negative = None
    if first.negative is not None:
        negative = written(first.negative, right)
    elif second.negative is not None and second.precedence is Precedence.SIGN:
        negative = written(left, second.negative)
    return _Piece(written(left, right), Precedence.PRODUCT, negative)


def _fraction(top: _Piece, bottom: _Piece) -> _Piece:
    def written(numerator: str) -> str:
        return f"<mfrac>{numerator}{bottom.markup}</mfrac>"

    if top.negative is not None:
        fraction = written(top.negative)
        return _Piece(_signed(fraction, True), Precedence.SIGN, fraction)
    return _Piece(written(top.markup), Precedence.POWER)


def _bracketed(piece: _Piece, least: int) -> str:
    return piece.markup if piece.precedence >= least else _in_brackets(piece.markup)


def _in_brackets(markup: str) -> str:
    return f"<mrow><mo>(</mo>{markup}<mo>)</mo></mrow>"

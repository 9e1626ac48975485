"""The canonical form: one text for all trees that denote the same function of the same constants.

It knows commutativity, associativity and signs, and nothing else. Every constant of the tree is
still there: (x * c) * c is not x * c, because two constants have another marginal likelihood than
one. What a tree needs to be defined is kept too: 1 / (1 / x) is not x, which is defined at zero.
Regrouping can make a product overflow or not; that apart, trees of one form are defined together.
For what is easiest to read, see `simplified`; no number ever depends on that one.

Signs move outwards through sums, products and odd functions, and vanish in even ones. Where the
prior of constants is symmetric about zero, c and -c are equally likely, so a sign that meets a
constant is absorbed: x - c is x + c. A value whose sign can be absorbed is called *free*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from dvisr.expression.tree import Expression, fold
from dvisr.library import Kind, Role, Token

_LONGEST_POWER = 1000  # characters of a power that is written out


@dataclasses.dataclass(frozen=True)
class _Form:
    """A signed value. Terms of a sum are (key, sign, is_free), factors of a product
    (key, is_inverted, is_free), parts of another associative operator its operands' texts."""

    key: str
    sign: int = 1
    is_free: bool = False
    has_constant: bool = False
    terms: tuple[tuple[str, int, bool], ...] | None = None
    factors: tuple[tuple[str, bool, bool], ...] | None = None
    parts: tuple[str, tuple[str, ...]] | None = None

    @property
    def text(self) -> str:
        return self.key if self.sign > 0 else f"-{self.key}"

    def negated(self) -> _Form:
        return self if self.is_free else dataclasses.replace(self, sign=-self.sign)

    def as_terms(self) -> tuple[tuple[str, int, bool], ...]:
        if self.terms is None:
            return ((self.key, self.sign, self.is_free),)
        return tuple((k, s if free else s * self.sign, free) for k, s, free in self.terms)

    def as_factors(self) -> tuple[tuple[str, bool, bool], ...]:
        return self.factors if self.factors is not None else ((self.key, False, self.is_free),)


def canonical_form(expression: Expression, *, symmetric_constants: bool = True) -> str:
    """Write what a tree computes as a text that does not depend on how the tree is written.

    Parameters
    ----------
    expression : Expression
    symmetric_constants : bool, default=True
        Whether the prior of constants is symmetric about zero.

    Returns
    -------
    str
        A text to compare, not to read. Trees over the same variables that have equal texts are
        equal functions of equally distributed constants; the converse does not always hold.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import canonical_form
    >>> library = Library.create(["+", "-", "*"], ["x"], constants=True)
    >>> one, two = parse("x - c", library), parse("c + x", library)
    >>> canonical_form(one) == canonical_form(two)
    True
    >>> canonical_form(one, symmetric_constants=False) == canonical_form(two)
    False
    """

    def combine(token: Token, _: int, operands: list[_Form]) -> _Form:
        if token.kind is Kind.CONSTANT:
            return _Form("c", is_free=symmetric_constants, has_constant=True)
        if token.kind is Kind.LITERAL:
            return _Form(repr(abs(token.value)), sign=-1 if token.value < 0 else 1)
        if token.is_leaf:
            return _Form(token.name)
        return _operation(token, operands)

    return fold(expression, combine).text


def _operation(token: Token, operands: list[_Form]) -> _Form:
    first, second = operands[0], operands[-1]
    match token.role:
        case Role.NEGATIVE:
            return first.negated()
        case Role.SUM:
            return _sum([first, second])
        case Role.DIFFERENCE:
            return _sum([first, second.negated()])
        case Role.PRODUCT:
            return _product([first, second])
        case Role.QUOTIENT:
            return _product([first, _inverted(second)])
        case Role.RECIPROCAL:
            return _inverted(first)
        case Role.WHOLE_POWER:
            assert token.exponent is not None
            return _whole_power(first, token.exponent)
        case Role.POWER if second.text in ("2.0", "3.0"):
            return _whole_power(first, int(second.text[0]))
    return _function(token, operands)


def _sum(operands: list[_Form]) -> _Form:
    terms = [term for operand in operands for term in operand.as_terms()]
    flipped = [(key, sign if free else -sign, free) for key, sign, free in terms]
    # Of a sum and its negative, the one whose text comes first is the body; the sign goes out.
    sign = 1 if _sum_key(terms) <= _sum_key(flipped) else -1
    body = tuple(sorted(terms if sign > 0 else flipped))
    is_free = all(free for _, _, free in terms)
    return _Form(
        key=_sum_key(body),
        sign=1 if is_free else sign,
        is_free=is_free,
        has_constant=any(operand.has_constant for operand in operands),
        terms=body,
    )


def _sum_key(terms: Iterable[tuple[str, int, bool]]) -> str:
    return "(" + "".join(f"{'+' if sign > 0 else '-'}{key}" for key, sign, _ in sorted(terms)) + ")"


def _product(operands: list[_Form]) -> _Form:
    factors = tuple(sorted(factor for operand in operands for factor in operand.as_factors()))
    is_free = any(free for _, _, free in factors)
    sign = 1
    for operand in operands:
        sign *= operand.sign
    return _Form(
        key="[" + "".join(f"{'/' if inverted else '*'}{key}" for key, inverted, _ in factors) + "]",
        sign=1 if is_free else sign,
        is_free=is_free,
        has_constant=any(operand.has_constant for operand in operands),
        factors=factors,
    )


def _inverted(operand: _Form) -> _Form:
    # The inverse of an inverse stays: it is undefined where the inner one is.
    factors = tuple(
        (f"/({key})", True, free) if inverted else (key, True, free)
        for key, inverted, free in operand.as_factors()
    )
    return _product([dataclasses.replace(operand, factors=factors, terms=None)])


def _whole_power(operand: _Form, exponent: int) -> _Form:
    # A power of something that holds a constant has that constant once; a product would have it
    # twice, as two constants.
    if not operand.has_constant and len(operand.key) * exponent <= _LONGEST_POWER:
        return _product([operand] * exponent)
    is_even = exponent % 2 == 0
    return _Form(
        key=f"^{exponent}({operand.key})",  # no name, so no operator's text
        sign=1 if is_even else operand.sign,
        is_free=operand.is_free and not is_even,
        has_constant=operand.has_constant,
    )


def _function(token: Token, operands: list[_Form]) -> _Form:
    has_constant = any(operand.has_constant for operand in operands)
    if token.parity is not None:
        (operand,) = operands
        is_odd = token.parity == "odd"
        return _Form(
            key=f"{token.name}({operand.key})",
            sign=operand.sign if is_odd else 1,
            is_free=operand.is_free and is_odd,
            has_constant=has_constant,
        )
    texts = [operand.text for operand in operands]
    parts = None
    if token.is_associative:
        merged = [
            operand.parts[1]
            if operand.parts and operand.parts[0] == token.name and operand.sign > 0
            else (operand.text,)
            for operand in operands
        ]
        texts = [text for group in merged for text in group]
    if token.is_commutative:
        texts = sorted(texts)
    if token.is_associative:
        parts = (token.name, tuple(texts))
    return _Form(key=f"{token.name}({','.join(texts)})", has_constant=has_constant, parts=parts)

"""Canonical forms as numbers of 64 bits: equal for trees that `canonical_form` gives equal texts.

Two different forms may share a number, with a probability of 2^-64 a pair. The number of a sum is
made of the sum of its terms' numbers and that of a product of the sum of its factors', so order and
grouping have no effect. `expression.canonical` says what the rules mean; here they are applied to
millions of trees. One thing differs: powers that `canonical_form` does not write out, because the
text would be very long, are written out here too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dvisr.library import Kind, Library, Role
from dvisr.library.compiling import compiled

_ATOM_FORM, _SUM_FORM, _PRODUCT_FORM, _PARTS_FORM = 0, 1, 2, 3
# What compiled code goes by: the kinds of leaves, and the roles of operators.
_LEAF, _CONSTANT, _LITERAL, _FUNCTION = 0, 1, 2, 3
_SUM, _DIFFERENCE, _PRODUCT, _QUOTIENT, _POWER = 4, 5, 6, 7, 8
_NEGATIVE, _RECIPROCAL, _WHOLE_POWER = 9, 10, 11
_ROLES = {
    None: _FUNCTION,
    Role.SUM: _SUM,
    Role.DIFFERENCE: _DIFFERENCE,
    Role.PRODUCT: _PRODUCT,
    Role.QUOTIENT: _QUOTIENT,
    Role.POWER: _POWER,
    Role.NEGATIVE: _NEGATIVE,
    Role.RECIPROCAL: _RECIPROCAL,
    Role.WHOLE_POWER: _WHOLE_POWER,
}
_ODD, _EVEN = 1, 2


class Algebra(NamedTuple):
    """What the rules need to know of each token, as arrays."""

    role: np.ndarray  # what kind of leaf, or which role of an operator
    arity: np.ndarray
    parity: np.ndarray
    is_commutative: np.ndarray
    is_associative: np.ndarray
    own: np.ndarray  # int64: a number for the token, or for the size of a literal
    sign: np.ndarray  # of a literal
    exponent: np.ndarray  # of a whole power; 2 or 3 for these literals; else 0
    symmetric: np.ndarray  # (1,): whether a constant absorbs a sign


class _Form(NamedTuple):
    kind: Any
    key: Any  # of an atom; of parts: the operator's
    sign: Any
    is_free: Any
    has_constant: Any
    plus: Any  # of a sum: its terms with one sign; of parts: see `_function`
    minus: Any  # ... with the other,
    others: Any  # ... and those that absorb a sign; of a product its factors, of parts the parts
    exponent: Any  # 2 or 3 for these literals, else 0


def make_algebra(library: Library, *, symmetric_constants: bool) -> Algebra:
    """For `forms`; `symmetric_constants` says that the prior of constants is symmetric about 0."""
    roles, own, signs, exponents = [], [], [], []
    for token_id, token in enumerate(library):
        number = np.uint64(token_id + 1)
        sign, exponent = 1, 0
        if token.kind is Kind.CONSTANT:
            role = _CONSTANT
        elif token.kind is Kind.LITERAL:
            role = _LITERAL
            number = np.float64(abs(token.value)).view(np.uint64)
            sign = -1 if token.value < 0 else 1
            exponent = int(abs(token.value)) if abs(token.value) in (2.0, 3.0) else 0
        else:
            role = _LEAF if token.is_leaf else _ROLES[token.role]
            exponent = token.exponent or 0
        roles.append(role)
        own.append(_mixed(int(number) ^ (0x5851F42D4C957F2D * (1 + min(role, _LITERAL)))))
        signs.append(sign)
        exponents.append(exponent)
    parities = [{"odd": _ODD, "even": _EVEN}.get(token.parity or "", 0) for token in library]
    return Algebra(
        np.array(roles, dtype=np.int64),
        library.arities.astype(np.int64),
        np.array(parities, dtype=np.int64),
        np.array([token.is_commutative for token in library]),
        np.array([token.is_associative for token in library]),
        np.array(own, dtype=np.int64),
        np.array(signs, dtype=np.int64),
        np.array(exponents, dtype=np.int64),
        np.array([symmetric_constants]),
    )


def _mixed(number: int) -> int:
    """splitmix64's finisher, as a signed number of 64 bits."""
    mask = 2**64 - 1
    z = number & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    z ^= z >> 31
    return z - 2**64 if z >= 2**63 else z


@compiled
def _mix(number, salt):
    z = np.uint64(number) + np.uint64(salt) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@compiled
def _atom(key, sign, is_free, has_constant):
    nothing = np.int64(0)
    return _Form(
        np.int64(_ATOM_FORM), np.int64(key), np.int64(sign), bool(is_free), bool(has_constant),
        nothing, nothing, nothing, nothing,
    )  # fmt: skip


@compiled
def _key(form):
    """The number of a form, its own sign aside."""
    if form.kind == _SUM_FORM:
        return _mix(form.plus, 11) + 3 * _mix(form.minus, 12) + 5 * _mix(form.others, 13)
    if form.kind == _PRODUCT_FORM:
        return _mix(form.others, 14)
    if form.kind == _PARTS_FORM:
        return _mix(form.others + form.key, 15)
    return form.key


@compiled
def _text(form):
    """The number of a form with its sign."""
    return _key(form) if form.sign > 0 else _mix(_key(form), 16)


@compiled
def _negated(form):
    if form.is_free:
        return form
    return _Form(
        form.kind, form.key, -form.sign, form.is_free, form.has_constant, form.plus, form.minus,
        form.others, form.exponent,
    )  # fmt: skip


@compiled
def _added(first, second):
    plus, minus, others = np.int64(0), np.int64(0), np.int64(0)
    for part in (first, second):
        if part.kind == _SUM_FORM:
            plus += part.plus if part.sign > 0 else part.minus
            minus += part.minus if part.sign > 0 else part.plus
            others += part.others
        elif part.is_free:
            others += _mix(_key(part), 21)
        elif part.sign > 0:
            plus += _mix(_key(part), 22)
        else:
            minus += _mix(_key(part), 22)
    is_free = first.is_free and second.is_free
    # Of a sum and its negative, one is the body; the sign goes out.
    is_body = plus >= minus
    sign = np.int64(1) if is_free or is_body else np.int64(-1)
    return _Form(
        np.int64(_SUM_FORM), np.int64(0), sign, is_free, first.has_constant or second.has_constant,
        plus if is_body else minus, minus if is_body else plus, others, np.int64(0),
    )  # fmt: skip


@compiled
def _factors(form):
    return form.others if form.kind == _PRODUCT_FORM else _mix(_key(form), 31)


@compiled
def _product(factors, sign, is_free, has_constant):
    nothing = np.int64(0)
    return _Form(
        np.int64(_PRODUCT_FORM), nothing, np.int64(1) if is_free else np.int64(sign), is_free,
        has_constant, nothing, nothing, np.int64(factors), nothing,
    )  # fmt: skip


@compiled
def _multiplied(first, second):
    return _product(
        _factors(first) + _factors(second),
        first.sign * second.sign,
        first.is_free or second.is_free,
        first.has_constant or second.has_constant,
    )


@compiled
def _inverted(form):
    """Each factor's number times an odd one: the inverse of an inverse has that factor twice, so it
    differs from the value itself, which is defined at zero."""
    factors = _factors(form) * np.int64(0x2545F4914F6CDD1D)
    return _product(factors, form.sign, form.is_free, form.has_constant)


@compiled
def _whole_power(form, exponent):
    is_even = exponent % 2 == 0
    sign = np.int64(1) if is_even else form.sign
    if not form.has_constant:
        return _product(_factors(form) * exponent, sign, form.is_free, False)
    return _atom(_mix(_key(form), 40 + exponent), sign, form.is_free and not is_even, True)


@compiled
def _function(token, algebra, first, second):
    own = algebra.own[token]
    if algebra.parity[token] != 0:
        is_odd = algebra.parity[token] == _ODD
        key = _mix(_key(first) + own, 51)
        sign = first.sign if is_odd else np.int64(1)
        return _atom(key, sign, first.is_free and is_odd, first.has_constant)
    if algebra.arity[token] == 1:
        return _atom(_mix(_text(first) + own, 52), np.int64(1), False, first.has_constant)
    has_constant = first.has_constant or second.has_constant
    is_commutative, is_associative = algebra.is_commutative[token], algebra.is_associative[token]
    if not (is_commutative or is_associative):
        key = _mix(_mix(_text(first) + own, 53) + _text(second), 54)
        return _atom(key, np.int64(1), False, has_constant)
    if not is_associative:
        key = _mix(_mix(_text(first), 55) + _mix(_text(second), 55) + own, 56)
        return _atom(key, np.int64(1), False, has_constant)
    # Where order matters the parts are the digits of a number: a step along multiplies by `shift`.
    parts, shift = np.int64(0), np.int64(1)
    for part in (first, second):
        is_same = part.kind == _PARTS_FORM and part.key == own and part.sign > 0
        step = part.plus if is_same else np.int64(0x2545F4914F6CDD1D)
        if not is_commutative:
            parts, shift = parts * step, shift * step
        parts += part.others if is_same else _mix(_text(part), 57)
    nothing = np.int64(0)
    return _Form(
        np.int64(_PARTS_FORM), own, np.int64(1), False, has_constant, shift, nothing, parts, nothing
    )


@compiled
def _leaf(token, algebra):
    role = algebra.role[token]
    if role == _CONSTANT:
        return _atom(algebra.own[token], np.int64(1), algebra.symmetric[0], True)
    if role == _LITERAL:
        form = _atom(algebra.own[token], algebra.sign[token], False, False)
        return _Form(
            form.kind, form.key, form.sign, form.is_free, form.has_constant, form.plus, form.minus,
            form.others, algebra.exponent[token],
        )  # fmt: skip
    return _atom(algebra.own[token], np.int64(1), False, False)


@compiled
def _operation(token, algebra, first, second):
    role = algebra.role[token]
    if role == _SUM:
        return _added(first, second)
    if role == _DIFFERENCE:
        return _added(first, _negated(second))
    if role == _PRODUCT:
        return _multiplied(first, second)
    if role == _QUOTIENT:
        return _multiplied(first, _inverted(second))
    if role == _NEGATIVE:
        return _negated(first)
    if role == _RECIPROCAL:
        return _inverted(first)
    if role == _WHOLE_POWER:
        return _whole_power(first, algebra.exponent[token])
    if role == _POWER and second.exponent > 0 and second.sign > 0:
        return _whole_power(first, second.exponent)
    return _function(token, algebra, first, second)


@compiled
def _forms(trees, algebra, numbers):
    empty = _atom(np.int64(0), np.int64(1), False, False)
    stack = [empty for _ in range(trees.shape[1] + 2)]
    for row in range(len(trees)):
        height = 0
        for position in range(trees.shape[1] - 1, -1, -1):
            token = trees[row, position]
            if token < 0:
                continue
            arity = algebra.arity[token]
            if arity == 0:
                stack[height] = _leaf(token, algebra)
                height += 1
                continue
            first = stack[height - 1]
            second = stack[height - 2] if arity == 2 else first
            height -= arity
            stack[height] = _operation(token, algebra, first, second)
            height += 1
        numbers[row] = _text(stack[0])


def forms(trees: np.ndarray, algebra: Algebra) -> np.ndarray:
    """One number a tree, int64; `trees` are ids padded with -1, each row one complete tree."""
    numbers = np.zeros(len(trees), dtype=np.int64)
    _forms(np.ascontiguousarray(trees, dtype=np.int8), algebra, numbers)
    return numbers

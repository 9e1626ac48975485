"""The same function with its constants elsewhere: c x + c / x as (x + c / x) c, or x^c as x x^c.

These are other forms, each with a prior of its own and one over its constants, and a function has
the posterior of all of them; which of them a search meets is chance. So those of a likely form are
tried, always; the constants that make them the same function are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library import Kind, Role
from dvisr.search.legality import Legality

_ROUNDS = 3  # of recasting what was recast
_MOST = 100  # trees of one form
_LARGEST = 300.0  # of an exponent
_UNSAID = -1  # stands for 1 on the way, where the library has no word for it


class _Node(NamedTuple):
    """Part of a tree; a constant has a value."""

    token: int
    operands: tuple[_Node, ...] = ()
    value: float | None = None


class Recasting:
    def __init__(self, grammar: Grammar) -> None:
        self._library = library = grammar.library
        self._is_legal = Legality(grammar)
        self._most_constants = (grammar.max_tokens + 1) // 2
        self._ids = {token.role: place for place, token in enumerate(library)}
        self._exp = library.find("exp")
        ones = [place for place in library.ids_of_kind(Kind.LITERAL) if library[place].value == 1.0]
        self._one = ones[0] if ones else _UNSAID

    def of_tree(self, tree: np.ndarray, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(trees, length), legal ones, the tree itself left out; and (trees, 1, constants): the
        values of their constants that make them the same function, NaN after them."""
        tokens = [int(token) for token in tree if token >= 0]
        if Role.PRODUCT not in self._ids:
            return tree[None][:0], np.zeros((0, 1, self._most_constants))
        first = self._parsed(iter(tokens), iter(constants.tolist()))
        known = {tuple(tokens)}
        made: list[tuple[tuple[int, ...], list[float]]] = []
        latest = [first]
        for _ in range(_ROUNDS):
            new = []
            for node in itertools.chain.from_iterable(map(self._everywhere, latest)):
                written, values = _written(node)
                if written in known or not np.isfinite(values).all():
                    continue
                known.add(written)
                new.append(node)
                if len(written) <= len(tree) and _UNSAID not in written:
                    made.append((written, values))
                if len(made) == _MOST or len(known) > 4 * _MOST:
                    return self._legal(made, len(tree))
            latest = new
        return self._legal(made, len(tree))

    def _legal(
        self, made: list[tuple[tuple[int, ...], list[float]]], length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = np.full((len(made), length), -1, dtype=np.int8)
        starts = np.full((len(made), 1, self._most_constants), np.nan)
        for number, (written, values) in enumerate(made):
            rows[number, : len(written)] = written
            starts[number, 0, : len(values)] = values[: self._most_constants]
        is_legal = self._is_legal(rows)
        return rows[is_legal], starts[is_legal]

    def _parsed(self, tokens: Iterator[int], values: Iterator[float]) -> _Node:
        token = next(tokens)
        if token == self._library.constant_id:
            return _Node(token, value=next(values))
        count = int(self._library.arities[token])
        return _Node(token, tuple(self._parsed(tokens, values) for _ in range(count)))

    def _everywhere(self, node: _Node) -> Iterator[_Node]:
        """A tree with one of its parts, or the whole, recast."""
        yield from self._recast(node)
        for place, operand in enumerate(node.operands):
            for other in self._everywhere(operand):
                operands = (*node.operands[:place], other, *node.operands[place + 1 :])
                yield node._replace(operands=operands)

    def _recast(self, node: _Node) -> Iterator[_Node]:
        role = self._role(node)
        if role in (Role.SUM, Role.DIFFERENCE):
            yield from self._sum(node)
        elif role is Role.PRODUCT:
            yield from self._product(node)
            yield from self._product(node._replace(operands=node.operands[::-1]))
        elif role is Role.QUOTIENT:
            yield from self._quotient(node)
        elif role is Role.POWER or node.token == self._exp:
            yield from self._power(node)

    def _sum(self, node: _Node) -> Iterator[_Node]:
        """a f + b g as a (f + (b / a) g), and as b ((a / b) f + g); f + c as f - (-c)."""
        first, second = node.operands
        one, two = self._factor(first), self._factor(second)
        if one is not None and two is not None:
            for kept, (factor, _) in enumerate((one, two)):
                if _divides(factor):
                    parts = [self._times(rest, own / factor) for own, rest in (one, two)]
                    parts[kept] = (one, two)[kept][1]
                    yield self._times(node._replace(operands=tuple(parts)), factor)
        other = self._ids.get(Role.SUM if self._role(node) is Role.DIFFERENCE else Role.DIFFERENCE)
        if other is not None and second.value is not None:
            yield _Node(other, (first, self._constant(-second.value)))

    def _product(self, node: _Node) -> Iterator[_Node]:
        """(f + a g) c as c f + (a c) g, (n / d) c as (n c) / d, f c as f / (1 / c); f f^c as
        f^(c + 1); exp(f) c as exp(f + log c)."""
        first, second = node.operands
        role = self._role(first)
        factor = second.value
        if factor is not None:
            if role in (Role.SUM, Role.DIFFERENCE) and any(map(self._factor, first.operands)):
                parts = tuple(self._scaled(part, factor) for part in first.operands)
                yield first._replace(operands=parts)
            elif role is Role.QUOTIENT:
                over, under = first.operands
                yield first._replace(operands=(self._scaled(over, factor), under))
            if _divides(factor) and Role.QUOTIENT in self._ids:
                yield self._of(Role.QUOTIENT, first, self._constant(1.0 / factor))
            if first.token == self._exp and factor > 0.0 and Role.SUM in self._ids:
                shifted = self._of(Role.SUM, first.operands[0], self._constant(math.log(factor)))
                yield first._replace(operands=(shifted,))
        exponent = self._exponent(second, first)
        if exponent is not None:
            yield second._replace(operands=(first, self._constant(exponent + 1.0)))

    def _quotient(self, node: _Node) -> Iterator[_Node]:
        """n / (a f + b g) as (n / a) / (f + (b / a) g), and back; n / (c d) as (n / c) / d, c n / d
        as (n / d) c; f^c / f as f^(c - 1)."""
        over, under = node.operands
        if under.value is not None:
            if _divides(under.value):
                yield self._times(over, 1.0 / under.value)
            return
        own = self._factor(over)
        if self._role(under) in (Role.SUM, Role.DIFFERENCE):
            for recast in self._sum(under):
                taken = self._factor(recast)
                if taken is not None and _divides(taken[0]):
                    yield node._replace(operands=(self._scaled(over, 1.0 / taken[0]), taken[1]))
            if own is not None and _divides(own[0]) and any(map(self._factor, under.operands)):
                parts = tuple(self._scaled(part, 1.0 / own[0]) for part in under.operands)
                yield node._replace(operands=(own[1], under._replace(operands=parts)))
        else:
            taken = self._factor(under)
            if taken is not None and _divides(taken[0]):
                yield node._replace(operands=(self._scaled(over, 1.0 / taken[0]), taken[1]))
        if own is not None:
            yield self._of(
                Role.PRODUCT, node._replace(operands=(own[1], under)), self._constant(own[0])
            )
        exponent = self._exponent(over, under)
        if exponent is not None:
            yield over._replace(operands=(under, self._constant(exponent - 1.0)))

    def _power(self, node: _Node) -> Iterator[_Node]:
        """f^c as f f^(c - 1) and as f^(c + 1) / f; c^f as exp(f log c), exp(f c) as (exp c)^f;
        exp(f + c) as exp(f) exp(c)."""
        if node.token == self._exp:
            yield from self._exponential(node)
            return
        base, exponent = node.operands
        if exponent.value is not None and not _has_constants(base):
            for change, role in ((-1.0, Role.PRODUCT), (1.0, Role.QUOTIENT)):
                if role in self._ids:
                    changed = self._constant(exponent.value + change)
                    power = node._replace(operands=(base, changed))
                    yield self._of(role, *((base, power) if change < 0.0 else (power, base)))
        if self._exp is None or base.value is None or base.value <= 0.0:
            return
        if exponent.value is None:
            yield _Node(self._exp, (self._scaled(exponent, math.log(base.value)),))

    def _exponential(self, node: _Node) -> Iterator[_Node]:
        (inside,) = node.operands
        own = self._factor(inside)
        is_scaled = own is not None and inside.value is None and abs(own[0]) < _LARGEST
        if own is not None and is_scaled and Role.POWER in self._ids:
            yield self._of(Role.POWER, self._constant(math.exp(own[0])), own[1])
        role = self._role(inside)
        if role in (Role.SUM, Role.DIFFERENCE):
            first, second = inside.operands
            if second.value is not None and abs(second.value) < _LARGEST:
                sign = 1.0 if role is Role.SUM else -1.0
                factor = math.exp(sign * second.value)
                yield self._times(node._replace(operands=(first,)), factor)

    def _exponent(self, power: _Node, base: _Node) -> float | None:
        """Of base^c, where that is what a part is."""
        if self._role(power) is not Role.POWER:
            return None
        own, exponent = power.operands
        return exponent.value if own == base and not _has_constants(base) else None

    def _factor(self, node: _Node) -> tuple[float, _Node] | None:
        """A constant that a part is multiplied with, and the rest of it."""
        role = self._role(node)
        if node.value is not None:
            return node.value, _Node(self._one)
        if role is Role.PRODUCT:
            for factor, rest in (node.operands, node.operands[::-1]):
                if factor.value is not None:
                    return factor.value, rest
        if role is Role.QUOTIENT:
            over, under = node.operands
            if under.value is not None:
                return (1.0 / under.value, over) if _divides(under.value) else None
            own = self._factor(over)
            if own is not None:
                return own[0], node._replace(operands=(own[1], under))
        return None

    def _scaled(self, node: _Node, factor: float) -> _Node:
        """Times a factor, which goes into a constant that is there."""
        own = self._factor(node)
        if node.value is not None:
            return self._constant(factor * node.value)
        return self._times(node, factor) if own is None else self._times(own[1], factor * own[0])

    def _times(self, node: _Node, factor: float) -> _Node:
        """With a constant of its own."""
        if node.token == self._one:
            return self._constant(factor)
        if self._role(node) is Role.QUOTIENT and node.operands[0].token == self._one:
            return node._replace(operands=(self._constant(factor), node.operands[1]))
        return self._of(Role.PRODUCT, node, self._constant(factor))

    def _role(self, node: _Node) -> Role | None:
        return None if node.token == _UNSAID else self._library[node.token].role

    def _of(self, role: Role, *operands: _Node) -> _Node:
        return _Node(self._ids[role], operands)

    def _constant(self, value: float) -> _Node:
        return _Node(self._library.constant_id, value=value)


def _written(node: _Node) -> tuple[tuple[int, ...], list[float]]:
    """Its tokens in prefix order, and the values of its constants."""
    parts = [_written(operand) for operand in node.operands]
    tokens = (node.token, *itertools.chain.from_iterable(part[0] for part in parts))
    own = [] if node.value is None else [node.value]
    return tokens, [*own, *itertools.chain.from_iterable(part[1] for part in parts)]


def _divides(value: float) -> bool:
    """Whether one over it is a number that divides as well."""
    return 1e-300 < abs(value) < 1e300


def _has_constants(node: _Node) -> bool:
    return node.value is not None or any(map(_has_constants, node.operands))

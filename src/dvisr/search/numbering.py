"""Constants written out: numbers such as 3 or sqrt(2) where a constant may well have their value,
and two of them where it is a factor or a term: 3 * pi * x, or 3 * x / 2, for x * c.

A formula with a number in the place of a constant is often likelier than the one with the constant,
and there are many such; which of them a search meets is chance. So the likeliest of those near a
likely formula are tried, always.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Grammar
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.library import Kind, Role
from dvisr.marginal import Modes, inverse
from dvisr.prior import TreePrior
from dvisr.search.legality import Legality
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from dvisr.settings import SearchSettings

_NEAR = 3.0  # standard deviations
_LOWER = 5.0  # nats below the largest mode: modes that are looked at
_OTHER = {
    Role.PRODUCT: Role.QUOTIENT,
    Role.QUOTIENT: Role.PRODUCT,
    Role.SUM: Role.DIFFERENCE,
    Role.DIFFERENCE: Role.SUM,
}

_Tokens = tuple[int, ...]
_Chain = tuple[tuple[Role, _Tokens], ...]  # what is done to an operand, and with what numbers


class _Choices(NamedTuple):
    """By value, in order: numbers, or chains of them."""

    items: list[_Chain]
    values: np.ndarray
    scores: np.ndarray  # log priors of their numbers

    @classmethod
    def of(cls, items: list[tuple[_Chain, float, float]]) -> _Choices:
        known = sorted((item for item in items if np.isfinite(item[1])), key=lambda item: item[1])
        values, scores = (np.array([item[place] for item in known]) for place in (1, 2))
        return cls([item[0] for item in known], values, scores)

    def near(self, value: float, spread: float, most: int) -> Iterator[_Chain]:
        """The likeliest before the data and nearest to the value, so many."""
        if not (np.isfinite(value) and 0.0 < spread < np.inf):
            return
        low, high = value - _NEAR * spread, value + _NEAR * spread
        first, last = np.searchsorted(self.values, [low, high])
        off = (self.values[first:last] - value) / spread
        score = self.scores[first:last] - 0.5 * off**2
        for place in np.argsort(-score, kind="stable")[:most]:
            yield self.items[int(first + place)]


class Numbering:
    def __init__(
        self,
        grammar: Grammar,
        prior: TreePrior,
        constants: AbstractConstantPrior,
        settings: SearchSettings | None = None,
    ) -> None:
        self._grammar, self._prior, self._constants = grammar, prior, constants
        self._settings = SearchSettings() if settings is None else settings
        self._is_legal = Legality(grammar)
        self._most_constants = (grammar.max_tokens + 1) // 2
        self._ids = {token.role: place for place, token in enumerate(grammar.library)}

    def of_tree(self, tree: np.ndarray, modes: Modes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(trees, length): one constant each written out, legal trees alone, each once;
        (trees, 1, constants): values of the other constants to start from, NaN after them; and
        (trees,): nats that log p(y | tree) gains by it at the most, about: a constant that must be
        just so has cost what a number does not."""
        tokens = tuple(int(token) for token in tree if token >= 0)
        constant = self._grammar.library.constant_id
        places = [place for place, token in enumerate(tokens) if token == constant]
        masses = np.where(np.isfinite(modes.masses), modes.masses, -np.inf)
        best = masses.max(initial=-np.inf)
        made: dict[_Tokens, tuple[np.ndarray, float]] = {}
        for mode in np.flatnonzero(np.isfinite(masses) & (masses >= best - _LOWER)):
            with np.errstate(all="ignore"):
                spreads = np.sqrt(np.diag(inverse(modes.precision[mode])))
            for number, place in enumerate(places):
                value, spread = float(modes.modes[mode, number]), float(spreads[number])
                others = np.delete(modes.modes[mode], number)
                density = float(self._constants.log_prob(np, np.array(value)))
                gain = -density - np.log(max(spread, 1e-300) * np.sqrt(2.0 * np.pi))
                for sign in (1.0, -1.0):  # as good, where only its size matters
                    for row in self._written(tokens, place, sign * value, spread):
                        if row not in made or gain > made[row][1]:
                            made[row] = (others, gain)
        found = sorted(row for row in made if len(row) <= len(tree))
        rows = np.full((len(found), len(tree)), -1, dtype=np.int8)
        starts = np.full((len(found), 1, self._most_constants), np.nan)
        gains = np.zeros(len(found))
        for number, row in enumerate(found):
            rows[number, : len(row)] = row
            others, gains[number] = made[row]
            starts[number, 0, : len(others)] = others
        is_legal = self._is_legal(rows)
        return rows[is_legal], starts[is_legal], gains[is_legal]

    def _written(
        self, tokens: _Tokens, place: int, value: float, spread: float
    ) -> Iterator[_Tokens]:
        """The tree with a constant of about that value written out."""
        most = self._settings.most_numbered
        for ((_, number),) in self._numbers.near(value, spread, most):
            yield (*tokens[:place], *number, *tokens[place + 1 :])
        above, operands = _above(tokens, place, self._grammar.library.arities)
        role = None if above < 0 else self._grammar.library[tokens[above]].role
        if role not in _OTHER:
            return
        (start, middle), (_, end) = operands
        is_first = start == place
        operand = tokens[middle:end] if is_first else tokens[start:middle]
        is_product = role in (Role.PRODUCT, Role.QUOTIENT)
        is_divided = is_first and role in (Role.QUOTIENT, Role.DIFFERENCE)  # c / x, or c - x
        if role in (Role.QUOTIENT, Role.DIFFERENCE) and not is_first:
            value, spread = _inverse(value, spread) if is_product else (-value, spread)
        for chain in (self._factors if is_product else self._terms).near(value, spread, most):
            written = self._chained(operand, chain, role if is_divided else None)
            if written is not None:
                yield (*tokens[:above], *written, *tokens[end:])

    def _chained(self, operand: _Tokens, chain: _Chain, dividing: Role | None) -> _Tokens | None:
        """What a chain makes of an operand; where that divides (or is taken away), a number that
        multiplies (or is added) is what it divides."""
        made = operand
        if dividing is not None:
            chain = tuple(sorted(chain, key=lambda step: step[0] is not _OTHER[dividing]))
        for step, (role, number) in enumerate(chain):
            if step == 0 and dividing is not None:
                if role is not _OTHER[dividing]:
                    return None
                made = (self._ids[dividing], *number, *operand)
            else:
                made = (self._ids[role], *made, *number)
        return made

    @functools.cached_property
    def _numbers(self) -> _Choices:
        """The likeliest small trees without variables and constants."""
        library, own = self._grammar.library, self._settings
        if not library.ids_of_kind(Kind.LITERAL):
            return _Choices([], np.zeros(0), np.zeros(0))
        size = min(own.number_tokens, self._grammar.max_tokens)
        others = (*library.ids_of_kind(Kind.VARIABLE), *library.ids_of_kind(Kind.CONSTANT))
        grammar, prior = of_subtrees(self._grammar, self._prior, size)
        rows, _ = likeliest_trees(grammar, prior, own.most_numbers, leaving_out=others)
        alone = np.full((len(library.ids_of_kind(Kind.LITERAL)), size), -1, dtype=np.int8)
        alone[:, 0] = library.ids_of_kind(Kind.LITERAL)
        rows = np.unique(np.concatenate([alone, rows]), axis=0)  # of a tie there may be none
        log_prior = np.asarray(prior.log_prob(np, rows.astype(np.int64)))
        at = np.zeros((1, len(library.variables)))
        found: list[tuple[_Chain, float, float]] = []
        for row, score in zip(rows, log_prior.tolist(), strict=True):
            tree = tuple(int(token) for token in row if token >= 0)
            values, defined = evaluate(Expression(library, tree), at, [])
            if np.all(defined):
                found.append((((Role.SUM, tree),), float(np.ravel(values)[0]), score))
        return _Choices.of(found)

    @functools.cached_property
    def _factors(self) -> _Choices:
        return self._chains(Role.PRODUCT)

    @functools.cached_property
    def _terms(self) -> _Choices:
        return self._chains(Role.SUM)

    def _chains(self, plain: Role) -> _Choices:
        """One number or two that multiply and divide, or are added and taken away."""
        numbers = self._numbers
        order = np.argsort(-numbers.scores, kind="stable")[: self._settings.most_chained]
        one: list[tuple[_Chain, float, float]] = []
        for place in map(int, order):
            ((_, tree),) = numbers.items[place]
            value, score = float(numbers.values[place]), float(numbers.scores[place])
            if value == (1.0 if plain is Role.PRODUCT else 0.0):
                continue  # it changes nothing
            if plain in self._ids:
                one.append((((plain, tree),), value, score))
            if _OTHER[plain] in self._ids and (value != 0.0 or plain is Role.SUM):
                inverse = 1.0 / value if plain is Role.PRODUCT else -value
                one.append((((_OTHER[plain], tree),), inverse, score))
        two = [
            (first + second, a * b if plain is Role.PRODUCT else a + b, s + t)
            for number, (first, a, s) in enumerate(one)
            for second, b, t in one[number:]
            if first[0][1] != second[0][1] or first[0][0] is second[0][0]  # not x * 2 / 2
        ]
        return _Choices.of(one + two)


def _inverse(value: float, spread: float) -> tuple[float, float]:
    return (1.0 / value, spread / value**2) if value != 0.0 else (np.nan, np.nan)


def _above(
    tokens: _Tokens, place: int, arities: np.ndarray
) -> tuple[int, tuple[tuple[int, int], tuple[int, int]]]:
    """The place of the binary operator that a leaf is an operand of, and from where to where its
    operands go; -1 where there is none."""
    ends = [0] * (len(tokens) + 1)
    for at in range(len(tokens) - 1, -1, -1):
        end = at + 1
        for _ in range(int(arities[tokens[at]])):
            end = ends[end]
        ends[at] = end
    for at in range(place):
        middle = ends[at + 1]
        if arities[tokens[at]] == 2 and place in (at + 1, middle):
            return at, ((at + 1, middle), (middle, ends[at]))
    return -1, ((0, 0), (0, 0))

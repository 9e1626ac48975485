"""Products of powers as trees: the ways to write them, in the words of a library."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from dvisr.library import Kind, Library


@dataclasses.dataclass(frozen=True)
class Product:
    """Columns to powers, by their places, in halves; whether a constant is a factor; and another
    function to a power, none if it has no tokens."""

    exponents: list[int]
    has_factor: bool = False
    other: tuple[int, ...] = ()
    halves: int = 0


Tokens = list[int]


class Writer:
    """Writes products, alone and in shapes of two.

    Parameters
    ----------
    library : Library
    columns : sequence of int
        The tokens of the columns that exponents are of.
    """

    def __init__(self, library: Library, columns: Sequence[int]) -> None:
        self._library, self._columns = library, list(columns)
        self._square, self._sqrt = library.find("square"), library.find("sqrt")
        self._numbers = {t.value: n for n, t in enumerate(library) if t.kind is Kind.LITERAL}

    def can_say(self, words: Sequence[str]) -> bool:
        """Whether the library has all words of a shape."""
        return all(word in ("h", "?") or self._library.find(word) is not None for word in words)

    def as_context(self, words: Sequence[str], column: int) -> Tokens:
        """The tokens of a shape with a column for each of its products."""
        return [column if word in ("h", "?") else self._token(word) for word in words]

    def product(self, product: Product) -> Iterator[Tokens]:
        """All by itself, in several ways."""
        more = self._power(list(product.other), abs(product.halves)) if product.other else []
        for above, below in self._split(product.exponents):
            if product.halves > 0:
                above = [*above, *more]
            else:
                below = [*below, *more]
            yield from self._quotient(above, below, product.has_factor)

    def shape(self, words: Sequence[str], head: Product, other: Product) -> Iterator[Tokens]:
        """Two products in a shape. Factors of the whole are written with the rest; those that two
        terms of a sum have in common may stand before it."""
        if words[0] in "*/" and words[1] == "h":
            yield from self._scaled(words, head, other)
            return
        at = next(n for n, word in enumerate(words) if word in "+-" and "h" in words[n : n + 3])
        before = [self._token(word) for word in words[:at]]
        is_head_first = words[at + 1] == "h"
        common, (one, two) = _common(head.exponents, other.exponents)
        sums = [([0] * len(common), head.exponents, other.exponents)]
        if any(common):
            sums.append((common, one, two))
        for outside, first, second in sums:
            for a in self._first_way(Product(first)):
                for b in self._first_way(Product(second, other.has_factor)):
                    inside = [self._token(words[at]), *([*a, *b] if is_head_first else [*b, *a])]
                    for above, below in self._split(outside):
                        for whole in self._quotient([*above, inside], below, False):
                            yield [*before, *whole]

    def _scaled(self, words: Sequence[str], head: Product, other: Product) -> Iterator[Tokens]:
        """h times something, or h over it."""
        rest, at = list(words[2:]), words.index("?") - 2
        start, end = [self._token(w) for w in rest[:at]], [self._token(w) for w in rest[at + 1 :]]
        for inner in self._first_way(other):
            part = [*start, *inner, *end]
            for above, below in self._split(head.exponents):
                if words[0] == "*":
                    yield from self._quotient([*above, part], below, False)
                else:
                    yield from self._quotient(above, [*below, part], False)

    def _first_way(self, product: Product) -> list[Tokens]:
        """The shortest ways to write it, at most two."""
        ways = sorted(self.product(product), key=len)
        return ways[:2] if len(ways) > 1 and len(ways[1]) == len(ways[0]) else ways[:1]

    def _split(self, exponents: Sequence[int]) -> Iterator[tuple[list[Tokens], list[Tokens]]]:
        """Factors above and below the line: each power by itself, or squares and roots of
        several columns together."""
        yield self._powers(exponents)
        for unit, word in ((4, self._square), (1, self._sqrt)):  # of halves that go into one
            if word is None:
                continue
            inner = [_inside(e, unit) for e in exponents]
            if sum(e != 0 for e in inner) < 2:
                continue
            times = 2.0 if unit == 4 else 0.5
            left = [e - int(times * i) for e, i in zip(exponents, inner, strict=True)]
            for group in self._quotient(*self._powers(inner), False):
                above, below = self._powers(left)
                yield [*above, [word, *group]], below
                if all(e <= 0 for e in inner):
                    positive = [-e for e in inner]
                    for turned in self._quotient(*self._powers(positive), False):
                        yield above, [*below, [word, *turned]]

    def _powers(self, exponents: Sequence[int]) -> tuple[list[Tokens], list[Tokens]]:
        above: list[Tokens] = []
        below: list[Tokens] = []
        for column, halves in zip(self._columns, exponents, strict=True):
            if halves:
                (above if halves > 0 else below).extend(self._power([column], abs(halves)))
        return above, below

    def _power(self, base: Tokens, halves: int) -> list[Tokens]:
        """The factors of a power of a column, or of another function."""
        whole, has_root = divmod(halves, 2)
        factors: list[Tokens] = []
        three, four = self._numbers.get(3.0), self._numbers.get(4.0)
        power = self._library.find("^")
        if whole == 3 and power is not None and three is not None:
            factors.append([power, *base, three])
        elif whole == 4 and power is not None and four is not None:
            factors.append([power, *base, four])
        else:
            if self._square is not None:
                factors += [[self._square, *base]] * (whole // 2)
            else:
                factors += [base] * (whole - whole % 2)
            factors += [base] * (whole % 2)
        if has_root and self._sqrt is not None:
            factors.append([self._sqrt, *base])
        return factors

    def _quotient(
        self, above: list[Tokens], below: list[Tokens], has_factor: bool
    ) -> Iterator[Tokens]:
        """The factors above over those below, with a constant in each place that it may have; none
        that the library has no words for."""
        constant = [self._library.constant_id]
        if has_factor and not above and not below:
            yield constant
        elif has_factor and not above:
            yield from self._said("/", constant, self._joined(below))
        elif not below:
            yield from filter(None, [self._joined([*above, constant] if has_factor else above)])
        elif not has_factor:
            yield from self._said("/", self._joined(above), self._joined(below))
        else:
            for plain in self._said("/", self._joined(above), self._joined(below)):
                yield from self._said("*", plain, constant)
            yield from self._said("/", self._joined([*above, constant]), self._joined(below))

    def _said(self, word: str, one: Tokens | None, two: Tokens | None) -> Iterator[Tokens]:
        token = self._library.find(word)
        if token is not None and one is not None and two is not None:
            yield [token, *one, *two]

    def _joined(self, factors: list[Tokens]) -> Tokens | None:
        """Their product; 1 if there are none. None where there is no word for it."""
        times, one = self._library.find("*"), self._numbers.get(1.0)
        if not factors:
            return None if one is None else [one]
        if times is None and len(factors) > 1:
            return None
        made = factors[0]
        for factor in factors[1:]:
            assert times is not None
            made = [times, *made, *factor]
        return made

    def _token(self, word: str) -> int:
        token = self._library.find(word)
        assert token is not None
        return token


def _inside(exponent: int, unit: int) -> int:
    """What of an exponent is under a square (unit 4) or a root (unit 1), all in halves."""
    if unit == 1:
        return 0 if exponent % 2 == 0 else (2 if exponent > 0 else -2)
    return 2 * (abs(exponent) // 4) * (1 if exponent > 0 else -1)


def _common(
    one: Sequence[int], two: Sequence[int]
) -> tuple[list[int], tuple[list[int], list[int]]]:
    """What two products have in common, and the rest of each."""
    common = [
        min(abs(a), abs(b)) * (1 if a > 0 else -1) if a * b > 0 else 0
        for a, b in zip(one, two, strict=True)
    ]
    rest = tuple([e - c for e, c in zip(own, common, strict=True)] for own in (one, two))
    return common, (rest[0], rest[1])

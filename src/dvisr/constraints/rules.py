"""Rules as declarations. Each is written once; mask, check and counting all follow from it.

There are two kinds, and every constraint is one of them.

A *scope rule* looks from a slot towards the root. It gives each slot a state, worked out from the
parent's slot, the parent's token, the side, and, for a right operand, the token that stands at
the root of the left one; and it says which tokens a slot in that state may take.

A *count rule* bounds how many tokens of a set the whole tree holds.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Hashable, Iterable
from typing import Literal

from dvisr.library import CONSTANT, Kind, Library, Token

Side = Literal["any", "left", "right"]

LEFT, RIGHT = 0, 1


class ScopeRule(abc.ABC):
    @abc.abstractmethod
    def describe(self) -> str:
        """The rule in a few words, for messages."""

    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The tokens that the rule mentions; each must be in the library."""

    @abc.abstractmethod
    def root(self) -> Hashable:
        """The state of the root's slot."""

    @abc.abstractmethod
    def allows(self, state: Hashable, token: Token) -> bool:
        """Whether a slot in that state may take the token."""

    @abc.abstractmethod
    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        """The state of an operand's slot. `left` is the root token of the left operand and is
        given for the right one alone."""


@dataclasses.dataclass(frozen=True)
class CountRule:
    """The whole tree holds at least `minimum` and at most `maximum` of these tokens."""

    tokens: tuple[str, ...] | None  # None: every token
    minimum: int = 0
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.minimum < 0 or (self.maximum is not None and self.maximum < 0):
            raise ValueError(f"a count can't be below zero: {self.describe()}")

    def describe(self) -> str:
        what = "tokens" if self.tokens is None else " or ".join(self.tokens)
        if self.maximum is None:
            return f"at least {self.minimum} {what}"
        if self.minimum == 0:
            return f"at most {self.maximum} {what}"
        return f"{self.minimum} to {self.maximum} {what}"

    def names(self) -> tuple[str, ...]:
        return self.tokens or ()

    def counts(self, token: Token) -> int:
        """What one such token adds to the count."""
        return int(self.tokens is None or token.name in self.tokens)


@dataclasses.dataclass(frozen=True)
class ForbidChild(ScopeRule):
    """No token of `children` directly below one of `parents`, on that side."""

    parents: frozenset[str]
    children: frozenset[str]
    side: Side = "any"

    def describe(self) -> str:
        where = "child" if self.side == "any" else f"{self.side} child"
        return f"{_listed(self.children)} never a {where} of {_listed(self.parents)}"

    def names(self) -> tuple[str, ...]:
        return (*sorted(self.parents), *sorted(self.children))

    def root(self) -> Hashable:
        return False

    def allows(self, state: Hashable, token: Token) -> bool:
        return not (state and token.name in self.children)

    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        # The only operand of a unary operator is on no side: "left" and "right" pass it by.
        is_there = self.side == "any" or (
            parent.arity == 2 and (self.side == "left") == (side == LEFT)
        )
        return is_there and parent.name in self.parents


@dataclasses.dataclass(frozen=True)
class ForbidDescendant(ScopeRule):
    """No token of `descendants` anywhere below one of `ancestors`."""

    ancestors: frozenset[str]
    descendants: frozenset[str]

    def describe(self) -> str:
        return f"{_listed(self.descendants)} never below {_listed(self.ancestors)}"

    def names(self) -> tuple[str, ...]:
        return (*sorted(self.ancestors), *sorted(self.descendants))

    def root(self) -> Hashable:
        return False

    def allows(self, state: Hashable, token: Token) -> bool:
        return not (state and token.name in self.descendants)

    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        return bool(state) or parent.name in self.ancestors


@dataclasses.dataclass(frozen=True)
class ForbidAllConstantChildren(ScopeRule):
    """No operator whose operands are all constants: it would be just another constant.

    A literal counts as a constant beside a constant (`c + 1`); operands that are all literals
    (`sin(1)`) make a new number rather than a constant written twice, and are allowed.
    """

    def describe(self) -> str:
        return "no operator with nothing but constants as operands"

    def names(self) -> tuple[str, ...]:
        return ()

    def root(self) -> Hashable:
        return frozenset()

    def allows(self, state: Hashable, token: Token) -> bool:
        assert isinstance(state, frozenset)
        return token.kind not in state

    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        """The state is the set of kinds that the slot may not take."""
        if parent.arity == 1:
            return frozenset({Kind.CONSTANT})
        if side == RIGHT and left is not None and left.kind is Kind.CONSTANT:
            return frozenset({Kind.CONSTANT, Kind.LITERAL})
        if side == RIGHT and left is not None and left.kind is Kind.LITERAL:
            return frozenset({Kind.CONSTANT})
        return frozenset()


@dataclasses.dataclass(frozen=True)
class ForbidAllNumberChildren(ScopeRule):
    """None of these operators with nothing but numbers as operands, such as 1 + 1 or log(2)."""

    parents: frozenset[str]

    def describe(self) -> str:
        return f"no {' or '.join(sorted(self.parents))} of numbers alone"

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.parents))

    def root(self) -> Hashable:
        return False

    def allows(self, state: Hashable, token: Token) -> bool:
        return not (state and token.kind is Kind.LITERAL)

    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        """The state is whether the slot may not take a number."""
        is_last = parent.arity == 1 or (
            side == RIGHT and left is not None and left.kind is Kind.LITERAL
        )
        return is_last and parent.name in self.parents


@dataclasses.dataclass(frozen=True)
class MaxDepth(ScopeRule):
    """At most `depth` edges from the root to any leaf; a lone leaf has depth 0."""

    depth: int

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(f"the maximum depth must be 0 or more, not {self.depth}")

    def describe(self) -> str:
        return f"depth at most {self.depth}"

    def names(self) -> tuple[str, ...]:
        return ()

    def root(self) -> Hashable:
        return self.depth

    def allows(self, state: Hashable, token: Token) -> bool:
        return token.is_leaf or state != 0

    def operand(self, state: Hashable, parent: Token, side: int, left: Token | None) -> Hashable:
        assert isinstance(state, int)
        return state - 1


Rule = ScopeRule | CountRule


def max_tokens(count: int) -> CountRule:
    return CountRule(None, maximum=count)


def min_tokens(count: int) -> CountRule:
    return CountRule(None, minimum=count)


def max_constants(count: int) -> CountRule:
    return CountRule((CONSTANT.name,), maximum=count)


def max_repeats(names: str | Iterable[str], count: int) -> CountRule:
    """At most `count` of these tokens, taken together, in a tree."""
    return CountRule((names,) if isinstance(names, str) else tuple(names), maximum=count)


def check_names(rule: Rule, library: Library) -> None:
    known = [token.name for token in library]
    for name in rule.names():
        # A limit on constants holds by itself where the library has none.
        if name not in known and not (isinstance(rule, CountRule) and name == CONSTANT.name):
            raise ValueError(
                f"the rule '{rule.describe()}' names {name!r}, which is not in the library: "
                f"it has {' '.join(known)}"
            )


def _listed(names: Iterable[str]) -> str:
    return " ".join(sorted(names))

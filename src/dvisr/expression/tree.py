"""`Expression`: one tree on the host, in prefix order, with or without values for its constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from dvisr.library import Kind, Library, Token

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Expression:
    """Tokens are ids of the library. `constants`, where given, has one value for each constant
    token in prefix order."""

    library: Library
    tokens: tuple[int, ...]
    constants: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        unfinished = 1
        for position, token in enumerate(self.tokens):
            if not 0 <= token < len(self.library):
                raise ValueError(f"token {token} at position {position} is not in the library")
            if unfinished == 0:
                raise ValueError(f"the tree is complete before position {position}")
            unfinished += self.library[token].arity - 1
        if unfinished != 0:
            raise ValueError(f"the tree lacks {unfinished} operand(s)")
        if self.constants is not None and len(self.constants) != self.num_constants:
            raise ValueError(
                f"the tree has {self.num_constants} constant(s), "
                f"but {len(self.constants)} value(s) were given"
            )

    @property
    def num_constants(self) -> int:
        return sum(self.library[token].kind is Kind.CONSTANT for token in self.tokens)

    @property
    def complexity(self) -> int:
        """How many tokens the tree has."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """Edges from the root to the deepest leaf."""
        return fold(self, lambda token, _, operands: 1 + max(operands, default=-1))

    def with_constants(self, constants: Sequence[float] | None) -> Expression:
        values = None if constants is None else tuple(float(value) for value in constants)
        return dataclasses.replace(self, constants=values)

    def __str__(self) -> str:
        from dvisr.expression.printing import infix

        return infix(self)


def fold(expression: Expression, combine: Callable[[Token, int, list[T]], T]) -> T:
    """Work from the leaves to the root: `combine(token, index, operands)` for every node, where
    `index` counts constants in prefix order (-1 for other tokens). Needs no recursion, so depth
    is no danger."""
    stack: list[T] = []
    index = expression.num_constants
    for token_id in reversed(expression.tokens):
        token = expression.library[token_id]
        is_constant = token.kind is Kind.CONSTANT
        index -= is_constant
        operands = [stack.pop() for _ in range(token.arity)]
        stack.append(combine(token, index if is_constant else -1, operands))
    (root,) = stack
    return root

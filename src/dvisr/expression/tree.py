"""`Expression`: one tree on the host, in prefix order, with or without values for its constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from dvisr.library import Kind, Library, Token

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Expression:
    """An expression tree over a library.

    Parameters
    ----------
    library : Library
    tokens : tuple of int
        The tree in prefix order: ids, which are positions in the library.
    constants : tuple of float, optional
        A value for each constant token, in prefix order.

    Raises
    ------
    ValueError
        If the tokens are not one complete tree, or the number of constants is another.

    Examples
    --------
    >>> from dvisr import Expression, Library
    >>> library = Library.create(["+", "sin"], ["x"], constants=True)
    >>> expression = Expression(library, (0, 1, 3, 2))
    >>> print(expression)
    sin(x) + c
    >>> expression.complexity, expression.depth, expression.num_constants
    (4, 2, 1)
    >>> print(expression.with_constants([0.5]))
    sin(x) + 0.5
    """

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
        """The number of constant tokens."""
        return sum(self.library[token].kind is Kind.CONSTANT for token in self.tokens)

    @property
    def complexity(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """The number of edges from the root to the deepest leaf."""
        return fold(self, lambda token, _, operands: 1 + max(operands, default=-1))

    def with_constants(self, constants: Sequence[float] | None) -> Expression:
        """The same tree with these values for its constants, or with none."""
        values = None if constants is None else tuple(float(value) for value in constants)
        return dataclasses.replace(self, constants=values)

    def __str__(self) -> str:
        from dvisr.expression.printing import infix

        return infix(self)


def fold(expression: Expression, combine: Callable[[Token, int, list[T]], T]) -> T:
    """Combine from the leaves to the root: `combine(token, index, operands)` is called at every
    node, where `index` counts constants in prefix order and is -1 for other tokens. Without
    recursion, so that a tree of any depth can be folded."""
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

"""What a subtree would have to be: the rest of the tree inverted on the data.

If y = C(g), where C is a tree with a hole, then the data say what values g must have: the operators
between the root and the hole are undone one by one. How strongly an error of g shows in y is known,
too: the slopes of those operators, multiplied. (In genetic programming: semantic backpropagation.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dvisr.library import Kind, Library

Values = Any  # an array of rows, or a number

# For each operand of an operator: the value that it must have, from the result and the other one.
_SOLVED: dict[str, tuple[Callable[..., Values], ...]] = {
    "+": (lambda t, b: t - b, lambda t, a: t - a),
    "-": (lambda t, b: t + b, lambda t, a: a - t),
    "*": (lambda t, b: t / b, lambda t, a: t / a),
    "/": (lambda t, b: t * b, lambda t, a: a / t),
    "^": (
        lambda t, b: np.power(np.where(t > 0.0, t, np.nan), 1.0 / b),
        lambda t, a: np.log(t) / np.log(a),
    ),
    "sin": (np.arcsin,),
    "cos": (np.arccos,),
    "tan": (np.arctan,),
    "exp": (np.log,),
    "log": (np.exp,),
    "sqrt": (lambda t: np.where(t >= 0.0, t * t, np.nan),),
    "square": (np.sqrt,),
    "cube": (np.cbrt,),
    "neg": (lambda t: -t,),
    "inv": (lambda t: 1.0 / t,),
    "abs": (lambda t: np.where(t >= 0.0, t, np.nan),),
    "tanh": (np.arctanh,),
}


def ends_of(arities: np.ndarray, tokens: np.ndarray) -> list[int]:
    """The position after each subtree of a tree in prefix order."""
    ends = [0] * len(tokens)
    for position in range(len(tokens) - 1, -1, -1):
        end = position + 1
        for _ in range(arities[tokens[position]]):
            end = ends[end]
        ends[position] = end
    return ends


class Tree:
    """A tree with the values of all its nodes.

    Parameters
    ----------
    library : Library
    tokens : sequence of int
    X : ndarray of shape (..., rows, columns)
        Several tables at once are worked out side by side.
    constants : sequence of float or of ndarray
        An array has several values side by side, and a last axis for the rows.
    """

    def __init__(
        self,
        library: Library,
        tokens: Sequence[int] | np.ndarray,
        X: np.ndarray,
        constants: Sequence[float | np.ndarray],
    ) -> None:
        self.tokens = [library[int(token)] for token in tokens]
        self.ends = [0] * len(self.tokens)
        self.values: list[Values] = [0.0] * len(self.tokens)
        left = list(constants)
        # Operands come after their operator: from the end to the root.
        with np.errstate(all="ignore"):
            for position in range(len(self.tokens) - 1, -1, -1):
                token, end, operands = self.tokens[position], position + 1, []
                for _ in range(token.arity):
                    operands.append(self.values[end])
                    end = self.ends[end]
                self.ends[position] = end
                if token.kind is Kind.VARIABLE:
                    self.values[position] = X[..., token.column]
                elif token.kind is Kind.LITERAL:
                    self.values[position] = np.float64(token.value)
                elif token.kind is Kind.CONSTANT:
                    self.values[position] = np.asarray(left.pop(), dtype=np.float64)
                else:
                    assert token.function is not None
                    self.values[position] = token.function(np, *operands)

    def required(self, hole: int, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The values that the subtree at that position must have for the tree to have those of y,
        and the slope of y by them; not finite where there are none. None where an operator on the
        way can't be undone."""
        position, target, slope = 0, y, np.ones(np.shape(y))
        with np.errstate(all="ignore"):
            while position != hole:
                token, first = self.tokens[position], position + 1
                if token.name not in _SOLVED or token.derivatives is None:
                    return None
                second = self.ends[first]
                place = 1 if token.arity == 2 and hole >= second else 0
                others = [self.values[second if place == 0 else first]] if token.arity == 2 else []
                target = _SOLVED[token.name][place](target, *others)
                operands = [target, *others] if place == 0 else [*others, target]
                slope = slope * token.derivatives[place](np, *operands)
                position = second if place == 1 else first
        return np.broadcast_to(target, np.shape(y)), np.broadcast_to(slope, np.shape(y))

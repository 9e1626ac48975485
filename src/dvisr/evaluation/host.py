"""One tree on the host in float64, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dvisr.expression import Expression, fold
from dvisr.library import Kind, Token


def apply_operator(token: Token, operands: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One operator on NumPy arrays: values, and where they are defined."""
    assert token.function is not None
    with np.errstate(all="ignore"):
        # A function may return a plain number, where it does not depend on its operand.
        values = np.asarray(token.function(np, *operands), dtype=np.float64)
        shape = np.broadcast_shapes(values.shape, *(np.shape(operand) for operand in operands))
        values = np.broadcast_to(values, shape)
        is_defined = np.isfinite(values)
        if token.is_defined is not None:
            is_defined = is_defined & token.is_defined(np, *operands)
    return values, is_defined


def evaluate(
    expression: Expression, X: np.ndarray, constants: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One tree in float64 by NumPy: values, and where they are defined.

    Constants may be arrays that broadcast against the points on the last axis, such as (nodes, 1)
    to work the tree out for many constants at once. Without them, the expression's own are used.
    """
    given = expression.constants if constants is None else constants
    if expression.num_constants and given is None:
        raise ValueError(f"{expression} has constants, and no values for them were given")
    all_defined: np.ndarray = np.ones(len(X), dtype=bool)

    def combine(token: Token, index: int, operands: list[np.ndarray]) -> np.ndarray:
        nonlocal all_defined
        if token.kind is Kind.CONSTANT:
            assert given is not None
            return np.asarray(given[index], dtype=np.float64)
        if token.kind is Kind.LITERAL:
            return np.asarray(token.value)
        if token.kind is Kind.VARIABLE:
            return np.asarray(X[:, token.column])
        values, is_defined = apply_operator(token, operands)
        all_defined = all_defined & is_defined
        return values

    values = fold(expression, combine)
    all_defined = all_defined & np.isfinite(values)
    return np.where(all_defined, values, np.nan), all_defined

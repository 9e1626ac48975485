"""One formula as something else: a NumPy or a JAX function, SymPy, LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.expression import Expression, fold
from dvisr.library import Kind, Token


def numpy_function(expression: Expression) -> Callable[[Any], np.ndarray]:
    """Of rows (n, columns) or one row (columns,): values, NaN where the formula is undefined."""

    def function(X: Any) -> np.ndarray:
        rows = np.asarray(X, dtype=np.float64)
        values, _ = evaluate(expression, np.atleast_2d(rows))
        found = np.broadcast_to(values, (len(np.atleast_2d(rows)),)).copy()
        return found[0] if rows.ndim == 1 else found

    function.__doc__ = str(expression)
    return function


def jax_function(expression: Expression) -> Callable[[Any], Any]:
    """The same with JAX's arrays: it can be differentiated, compiled and mapped. In the precision
    of its input; float64 needs JAX's x64 mode."""
    import jax.numpy as jnp

    def function(X: Any) -> Any:
        rows = jnp.asarray(X)
        if not jnp.issubdtype(rows.dtype, jnp.floating):
            rows = rows.astype(jnp.result_type(float))

        def combine(token: Token, index: int, operands: list[Any]) -> Any:
            if token.kind is Kind.CONSTANT:
                assert expression.constants is not None
                return jnp.asarray(expression.constants[index], dtype=rows.dtype)
            if token.kind is Kind.LITERAL:
                return jnp.asarray(token.value, dtype=rows.dtype)
            if token.kind is Kind.VARIABLE:
                return rows[..., token.column]
            assert token.function is not None
            value = token.function(jnp, *operands)
            inside = jnp.isfinite(value)
            if token.is_defined is not None:
                inside = inside & token.is_defined(jnp, *operands)
            return jnp.where(inside, value, jnp.nan)

        return jnp.broadcast_to(fold(expression, combine), rows.shape[:-1])

    function.__doc__ = str(expression)
    return function

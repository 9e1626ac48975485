"""Evaluation under jit: one tree on all points; `vmap` it over trees.

A tree is undefined at a point if any of its nodes is: a result that is not finite, or an operand
outside an operator's domain. The root's value is then NaN, whatever the nodes above would have
made of it, and `is_valid` is False.

Every operator is worked out at every node and the right one selected, which is what vectorised
devices do best. Operators that were not asked for, or that are undefined, are fed a harmless
operand, so that neither a value nor a derivative can leak from them.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dvisr.library import Kind, Library, Token


class Evaluator(eqx.Module):
    """`evaluator(tokens, constants, X)`: tokens are ids padded with -1, constants stand at the
    positions of their tokens (other entries are ignored)."""

    library: Library = eqx.field(static=True)

    def __call__(
        self,
        tokens: Int[Array, " length"],
        constants: Float[Array, " length"],
        X: Float[Array, "points columns"],
    ) -> tuple[Float[Array, " points"], Bool[Array, ""]]:
        """Values at the points, and whether the tree is defined at all of them. Derivatives by
        the constants are finite wherever the value is."""
        values, is_defined = _evaluate(self.library, tokens, constants, X)
        return jnp.where(is_defined, values, jnp.nan), is_defined.all()


@eqx.filter_custom_jvp
def _evaluate(library: Library, tokens: Array, constants: Array, X: Array) -> tuple[Array, Array]:
    return _raw_evaluate(library, tokens, constants, X)


@_evaluate.def_jvp  # type: ignore[untyped-decorator]
def _evaluate_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """By the chain rule, a derivative of 1e200 times one of 1e200 is infinite, and times zero it
    is NaN, at a point where the tree itself is defined. So the whole Jacobian by the constants is
    formed here and made finite before it meets the tangent."""
    library, tokens, constants, X = primals
    _, _, constants_dot, X_dot = tangents
    values, is_defined = _raw_evaluate(library, tokens, constants, X)
    values_dot = jnp.zeros_like(values)
    if constants_dot is not None:
        by_constants = jax.vmap(
            lambda step: _slopes(
                lambda c: _raw_evaluate(library, tokens, c, X)[0], constants, step, is_defined
            )
        )(jnp.eye(constants.shape[0], dtype=constants.dtype))
        values_dot = values_dot + constants_dot @ by_constants
    if X_dot is not None:
        # A point's value depends on its own row alone, so one pass a column gives all slopes.
        for column in range(X.shape[1]):
            by_column = _slopes(
                lambda x: _raw_evaluate(library, tokens, constants, x)[0],
                X,
                jnp.zeros_like(X).at[:, column].set(1.0),
                is_defined,
            )
            values_dot = values_dot + by_column * X_dot[:, column]
    return (values, is_defined), (values_dot, None)


def _slopes(function: Any, at: Array, direction: Array, is_defined: Array) -> Array:
    """Derivatives along a direction, bounded so that sums of them stay finite."""
    slopes = jax.jvp(function, (at,), (direction,))[1]
    most = float(np.finfo(slopes.dtype).max) ** 0.5
    return jnp.where(is_defined, jnp.clip(jnp.nan_to_num(slopes, nan=0.0), -most, most), 0.0)


def _raw_evaluate(
    library: Library, tokens: Array, constants: Array, X: Array
) -> tuple[Array, Array]:
    """From the last token to the first, with a stack of values."""
    length, points = tokens.shape[0], X.shape[0]
    arities = jnp.asarray(library.arities)
    leaves = _leaf_values(library, X)
    lanes = jnp.arange(length, dtype=jnp.int32)[:, None]

    def body(
        carry: tuple[Array, Array, Array], node: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array, Array], None]:
        stack, height, is_defined = carry
        token, constant = node
        first = stack[jnp.maximum(height - 1, 0)]
        second = stack[jnp.maximum(height - 2, 0)]
        value = jnp.where(token == library.constant_id, constant, leaves[jnp.maximum(token, 0)])
        defined = jnp.isfinite(value)
        for token_id, operator in enumerate(library.tokens):
            if operator.kind is Kind.OPERATOR:
                chosen = token == token_id
                result, inside = _apply(operator, chosen, first, second)
                value = jnp.where(chosen, result, value)
                defined = jnp.where(chosen, inside, defined)
        is_pad = token < 0
        height_after = height - arities[jnp.maximum(token, 0)] + 1
        pushed = jnp.where(lanes == height_after - 1, value[None, :], stack)
        return (
            jnp.where(is_pad, stack, pushed),
            jnp.where(is_pad, height, height_after),
            is_defined & (is_pad | defined),
        ), None

    start = (
        jnp.zeros((length, points), dtype=X.dtype),
        jnp.zeros((), dtype=jnp.int32),
        jnp.ones((points,), dtype=bool),
    )
    nodes = (tokens, constants.astype(X.dtype))
    (stack, height, is_defined), _ = jax.lax.scan(body, start, nodes, reverse=True)
    return stack[0], is_defined & (height == 1)


def _leaf_values(library: Library, X: Array) -> Array:
    """For each token its value at the points where it is a variable or a literal, else zero."""
    rows = []
    for token in library:
        if token.kind is Kind.VARIABLE:
            rows.append(X[:, token.column])
        else:
            value = token.value if token.kind is Kind.LITERAL else 0.0
            rows.append(jnp.full(X.shape[:1], value, dtype=X.dtype))
    return jnp.stack(rows)


def _apply(operator: Token, chosen: Array, *operands: Array) -> tuple[Array, Array]:
    """An operator's value and whether it is defined, with harmless operands elsewhere."""
    operands = operands[: operator.arity]
    assert operator.function is not None
    plain = [jax.lax.stop_gradient(operand) for operand in operands]
    inside = jnp.isfinite(operator.function(jnp, *plain))
    if operator.is_defined is not None:
        inside = inside & operator.is_defined(jnp, *plain)
    use = chosen & inside
    safe = [
        jnp.where(use, operand, harmless)
        for operand, harmless in zip(operands, operator.safe_operands, strict=True)
    ]
    return _with_finite_slopes(operator, safe), inside


def _with_finite_slopes(operator: Token, operands: list[Array]) -> Array:
    """The operator's value; a slope that is not finite, such as that of sqrt at 0, counts as 0."""
    assert operator.function is not None
    function, derivatives = operator.function, operator.derivatives

    @jax.custom_jvp
    def apply(*inputs: Array) -> Array:
        return function(jnp, *inputs)  # type: ignore[no-any-return]

    @apply.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        if derivatives is None:
            ones = jnp.ones_like(primals[0])
            slopes = [
                jax.jvp(
                    lambda *inputs: function(jnp, *inputs),
                    primals,
                    tuple(ones if i == k else jnp.zeros_like(ones) for i in range(len(primals))),
                )[1]
                for k in range(len(primals))
            ]
        else:
            slopes = [derivative(jnp, *primals) for derivative in derivatives]
        total = jnp.zeros_like(primals[0])
        for slope, tangent in zip(slopes, tangents, strict=True):
            total = total + jnp.where(jnp.isfinite(slope), slope, 0.0) * tangent
        return apply(*primals), total

    return apply(*operands)

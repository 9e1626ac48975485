"""The parts that the network that reads data is made of. All work on the last axis of their inputs,
whatever axes come before it, and keep the inputs' type."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

_EXPANSION = 4  # hidden units of a block's network for each unit of its width
_TINY = 1e-5


def alongside(vector: Float[Array, " width"], x: Float[Array, "*any other"]) -> Float[Array, "..."]:
    """Of as many axes as x, and of its type."""
    return vector.reshape((1,) * (x.ndim - 1) + vector.shape).astype(x.dtype)


def widened(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """In float32 at least."""
    return x.astype(np.promote_types(x.dtype, np.float32))


class Dense(eqx.Module):
    """x @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def create(cls, inputs: int, outputs: int, *, key: PRNGKeyArray, gain: float = 1.0) -> Dense:
        weight = jax.random.normal(key, (inputs, outputs), dtype=jnp.float32)
        return cls(weight * (gain / math.sqrt(inputs)), jnp.zeros((outputs,), dtype=jnp.float32))

    def __call__(self, x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
        return x @ self.weight.astype(x.dtype) + alongside(self.bias, x)


class Norm(eqx.Module):
    """Centred and scaled to a variance of one, in float32 at least; then each unit's own scale."""

    scale: Float[Array, " width"]

    @classmethod
    def create(cls, width: int) -> Norm:
        return cls(jnp.ones((width,), dtype=jnp.float32))

    def __call__(self, x: Float[Array, "*any width"]) -> Float[Array, "*any width"]:
        wide = widened(x)
        wide = wide - wide.mean(axis=-1, keepdims=True)
        wide = wide * jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + _TINY)
        return (wide * alongside(self.scale, wide)).astype(x.dtype)


class Hidden(eqx.Module):
    """A network of one hidden layer, read through a norm."""

    norm: Norm
    inner: Dense
    outer: Dense

    @classmethod
    def create(cls, width: int, *, key: PRNGKeyArray) -> Hidden:
        inner_key, outer_key = jax.random.split(key)
        return cls(
            Norm.create(width),
            Dense.create(width, _EXPANSION * width, key=inner_key),
            Dense.create(_EXPANSION * width, width, key=outer_key, gain=0.5),
        )

    def __call__(self, x: Float[Array, "*any width"]) -> Float[Array, "*any width"]:
        return self.outer(jax.nn.gelu(self.inner(self.norm(x))))


def in_heads(x: Float[Array, "places width"], num_heads: int) -> Float[Array, "places heads size"]:
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)


def projected(
    norm: Norm, asks: Dense, x: Float[Array, "places width"], num_heads: int
) -> tuple[Array, Array, Array]:
    """Queries, keys and values, which `asks` has in this order, of a normed signal."""
    queries, keys, values = jnp.split(asks(norm(x)), 3, axis=-1)
    return in_heads(queries, num_heads), in_heads(keys, num_heads), in_heads(values, num_heads)


def attend(
    queries: Float[Array, "places heads size"],
    keys: Float[Array, "others heads size"],
    values: Float[Array, "others heads size"],
    may_see: Bool[Array, "places others"],
) -> Float[Array, "places width"]:
    """What each place finds among the others that it may see. One that may see none finds their
    mean, and nobody looks at it."""
    scores = widened(jnp.einsum("qhs,khs->hqk", queries, keys))
    scores = jnp.where(may_see[None], scores / math.sqrt(queries.shape[-1]), -1e9)
    shares = jax.nn.softmax(scores).astype(values.dtype)
    found = jnp.einsum("hqk,khs->qhs", shares, values)
    return found.reshape(found.shape[0], -1)


def attend_alone(
    query: Float[Array, "1 heads size"],
    keys: Float[Array, "others heads size"],
    values: Float[Array, "others heads size"],
    may_see: Bool[Array, "1 others"],
) -> Float[Array, "1 width"]:
    """As `attend`, of one place. Where keys are each query's own, sums of products take less time
    than many small matrix products."""
    scores = widened((query * keys).sum(axis=-1))
    scores = jnp.where(may_see.T, scores / math.sqrt(query.shape[-1]), -1e9)
    shares = jax.nn.softmax(scores, axis=0).astype(values.dtype)
    return (shares[:, :, None] * values).sum(axis=0).reshape(1, -1)

"""The visited set of a training: the drawn trees of highest log joint, each once.

It has a fixed size and lives inside the compiled loop. Trees are told apart by two hashes of 32
bits, so that a merge is one sort; should two different trees have the same two, one of them is
missing from the set.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

_MULTIPLIERS = (0x9E3779B1, 0x85EBCA77)


class Visited(eqx.Module):
    """A fixed number of trees by descending log joint; empty places have a log joint of -inf."""

    tokens: Int[Array, "size length"]
    constants: Float[Array, "size length"]
    log_joint: Float[Array, " size"]

    @classmethod
    def empty(cls, size: int, length: int, dtype: Any) -> Visited:
        """Make a set of `size` empty places for trees of up to `length` tokens."""
        if size < 1:
            raise ValueError(f"the visited set must hold at least 1 tree, not {size}")
        return cls(
            tokens=jnp.full((size, length), -1, dtype=jnp.int32),
            constants=jnp.zeros((size, length), dtype=dtype),
            log_joint=jnp.full((size,), -jnp.inf, dtype=dtype),
        )

    @property
    def log_posterior(self) -> Float[Array, " size"]:
        """Log of the posterior renormalised over the set. For trees without constants only: with
        them, `log_joint` is a density."""
        return jax.nn.log_softmax(self.log_joint)


def visit(
    visited: Visited,
    tokens: Int[Array, "samples length"],
    constants: Float[Array, "samples length"],
    log_joint: Float[Array, " samples"],
) -> Visited:
    """Merge drawn trees into the set.

    Parameters
    ----------
    visited : Visited
        The set so far.
    tokens, constants, log_joint
        The drawn trees, with repeats or without.

    Returns
    -------
    Visited
        Of the same size: the trees of highest log joint among both, each once.
    """
    size = visited.log_joint.shape[0]
    tokens = jnp.concatenate([visited.tokens, tokens])
    constants = jnp.concatenate([visited.constants, constants])
    log_joint = jnp.concatenate([visited.log_joint, log_joint])
    first, second = (_hash(tokens, constants, number) for number in range(2))
    # Lexicographic: by the hashes, and of equal trees the kept one first (an empty place last).
    order = jnp.lexsort((-log_joint, second, first))
    first, second, log_joint = first[order], second[order], log_joint[order]
    is_repeat = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    is_repeat = jnp.concatenate([jnp.zeros((1,), dtype=bool), is_repeat])
    kept, places = jax.lax.top_k(jnp.where(is_repeat, -jnp.inf, log_joint), size)
    rows = order[places]
    return Visited(tokens[rows], constants[rows], kept)


def replayed(
    visited: Visited,
    num_samples: int,
    *,
    key: PRNGKeyArray,
    temperature: float | Float[Array, ""] = 1.0,
) -> Int[Array, " samples"]:
    """Draw places in the set in proportion to joint^(1/temperature), by systematic sampling.

    Parameters
    ----------
    visited : Visited
        A set with at least one tree.
    num_samples : int
        How many places to draw.
    key : PRNGKeyArray
        Used once.
    temperature : float or scalar array
        Above 1 the draws are spread more evenly over the set.
    """
    shares = jax.nn.softmax(visited.log_joint / temperature)
    start = jax.random.uniform(key, dtype=shares.dtype)
    points = (jnp.arange(num_samples, dtype=shares.dtype) + start) / num_samples
    cumulative = jnp.cumsum(shares)
    places = jnp.searchsorted(cumulative, points * cumulative[-1], side="right")
    # Rounding can put the last point past the end, where the places may be empty.
    num_kept = (visited.log_joint > -jnp.inf).sum(dtype=jnp.int32)
    return jnp.minimum(places.astype(jnp.int32), num_kept - 1)


def _hash(
    tokens: Int[Array, "rows length"], constants: Float[Array, "rows length"], number: int
) -> UInt32[Array, " rows"]:
    multiplier = jnp.asarray(_MULTIPLIERS[number], dtype=jnp.uint32)
    shown = constants.astype(jnp.float32)
    bits = jax.lax.bitcast_convert_type(jnp.where(shown == 0.0, 0.0, shown), jnp.uint32)
    words = (tokens + 2).astype(jnp.uint32) * jnp.asarray(0x27D4EB2F, jnp.uint32) ^ bits
    state = jnp.full(tokens.shape[:1], np.uint32(number + 1), dtype=jnp.uint32)
    for column in range(tokens.shape[1]):
        state = (state ^ words[:, column]) * multiplier
        state = state ^ (state >> 15)
    return state

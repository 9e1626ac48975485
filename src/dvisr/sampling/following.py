"""A told tree, followed token by token with no policy: what one would have seen before each token,
and what the prior and the mask would have allowed. A policy that can look at all tokens of a tree
at once is trained on that."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constraints import masking
from dvisr.policy import Observation, observe
from dvisr.sampling import prior_walk
from dvisr.sampling.writing import Writer


def follow(
    writer: Writer, tokens: Int[Array, " length"]
) -> tuple[Observation, Float[Array, "length tokens"]]:
    """Observations, one a token, and the prior's log weights, -inf where the mask forbids. After
    the last token both are of a finished tree, and all tokens are allowed."""
    mask = writer.mask
    nothing = jnp.zeros((mask.length,), dtype=jnp.float32)

    def body(carry: Any, token: Int[Array, ""]) -> tuple[Any, Any]:
        state, walked = carry
        seen = observe(state, nothing, writer.constant_id)
        weights = jnp.zeros(mask.arities.shape, dtype=jnp.float32)
        safe = jnp.maximum(token, 0)
        if writer.walk is not None:
            weights = prior_walk.log_weights(writer.walk, mask, walked, state)
            walked = prior_walk.step(writer.walk, mask, walked, state, safe)
        is_legal = masking.allowed(mask, state) | state.traversal.is_complete
        weights = jnp.where(is_legal, weights, -jnp.inf)
        return (masking.step(mask, state, safe), walked), (seen, weights)

    walked = None if writer.walk is None else prior_walk.start(writer.walk, mask)
    _, (seen, weights) = jax.lax.scan(body, (masking.start(mask), walked), tokens)
    return seen, weights

"""The parts of networks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.policy.layers import attend, attend_alone


def test_a_place_alone_finds_what_it_would_among_others() -> None:
    shape = (7, 2, 3)
    keys = [jax.random.normal(jax.random.key(n), shape, dtype=jnp.float32) for n in range(3)]
    may_see = jnp.array([[True, False, True, True, False, True, True]])
    together = attend(keys[0], keys[1], keys[2], jnp.broadcast_to(may_see, (7, 7)))
    for place in range(7):
        query = keys[0][place : place + 1]
        alone = attend_alone(query, keys[1], keys[2], may_see)
        np.testing.assert_allclose(alone[0], together[place], atol=1e-6)

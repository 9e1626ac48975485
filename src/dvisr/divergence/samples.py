"""Fresh draws from q, for the estimators that need no enumeration."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from dvisr.objective import elbo_terms
from dvisr.policy import AbstractPolicy
from dvisr.sampling import Writer, sample
from dvisr.target import Target

_BATCH = 5_000


def sample_elbo_terms(
    policy: AbstractPolicy, writer: Writer, target: Target, num_samples: int, *, key: PRNGKeyArray
) -> np.ndarray:
    """log joint - log q of so many draws, in float64."""
    found: list[np.ndarray] = []
    for batch in range(-(-num_samples // _BATCH)):
        terms = _terms(
            policy, writer, target, min(_BATCH, num_samples), jax.random.fold_in(key, batch)
        )
        found.append(np.asarray(terms, dtype=np.float64))
    return np.concatenate(found)[:num_samples]


@eqx.filter_jit
def _terms(
    policy: AbstractPolicy, writer: Writer, target: Target, count: int, key: PRNGKeyArray
) -> Float[Array, " samples"]:
    keys = jax.random.split(key, count)
    return elbo_terms(target, jax.vmap(lambda k: sample(policy, writer, key=k))(keys))[0]

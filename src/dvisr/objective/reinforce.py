"""The ELBO by REINFORCE: the gradient of log q, weighed by the integrand of the ELBO."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from dvisr.objective.baselines import AbstractBaseline
from dvisr.policy import AbstractPolicy
from dvisr.sampling import AbstractDraws, IndependentDraws, Sample, Writer
from dvisr.target import Target


class ReinforceInfo(eqx.Module):
    elbo: Float[Array, ""]  # the mean over the batch
    elbo_std: Float[Array, ""]  # of the terms; it vanishes as q becomes the posterior
    invalid_share: Float[Array, ""]  # of the samples: expressions undefined on the data


def elbo_terms(
    target: Target, samples: Sample
) -> tuple[Float[Array, " samples"], Bool[Array, " samples"]]:
    """log likelihood + log prior - log q of each sample, and whether it is defined."""
    log_joint, is_valid = jax.vmap(target.log_joint)(samples.tokens, samples.constants)
    return log_joint - samples.log_q, is_valid


class Reinforce(eqx.Module):
    """The estimator: mean over the batch of grad log q * (term - baseline)."""

    baseline: AbstractBaseline
    num_samples: int = eqx.field(static=True)
    draws: AbstractDraws = IndependentDraws()

    def __check_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"there must be at least 1 sample a step, not {self.num_samples}")

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Any,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Any, ReinforceInfo]:
        """The gradient of the *loss*, -ELBO, by the policy; the baseline's state; what was seen."""

        def loss(policy: AbstractPolicy) -> tuple[Array, tuple[Any, ReinforceInfo]]:
            samples = self.draws(policy, writer, self.num_samples, key=key)
            terms, is_valid = elbo_terms(target, jax.lax.stop_gradient(samples))
            weights = jnp.exp(jax.lax.stop_gradient(samples.log_weight))
            baseline, after = self.baseline(state, terms, weights)
            mean = (weights * terms).sum() / weights.sum()
            info = ReinforceInfo(
                elbo=mean,
                elbo_std=jnp.sqrt((weights * (terms - mean) ** 2).sum() / weights.sum()),
                invalid_share=1.0 - is_valid.astype(terms.dtype).mean(),
            )
            return -(weights * (terms - baseline) * samples.log_q).mean(), (after, info)

        gradient, (after, info) = jax.grad(loss, has_aux=True)(policy)
        return gradient, after, info

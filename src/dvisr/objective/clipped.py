"""PPO and GRPO: several updates on one batch, each kept close to the policy that drew it.

The reward is the ELBO's own term, which contains the policy's log q: so every update works it out
anew for the policy as it now is. (The entropy bonus and the KL penalty that these algorithms
usually carry are in it already: log prior - log q, with weight one.)
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dvisr.objective.base import (
    AbstractRepeatedObjective,
    StepInfo,
    check_num_samples,
    elbo_terms,
    step_info,
)
from dvisr.policy import AbstractPolicy
from dvisr.sampling import AbstractDraws, IndependentDraws, Writer, log_prob
from dvisr.target import Target

_LEAST_DEVIATION = 1e-12


class Batch(eqx.Module):
    """What was drawn, and the log q of the policy that drew it."""

    tokens: Int[Array, "samples length"]
    constants: Float[Array, "samples length"]
    log_q: Float[Array, " samples"]
    log_joint: Float[Array, " samples"]
    weights: Float[Array, " samples"]  # all 1 unless the draws explore


class PPO(AbstractRepeatedObjective):
    """The clipped surrogate of Schulman et al. (2017), without a critic: the advantage is a
    sample's term less the batch's mean.

    With `normalise` the advantage is divided by the batch's standard deviation, which makes it
    GRPO's (Shao et al., 2024). At the optimum the terms are all equal and the advantage vanishes; a
    ratio of it to its own deviation does not. So GRPO points the right way everywhere, but goes on
    making steps of full size where there is nowhere left to go: its precision is that of its step.
    """

    num_samples: int = eqx.field(static=True)
    num_updates: int = eqx.field(static=True, default=4)
    clip: float = eqx.field(static=True, default=0.2)
    normalise: bool = eqx.field(static=True, default=False)
    draws: AbstractDraws = IndependentDraws()

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, 2)
        if self.num_updates < 1:
            raise ValueError(f"there must be at least 1 update a batch, not {self.num_updates}")
        if not 0.0 < self.clip < 1.0:
            raise ValueError(f"the clip must be between 0 and 1, not {self.clip}")

    def start(self, policy: AbstractPolicy, writer: Writer) -> Batch:
        length = writer.mask.length
        zeros = jnp.zeros((self.num_samples, length), dtype=policy.dtype)
        return Batch(zeros.astype(jnp.int32), zeros, zeros[:, 0], zeros[:, 0], zeros[:, 0])

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Any,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Batch, StepInfo]:
        samples = self.draws(policy, writer, self.num_samples, key=key)
        terms, is_valid = elbo_terms(target, samples)
        weights = jnp.exp(samples.log_weight)
        log_joint = terms + samples.log_q
        batch = Batch(samples.tokens, samples.constants, samples.log_q, log_joint, weights)
        info = step_info(terms, is_valid, weights)
        return self.again(policy, writer, batch), batch, info

    def again(self, policy: AbstractPolicy, writer: Writer, state: Batch) -> AbstractPolicy:
        def loss(policy: AbstractPolicy) -> Array:
            log_q = jax.vmap(lambda t, c: log_prob(policy, writer, t, c))(
                state.tokens, state.constants
            )
            terms = state.log_joint - jax.lax.stop_gradient(log_q)
            advantage = self._advantage(terms, state.weights)
            ratio = jnp.exp(log_q - state.log_q)
            clipped = jnp.clip(ratio, 1.0 - self.clip, 1.0 + self.clip)
            return -(state.weights * jnp.minimum(ratio * advantage, clipped * advantage)).mean()

        found: AbstractPolicy = jax.grad(loss)(policy)
        return found

    def _advantage(
        self, terms: Float[Array, " samples"], weights: Float[Array, " samples"]
    ) -> Float[Array, " samples"]:
        shares = weights / weights.sum()
        advantage = terms - (shares * terms).sum()
        if not self.normalise:
            return advantage
        deviation = jnp.sqrt((shares * advantage**2).sum())
        # Where all terms are equal there is no direction; the bound keeps 0 / 0 at bay.
        normalised: Array = advantage / jnp.maximum(deviation, _LEAST_DEVIATION)
        return normalised


def grpo(
    num_samples: int,
    num_updates: int = 4,
    clip: float = 0.2,
    draws: AbstractDraws | None = None,
) -> PPO:
    """GRPO, all samples of a step being one group."""
    return PPO(num_samples, num_updates, clip, True, IndependentDraws() if draws is None else draws)

"""Risk-seeking policy gradient, as in deep symbolic regression (Petersen et al., 2021): what looks
for one best expression, and has no posterior in mind."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dvisr.objective.base import (
    AbstractObjective,
    StepInfo,
    check_num_samples,
    elbo_terms,
    step_info,
)
from dvisr.policy import AbstractPolicy
from dvisr.sampling import Writer, draw, log_prob
from dvisr.target import Target
from dvisr.traversal import NONE


class RiskSeeking(AbstractObjective):
    """Maximises the mean reward of the best share of its draws, E[R | R >= its quantile 1 - share],
    plus `entropy` times the mean entropy of the tokens' distributions along a draw (its gradient,
    as DSR's, is taken at the tokens drawn, as if they did not depend on the policy).

    The reward is squashed, R = 1 / (1 + NRMSE), with the root mean square error in units of the
    standard deviation of y; an undefined expression has reward 0.
    """

    num_samples: int = eqx.field(static=True)
    share: float = eqx.field(static=True, default=0.05)
    entropy: float = eqx.field(static=True, default=0.005)

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, 2)
        if not 0.0 < self.share <= 1.0 or self.entropy < 0.0:
            raise ValueError(
                "risk-seeking needs a share above 0 and at most 1 and an entropy weight of at "
                f"least 0, not {self.share} and {self.entropy}"
            )

    def start(self, policy: AbstractPolicy, writer: Writer) -> None:
        return None

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: None,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, None, StepInfo]:
        keys = jax.random.split(key, self.num_samples)

        def loss(policy: AbstractPolicy) -> tuple[Array, StepInfo]:
            samples, steps = jax.vmap(lambda k: draw(policy, writer, key=k))(keys)
            fixed = jax.lax.stop_gradient(samples)
            rewards = jax.vmap(lambda t, c: reward(target, t, c))(fixed.tokens, fixed.constants)
            threshold = jnp.quantile(rewards, 1.0 - self.share)
            # What lies at the threshold itself weighs nothing, so ties do no harm.
            excess = jnp.maximum(rewards - threshold, 0.0) / self.share
            written = (fixed.tokens != NONE).astype(rewards.dtype)
            entropies = (written * _entropies(steps.log_probs)).sum(axis=1)
            score = samples.log_q
            if policy.filler is not None:  # whose draws have a path of their own: not wanted here
                score = jax.vmap(lambda t, c: log_prob(policy, writer, t, c))(
                    fixed.tokens, fixed.constants
                )
            value = (excess * score).mean() + self.entropy * entropies.mean()
            terms, is_valid = elbo_terms(target, fixed)
            return -value, step_info(terms, is_valid, jnp.ones_like(terms))

        gradient, info = jax.grad(loss, has_aux=True)(policy)
        return gradient, None, info


def reward(target: Target, tokens: Array, constants: Array) -> Float[Array, ""]:
    """1 / (1 + NRMSE); 0 for what is undefined at a point."""
    values, is_valid = target.evaluator(tokens, constants, target.X)
    y = jnp.asarray(target.likelihood.y)
    spread = y.std()
    spread = jnp.where(spread > 0.0, spread, 1.0)
    residuals = jnp.where(is_valid, values - y, 0.0)
    found = 1.0 / (1.0 + jnp.sqrt((residuals**2).mean()) / spread)
    return jnp.where(is_valid & jnp.isfinite(found), found, 0.0)


def _entropies(log_probs: Float[Array, "*steps tokens"]) -> Float[Array, "*steps"]:
    probs = jnp.exp(log_probs)
    finite = jnp.where(log_probs > -jnp.inf, log_probs, 0.0)
    return -(probs * finite).sum(axis=-1)

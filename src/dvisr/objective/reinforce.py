"""The ELBO by REINFORCE: the gradient of log q, weighed by the integrand of the ELBO."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from dvisr.objective.base import (
    AbstractObjective,
    StepInfo,
    check_num_samples,
    elbo_terms,
    step_info,
)
from dvisr.objective.baselines import AbstractBaseline
from dvisr.policy import AbstractPolicy
from dvisr.sampling import AbstractDraws, IndependentDraws, Writer
from dvisr.target import Target


class Reinforce(AbstractObjective):
    """The estimator: mean over the batch of grad log q * (term - baseline).

    Where a filler draws the constants, that is the part of the tokens. The constants' part is the
    gradient of the term itself along the path constant = f(weights, noise): far less noisy than a
    score, and free of noise at the optimum.
    """

    num_samples: int = eqx.field(static=True)
    baseline: AbstractBaseline
    draws: AbstractDraws = IndependentDraws()

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples)

    def start(self, policy: AbstractPolicy, writer: Writer) -> Any:
        return self.baseline.start(policy.dtype)

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Any,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Any, StepInfo]:
        """The gradient of the *loss*, -ELBO, by the policy; the baseline's state; what was seen."""

        def loss(policy: AbstractPolicy) -> tuple[Array, tuple[Any, StepInfo]]:
            samples = self.draws(policy, writer, self.num_samples, key=key)
            weights = jnp.exp(jax.lax.stop_gradient(samples.log_weight))
            if policy.filler is None:
                terms, is_valid = elbo_terms(target, jax.lax.stop_gradient(samples))
                score, path = samples.log_q, jnp.zeros_like(terms)
            else:
                terms, is_valid = elbo_terms(target, samples)
                # The tree's own log q comes in through the score alone.
                score, path = samples.log_q_tree, terms + samples.log_q_tree
                terms = jax.lax.stop_gradient(terms)
            baseline, after = self.baseline(state, terms, weights)
            value = (weights * ((terms - baseline) * score + path)).mean()
            return -value, (after, step_info(terms, is_valid, weights))

        gradient, (after, info) = jax.grad(loss, has_aux=True)(policy)
        return gradient, after, info

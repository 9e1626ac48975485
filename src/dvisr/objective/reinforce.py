"""The ELBO by REINFORCE: the gradient of log q, weighed by the integrand of the ELBO."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

from dvisr.objective.base import AbstractObjective, StepInfo, check_num_samples, weigh
from dvisr.objective.baselines import AbstractBaseline
from dvisr.policy import AbstractPolicy
from dvisr.sampling import AbstractDraws, IndependentDraws, Writer
from dvisr.target import Target


class Reinforce(AbstractObjective):
    """The estimator: mean over the batch of grad log q * (term - baseline). Where a filler draws
    the constants, log q is that of the tokens, and the constants' part is as `weigh` has it."""

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
            batch = weigh(policy, target, self.draws(policy, writer, self.num_samples, key=key))
            baseline, after = self.baseline(state, batch.terms, batch.weights)
            return -batch.surrogate(baseline).mean(), (after, batch.info)

        gradient, (after, info) = jax.grad(loss, has_aux=True)(policy)
        return gradient, after, info

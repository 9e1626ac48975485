"""What an objective must offer to training, and what objectives have in common."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from dvisr.policy import AbstractPolicy
from dvisr.sampling import Sample, Writer
from dvisr.target import Target


class StepInfo(eqx.Module):
    """Of one batch, whatever is maximised: how the policy stands as an approximation of the
    posterior."""

    elbo: Float[Array, ""]  # the mean over the batch
    elbo_std: Float[Array, ""]  # of the terms; it vanishes as q becomes the posterior
    invalid_share: Float[Array, ""]  # of the samples: expressions undefined on the data


class AbstractObjective(eqx.Module):
    """Draws a batch and says which way is down. Its state is explicit."""

    num_samples: eqx.AbstractVar[int]  # a step: how often the target is asked

    @abc.abstractmethod
    def start(self, policy: AbstractPolicy, writer: Writer) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Any,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Any, StepInfo]:
        """The gradient of the *loss* by the policy; the state afterwards; what was seen."""


class AbstractRepeatedObjective(AbstractObjective):
    """One batch serves for several updates. The state that `gradient` returns holds it."""

    num_updates: eqx.AbstractVar[int]

    @abc.abstractmethod
    def again(self, policy: AbstractPolicy, writer: Writer, state: Any) -> AbstractPolicy:
        """The gradient of the loss on the same batch, by a policy that has moved since."""


def elbo_terms(
    target: Target, samples: Sample
) -> tuple[Float[Array, " samples"], Bool[Array, " samples"]]:
    """log likelihood + log prior - log q of each sample, and whether it is defined."""
    log_joint, is_valid = jax.vmap(target.log_joint)(samples.tokens, samples.constants)
    return log_joint - samples.log_q, is_valid


def step_info(
    terms: Float[Array, " samples"],
    is_valid: Bool[Array, " samples"],
    weights: Float[Array, " samples"],
) -> StepInfo:
    mean = (weights * terms).sum() / weights.sum()
    return StepInfo(
        elbo=mean,
        elbo_std=jnp.sqrt((weights * (terms - mean) ** 2).sum() / weights.sum()),
        invalid_share=1.0 - is_valid.astype(terms.dtype).mean(),
    )


def check_num_samples(num_samples: int, least: int = 1) -> None:
    if num_samples < least:
        raise ValueError(f"there must be at least {least} samples a step, not {num_samples}")

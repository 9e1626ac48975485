"""What an objective must offer to training, and what objectives have in common."""

from __future__ import annotations

import abc
import dataclasses
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

    def with_budget(self, num_steps: int, num_samples: int) -> AbstractObjective:
        """The same for so many steps of so many samples."""
        return dataclasses.replace(self, num_samples=num_samples)

    def within(self, num_trees: int | None) -> AbstractObjective:
        """The same where there are so many trees and no more; None: no end of them."""
        return self

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


class Weighed(eqx.Module):
    """A batch and what it says of the ELBO. The gradient of `surrogate(baseline)` by the policy
    estimates the ELBO's."""

    samples: Sample
    terms: Float[Array, " samples"]  # no gradient flows through these
    is_valid: Bool[Array, " samples"]
    weights: Float[Array, " samples"]
    score: Float[Array, " samples"]  # log q of what was drawn with no path back to the policy
    choices: Float[Array, " samples"]  # the same of what was chosen in drawing the constants
    path: Float[Array, " samples"]  # what has one: the term as the constants move

    def surrogate(self, baseline: Float[Array, "..."]) -> Float[Array, " samples"]:
        score = self.weights * self.score + self.choices
        found: Array = (self.terms - baseline) * score + self.path
        return found

    @property
    def info(self) -> StepInfo:
        return step_info(self.terms, self.is_valid, self.weights)


def weigh(policy: AbstractPolicy, target: Target, samples: Sample) -> Weighed:
    """Where a filler draws the constants, their part of the gradient is that of the term itself
    along the path constant = f(weights, noise): far less noisy than a score, and free of noise at
    the optimum. It is not weighed: the best constants of a tree do not depend on how often it is
    drawn, and draws that explore keep the filler in practice on trees that q has little of."""
    fixed = jax.lax.stop_gradient(samples)
    weights = jnp.exp(fixed.log_weight)
    if policy.filler is None:
        terms, is_valid = elbo_terms(target, fixed)
        nothing = jnp.zeros_like(terms)
        return Weighed(fixed, terms, is_valid, weights, samples.log_q, nothing, nothing)
    terms, is_valid = elbo_terms(target, samples)
    # The tree's own log q comes in through the score alone.
    path = terms + samples.log_q_tree
    terms = jax.lax.stop_gradient(terms)
    return Weighed(fixed, terms, is_valid, weights, samples.log_q_tree, samples.log_q_choices, path)


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

"""Objectives with a memory: trajectory balance, and a forward-KL term, on replayed trees."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dvisr.objective.base import (
    AbstractObjective,
    StepInfo,
    Weighed,
    check_num_samples,
    weigh,
)
from dvisr.objective.baselines import LeaveOneOut
from dvisr.objective.visited import Visited, replayed, visit
from dvisr.policy import AbstractPolicy
from dvisr.sampling import AbstractDraws, IndependentDraws, Writer, log_prob
from dvisr.target import Target


class _Replaying(AbstractObjective):
    """Fresh draws go into the visited set; others are taken out of it."""

    num_replayed: eqx.AbstractVar[int]
    memory: eqx.AbstractVar[int]
    draws: eqx.AbstractVar[AbstractDraws]

    def with_budget(self, num_steps: int, num_samples: int) -> AbstractObjective:
        """As many are replayed as before for each fresh one, out of a memory as large for it."""

        def scaled(number: int) -> int:
            return -(-number * num_samples // self.num_samples)

        return dataclasses.replace(
            self,
            num_samples=num_samples,
            num_replayed=scaled(self.num_replayed),
            memory=scaled(self.memory),
        )

    def within(self, num_trees: int | None) -> AbstractObjective:
        if num_trees is None:
            return self
        return dataclasses.replace(self, memory=min(self.memory, num_trees))

    def _fresh(
        self, policy: AbstractPolicy, writer: Writer, target: Target, key: PRNGKeyArray
    ) -> Weighed:
        return weigh(policy, target, self.draws(policy, writer, self.num_samples, key=key))

    def _replayed(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        visited: Visited,
        temperature: float,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, " samples"], Float[Array, " samples"]]:
        """log q and log joint of visited trees."""
        rows = replayed(visited, self.num_replayed, key=key, temperature=temperature)
        log_q = jax.vmap(lambda t, c: log_prob(policy, writer, t, c))(
            visited.tokens[rows], visited.constants[rows]
        )
        return log_q, visited.log_joint[rows]


class BalanceState(eqx.Module):
    log_evidence: Float[Array, ""]  # as learnt; NaN before the first batch
    visited: Visited


class TrajectoryBalance(_Replaying):
    """Malkin et al. (2022): the square of log Z + log q - log joint, at fresh draws and at trees
    replayed from the visited set. It is zero everywhere if and only if q is the posterior and log Z
    the log evidence, so what it is asked for need not be drawn from q.

    At fresh draws half its gradient is the ELBO's with log Z as a baseline; so is what we return.
    log Z moves to the batch's mean term at its own rate.
    """

    num_samples: int = eqx.field(static=True)  # fresh ones
    num_replayed: int = eqx.field(static=True, default=0)
    memory: int = eqx.field(static=True, default=2048)
    temperature: float = eqx.field(static=True, default=2.0)
    rate: float = eqx.field(static=True, default=0.1)  # of log Z
    draws: AbstractDraws = IndependentDraws()

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples)
        if self.num_replayed < 0 or self.temperature <= 0.0 or not 0.0 < self.rate <= 1.0:
            raise ValueError(
                "trajectory balance needs at least 0 replayed samples, a temperature above 0 and a "
                f"rate above 0 and at most 1, not {self.num_replayed}, {self.temperature}, "
                f"{self.rate}"
            )

    def start(self, policy: AbstractPolicy, writer: Writer) -> BalanceState:
        size = self.memory if self.num_replayed else 1
        return BalanceState(
            jnp.full((), jnp.nan, dtype=policy.dtype),
            Visited.empty(size, writer.mask.length, policy.dtype),
        )

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: BalanceState,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, BalanceState, StepInfo]:
        draw_key, replay_key = jax.random.split(key)

        def loss(policy: AbstractPolicy) -> tuple[Array, tuple[BalanceState, StepInfo]]:
            batch = self._fresh(policy, writer, target, draw_key)
            info = batch.info
            was = jnp.where(jnp.isnan(state.log_evidence), info.elbo, state.log_evidence)
            value = batch.surrogate(was).sum()
            visited = state.visited
            if self.num_replayed:
                visited = _remembered(visited, batch)
                log_q, log_joint = self._replayed(
                    policy, writer, visited, self.temperature, replay_key
                )
                old_terms = log_joint - jax.lax.stop_gradient(log_q)
                value = value + ((old_terms - was) * log_q).sum()
            moved = was + self.rate * (info.elbo - was)
            after = BalanceState(moved, visited)
            return -value / (self.num_samples + self.num_replayed), (after, info)

        gradient, (after, info) = jax.grad(loss, has_aux=True)(policy)
        return gradient, after, info


class ReinforceWithReplay(_Replaying):
    """The ELBO by REINFORCE (leave-one-out), and besides it, with a weight, the cross-entropy of q
    to the posterior over the visited set: a forward KL, which punishes q for what it has lost,
    where the ELBO is blind to it.

    For trees without constants: over points of a continuum that happened to be visited there is no
    posterior.
    """

    num_samples: int = eqx.field(static=True)  # fresh ones
    num_replayed: int = eqx.field(static=True, default=250)
    weight: float = eqx.field(static=True, default=0.1)
    memory: int = eqx.field(static=True, default=2048)
    draws: AbstractDraws = IndependentDraws()

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, 2)
        if not self.weight > 0.0 or self.num_replayed < 1:
            raise ValueError(
                "the forward KL needs a weight above 0 and at least 1 replayed sample, not "
                f"{self.weight} and {self.num_replayed}"
            )

    def start(self, policy: AbstractPolicy, writer: Writer) -> Visited:
        if writer.constant_id >= 0:
            raise ValueError(
                "the forward KL over visited trees is for libraries without constants: with them, "
                "choose another objective, or another recipe, such as default"
            )
        return Visited.empty(self.memory, writer.mask.length, policy.dtype)

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Visited,
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Visited, StepInfo]:
        draw_key, replay_key = jax.random.split(key)

        def loss(policy: AbstractPolicy) -> tuple[Array, tuple[Visited, StepInfo]]:
            batch = self._fresh(policy, writer, target, draw_key)
            baseline, _ = LeaveOneOut()(None, batch.terms, batch.weights)
            value = batch.surrogate(baseline).mean()
            visited = _remembered(state, batch)
            log_q, _ = self._replayed(policy, writer, visited, 1.0, replay_key)
            value = value + self.weight * log_q.mean()
            return -value, (visited, batch.info)

        gradient, (after, info) = jax.grad(loss, has_aux=True)(policy)
        return gradient, after, info


def _remembered(visited: Visited, batch: Weighed) -> Visited:
    samples = batch.samples
    return visit(visited, samples.tokens, samples.constants, batch.terms + samples.log_q)

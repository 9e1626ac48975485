"""The training loop: compiled once for all runs, in chunks of about a second.

A chunk is a while loop whose number of steps is an argument, not a constant of the program. So one
program serves chunks of every length, and how a training is cut into chunks changes no bit of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from dvisr.objective import AbstractObjective, AbstractRepeatedObjective
from dvisr.optim import AbstractOptimiser, AbstractSchedule
from dvisr.policy import AbstractPolicy
from dvisr.sampling import Writer
from dvisr.target import Target

CHUNK_SECONDS = 1.0
LONGEST_CHUNK = 1024  # steps


class Training(eqx.Module):
    """What stays the same from step to step."""

    writer: Writer
    target: Target
    objective: AbstractObjective
    optimiser: AbstractOptimiser
    schedule: AbstractSchedule


class TrainState(eqx.Module):
    policy: AbstractPolicy
    optimiser: Any
    schedule: Any
    objective: Any
    key: PRNGKeyArray  # the run's; a step's own key is made of it and the step's number
    step: Int[Array, ""]


class TrainInfo(eqx.Module):
    """Of one step, before its update."""

    elbo: Float[Array, ""]
    elbo_std: Float[Array, ""]
    invalid_share: Float[Array, ""]
    learning_rate: Float[Array, ""]


class Chunk(eqx.Module):
    """Where training stands: the states of all runs, and what the chunk's steps reported."""

    states: TrainState  # leading axis: runs
    info: TrainInfo  # NumPy arrays (runs, steps of this chunk)
    num_done: int = eqx.field(static=True)  # steps since the start of training


def init(training: Training, policy: AbstractPolicy, *, key: PRNGKeyArray) -> TrainState:
    """Before the first step of one run."""
    return TrainState(
        policy=policy,
        optimiser=training.optimiser.start(policy),
        schedule=training.schedule.start(policy.dtype),
        objective=training.objective.start(policy, training.writer),
        key=key,
        step=jnp.zeros((), dtype=jnp.int32),
    )


def run_keys(seed: int, num_runs: int) -> Key[Array, " runs"]:
    """One key a run. A run's key does not depend on how many runs there are."""
    root = jax.random.key(seed)
    return jax.vmap(lambda run: jax.random.fold_in(root, run))(
        jnp.arange(num_runs, dtype=jnp.uint32)
    )


def step(training: Training, state: TrainState) -> tuple[TrainState, TrainInfo]:
    """One step of one run: draw, weigh, move; some objectives weigh and move several times."""
    key = jax.random.fold_in(state.key, state.step)
    objective, writer = training.objective, training.writer
    learning_rate = training.schedule.learning_rate(state.schedule)

    def move(policy: AbstractPolicy, gradient: AbstractPolicy, optimiser: Any) -> tuple[Any, Any]:
        return training.optimiser(policy, gradient, optimiser, learning_rate)

    gradient, kept, seen = objective.gradient(
        state.policy, writer, training.target, state.objective, key=key
    )
    policy, optimiser = move(state.policy, gradient, state.optimiser)
    if isinstance(objective, AbstractRepeatedObjective):
        for _ in range(objective.num_updates - 1):
            gradient = objective.again(policy, writer, kept)
            policy, optimiser = move(policy, gradient, optimiser)
    after = TrainState(
        policy=policy,
        optimiser=optimiser,
        schedule=training.schedule(state.schedule, -seen.elbo),
        objective=kept,
        key=state.key,
        step=state.step + 1,
    )
    return after, TrainInfo(seen.elbo, seen.elbo_std, seen.invalid_share, learning_rate)


@eqx.filter_jit
def advance(
    training: Training, states: TrainState, num_steps: Int[Array, ""]
) -> tuple[TrainState, TrainInfo]:
    """`num_steps` steps of all runs. Of the reports, (LONGEST_CHUNK, runs), as many are filled."""

    def step_all(states: TrainState) -> tuple[TrainState, TrainInfo]:
        # A CPU has nothing to gain from runs side by side: its products of small matrices are
        # slower in batches (by a third, at 500 samples and 64 hidden units) than in turn.
        each = jax.lax.map if jax.default_backend() == "cpu" else _vmap
        after, info = each(lambda state: step(training, state), states)
        return after, info

    num_runs, dtype = states.step.shape[0], states.policy.dtype
    empty = TrainInfo(*[jnp.zeros((LONGEST_CHUNK, num_runs), dtype=dtype) for _ in range(4)])

    def body(carry: tuple[Array, TrainState, TrainInfo]) -> tuple[Array, TrainState, TrainInfo]:
        done, states, reports = carry
        states, info = step_all(states)
        reports = jax.tree.map(lambda report, new: report.at[done].set(new), reports, info)
        return done + 1, states, reports

    def unfinished(carry: tuple[Array, TrainState, TrainInfo]) -> Array:
        return carry[0] < num_steps

    start = (jnp.zeros((), dtype=jnp.int32), states, empty)
    _, states, reports = jax.lax.while_loop(unfinished, body, start)
    return states, reports


def _vmap(function: Any, states: TrainState) -> Any:
    return jax.vmap(function)(states)


def train(
    training: Training,
    states: TrainState,
    num_steps: int,
    *,
    chunk_seconds: float = CHUNK_SECONDS,
) -> Iterator[Chunk]:
    """Train all runs up to `num_steps` steps in all, pausing about every `chunk_seconds`.

    Stop by leaving the loop; go on, in this process or another, from the last chunk's states.
    """
    done = int(states.step[0])
    length = 1  # the first chunk compiles and tells how long a step takes
    while done < num_steps:
        length = min(length, num_steps - done, LONGEST_CHUNK)
        began = time.perf_counter()
        states, reports = advance(training, states, jnp.asarray(length, dtype=jnp.int32))
        info = jax.tree.map(lambda report: np.asarray(report[:length]).T, reports)  # noqa: B023
        seconds = time.perf_counter() - began
        done += length
        yield Chunk(states, info, done)
        # At most fourfold growth: the first chunk's time is mostly that of compiling.
        wanted = int(length * chunk_seconds / max(seconds, 1e-9))
        length = max(1, min(wanted, 4 * length))

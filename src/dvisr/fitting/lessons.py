"""What a policy that has read the data is taught on these data: trees, what came before each of
their tokens, and how likely they are.

The decoder stays as it is; what it made of each prefix of a tree (its signal) is kept
(`sampling.unfolding`), so that a step of training costs a small network over some thousand prefixes
and no more. q of a set of trees
is moved toward their posterior from both sides:

    toward what is likely      the mean of -log q under the posterior over the set (replay),
    away from what is not      the slope of the ELBO, summed over the set with weights q instead of
                               being averaged over draws; constants are integrated out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dvisr.optim import Adam
from dvisr.policy.conditioned import Adapter
from dvisr.sampling.programs import bounded_jit
from dvisr.sampling.unfolding import Unfolded

_MOST_DEFICIT = 20.0  # nats at which a bad tree's deficit is cut off
_MOST_SURPLUS = 5.0
_RATE = 5e-3


class Lesson(NamedTuple):
    """Arrays of fixed sizes, so that one compiled program serves all."""

    signals: Float[Array, "prefixes width"]
    logits: Float[Array, "prefixes tokens"]  # before the adapter's are added, -inf if forbidden
    prefix: Any  # int32 (trees, length): which prefix each token was written after
    token: Any  # int32 (trees, length)
    is_token: Any  # bool (trees, length)
    log_joint: Float[Array, " trees"]  # -inf where there is no tree


def make_lesson(
    unfolded: Unfolded,
    trees: np.ndarray,
    log_joint: np.ndarray,
    most_trees: int,
    most_prefixes: int,
) -> Lesson:
    """Of trees int8 (count, length), the most important first: as many as there is room for, and
    the log joint of each."""
    numbers = unfolded.prefixes(trees[:most_trees])
    numbers = numbers[: _that_fit(numbers, most_prefixes)]
    count, length = numbers.shape
    kept, compact = np.unique(numbers, return_inverse=True)
    signals = np.zeros((most_prefixes, unfolded.signals.shape[1]), dtype=np.float32)
    logits = np.zeros((most_prefixes, unfolded.logits.shape[1]), dtype=np.float32)
    signals[: len(kept)], logits[: len(kept)] = unfolded.signals[kept], unfolded.logits[kept]
    prefix = np.zeros((most_trees, length), dtype=np.int32)
    token, is_token = np.zeros_like(prefix), np.zeros(prefix.shape, dtype=bool)
    prefix[:count] = compact.reshape(count, length)
    token[:count], is_token[:count] = np.maximum(trees[:count], 0), trees[:count] >= 0
    joint = np.full(most_trees, -np.inf, dtype=np.float32)
    joint[:count] = log_joint[:count] - log_joint[:count].max(initial=-np.inf)
    arrays = (signals, logits, prefix, token, is_token, joint)
    return Lesson(*jax.device_put(arrays))


def _that_fit(numbers: np.ndarray, most: int) -> int:
    """How many rows, from the first on, have so many distinct numbers at most."""
    _, first = np.unique(numbers, return_index=True)
    new = np.bincount(first // numbers.shape[1], minlength=len(numbers))
    return int(np.searchsorted(np.cumsum(new), most, side="right"))


def log_q_of(adapter: Adapter, lesson: Lesson) -> Float[Array, " trees"]:
    log_probs = jax.nn.log_softmax(lesson.logits + adapter(lesson.signals))
    chosen = log_probs[lesson.prefix, lesson.token]
    return jnp.where(lesson.is_token, chosen, 0.0).sum(axis=1)


def _loss(adapter: Adapter, lesson: Lesson) -> Float[Array, ""]:
    log_q = log_q_of(adapter, lesson)
    is_tree = lesson.is_token.any(axis=1)
    log_total = jax.nn.logsumexp(lesson.log_joint)
    toward = -(jnp.exp(lesson.log_joint - log_total) * log_q).sum()
    deficit = jnp.clip(log_q - (lesson.log_joint - log_total), -_MOST_SURPLUS, _MOST_DEFICIT)
    weights = jax.lax.stop_gradient(jnp.exp(log_q) * jnp.where(is_tree, deficit, 0.0))
    return toward + jnp.where(is_tree, weights * log_q, 0.0).sum()


@bounded_jit
def teach(adapter: Adapter, lesson: Lesson, updates: Int[Array, ""]) -> Adapter:
    """So many steps of Adam on one lesson, at a rate that falls to nothing."""
    optimiser = Adam()
    turn = math.pi / jnp.maximum(updates, 1).astype(jnp.float32)

    def body(step: Array, carry: Any) -> Any:
        adapter, state = carry
        rate = 0.5 * _RATE * (1.0 + jnp.cos(turn * step.astype(jnp.float32)))
        slopes = jax.grad(_loss)(adapter, lesson)
        return optimiser(adapter, slopes, state, rate)

    start = (adapter, optimiser.start(adapter))
    taught: Adapter = jax.lax.fori_loop(jnp.zeros_like(updates), updates, body, start)[0]
    return taught

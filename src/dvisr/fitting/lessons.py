"""What a policy that has read the data is taught on these data: trees, what came before each of
their tokens, and how likely they are.

The decoder stays as it is; what it made of each prefix of a tree (its signal) is kept, so that a
step of training costs a small network over some thousand prefixes and no more. q of a set of trees
is moved toward their posterior from both sides:

    toward what is likely      the mean of -log q under the posterior over the set (replay),
    away from what is not      the slope of the ELBO, summed over the set with weights q instead of
                               being averaged over draws; constants are integrated out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dvisr.optim import Adam
from dvisr.policy.conditioned import Adapter

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


class Lessons:
    """Trees with what the decoder made of them, up to a number of trees and prefixes."""

    def __init__(self, max_tokens: int, most_trees: int, most_prefixes: int) -> None:
        self._length = max_tokens
        self._most_trees, self._most_prefixes = most_trees, most_prefixes
        self._prefixes: dict[bytes, int] = {}
        self._signals: list[np.ndarray] = []
        self._logits: list[np.ndarray] = []
        self._trees: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def __contains__(self, tree: np.ndarray) -> bool:
        return tree.tobytes() in self._trees

    def places(self, trees: np.ndarray) -> np.ndarray:
        """Where in `self.trees` each of the trees is, or -1."""
        known = {key: place for place, key in enumerate(self._trees)}
        return np.array([known.get(tree.tobytes(), -1) for tree in trees], dtype=np.int64)

    @property
    def trees(self) -> np.ndarray:
        """All of them, int8 (trees, length)."""
        if not self._trees:
            return np.zeros((0, self._length), dtype=np.int8)
        return np.stack([tree for tree, _ in self._trees.values()])

    def add(self, trees: np.ndarray, signals: np.ndarray, logits: np.ndarray) -> None:
        """Trees int8 (count, length), and what the decoder made of each of their tokens' places;
        those for which there is no room are left out."""
        for tree, own_signals, own_logits in zip(trees, signals, logits, strict=True):
            key = tree.tobytes()
            if key in self._trees:
                continue
            size = int((tree >= 0).sum())
            if len(self._trees) >= self._most_trees:
                return
            if len(self._signals) + size > self._most_prefixes:
                return
            numbers = np.zeros(self._length, dtype=np.int32)
            for place in range(size):
                prefix = tree[:place].tobytes()
                number = self._prefixes.setdefault(prefix, len(self._signals))
                if number == len(self._signals):
                    self._signals.append(own_signals[place])
                    self._logits.append(own_logits[place])
                numbers[place] = number
            self._trees[key] = (tree.copy(), numbers)

    def lesson(self, log_joint: np.ndarray) -> Lesson:
        """With the log joint of each of `trees`."""
        num_trees, num_prefixes = len(self._trees), len(self._signals)
        width, tokens = len(self._signals[0]), len(self._logits[0])
        signals = np.zeros((self._most_prefixes, width), dtype=np.float32)
        logits = np.zeros((self._most_prefixes, tokens), dtype=np.float32)
        signals[:num_prefixes], logits[:num_prefixes] = self._signals, self._logits
        shape = (self._most_trees, self._length)
        prefix, token = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        is_token = np.zeros(shape, dtype=bool)
        for row, (tree, numbers) in enumerate(self._trees.values()):
            prefix[row] = numbers
            token[row] = np.maximum(tree, 0)
            is_token[row] = tree >= 0
        joint = np.full(self._most_trees, -np.inf, dtype=np.float32)
        joint[:num_trees] = log_joint - log_joint.max(initial=-np.inf)
        arrays = (signals, logits, prefix, token, is_token, joint)
        return Lesson(*(jnp.asarray(array) for array in arrays))


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


@eqx.filter_jit
def teach(adapter: Adapter, lesson: Lesson, updates: int) -> Adapter:
    """So many steps of Adam on one lesson, at a rate that falls to nothing."""

    optimiser = Adam()

    def body(carry: Any, step: Array) -> tuple[Any, None]:
        adapter, state = carry
        rate = 0.5 * _RATE * (1.0 + jnp.cos(math.pi / updates * step))
        slopes = jax.grad(_loss)(adapter, lesson)
        return optimiser(adapter, slopes, state, rate), None

    steps = jnp.arange(updates, dtype=jnp.float32)
    (taught, _), _ = jax.lax.scan(body, (adapter, optimiser.start(adapter)), steps)
    return taught

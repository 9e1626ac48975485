"""Training the network that reads data: laws are drawn as they are needed, none is seen twice.

The loss is -log q of the law's own tree, in nats a tree: its expectation is least where q is the
posterior over trees given the table, constants and noise integrated out. The rate of learning rises
at first, then stays, and falls to nothing over a last stretch of steps that is asked for (`cool`),
so that training can go on from where it was before that.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dvisr.policy import vocabulary
from dvisr.policy.conditioned import DataNetwork, Sizes
from dvisr.pretraining.laws import LawMaker, Laws
from dvisr.pretraining.weights import (
    load_network,
    named_arrays,
    read_arrays,
    with_arrays,
    write_arrays,
)
from dvisr.sampling.following import follow


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """How to train.

    Parameters
    ----------
    batch : int
        Laws a step.
    steps_at_once : int
        Steps between two looks at the clock, for which laws are drawn together.
    drawn : float
        Laws drawn for each that is needed: those that are undefined or do not vary are dropped.
    rate, warmup : float, int
        Of learning, and the steps until it is reached.
    weight_decay, largest_slope : float
        As in AdamW, and the norm at which slopes are cut.
    optimiser : {"adamw", "muon"}
    seed : int
    """

    batch: int = 4096
    steps_at_once: int = 8
    drawn: float = 2.6
    rate: float = 2e-3
    warmup: int = 1000
    weight_decay: float = 0.01
    largest_slope: float = 1.0
    optimiser: str = "muon"
    seed: int = 0


class TrainingState(eqx.Module):
    network: DataNetwork
    optimiser: Any
    step: Array


def log_q(
    network: DataNetwork, maker: LawMaker, laws: Laws, dtype: Any = jnp.float32
) -> tuple[Float[Array, " laws"], Float[Array, " laws"]]:
    """Of the laws' own trees given their tables: by the network, and by the prior alone."""
    words = jnp.asarray(vocabulary.words_of(maker.library))

    def of_one(tokens: Array, table: Any) -> tuple[Array, Array]:
        seen, weights = follow(maker.writer, tokens)
        rows = network.read(table, dtype)
        logits = network.decoder.logits(words, network.decoder(words, seen, rows, dtype))
        return log_q_of_tokens(tokens, logits, maker.weights(weights, table))

    return jax.vmap(of_one)(laws.tokens, laws.table)


def log_q_of_tokens(
    tokens: Int[Array, " length"],
    logits: Float[Array, "length tokens"],
    weights: Float[Array, "length tokens"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Of one tree: with logits added to the prior's log weights, and by these alone."""
    lanes = jnp.arange(weights.shape[1], dtype=jnp.int32)
    chosen = lanes[None] == tokens[:, None]

    def total(scores: Array) -> Array:
        return jnp.where(chosen, jax.nn.log_softmax(scores), 0.0).sum()

    return total(jnp.where(weights > -jnp.inf, logits + weights, -jnp.inf)), total(weights)


class Trainer:
    """`train` makes steps; `save` and `resume` keep all that going on needs."""

    def __init__(self, maker: LawMaker, sizes: Sizes, settings: TrainingSettings) -> None:
        self.maker, self.sizes, self.settings = maker, sizes, settings
        key = jax.random.key(settings.seed)
        network = DataNetwork.create(sizes, key=jax.random.fold_in(key, 0))
        self._optimiser = _optimiser(settings)
        start = self._optimiser.init(eqx.filter(network, eqx.is_array))
        self.state = TrainingState(network, start, jnp.zeros((), dtype=jnp.int32))
        self._key = jax.random.fold_in(key, 1)
        self._steps = eqx.filter_jit(self._make_steps(), donate="all-except-first")

    @property
    def step(self) -> int:
        return int(self.state.step)

    def train(
        self,
        until: int,
        *,
        cool: int = 0,
        seconds: float = float("inf"),
        report: Callable[[int, float, float], None] = lambda step, loss, prior: None,
    ) -> None:
        """Until so many steps are made in all; the rate falls over the last `cool` of them."""
        began = time.perf_counter()
        while self.step < until and time.perf_counter() - began < seconds:
            key = jax.random.fold_in(self._key, self.step)
            left = jnp.asarray([until, cool] if cool else [2**30, 1], dtype=jnp.float32)
            self.state, losses = self._steps(self.maker, self.state, key, left)
            report(self.step, *(float(loss) for loss in losses))

    def _make_steps(self) -> Callable[..., Any]:
        own = self.settings

        def loss(network: DataNetwork, maker: LawMaker, laws: Laws) -> tuple[Array, Array]:
            found, prior = log_q(network, maker, laws, jnp.bfloat16)
            count = jnp.maximum(laws.is_good.astype(jnp.float32).sum(), 1.0)
            means = [-jnp.where(laws.is_good, part, 0.0).sum() / count for part in (found, prior)]
            return means[0], means[1]

        def one(maker: LawMaker, state: TrainingState, laws: Laws, left: Array) -> Any:
            slopes, losses = _slopes(loss, state.network, maker, laws)
            plain = eqx.filter(state.network, eqx.is_array)
            moves, optimiser = self._optimiser.update(slopes, state.optimiser, plain)
            share = jnp.clip((left[0] - state.step.astype(jnp.float32)) / left[1], 0.0, 1.0)
            network = eqx.apply_updates(
                state.network, jax.tree.map(lambda move: share * move, moves)
            )
            return TrainingState(network, optimiser, state.step + 1), losses

        def steps(
            maker: LawMaker, state: TrainingState, key: PRNGKeyArray, left: Array
        ) -> tuple[TrainingState, Array]:
            laws = draw_good(maker, key, own.batch * own.steps_at_once, own.drawn)
            batches = jax.tree.map(
                lambda leaf: leaf.reshape(own.steps_at_once, own.batch, *leaf.shape[1:]), laws
            )
            arrays, rest = eqx.partition(state, eqx.is_array)

            def body(arrays: Any, part: Laws) -> tuple[Any, Array]:
                moved, found = one(maker, eqx.combine(arrays, rest), part, left)
                return eqx.filter(moved, eqx.is_array), jnp.stack(found)

            arrays, losses = jax.lax.scan(body, arrays, batches)
            return eqx.combine(arrays, rest), losses.mean(axis=0)

        return steps

    def save(self, path: Path) -> None:
        write_arrays(path, named_arrays(self.state), {"sizes": self.sizes._asdict()})

    def begin_with(self, path: Path) -> None:
        """The weights of a file, at step 0."""
        network, about = load_network(path)
        if Sizes(**about["sizes"]) != self.sizes:
            raise ValueError(f"{path} has a network of other sizes: {about['sizes']}")
        start = self._optimiser.init(eqx.filter(network, eqx.is_array))
        self.state = TrainingState(network, start, jnp.zeros((), dtype=jnp.int32))

    def resume(self, path: Path) -> None:
        self.state = with_arrays(self.state, read_arrays(path)[0])


def _slopes(loss: Any, network: DataNetwork, maker: LawMaker, laws: Laws) -> Any:
    with_slopes: Any = eqx.filter_value_and_grad(loss, has_aux=True)
    (value, prior), slopes = with_slopes(network, maker, laws)
    return slopes, (value, prior)


def draw_good(maker: LawMaker, key: PRNGKeyArray, count: int, drawn: float) -> Laws:
    """So many laws that may be trained on, or, where too few were drawn, others after them."""
    laws = maker.draw(key, int(count * drawn))
    order = jnp.argsort(~laws.is_good, stable=True)[:count]
    chosen: Laws = jax.tree.map(lambda leaf: leaf[order], laws)
    return chosen


def _optimiser(settings: TrainingSettings) -> optax.GradientTransformation:
    def rate(step: Array) -> Array:
        return settings.rate * jnp.minimum(1.0, step.astype(jnp.float32) / settings.warmup)

    if settings.optimiser == "muon":
        return optax.chain(
            optax.clip_by_global_norm(settings.largest_slope),
            optax.contrib.muon(rate, weight_decay=settings.weight_decay, adam_learning_rate=rate),
        )
    return optax.chain(
        optax.clip_by_global_norm(settings.largest_slope),
        optax.adamw(rate, b2=0.98, weight_decay=settings.weight_decay, mask=_are_matrices),
    )


def _are_matrices(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, tree)


def held_out(
    network: DataNetwork, maker: LawMaker, laws: Laws, at_once: int = 4096
) -> tuple[np.ndarray, np.ndarray]:
    """-log q of laws that are good, by the network and by the prior alone."""
    found = []
    for start in range(0, len(laws.tokens), at_once):
        part = jax.tree.map(lambda leaf, s=start: leaf[s : s + at_once], laws)
        found.append([np.asarray(values) for values in _log_q(network, maker, part)])
    by_network, by_prior = (np.concatenate(values) for values in zip(*found, strict=True))
    is_good = np.asarray(laws.is_good)
    return -by_network[is_good], -by_prior[is_good]


@eqx.filter_jit
def _log_q(network: DataNetwork, maker: LawMaker, laws: Laws) -> Any:
    return log_q(network, maker, laws)

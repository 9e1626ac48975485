"""The network that reads the data, in a fit: it was trained once, on laws drawn from the prior, and
goes on learning on the table at hand.

Its draws come first: they are weighed, and each of the search's islands has draws of its own as
parents. At the end it is taught the posterior over what was visited (`lessons`), and draws afresh.
"""

from __future__ import annotations

import functools
import time
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dvisr.fitting.lessons import Lessons, log_q_of, teach
from dvisr.fitting.network import AbstractNetwork, trees_only_writer
from dvisr.policy.conditioned import DataNetwork, DataPolicy
from dvisr.policy.reading import make_table
from dvisr.policy.vocabulary import why_unknown
from dvisr.pretraining.weights import load_network
from dvisr.problem import Problem
from dvisr.sampling import StratifiedDraws, Writer
from dvisr.sampling.following import follow
from dvisr.search.visited import ALL_ISLANDS
from dvisr.settings import SearchSettings

if TYPE_CHECKING:
    from dvisr.fitting.search import Search

_MOST_PREFIXES = 8_192


@functools.lru_cache(maxsize=2)
def network_of(name: str) -> DataNetwork:
    """Of a file, or "pretrained": the weights that come with the package."""
    if name != "pretrained":
        return load_network(Path(name))[0]
    with resources.as_file(resources.files("dvisr.pretraining") / "network.safetensors") as path:
        return load_network(Path(path))[0]


def why_not(problem: Problem) -> str:
    """Why a fit can't have the network that reads data, or an empty text."""
    if trees_only_writer(problem.grammar, problem.tree_prior).walk is None:
        return "the count rules give a tree too many distinct costs"
    return why_unknown(problem.grammar.library)


class _Drawn(NamedTuple):
    trees: np.ndarray  # int8 (draws, length)
    log_q: np.ndarray
    signals: np.ndarray  # (draws, length, width)
    logits: np.ndarray  # (draws, length, tokens): before the adapter's are added


class PretrainedNetwork(AbstractNetwork):
    """Draws are made and trees looked at in batches of one size."""

    name = "pretrained"

    def __init__(
        self, problem: Problem, settings: SearchSettings, num_samples: int, *, seed: int
    ) -> None:
        grammar = problem.grammar
        self.num_samples = num_samples
        self._settings = settings
        self._writer = trees_only_writer(grammar, problem.tree_prior)
        self._key = jax.random.key(seed)
        network = network_of(settings.network)
        table = make_table(problem.X, problem.data.y, np.random.default_rng(seed))
        self._network, self._table = network, table
        self.policy = DataPolicy.create(
            network,
            eqx.filter_eval_shape(DataNetwork.read, network, table),
            grammar.library,
            grammar.max_tokens,
            key=jax.random.fold_in(self._key, 0),
            adapter_width=settings.adapter_width,
        )
        self._lessons = Lessons(grammar.max_tokens, settings.most_taught, _MOST_PREFIXES)
        self._num_drawn = 0
        self._first: Future[list[_Drawn]] | None = None

    def compile(self) -> None:
        """Beside the search, which has enough to do until the first draws are there."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="dvisr-network")
        self._first = pool.submit(self._read_and_draw)
        pool.shutdown(wait=False)

    def _read_and_draw(self) -> list[_Drawn]:
        rows = _read(self._network, self._table)
        self.policy = eqx.tree_at(lambda policy: policy.rows, self.policy, rows)
        return [self._drawn() for _ in range(self._settings.first_batches)]

    def begin(self, search: Search) -> None:
        """Each island has draws of its own, so that their agreement still means something."""
        assert self._first is not None
        batches, self._first = self._first.result(), None
        for number, drawn in enumerate(batches):
            search.visited.visit(drawn.trees, [ALL_ISLANDS[number % len(ALL_ISLANDS)]])
            self._lessons.add(drawn.trees, drawn.signals, drawn.logits)

    def step(self, search: Search, done: float) -> float:
        return float("nan")

    def finish(self, search: Search, deadline: float | None) -> None:
        """Lessons with draws in between, which show what the network still has wrong."""
        own = self._settings
        for number in range(own.lesson_rounds):
            if number > 0:
                if deadline is not None and time.perf_counter() > deadline:
                    return
                drawn = self._drawn()
                search.visited.visit(drawn.trees, islands=())
                self._lessons.add(drawn.trees, drawn.signals, drawn.logits)
            self._look_at(foremost(search, own.most_looked_at))
            trees = self._lessons.trees
            numbers = search.visited.visit(trees, islands=())
            lesson = self._lessons.lesson(search.visited.tree_log_joint[numbers])
            adapter = teach(self.policy.adapter, lesson, own.lesson_updates)
            self.policy = eqx.tree_at(lambda policy: policy.adapter, self.policy, adapter)

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        drawn = self._drawn()
        return drawn.trees, drawn.log_q

    def _drawn(self) -> _Drawn:
        self._num_drawn += 1
        key = jax.random.fold_in(self._key, self._num_drawn)
        tokens, log_q, signals, logits = _draw(self.policy, self._writer, self.num_samples, key)
        return _Drawn(
            np.asarray(tokens).astype(np.int8),
            np.asarray(log_q, dtype=np.float64),
            np.asarray(signals),
            np.asarray(logits),
        )

    def _look_at(self, trees: np.ndarray) -> None:
        """What the decoder makes of given trees, for the lessons."""
        new = np.array([tree for tree in trees if tree not in self._lessons], dtype=np.int8)
        size = self.num_samples
        for start in range(0, len(new), size):
            part = new[start : start + size]
            padded = np.resize(part, (size, new.shape[1]))
            signals, logits = _told(self.policy, self._writer, jnp.asarray(padded, jnp.int32))
            kept = len(part)
            self._lessons.add(part, np.asarray(signals)[:kept], np.asarray(logits)[:kept])

    def log_prob(self, trees: np.ndarray) -> np.ndarray:
        """Of trees that it was taught on, from what is kept of them."""
        found = np.empty(len(trees))
        places = self._lessons.places(trees)
        is_kept = places >= 0
        if is_kept.any():
            lesson = self._lessons.lesson(np.zeros(len(self._lessons.trees)))
            kept = np.asarray(log_q_of(self.policy.adapter, lesson), dtype=np.float64)
            found[is_kept] = kept[places[is_kept]]
        if not is_kept.all():
            found[~is_kept] = self._log_prob(trees[~is_kept])
        return found

    def _log_prob(self, trees: np.ndarray) -> np.ndarray:
        found, size = np.empty(len(trees)), self.num_samples
        for start in range(0, len(trees), size):
            part = trees[start : start + size]
            padded = jnp.asarray(np.resize(part, (size, trees.shape[1])), dtype=jnp.int32)
            log_q = _log_q(self.policy, self._writer, padded)
            found[start : start + len(part)] = np.asarray(log_q)[: len(part)]
        return found


def foremost(search: Search, most: int) -> np.ndarray:
    """The visited trees of the largest joint, so many."""
    joint = search.visited.tree_log_joint
    count = min(most, len(joint))
    order = np.argpartition(-joint, count - 1)[:count]
    order = order[np.isfinite(joint[order])]
    trees: np.ndarray = search.visited.trees[order[np.argsort(-joint[order], kind="stable")]]
    return trees


@eqx.filter_jit
def _read(network: DataNetwork, table: Any) -> Any:
    return network.read(table)


@eqx.filter_jit
def _draw(policy: DataPolicy, writer: Writer, num_samples: int, key: Any) -> tuple[Any, ...]:
    drawn, steps = StratifiedDraws().with_steps(policy, writer, num_samples, key=key)
    signals = steps.outputs.signal
    assert signals is not None
    return drawn.tokens, drawn.log_q, signals, steps.log_probs - policy.adapter(signals)


@eqx.filter_jit
def _told(policy: DataPolicy, writer: Writer, trees: Any) -> tuple[Any, Any]:
    def of_one(tree: Any) -> tuple[Any, Any]:
        seen, weights = follow(writer, tree)
        signals, logits = policy.told(seen)
        return signals, logits + weights

    return jax.vmap(of_one)(trees)


@eqx.filter_jit
def _log_q(policy: DataPolicy, writer: Writer, trees: Any) -> Any:
    signals, logits = _told(policy, writer, trees)
    log_probs = jax.nn.log_softmax(logits + policy.adapter(signals))
    chosen = trees[..., None] == jnp.arange(log_probs.shape[-1], dtype=jnp.int32)[None, None]
    return jnp.where(chosen, log_probs, 0.0).sum(axis=(1, 2))

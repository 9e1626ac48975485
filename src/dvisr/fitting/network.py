"""What a search asks of its network, and the plain one: a policy over trees whose constants are
integrated out, which starts from the prior on every table."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dvisr.constraints import Grammar, masking
from dvisr.optim import Adam
from dvisr.policy import AbstractPolicy, PlaceInputs
from dvisr.prior import TreePrior
from dvisr.runs import pytrees
from dvisr.sampling import StratifiedDraws, Writer, log_prob, make_writer
from dvisr.sampling.programs import bounded_jit

if TYPE_CHECKING:
    from dvisr.fitting.limits import Limit
    from dvisr.fitting.search import Search
    from dvisr.search.matching import Tell

_REPLAY_WEIGHT = 1.0


class AbstractNetwork(abc.ABC):
    """A constant is a leaf like any other here: its token is written, its value never drawn."""

    name: str
    learns_in_steps: bool  # its steps are planned then, and it must be known how many there are
    num_samples: int

    @abc.abstractmethod
    def compile(self) -> None:
        """Whatever must be compiled for it, beside the search if it can be."""

    @abc.abstractmethod
    def begin(self, search: Search, is_late: Callable[[], bool]) -> None:
        """When the search has made its start: visit what the network says of the data, unless it
        has grown late before it is ready."""

    def wait_for_draws(self, seconds: float, is_late: Callable[[], bool]) -> None:  # noqa: B027
        """Until its first draws are there, but not for longer."""

    def is_ready(self) -> bool:
        """Whether it can be taught and drawn from without waiting."""
        return True

    def catch_up(self, is_late: Callable[[], bool]) -> None:  # noqa: B027
        """After it was restored: wait for what it does beside the search, until it grows late."""

    def give_up(self) -> None:  # noqa: B027
        """What it still does beside the search is of no use any more."""

    @abc.abstractmethod
    def step(self, search: Search, done: float) -> float:
        """Draw, visit, learn; the ELBO of these draws, or NaN. `done` is the share of the steps
        made."""

    @abc.abstractmethod
    def finish(self, search: Search, limit: Limit, tell: Tell = lambda done: None) -> None:
        """Learn the posterior over what was visited, as it stands now."""

    @abc.abstractmethod
    def draw(self, num_batches: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Batches of `num_samples` trees, int8, and their log q; others every time."""

    @abc.abstractmethod
    def log_prob(self, trees: np.ndarray) -> np.ndarray:
        """log q of given trees."""

    @abc.abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Between two steps: what a new one, made with the same seed, needs to go on from here."""

    @abc.abstractmethod
    def learnt(self) -> dict[str, np.ndarray]:
        """Its weights, as far as this fit has changed them."""

    @abc.abstractmethod
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Into a new one that was compiled: as it was when `state` was taken."""


class PlainNetwork(AbstractNetwork):
    """Its logits are added to the prior's own, so that untrained it draws from about the prior."""

    name = "plain"
    learns_in_steps = True

    def __init__(
        self,
        grammar: Grammar,
        prior: TreePrior,
        num_samples: int,
        num_replayed: int,
        *,
        hidden_size: int,
        seed: int,
    ) -> None:
        from dvisr.recipes import GRUSpec  # no other network needs it

        self._grammar = grammar
        self._writer = trees_only_writer(grammar, prior)
        self._key = jax.random.key(seed)
        spec = GRUSpec(hidden_size, 1, PlaceInputs)
        self.policy: AbstractPolicy = spec.create(
            prior.slots(grammar)[0], jnp.float32, key=jax.random.fold_in(self._key, 0)
        )
        self._optimiser = Adam()
        self._state = self._optimiser.start(self.policy)
        self._num_drawn = 0
        self.num_samples, self.num_replayed = num_samples, num_replayed

    def begin(self, search: Search, is_late: Callable[[], bool]) -> None:
        """It has nothing to say before it has learnt."""

    def step(self, search: Search, done: float) -> float:
        own, visited = search.settings.search, search.visited
        trees, log_q = self.draw()
        numbers = visited.visit(trees, islands=())  # it learns from both islands
        floor = search.floor + visited.tree_log_prior[numbers]
        joint = np.maximum(visited.tree_joint_estimate[numbers], floor)
        terms = joint - log_q
        others = (terms.sum() - terms) / max(1, len(terms) - 1)
        advantages = np.clip(terms - others, -own.most_advantage, own.most_advantage)
        rate = own.first_rate * 0.5 * (1.0 + np.cos(np.pi * min(1.0, done)))
        replayed = search.replayed(self.num_replayed, done)
        self.learn(trees, advantages, replayed, max(rate, own.last_rate))
        return float(terms.mean())

    def finish(self, search: Search, limit: Limit, tell: Tell = lambda done: None) -> None:
        own = search.settings.search
        no_advantage = np.zeros(self.num_samples)
        trees, _ = self.draw()
        for update in range(own.final_updates):
            if limit.is_over():
                return
            tell(update / own.final_updates)
            rate = own.first_rate * 0.5 * (1.0 + math.cos(math.pi * update / own.final_updates))
            self.learn(trees, no_advantage, search.replayed(self.num_replayed, 1.0), rate)

    def draw(self, num_batches: int = 1) -> tuple[np.ndarray, np.ndarray]:
        drawn = [self._batch() for _ in range(num_batches)]
        return np.concatenate([batch[0] for batch in drawn]), np.concatenate([b[1] for b in drawn])

    def _batch(self) -> tuple[np.ndarray, np.ndarray]:
        self._num_drawn += 1
        key = jax.random.fold_in(self._key, self._num_drawn)
        tokens, log_q = _draw(self.policy, self._writer, self.num_samples, key)
        return np.asarray(tokens).astype(np.int8), np.asarray(log_q, dtype=np.float64)

    def learn(
        self, fresh: np.ndarray, advantages: np.ndarray, replayed: np.ndarray, rate: float
    ) -> None:
        """Towards fresh draws by their advantage, and towards replayed trees."""
        self.policy, self._state = _learn(
            self.policy,
            self._writer,
            self._optimiser,
            self._state,
            jnp.asarray(fresh, dtype=jnp.int32),
            jnp.asarray(advantages, dtype=jnp.float32),
            jnp.asarray(replayed, dtype=jnp.int32),
            jnp.asarray(rate, dtype=jnp.float32),
        )

    def log_prob(self, trees: np.ndarray) -> np.ndarray:
        """In batches of one size, so that one program serves them all."""
        size = self.num_samples
        found = np.empty(len(trees))
        for start in range(0, len(trees), size):
            part = trees[start : start + size]
            padded = np.resize(part, (size, trees.shape[1]))
            log_q = _log_prob(self.policy, self._writer, jnp.asarray(padded, dtype=jnp.int32))
            found[start : start + len(part)] = np.asarray(log_q)[: len(part)]
        return found

    def learnt(self) -> dict[str, np.ndarray]:
        return pytrees.flatten(eqx.filter(self.policy, eqx.is_array), "policy")

    def state(self) -> dict[str, np.ndarray]:
        made = (self.policy, self._state)
        return {
            **pytrees.flatten(eqx.filter(made, eqx.is_array), "plain"),
            "num_drawn": np.array(self._num_drawn, dtype=np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        arrays, rest = eqx.partition((self.policy, self._state), eqx.is_array)
        restored = pytrees.restore(arrays, state, "plain")
        self.policy, self._state = eqx.combine(restored, rest)
        self._num_drawn = int(state["num_drawn"])

    def compile(self) -> None:
        """Everything that will be run, once, with nothing learnt."""
        trees, _ = self.draw()
        replayed = np.resize(trees, (self.num_replayed, trees.shape[1]))
        before = self.policy, self._state
        self.learn(trees, np.zeros(len(trees)), replayed, 0.0)
        self.log_prob(trees)
        self.policy, self._state = before
        self._num_drawn = 0


@functools.lru_cache(maxsize=2)
def trees_only_writer(grammar: Grammar, prior: TreePrior) -> Writer:
    """One that writes the constant's token and no value."""
    try:
        made = make_writer(grammar, prior, jnp.float32)
    except ValueError:  # count rules that give a tree too many distinct costs
        return Writer(masking.make_mask(grammar), -1, None)
    return Writer(made.mask, -1, made.walk)


@bounded_jit
def _draw(policy: AbstractPolicy, writer: Writer, num_samples: int, key: Any) -> tuple[Any, Any]:
    drawn = StratifiedDraws()(policy, writer, num_samples, key=key)
    return drawn.tokens, drawn.log_q


def _log_q(policy: AbstractPolicy, writer: Writer, trees: Any) -> Any:
    nothing = jnp.zeros(trees.shape[1:], dtype=jnp.float32)
    return jax.vmap(lambda tree: log_prob(policy, writer, tree, nothing))(trees)


_log_prob = bounded_jit(_log_q)


@bounded_jit
def _learn(
    policy: AbstractPolicy,
    writer: Writer,
    optimiser: Adam,
    state: Any,
    fresh: Any,
    advantages: Any,
    replayed: Any,
    rate: Any,
) -> tuple[AbstractPolicy, Any]:
    trees = jnp.concatenate([fresh, replayed])
    weights = jnp.concatenate(
        [
            advantages / fresh.shape[0],
            jnp.full(replayed.shape[:1], _REPLAY_WEIGHT / replayed.shape[0], dtype=jnp.float32),
        ]
    )

    def loss(policy: AbstractPolicy) -> Any:
        return -(weights * _log_q(policy, writer, trees)).sum()

    gradient = jax.grad(loss)(policy)
    moved, after = optimiser(policy, gradient, state, rate)
    return moved, after

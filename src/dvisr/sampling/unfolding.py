"""A policy that has read a table, unfolded: what it says after each prefix is worked out once and
kept.

Draws of a policy that knows its mind share most of their prefixes: a thousand draws have about as
many distinct prefixes as tokens in seventy of them. And what is learnt in a fit is an adapter over
the decoder's signals, which themselves stay as they are: after a lesson only the adapter is asked
again. So drawing, and log q of given trees, cost what their new prefixes cost.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.constraints import masking
from dvisr.policy import observe
from dvisr.policy.conditioned import Adapter, DataPolicy, Memory
from dvisr.sampling import prior_walk
from dvisr.sampling.programs import bounded_jit
from dvisr.sampling.writing import Writer
from dvisr.traversal import NONE

LANES = 32  # prefixes that go through the decoder at once: the program takes as long for fewer
_BLOCK = 1024  # prefixes that the adapter is asked about at once
_FIRST_ROOM = 2048


class Unfolded:
    """Prefixes by number, of which 0 is the empty one. `adapter` may be replaced at any time.

    Parameters
    ----------
    policy : DataPolicy
    writer : Writer
        One that writes no values of constants, and knows the prior.
    """

    def __init__(self, policy: DataPolicy, writer: Writer) -> None:
        if writer.walk is None:
            raise ValueError("a policy is unfolded with the prior that its logits are added to")
        self.policy, self.writer = policy, writer
        self._arities = np.asarray(writer.mask.arities)
        self._children: dict[tuple[int, int], int] = {}
        self._count = 0
        self._adapter: Adapter = policy.adapter
        self._num_said = 0  # prefixes whose log probabilities are those of the adapter
        leaves, self._structure = jax.tree.flatten(_begun(writer))
        shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
        layers, _, heads, size = policy.rows.keys.shape
        tokens, width = len(self._arities), policy.decoder.places.shape[1]
        kinds: list[tuple[tuple[int, ...], Any]] = [
            ((policy.length,), np.int32),  # the prefixes on the way here, this one the last
            ((), np.int32),  # tokens written
            ((), np.int32),  # open slots
            ((2, layers, heads, size), np.float32),  # own key and value, in each block
            ((width,), np.float32),
            ((tokens,), np.float32),
            ((tokens,), np.float64),
            *shapes,
        ]
        self._arrays = [np.zeros((_FIRST_ROOM, *shape), dtype=dtype) for shape, dtype in kinds]
        self._is_started = False
        self._start_leaves = [np.asarray(leaf) for leaf in leaves]

    def __len__(self) -> int:
        return self._count

    @property
    def signals(self) -> np.ndarray:
        """(prefixes, width)"""
        return self._arrays[4][: self._count]

    @property
    def logits(self) -> np.ndarray:
        """(prefixes, tokens): before the adapter's are added, -inf where a token is forbidden."""
        return self._arrays[5][: self._count]

    @property
    def adapter(self) -> Adapter:
        return self._adapter

    @adapter.setter
    def adapter(self, adapter: Adapter) -> None:
        self._adapter, self._num_said = adapter, 0

    def log_probs(self) -> np.ndarray:
        """(prefixes, tokens), float64: what the policy says after each prefix."""
        for start in range(self._num_said, self._count, _BLOCK):
            stop = min(start + _BLOCK, self._count)
            rows = np.arange(start, start + _BLOCK).clip(max=stop - 1)
            self._say(start, stop, np.asarray(_adapted(self._adapter, self._arrays[4][rows])))
        return self._arrays[6][: self._count]

    def _say(self, start: int, stop: int, added: np.ndarray) -> None:
        """Of these prefixes, what the adapter adds being known."""
        scores = self._arrays[5][start:stop] + added[: stop - start].astype(np.float64)
        highest = scores.max(axis=1, keepdims=True)
        total = np.log(np.exp(scores - highest).sum(axis=1, keepdims=True))
        self._arrays[6][start:stop] = scores - highest - total
        self._num_said = stop

    def draw(
        self, count: int, rng: np.random.Generator, num_batches: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Batches of so many trees each, int8 (num_batches * count, length), and their log q.
        Systematic: of the draws of a batch that come by a prefix, a token has its share, rounded
        up or down. Batches know nothing of each other; drawn together, they look at their new
        prefixes together."""
        self._begin()
        total = num_batches * count
        trees = np.full((total, self.policy.length), NONE, dtype=np.int8)
        log_q = np.zeros(total)
        border = [(0, draws) for draws in np.split(np.arange(total), num_batches)]
        while border:
            log_probs = self.log_probs()
            opened: list[tuple[int, int, np.ndarray]] = []
            for number, draws in border:
                said, depth = log_probs[number], int(self._arrays[1][number])
                tokens = _systematic(np.exp(said), len(draws), rng)
                trees[draws, depth] = tokens
                log_q[draws] += said[tokens]
                for token in np.unique(tokens):
                    if self._arrays[2][number] - 1 + self._arities[token] > 0:
                        opened.append((number, int(token), draws[tokens == token]))
            numbers = self._numbers([(parent, token) for parent, token, _ in opened])
            border = [(n, draws) for n, (_, _, draws) in zip(numbers, opened, strict=True)]
        return trees, log_q

    def prefixes(self, trees: np.ndarray) -> np.ndarray:
        """Of trees int8 (count, length): the number of the prefix before each token, int32; 0 after
        the last token."""
        self._begin()
        found = np.zeros(trees.shape, dtype=np.int32)
        for place in range(1, trees.shape[1]):
            here = np.flatnonzero(trees[:, place] >= 0)
            steps = [(int(found[row, place - 1]), int(trees[row, place - 1])) for row in here]
            found[here, place] = self._numbers(steps)
        return found

    def log_q(self, trees: np.ndarray) -> np.ndarray:
        numbers = self.prefixes(trees)
        said = self.log_probs()[numbers, np.maximum(trees, 0)]
        total: np.ndarray = np.where(trees >= 0, said, 0.0).sum(axis=1)
        return total

    def _begin(self) -> None:
        if not self._is_started:
            self._is_started = True
            for array, leaf in zip(self._arrays[7:], self._start_leaves, strict=True):
                array[0] = leaf
            self._arrays[2][0] = 1
            self._look(np.array([0]), np.array([0]), np.array([NONE]))
            self._count = 1

    def _numbers(self, steps: list[tuple[int, int]]) -> list[int]:
        """Of prefixes that are others and a token; new ones are looked at."""
        new = [step for step in dict.fromkeys(steps) if step not in self._children]
        for start in range(0, len(new), LANES):
            part = new[start : start + LANES]
            own = np.arange(self._count, self._count + len(part))
            self._make_room(self._count + len(part))
            parents, tokens = (np.array(column) for column in zip(*part, strict=True))
            self._look(own, parents, tokens)
            self._count += len(part)
            self._children.update(zip(part, own.tolist(), strict=True))
        return [self._children[step] for step in steps]

    def _make_room(self, count: int) -> None:
        room = len(self._arrays[0])
        if count > room:
            more = max(room, count - room)
            self._arrays = [
                np.concatenate([a, np.zeros((more, *a.shape[1:]), dtype=a.dtype)])
                for a in self._arrays
            ]

    def _look(self, own: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> None:
        """What the decoder makes of prefixes, at most `LANES` of them."""
        paths, depths, slots, seen, signals, logits, _, *states = self._arrays
        is_root = tokens < 0
        depth = np.where(is_root, 0, depths[parents] + 1)
        paths[own] = paths[parents]
        paths[own, depth] = own
        depths[own] = depth
        slots[own] = np.where(is_root, 1, slots[parents] - 1 + self._arities[tokens])
        lanes = np.resize(np.arange(len(own)), LANES)
        before = seen[paths[own][lanes]]  # (lanes, length, 2, layers, heads, size)
        before[np.arange(before.shape[1])[None] >= depth[lanes][:, None]] = 0.0
        state = jax.tree.unflatten(self._structure, [array[parents][lanes] for array in states])
        found = _said(
            self.policy, self._adapter, self.writer, state, tokens[lanes].astype(np.int32),
            depth[lanes].astype(np.int32), before,
        )  # fmt: skip
        state, own_seen, own_signals, own_logits, added = jax.tree.map(np.asarray, found)
        count = len(own)
        seen[own], signals[own], logits[own] = (
            part[:count] for part in (own_seen, own_signals, own_logits)
        )
        for array, leaf in zip(states, jax.tree.leaves(state), strict=True):
            array[own] = leaf[:count]
        if self._num_said == own[0]:  # else the others before it are asked of this adapter first
            self._say(int(own[0]), int(own[-1]) + 1, added)


def _systematic(probs: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Tokens in order; each as often as its probability says, rounded up or down."""
    cumulative = np.cumsum(probs)
    points = (np.arange(count) + rng.random()) / count * cumulative[-1]
    found = np.searchsorted(cumulative, points, side="right")
    last = int(np.flatnonzero(probs)[-1])
    tokens: np.ndarray = np.minimum(found, last)
    return tokens


@bounded_jit
def _begun(writer: Writer) -> tuple[Any, Any]:
    """The state before the first token. One program, where each of its arrays would be one."""
    assert writer.walk is not None
    return masking.start(writer.mask), prior_walk.start(writer.walk, writer.mask)


@bounded_jit
def _adapted(adapter: Adapter, signals: Any) -> Any:
    return adapter(signals)


@bounded_jit
def _said(
    policy: DataPolicy,
    adapter: Adapter,
    writer: Writer,
    states: Any,
    tokens: Any,
    depths: Any,
    before: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """Lanes on a leading axis. The state after each token, the decoder's own key and value there,
    its signal, its logits with the prior's weights, and what the adapter adds to them."""
    walk, mask = writer.walk, writer.mask
    assert walk is not None

    def of_one(state: Any, token: Any, depth: Any, before: Any) -> tuple[Any, Any, Any, Any]:
        state = _stepped(writer, state, token)
        masked, walked = state
        keys, values = before[:, 0], before[:, 1]  # (length, layers, heads, size)
        layers = range(keys.shape[1])
        memory = Memory(
            depth, tuple(keys[:, layer] for layer in layers), tuple(values[:, n] for n in layers)
        )
        nothing = jnp.zeros((mask.length,), dtype=jnp.float32)
        seen = observe(masked, nothing, writer.constant_id)
        signal, moved = policy.decoder.step(policy.words, seen, policy.rows, memory)
        own = jnp.stack(
            [jnp.stack([part[depth] for part in parts]) for parts in (moved.keys, moved.values)]
        )
        weights = prior_walk.log_weights(walk, mask, walked, masked)
        logits = policy.decoder.logits(policy.words, signal) + weights.astype(policy.dtype)
        return state, own, signal, jnp.where(masking.allowed(mask, masked), logits, -jnp.inf)

    state, own, signal, logits = jax.vmap(of_one)(states, tokens, depths, before)
    return state, own, signal, logits, adapter(signal)


def _stepped(writer: Writer, state: Any, token: Any) -> Any:
    """After one token more; as it is where there is none."""
    masked, walked = state
    assert writer.walk is not None
    safe = jnp.maximum(token, 0)
    after = (
        masking.step(writer.mask, masked, safe),
        prior_walk.step(writer.walk, writer.mask, walked, masked, safe),
    )
    return jax.tree.map(lambda new, old: jnp.where(token < 0, old, new), after, state)

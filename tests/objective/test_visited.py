"""The visited set against a dictionary, and what is replayed against its shares."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.objective.visited import Visited, replayed, visit

SIZE, LENGTH, BATCH = 5, 3, 4
VISIT = jax.jit(visit)
Tree = tuple[tuple[int, ...], tuple[float, ...]]


def log_joint_of(tree: Tree) -> float:
    """Some number that is the tree's own: no two of those below share one."""
    tokens, constants = tree
    return math.sin(17.0 * sum((t + 2) * 5**i for i, t in enumerate(tokens))) - sum(constants)


def rows(visited: Visited) -> list[Tree]:
    return [
        (tuple(t), tuple(c))
        for t, c in zip(
            np.asarray(visited.tokens).tolist(), np.asarray(visited.constants).tolist(), strict=True
        )
    ]


TOKENS = st.tuples(*[st.integers(-1, 2)] * LENGTH)
CONSTANTS = st.sampled_from([(0.0, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, -1.25, 0.0)])
BATCHES = st.lists(
    st.lists(st.tuples(TOKENS, CONSTANTS), min_size=BATCH, max_size=BATCH), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(batches=BATCHES)
def test_the_best_are_kept_each_once(batches: list[list[Tree]]) -> None:
    visited = Visited.empty(SIZE, LENGTH, jnp.float64)
    seen: dict[Tree, float] = {}
    for batch in batches:
        values = [log_joint_of(tree) for tree in batch]
        seen.update(zip(batch, values, strict=True))
        visited = VISIT(
            visited,
            jnp.asarray([tokens for tokens, _ in batch], jnp.int32),
            jnp.asarray([constants for _, constants in batch]),
            jnp.asarray(values),
        )
        best = sorted(seen, key=lambda tree: -seen[tree])[:SIZE]
        found = np.asarray(visited.log_joint)
        is_kept = np.isfinite(found)
        assert is_kept.sum() == len(best)
        assert (found[~is_kept] == -np.inf).all()
        kept = [row for row, keep in zip(rows(visited), is_kept, strict=True) if keep]
        assert kept == best  # best first, and with the values of their constants
        assert found[is_kept].tolist() == [seen[tree] for tree in best]
        weights = np.exp(np.array([seen[tree] for tree in best]))
        shares = np.exp(np.asarray(visited.log_posterior))
        assert abs(shares.sum() - 1.0) < 1e-12
        np.testing.assert_allclose(shares[is_kept], weights / weights.sum(), rtol=1e-12)
        assert (shares[~is_kept] == 0.0).all()


def test_an_empty_place_never_hides_a_tree() -> None:
    """The padding of an empty place is a row like others: drawn as a tree, it must count."""
    visited = Visited.empty(2, LENGTH, jnp.float64)
    tokens = jnp.full((1, LENGTH), -1, dtype=jnp.int32)
    visited = VISIT(visited, tokens, jnp.zeros((1, LENGTH)), jnp.asarray([-3.0]))
    assert visited.log_joint.tolist() == [-3.0, -np.inf]


def test_the_sign_of_zero_makes_no_second_tree() -> None:
    visited = Visited.empty(3, 2, jnp.float64)
    tokens = jnp.asarray([[1, 0], [1, 0]], dtype=jnp.int32)
    constants = jnp.asarray([[0.0, 0.0], [-0.0, 0.0]])
    visited = VISIT(visited, tokens, constants, jnp.asarray([-1.0, -1.0]))
    assert np.isfinite(visited.log_joint).sum() == 1


def test_many_trees_are_told_apart() -> None:
    """All sequences of six out of seven tokens, and as many trees that differ in one constant: 64
    bits of hash let a pair of them meet with a probability of 2e-9, and 32 bits would surely."""
    tokens = np.stack([axis.ravel() for axis in np.indices((7,) * 6)], axis=1) - 1
    values = np.random.default_rng(0).normal(size=len(tokens)).astype(np.float32)
    values = np.unique(values).astype(np.float64)
    constants = np.zeros((len(tokens) + len(values), 6))
    constants[len(tokens) :, 3] = values
    tokens = np.concatenate([tokens, np.repeat(tokens[-1:], len(values), axis=0)])
    assert len(tokens) > 200_000
    visited = VISIT(
        Visited.empty(len(tokens), 6, jnp.float64),
        jnp.asarray(tokens, jnp.int32),
        jnp.asarray(constants),
        jnp.linspace(-1.0, 0.0, len(tokens)),
    )
    assert np.isfinite(visited.log_joint).all()


def with_log_joints(values: list[float], dtype: type = jnp.float64) -> Visited:
    """A set that holds such trees, and three empty places."""
    visited = Visited.empty(len(values) + 3, 2, dtype)
    tokens = jnp.stack([jnp.arange(len(values), dtype=jnp.int32)] * 2, axis=1)
    constants = jnp.zeros(tokens.shape, dtype=dtype)
    found: Visited = VISIT(visited, tokens, constants, jnp.asarray(values, dtype=dtype))
    return found


NUM_REPLAYED = 40
REPLAY = jax.jit(
    lambda visited, key, temperature: replayed(
        visited, NUM_REPLAYED, key=key, temperature=temperature
    )
)
STARTS = jax.jit(jax.vmap(lambda key: jax.random.uniform(key, dtype=jnp.float32)))


@settings(max_examples=60)
@given(
    values=st.lists(st.floats(-30.0, 5.0), min_size=6, max_size=6, unique=True),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    seed=st.integers(0, 2**16),
)
def test_replayed_as_often_as_the_shares_say(
    values: list[float], temperature: float, seed: int
) -> None:
    """Systematic sampling: N p times, rounded up or down, and an empty place never."""
    visited = with_log_joints(values)
    found = np.asarray(REPLAY(visited, jax.random.key(seed), temperature))
    counts = np.bincount(found, minlength=len(values) + 3)
    weights = np.exp(np.sort(np.array(values))[::-1] / temperature)
    expected = NUM_REPLAYED * weights / weights.sum()
    assert counts[len(values) :].sum() == 0
    assert counts.sum() == NUM_REPLAYED
    assert (counts[: len(values)] >= np.floor(expected - 1e-9)).all()
    assert (counts[: len(values)] <= np.ceil(expected + 1e-9)).all()


def test_what_is_replayed_has_the_shares_on_average() -> None:
    """Rounding up or down is itself without bias: |z| < 4 for each of the trees."""
    values, num = [0.0, -0.3, -1.0, -2.5, -4.0], 4000
    visited = with_log_joints(values)
    keys = jax.random.split(jax.random.key(1), num)
    found = np.asarray(jax.jit(jax.vmap(lambda k: REPLAY(visited, k, 1.0)))(keys))
    shares = np.stack([(found == place).mean(axis=1) for place in range(len(values))], axis=1)
    expected = np.exp(values) / np.exp(values).sum()
    errors = shares.std(axis=0, ddof=1) / math.sqrt(num)
    assert np.abs((shares.mean(axis=0) - expected) / errors).max() < 4.0
    hotter = np.exp(np.array(values) / 1.05) / np.exp(np.array(values) / 1.05).sum()
    assert np.abs((shares.mean(axis=0) - hotter) / errors).max() > 6.0  # it would be seen


def test_no_empty_place_is_replayed_in_single_precision() -> None:
    """The last point is (N - 1 + u) / N, and rounds to 1 for a u close to 1. Take of many keys the
    one with the largest u."""
    keys = jax.random.split(jax.random.key(0), 100_000)
    visited = with_log_joints([0.0, -1.0, -2.0], jnp.float32)
    starts = np.asarray(STARTS(keys))
    last = keys[int(np.argmax(starts))]
    assert (np.float32(1999.0) + starts.max()) / np.float32(2000.0) == 1.0
    found = np.asarray(jax.jit(lambda v: replayed(v, 2000, key=last))(visited))
    assert np.isfinite(np.asarray(visited.log_joint)[found]).all()


def test_an_impossible_size_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 tree, not 0"):
        Visited.empty(0, 3, jnp.float64)

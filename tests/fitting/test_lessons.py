"""What the network that reads data learns in a fit."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.enumeration import enumerate_trees
from dvisr.fitting.data_network import PretrainedNetwork
from dvisr.fitting.lessons import Lesson, log_q_of, make_lesson, teach
from dvisr.fitting.limits import Limit
from dvisr.fitting.search import Search
from dvisr.policy.conditioned import Adapter
from dvisr.problem import Problem
from dvisr.sampling import log_prob
from tests.fitting.problems import problem_of, searching

PROBLEM = problem_of(tree_prior="science", max_tokens=5, operators=("+", "*", "sin", "2"))


def settings(**changes: Any) -> Any:
    small = {"network": "pretrained", "first_batches": 2, "most_looked_at": 64, "most_taught": 256}
    return searching(**{**small, "lesson_rounds": 2, "lesson_updates": 200, **changes})


def search_of(problem: Problem = PROBLEM, **changes: Any) -> Search:
    search = Search(problem, settings(**changes), num_samples=64, seed=0, num_threads=1)
    search.prepare()
    return search


@pytest.fixture(scope="module")
def taught() -> Search:
    search = search_of()
    search.run(2)
    assert search.network is not None
    search.network.finish(search, Limit())
    return search


def test_it_becomes_the_posterior(taught: Search) -> None:
    """Over all trees, which are few here: against the posterior that enumeration gives."""
    network = taught.network
    assert isinstance(network, PretrainedNetwork)
    trees = enumerate_trees(PROBLEM.grammar)
    log_q = network.log_prob(trees)
    assert np.exp(log_q).sum() == pytest.approx(1.0, abs=1e-4)
    numbers = taught.visited.visit(trees, islands=())
    joint = taught.visited.tree_log_joint[numbers]
    log_evidence = float(np.logaddexp.reduce(joint))
    posterior = np.exp(joint - log_evidence)
    assert 0.5 * np.abs(np.exp(log_q) - posterior).sum() < 0.1
    floored = np.maximum(joint, taught.floor + taught.visited.tree_log_prior[numbers])
    elbo = float((np.exp(log_q) * (floored - log_q)).sum())
    assert log_evidence - 1.0 < elbo <= log_evidence + 1e-3


def test_draws_come_with_their_probability(taught: Search) -> None:
    """As the policy's own scan over tokens says it, with what was learnt."""
    network = taught.network
    assert isinstance(network, PretrainedNetwork)
    trees, log_q = network.draw()
    np.testing.assert_allclose(network.log_prob(trees), log_q, rtol=1e-12)
    unfolded = network.unfolded
    policy = eqx.tree_at(lambda p: p.adapter, unfolded.policy, unfolded.adapter)
    nothing = jnp.zeros(trees.shape[1:], dtype=jnp.float32)
    expected = jax.vmap(lambda tree: log_prob(policy, unfolded.writer, tree, nothing))(
        jnp.asarray(trees, jnp.int32)
    )
    np.testing.assert_allclose(log_q, expected, atol=1e-4)


def test_islands_have_draws_of_their_own() -> None:
    """What one island knows of the network's draws, the other need not."""
    search = search_of(first_batches=2)
    network = search.network
    assert isinstance(network, PretrainedNetwork)
    network.begin(search, lambda: False)
    one, two = (search.visited.trees_of_island(island) for island in (0, 1))
    assert one.any()
    assert two.any()
    assert (one | two).all()
    assert (one != two).any()


def read_network() -> PretrainedNetwork:
    network = search_of().network
    assert isinstance(network, PretrainedNetwork)
    assert network._first is not None
    network._first.result()
    return network


def test_a_lesson_says_what_the_policy_says() -> None:
    unfolded = read_network().unfolded
    trees = enumerate_trees(PROBLEM.grammar)[:100]
    lesson = make_lesson(unfolded, trees, np.zeros(100), 128, 1000)
    found = log_q_of(unfolded.adapter, lesson)[:100]
    np.testing.assert_allclose(found, unfolded.log_q(trees), atol=1e-4)


def test_lessons_have_room_for_so_many() -> None:
    """Trees from the first on, as long as there is room for their prefixes."""
    unfolded = read_network().unfolded
    trees = enumerate_trees(PROBLEM.grammar)[:100]
    numbers = unfolded.prefixes(trees)
    for most in (1, 5, 20, 50):
        lesson = make_lesson(unfolded, trees, np.arange(100.0), 60, most)
        count = int(np.asarray(lesson.is_token).any(axis=1).sum())
        own = [len(np.unique(numbers[: k + 1])) for k in range(60)]
        assert count == sum(size <= most for size in own)
        assert lesson.signals.shape[0] == most
        if count:
            np.testing.assert_array_equal(
                np.asarray(lesson.log_joint)[:count], np.arange(count) - (count - 1.0)
            )


def test_teaching_moves_q_to_the_posterior() -> None:
    """Three tokens, one of them likely, one undefined: known in closed form."""
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(1, 6)).astype(np.float32)
    lesson = Lesson(
        signals=jnp.asarray(signals),
        logits=jnp.zeros((1, 3), dtype=jnp.float32),
        prefix=jnp.zeros((3, 1), dtype=jnp.int32),
        token=jnp.asarray([[0], [1], [2]], dtype=jnp.int32),
        is_token=jnp.ones((3, 1), dtype=bool),
        log_joint=jnp.asarray([0.0, -1.0, -np.inf], dtype=jnp.float32),
    )
    adapter = Adapter.create(6, 8, 3, key=jax.random.key(0))
    q = np.exp(np.asarray(log_q_of(teach(adapter, lesson, jnp.asarray(400)), lesson)))
    likely = 1.0 / (1.0 + np.exp(-1.0))
    np.testing.assert_allclose(q, [likely, 1.0 - likely, 0.0], atol=0.01)


def test_a_library_far_from_its_own_has_the_plain_network() -> None:
    search = search_of(problem_of(operators=("cube", "tanh", "+")))
    assert search.network is not None
    assert search.network.name == "plain"
    assert search.why_plain == "the network knows 1 of the 3 operators"


def test_the_same_seed_gives_the_same_draws() -> None:
    def first() -> np.ndarray:
        network = search_of().network
        assert isinstance(network, PretrainedNetwork)
        assert network._first is not None
        return np.concatenate(network._first.result())

    np.testing.assert_array_equal(first(), first())

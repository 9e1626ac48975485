"""What the network that reads data learns in a fit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.enumeration import enumerate_trees
from dvisr.fitting.data_network import PretrainedNetwork, _log_q, _told
from dvisr.fitting.lessons import Lessons, log_q_of, teach
from dvisr.fitting.search import Search
from dvisr.policy.conditioned import Adapter
from dvisr.problem import Problem
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
    search.network.finish(search, None)
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
    network = taught.network
    assert isinstance(network, PretrainedNetwork)
    trees, log_q = network.draw()
    np.testing.assert_allclose(network.log_prob(trees), log_q, atol=1e-3)
    np.testing.assert_allclose(network._log_prob(trees), log_q, atol=1e-3)


def test_islands_have_draws_of_their_own() -> None:
    """What one island knows of the network's draws, the other need not."""
    search = search_of(first_batches=2)
    network = search.network
    assert isinstance(network, PretrainedNetwork)
    network.begin(search)
    one, two = (search.visited.trees_of_island(island) for island in (0, 1))
    assert one.any()
    assert two.any()
    assert (one | two).all()
    assert (one != two).any()


def test_a_lesson_says_what_the_policy_says() -> None:
    search = search_of()
    network = search.network
    assert isinstance(network, PretrainedNetwork)
    assert network._first is not None
    network._first.result()
    trees = enumerate_trees(PROBLEM.grammar)[:100]
    padded = jnp.asarray(trees, jnp.int32)
    signals, logits = _told(network.policy, network._writer, padded)
    lessons = Lessons(PROBLEM.grammar.max_tokens, 128, 1000)
    lessons.add(trees, np.asarray(signals), np.asarray(logits))
    np.testing.assert_array_equal(lessons.trees, trees)
    lesson = lessons.lesson(np.zeros(100))
    found = log_q_of(network.policy.adapter, lesson)[:100]
    expected = _log_q(network.policy, network._writer, padded)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_lessons_have_room_for_so_many() -> None:
    lessons = Lessons(3, 2, 3)
    trees = np.array([[1, 2, 3], [1, 2, 4], [5, -1, -1], [6, -1, -1]], dtype=np.int8)
    signals, logits = np.zeros((4, 3, 2), np.float32), np.zeros((4, 3, 7), np.float32)
    lessons.add(trees, signals, logits)
    np.testing.assert_array_equal(lessons.trees, trees[[0]])  # three prefixes are all there is
    more = Lessons(3, 2, 100)
    more.add(trees, signals, logits)
    np.testing.assert_array_equal(more.trees, trees[:2])
    assert trees[0] in more
    assert trees[2] not in more


def test_teaching_moves_q_to_the_posterior() -> None:
    """Two tokens, one of them likely, one undefined: known in closed form."""
    rng = np.random.default_rng(0)
    lessons = Lessons(1, 4, 4)
    trees = np.array([[0], [1], [2]], dtype=np.int8)
    signal = np.tile(rng.normal(size=(1, 1, 6)).astype(np.float32), (3, 1, 1))
    lessons.add(trees, signal, np.zeros((3, 1, 3), np.float32))
    joint = np.array([-3.0, -4.0, -np.inf])
    adapter = Adapter.create(6, 8, 3, key=jax.random.key(0))
    taught = teach(adapter, lessons.lesson(joint), 400)
    q = np.exp(np.asarray(log_q_of(taught, lessons.lesson(joint))))[:3]
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
        return np.concatenate([drawn.trees for drawn in network._first.result()])

    np.testing.assert_array_equal(first(), first())

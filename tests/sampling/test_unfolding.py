"""A policy unfolded prefix by prefix, against the same policy asked tree by tree."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.policy.conditioned import Adapter, DataNetwork, DataPolicy, Sizes
from dvisr.policy.reading import make_table
from dvisr.prior.named import tree_prior
from dvisr.sampling import Writer, log_prob, make_writer
from dvisr.sampling.unfolding import Unfolded, _systematic

SIZES = Sizes(width=16, reader_layers=1, decoder_layers=2, num_heads=2)


def made(rules: str = "default") -> tuple[Unfolded, Grammar]:
    """A small network whose last layers are not zero, so that it says something of its own."""
    library = Library.create(["+", "*", "/", "sin", "neg", "2"], ["a", "b"], constants=True)
    grammar = Grammar(library, 5, rules)
    network = DataNetwork.create(SIZES, key=jax.random.key(0))
    layer = network.decoder.layer
    loud = jax.random.normal(jax.random.key(1), layer.weight.shape, dtype=jnp.float32)
    network = eqx.tree_at(lambda n: n.decoder.layer.weight, network, 0.3 * loud)
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (9, 2))
    table = make_table(X, X[:, 0] * X[:, 1], rng)
    rows = network.read(table)
    policy = DataPolicy.create(network, rows, library, 5, key=jax.random.key(2), adapter_width=4)
    plain = make_writer(grammar, tree_prior("science", grammar), jnp.float32)
    return Unfolded(policy, Writer(plain.mask, -1, plain.walk)), grammar


def asked(unfolded: Unfolded, trees: np.ndarray) -> np.ndarray:
    """log q by the scan over tokens that all policies have."""
    policy = eqx.tree_at(lambda p: p.adapter, unfolded.policy, unfolded.adapter)
    nothing = jnp.zeros(trees.shape[1:], dtype=jnp.float32)
    of_one = eqx.filter_vmap(lambda tree: log_prob(policy, unfolded.writer, tree, nothing))
    return np.asarray(of_one(jnp.asarray(trees, jnp.int32)))


def loud_adapter(unfolded: Unfolded) -> Adapter:
    outer = unfolded.adapter.outer
    weight = jax.random.normal(jax.random.key(3), outer.weight.shape, dtype=jnp.float32)
    loud: Adapter = eqx.tree_at(lambda a: a.outer.weight, unfolded.adapter, weight)
    return loud


@pytest.mark.parametrize("rules", ["default", "none"])
def test_it_is_the_same_distribution(rules: str) -> None:
    unfolded, grammar = made(rules)
    trees = enumerate_trees(grammar)
    log_q = unfolded.log_q(trees)
    assert np.exp(log_q).sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(log_q, asked(unfolded, trees), atol=2e-5)


def test_an_adapter_changes_what_is_said_and_not_what_is_kept() -> None:
    unfolded, grammar = made()
    trees = enumerate_trees(grammar)
    before, kept = unfolded.log_q(trees), len(unfolded)
    unfolded.adapter = loud_adapter(unfolded)
    after = unfolded.log_q(trees)
    assert len(unfolded) == kept
    assert np.abs(after - before).max() > 0.5
    assert np.exp(after).sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(after, asked(unfolded, trees), atol=2e-5)


def test_draws_come_as_often_as_they_should() -> None:
    """With their log q; the count of each tree about its expectation, by the chi-squared sum, which
    for systematic draws is no more than for independent ones."""
    unfolded, grammar = made()
    count = 4096
    trees, log_q = unfolded.draw(count, np.random.default_rng(0))
    np.testing.assert_allclose(unfolded.log_q(trees), log_q, rtol=1e-12)
    every = enumerate_trees(grammar)
    expected = {
        tree.tobytes(): p for tree, p in zip(every, np.exp(unfolded.log_q(every)), strict=True)
    }
    drawn, counts = np.unique(trees, axis=0, return_counts=True)
    assert {tree.tobytes() for tree in drawn} <= set(expected)
    likely = [(c, count * expected[t.tobytes()]) for t, c in zip(drawn, counts, strict=True)]
    likely = [(c, e) for c, e in likely if e > 5.0]
    assert len(likely) > 20
    assert sum((c - e) ** 2 / e for c, e in likely) < 1.5 * len(likely)


def test_others_are_drawn_every_time() -> None:
    unfolded, _ = made()
    rng = np.random.default_rng(0)
    first, second = unfolded.draw(64, rng)[0], unfolded.draw(64, rng)[0]
    assert (first != second).any()
    again, _ = made()
    np.testing.assert_array_equal(again.draw(64, np.random.default_rng(0))[0], first)


def test_systematic_counts_are_rounded_expectations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        probs = rng.dirichlet(np.ones(6)) * (rng.random(6) < 0.7)
        if probs.sum() == 0.0:
            continue
        count = int(rng.integers(1, 50))
        counts = np.bincount(_systematic(probs, count, rng), minlength=6)
        share = count * probs / probs.sum()
        assert (np.abs(counts - share) < 1.0 + 1e-9).all()
        assert counts[probs == 0.0].sum() == 0


def test_it_needs_the_prior() -> None:
    unfolded, grammar = made()
    with pytest.raises(ValueError, match="the prior that its logits are added to"):
        Unfolded(unfolded.policy, make_writer(grammar))


def test_batches_drawn_together_are_batches() -> None:
    """Each by itself has a token after the empty prefix as often as its probability says, rounded;
    and they are not the same trees."""
    unfolded, _ = made()
    trees, log_q = unfolded.draw(64, np.random.default_rng(0), 3)
    np.testing.assert_allclose(unfolded.log_q(trees), log_q, rtol=1e-12)
    expected = 64 * np.exp(unfolded.log_probs()[0])
    batches = np.split(trees, 3)
    for batch in batches:
        counts = np.bincount(batch[:, 0], minlength=len(expected))
        assert (np.abs(counts - expected) < 1.0).all()
    assert (batches[0] != batches[1]).any()
    assert (batches[1] != batches[2]).any()

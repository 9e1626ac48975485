"""The policy that has read the data: a distribution over the grammar's trees, the same token by
token as all at once, the prior before it has learnt, and blind to the order of the rows."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library, new_operator
from dvisr.policy import vocabulary
from dvisr.policy.conditioned import DataNetwork, DataPolicy, Sizes
from dvisr.policy.reading import MOST_ROWS, features, make_table
from dvisr.prior import TreePrior
from dvisr.prior.named import tree_prior
from dvisr.sampling import Writer, log_prob, make_writer
from dvisr.sampling.following import follow
from tests.contracts import check_policy
from tests.marks import quick_only

SIZES = Sizes(width=8, reader_layers=2, decoder_layers=2, num_heads=2)
RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 3.0, (7, 2))
Y = X[:, 0] * X[:, 1]


def grammar_of(constants: bool = False, operators: Any = ("+", "*", "sin", "2")) -> Grammar:
    return Grammar(Library.create(list(operators), ["a", "b"], constants=constants), 5, "default")


def trained(dtype: Any = jnp.float64) -> DataNetwork:
    """Weights as large as training makes them, so that an input that is off would show."""
    network = DataNetwork.create(SIZES, key=jax.random.key(0))
    rng = np.random.default_rng(2)
    made: DataNetwork = jax.tree.map(
        lambda a: jnp.asarray(0.5 * rng.normal(size=a.shape), dtype), network
    )
    return made


def policy_of(network: DataNetwork, grammar: Grammar, X: np.ndarray = X, y: np.ndarray = Y) -> Any:
    table = make_table(X, y, np.random.default_rng(0))
    rows = network.read(table, network.decoder.places.dtype)
    made = DataPolicy.create(
        network, rows, grammar.library, grammar.max_tokens, key=jax.random.key(1), adapter_width=4
    )
    rng = np.random.default_rng(5)
    adapter = jax.tree.map(
        lambda a: jnp.asarray(0.3 * rng.normal(size=a.shape), made.dtype), made.adapter
    )
    return eqx.tree_at(lambda p: p.adapter, made, adapter)


@pytest.mark.parametrize("constants", quick_only([False, True], True))
def test_it_is_a_policy(constants: bool) -> None:
    grammar = grammar_of(constants)
    policy = policy_of(trained(), grammar)
    if constants:  # of trees alone: a constant's token is written, its value never drawn
        trees = jnp.asarray(enumerate_trees(grammar), jnp.int32)
        writer = Writer(make_writer(grammar).mask, -1, None)
        nothing = jnp.zeros(trees.shape[1:])
        log_q = jax.vmap(lambda tree: log_prob(policy, writer, tree, nothing))(trees)
        assert float(jnp.exp(log_q).sum()) == pytest.approx(1.0, abs=1e-12)
    else:
        check_policy(policy, grammar)


def science(grammar: Grammar) -> TreePrior:
    return tree_prior("science", grammar)


def test_all_at_once_is_token_by_token() -> None:
    grammar = grammar_of(constants=True)
    policy = policy_of(trained(), grammar)
    made = make_writer(grammar, science(grammar), jnp.float64)
    writer = Writer(made.mask, -1, made.walk)
    trees = jnp.asarray(enumerate_trees(grammar), jnp.int32)
    nothing = jnp.zeros(trees.shape[1:])

    def at_once(tree: Any) -> Any:
        seen, weights = follow(writer, tree)
        signals, logits = policy.told(seen)
        log_probs = jax.nn.log_softmax(
            logits + weights.astype(logits.dtype) + policy.adapter(signals)
        )
        chosen = tree[:, None] == jnp.arange(log_probs.shape[1], dtype=jnp.int32)[None]
        return jnp.where(chosen, log_probs, 0.0).sum()

    expected = jax.vmap(lambda tree: log_prob(policy, writer, tree, nothing))(trees)
    # The walk's weights are float32 in `follow`.
    np.testing.assert_allclose(jax.vmap(at_once)(trees), expected, atol=2e-5)


def test_untrained_it_is_the_prior() -> None:
    grammar = grammar_of(constants=True)
    prior = science(grammar)
    network = DataNetwork.create(SIZES, key=jax.random.key(0))
    table = make_table(X, Y, np.random.default_rng(0))
    policy = DataPolicy.create(
        network, network.read(table), grammar.library, grammar.max_tokens, key=jax.random.key(1)
    )
    made = make_writer(grammar, prior, jnp.float32)
    writer = Writer(made.mask, -1, made.walk)
    trees = enumerate_trees(grammar)
    nothing = jnp.zeros(trees.shape[1:], dtype=jnp.float32)
    log_q = jax.vmap(lambda tree: log_prob(policy, writer, tree, nothing))(
        jnp.asarray(trees, jnp.int32)
    )
    np.testing.assert_allclose(log_q, prior.log_prob(np, trees), atol=2e-4)


def test_the_order_of_the_rows_does_not_matter_and_that_of_the_columns_does() -> None:
    grammar, network = grammar_of(), trained()
    trees = jnp.asarray(enumerate_trees(grammar), jnp.int32)
    writer = make_writer(grammar)

    def log_q(X: np.ndarray, y: np.ndarray) -> Any:
        policy, nothing = policy_of(network, grammar, X, y), jnp.zeros(trees.shape[1:])
        return jax.vmap(lambda tree: log_prob(policy, writer, tree, nothing))(trees)

    order = np.array([3, 0, 6, 1, 2, 5, 4])
    plain = log_q(X, Y)
    np.testing.assert_allclose(log_q(X[order], Y[order]), plain, atol=1e-5)
    assert np.abs(np.asarray(log_q(X[:, ::-1], Y) - plain)).max() > 1e-3
    assert np.abs(np.asarray(log_q(X, Y + 1.0) - plain)).max() > 1e-3


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e20, 1e300])
def test_values_of_any_size_are_seen_as_finite_numbers(scale: float) -> None:
    table = make_table(scale * (X - 1.0), np.full(7, scale), np.random.default_rng(0))
    seen = np.asarray(features(table))
    assert np.isfinite(seen).all()
    assert np.abs(seen).max() < 40.0
    assert (seen[7:] == 0.0).all()
    assert (seen[:, 2:10] == 0.0).all()


def test_of_many_rows_some_are_read() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    table = make_table(X, X[:, 0], rng)
    assert table.is_row.all()
    assert table.X.shape == (MOST_ROWS, vocabulary.MOST_COLUMNS)
    rows = {tuple(row) for row in X.astype(np.float32).tolist()}
    read = {tuple(row) for row in np.asarray(table.X)[:, :3].tolist()}
    assert read <= rows
    assert len(read) == MOST_ROWS


def test_tokens_are_known_by_what_they_are() -> None:
    library = Library.create(["/", "cube", "-", "pi", "7"], ["a", "b"], constants=True)
    expected = [vocabulary.OPERATORS.index("/"), vocabulary.OTHER, 1]
    words = vocabulary.words_of(library)
    assert words[:3].tolist() == expected
    value = vocabulary.NUMBERS.index(math.pi) + len(vocabulary.OPERATORS)
    assert words[3:].tolist() == [value, vocabulary.OTHER, vocabulary.CONSTANT, 18, 19]
    assert vocabulary.SIZE == 29


def test_columns_are_known_by_the_place_in_which_they_are_read() -> None:
    library = Library.create(["+"], [f"x{i}" for i in range(12)], constants=False)
    words = vocabulary.words_of(library, [11, 3])
    expected = [vocabulary.OTHER] * 12
    expected[11], expected[3] = 18, 19
    assert words[1:].tolist() == expected


def test_an_unknown_operator_is_left_to_the_prior() -> None:
    """Its probability beside another unknown one is the prior's, whatever the network says."""
    bell = new_operator("bell", 1, lambda np, x: np.exp(-x * x))
    grammar = grammar_of(operators=("+", "cube", bell))
    policy = policy_of(trained(), grammar)
    policy = eqx.tree_at(lambda p: p.adapter, policy, jax.tree.map(jnp.zeros_like, policy.adapter))
    seen, _ = follow(make_writer(grammar), jnp.asarray([0, 1, 3, 3, -1], jnp.int32))
    _, logits = policy.told(seen)
    assert (np.asarray(logits)[:, 1:3] == 0.0).all()
    assert np.abs(np.asarray(logits)[:, [0, 3, 4]]).min() > 0.0


def test_libraries_too_far_from_its_own() -> None:
    def why(operators: list[Any], columns: int) -> str:
        names = [f"x{i}" for i in range(columns)]
        return vocabulary.why_unknown(Library.create(operators, names, constants=True))

    assert why(["+", "*", "cube"], 10) == ""
    assert why(["+", "*", "cube"], 11) == ""  # it reads ten of them
    assert "1 of the 3 operators" in why(["+", "cube", "tanh"], 2)

"""A network that says nothing, on the walk of a prior, is that prior."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.constraints import Constraints, Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.policy import AbstractPolicy, GRUPolicy
from dvisr.prior import tree_prior
from dvisr.sampling import Choices, Writer, make_writer, write

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "paper": (["+", "*", "cos"], ["x0"], True, 5, "paper"),
    "default": (["-", "*", "exp"], ["a", "b"], True, 5, "default"),
    "no-nested-trig": (["+", "*", "sin"], ["x"], False, 6, ["no-nested-trig"]),
    "max-constants": (["+", "*", "sin"], ["x"], True, 5, ["no-all-constant", "max-constants=1"]),
    "min-tokens": (["+", "^"], ["x", "y"], False, 5, ["min-tokens=3", "max-repeats:x=2"]),
    "max-depth": (["exp", "log", "+"], ["x"], False, 6, ["no-inverse", "max-depth=3"]),
}
PRIORS = ("uniform", "allowed", "size-balanced", "weights", "science")


@pytest.fixture(scope="module", autouse=True)
def _soon_compiled() -> Iterator[None]:
    """There is more to compile here than to run."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def made(name: str) -> tuple[Grammar, GRUPolicy, np.ndarray]:
    """With the weights of the network that remain, so that what it sees is not all zeros."""
    operators, variables, constants, size, constraints = CASES[name]
    grammar = Grammar(Library.create(operators, variables, constants=constants), size, constraints)
    policy = GRUPolicy.create(grammar, 4, key=jax.random.key(3), dtype=jnp.float64)
    silent = eqx.tree_at(
        lambda p: (p.token_layer.weight, p.token_layer.bias),
        policy,
        replace_fn=jnp.zeros_like,
    )
    return grammar, silent, enumerate_trees(grammar)


@eqx.filter_jit
def log_q_of_trees(policy: AbstractPolicy, writer: Writer, trees: jax.Array) -> jax.Array:
    """The part of the tokens, which no constant has a say in here."""
    told = Choices(lambda _, log_probs, token: (token, None), lambda outputs, value: value)

    def one(tokens: jax.Array) -> jax.Array:
        values = jnp.zeros(tokens.shape, dtype=policy.dtype)
        return write(policy, writer, told, tokens, values)[0].log_q_tree

    return jax.vmap(one)(trees)


def chosen_weights(grammar: Grammar) -> dict[str, float]:
    """Far from even, and different for every token."""
    return {token.name: 3.0 ** (place % 4) + place for place, token in enumerate(grammar.library)}


def log_prior(grammar: Grammar, trees: np.ndarray, name: str) -> np.ndarray:
    """From the definitions, over the legal trees alone."""
    sizes = (trees >= 0).sum(axis=1)
    if name in ("uniform", "allowed"):
        log_weight = np.zeros(len(trees))
    elif name == "size-balanced":
        log_weight = -np.log([(sizes == size).sum() for size in sizes])
    elif name == "science":
        log_weight = np.asarray(tree_prior(name, grammar).log_prob(np, trees))
    else:
        given: Any = chosen_weights(grammar)
        weights = np.array([given[token.name] for token in grammar.library])
        by_token = np.log(weights / weights.sum())
        log_weight = np.array([by_token[tree[tree >= 0]].sum() for tree in trees])
    found: np.ndarray = log_weight - np.logaddexp.reduce(log_weight)
    return found


@pytest.mark.parametrize("name", CASES)
def test_q_is_the_prior_over_the_legal_trees(name: str) -> None:
    grammar, policy, trees = made(name)
    shown = jnp.asarray(trees, jnp.int32)
    for prior in PRIORS:
        choice = chosen_weights(grammar) if prior == "weights" else prior
        writer = make_writer(grammar, tree_prior(choice, grammar), jnp.float64)
        found = np.asarray(log_q_of_trees(policy, writer, shown))
        expected = log_prior(grammar, trees, prior)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)


def test_single_precision_is_the_prior_to_its_own_digits() -> None:
    grammar, policy, trees = made("paper")
    single = jax.tree.map(lambda a: a.astype(jnp.float32), policy)
    writer = make_writer(grammar, tree_prior(chosen_weights(grammar), grammar))
    assert writer.walk is not None
    assert writer.walk.onward.dtype == jnp.float32
    found = np.asarray(log_q_of_trees(single, writer, jnp.asarray(trees, jnp.int32)))
    expected = log_prior(grammar, trees, "weights")
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-5)


def test_without_the_walk_q_is_no_prior() -> None:
    """Even by token at each step, which none of them is: the tests above could fail."""
    grammar, policy, trees = made("no-nested-trig")
    found = np.asarray(log_q_of_trees(policy, make_writer(grammar), jnp.asarray(trees, jnp.int32)))
    assert abs(np.exp(found).sum() - 1.0) < 1e-12
    for prior in PRIORS:
        assert np.abs(found - log_prior(grammar, trees, prior)).max() > 0.5


def test_logits_are_added_to_the_walk() -> None:
    """With a bias b by token, q of the next token is in proportion to prior * exp(b): at the root
    by the sums over all trees that begin with it."""
    grammar, policy, trees = made("no-nested-trig")
    bias = np.array([0.7, -1.1, 0.4, 2.0])
    biased = eqx.tree_at(lambda p: p.token_layer.bias, policy, jnp.asarray(bias))
    writer = make_writer(grammar, tree_prior("size-balanced", grammar), jnp.float64)
    found = np.exp(np.asarray(log_q_of_trees(biased, writer, jnp.asarray(trees, jnp.int32))))
    prior = np.exp(log_prior(grammar, trees, "size-balanced"))
    roots = np.bincount(trees[:, 0], weights=prior, minlength=4) * np.exp(bias)
    np.testing.assert_allclose(
        np.bincount(trees[:, 0], weights=found, minlength=4), roots / roots.sum(), atol=1e-12
    )


def test_too_many_costs_are_refused() -> None:
    library = Library.create(["+", "sin"], ["x", "y"])
    rules = ["max-repeats:x=6", "max-repeats:y=6"]
    fits = Grammar(library, 10, rules)  # 11 * 7 * 7 costs
    make_writer(fits, tree_prior("allowed", fits), jnp.float64)
    grammar = Grammar(library, 21, rules)  # 22 * 7 * 7
    prior = tree_prior("allowed", grammar)
    with pytest.raises(ValueError, match=r"1078 distinct costs.*1024.*max_tokens"):
        make_writer(grammar, prior, jnp.float64)

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dvisr.constants import Normal
from dvisr.constraints import Grammar, max_constants, min_tokens
from dvisr.counting import count_by_size, count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import tree_prior

LIBRARY = Library.create(["+", "*", "sin", "exp"], ["x"], constants=True)
GRAMMAR = Grammar(LIBRARY, 6, ["paper", max_constants(2), min_tokens(2)])
TREES = enumerate_trees(GRAMMAR)
SIZES = (TREES >= 0).sum(axis=1)


def test_uniform_counts_forbidden_trees() -> None:
    log_prob = tree_prior("uniform", GRAMMAR).log_prob(np, TREES)
    np.testing.assert_allclose(log_prob, -math.log(count_trees(Grammar(LIBRARY, 6))), rtol=1e-15)


def test_allowed_sums_to_one() -> None:
    log_prob = tree_prior("allowed", GRAMMAR).log_prob(np, TREES)
    np.testing.assert_allclose(log_prob, -math.log(len(TREES)), rtol=1e-15)


def test_size_balanced_gives_every_size_the_same() -> None:
    prob = np.exp(tree_prior("size-balanced", GRAMMAR).log_prob(np, TREES))
    for size in range(2, 7):
        of_size = prob[size == SIZES]
        assert of_size.sum() == pytest.approx(1 / 5, abs=1e-12)
        assert np.ptp(of_size) < 1e-15
    assert count_by_size(GRAMMAR)[1] == 0  # a size without trees has no share


@pytest.mark.parametrize("weights", [{}, {"sin": 0.1}, {"x": 3.0, "c": 0.01, "+": 2.0}])
def test_token_weights_are_a_normalised_product(weights: dict[str, float]) -> None:
    prob = np.exp(tree_prior(weights, GRAMMAR).log_prob(np, TREES))
    raw = np.array([weights.get(token.name, 1.0) for token in LIBRARY])
    raw /= raw.sum()
    by_hand = np.array([np.prod(raw[row[row >= 0]]) for row in TREES])
    np.testing.assert_allclose(prob, by_hand / by_hand.sum(), rtol=1e-12)
    assert prob.sum() == pytest.approx(1.0, abs=1e-12)


def test_weights_in_text() -> None:
    by_text = tree_prior("weights:sin=0.1,exp=2", GRAMMAR)
    by_mapping = tree_prior({"sin": 0.1, "exp": 2.0}, GRAMMAR)
    np.testing.assert_array_equal(by_text.log_token, by_mapping.log_token)


def test_the_same_under_jax() -> None:
    for name in ("uniform", "allowed", "size-balanced", "weights", "science"):
        prior = tree_prior(name, GRAMMAR)
        np.testing.assert_allclose(
            prior.log_prob(jnp, jnp.asarray(TREES[:50])), prior.log_prob(np, TREES[:50]), rtol=1e-14
        )


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("unifrm", "did you mean 'uniform'"),
        ("zzz", "choose from"),
        ("uniform:sin=1", "no tree prior"),
        ("weights:sin", "write it like sin=0.5"),
        ("weights:sin=abc", "write it like sin=0.5"),
        ({"sinn": 1.0}, "did you mean 'sin'"),
        ({"sin": 0.0}, "must be above 0"),
        ({"sin": -1.0}, "must be above 0"),
        ({"sin": math.inf}, "must be above 0"),
        ({"x": 1e-300, "c": 1e-300}, "too far apart"),
    ],
)
def test_mistakes_are_explained(choice: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_prior(choice, GRAMMAR)  # type: ignore[arg-type]


def test_a_prior_of_another_grammar_is_refused() -> None:
    with pytest.raises(ValueError, match="another grammar"):
        tree_prior(tree_prior("uniform", GRAMMAR), Grammar(LIBRARY, 3))
    unary, binary = (Grammar(Library.create(names, ["x"]), 3) for names in (["sin"], ["+"]))
    with pytest.raises(ValueError, match="another grammar"):
        tree_prior(tree_prior("science", unary), binary)


def test_normal_constants() -> None:
    prior = Normal(1.5, 2.0)
    values = np.linspace(-5.0, 5.0, 11)
    np.testing.assert_allclose(
        prior.log_prob(np, values), scipy.stats.norm(1.5, 2.0).logpdf(values), rtol=1e-14
    )
    assert not prior.is_symmetric
    assert Normal(0.0, 2.0).is_symmetric
    for log_mass in (1.0, 10.0, 50.0):
        outside = 2 * scipy.stats.norm.sf(prior.radius(log_mass) / 2.0)
        assert outside <= math.exp(-log_mass)


@pytest.mark.parametrize(
    ("mean", "std"), [(0.0, 0.0), (0.0, -1.0), (math.nan, 1.0), (0.0, math.inf)]
)
def test_bad_normal(mean: float, std: float) -> None:
    with pytest.raises(ValueError, match="constants' prior"):
        Normal(mean, std)

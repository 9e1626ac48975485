"""Draws from the prior against the prior, tree by tree where all trees can be listed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from dvisr.constraints import Constraints, Grammar, max_tokens
from dvisr.constraints.grammar import LARGEST_MAX_TOKENS
from dvisr.counting import count_by_size
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import TreePrior, tree_prior
from dvisr.search.from_prior import PriorSampler
from dvisr.search.legality import Legality

FALSE_ALARMS = 2e-5
NUM_DRAWS = 200_000

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "none": (["+", "sin"], ["x", "y"], False, 5, "none"),
    "paper": (["+", "*", "cos"], ["x0"], True, 5, "paper"),
    "default": (["-", "*", "exp", "log"], ["a"], True, 5, "default"),
    "max-constants": (["+", "*", "sin"], ["x"], True, 6, ["default", "max-constants=1"]),
    "max-depth": (["exp", "log", "+", "2"], ["x"], True, 5, ["no-inverse", "max-depth=2"]),
    "counts": (["+", "^"], ["x", "y"], True, 6, ["min-tokens=3", "max-repeats:x=2", max_tokens(5)]),
    "two counts": (["+", "sin"], ["x"], True, 6, ["max-repeats:x=2", "max-constants=1"]),
    "leaves": ([], ["x", "y"], True, 3, "none"),
}
PRIORS = ("uniform", "allowed", "size-balanced", "weights", "science")


def made(name: str) -> Grammar:
    operators, variables, constants, size, constraints = CASES[name]
    library = Library.create(operators, variables, constants=constants)
    return Grammar(library, size, constraints)


def made_prior(name: str, grammar: Grammar) -> TreePrior:
    if name != "weights":
        return tree_prior(name, grammar)
    weights = {t.name: 2.0 ** (place % 3) + place for place, t in enumerate(grammar.library)}
    return tree_prior(weights, grammar)


def p_value(counts: np.ndarray, shares: np.ndarray) -> float:
    """Pearson's test; what is expected fewer than five times is taken together."""
    expected = counts.sum() * shares
    rare = expected < 5.0
    assert counts[expected == 0.0].sum() == 0
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0.0
    return float(scipy.stats.chisquare(counts[kept], expected[kept], sum_check=False).pvalue)


def counted(drawn: np.ndarray, trees: np.ndarray) -> np.ndarray:
    numbers = {tree.tobytes(): number for number, tree in enumerate(trees)}
    places = np.array([numbers[tree.tobytes()] for tree in drawn])
    return np.bincount(places, minlength=len(trees))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", CASES)
def test_trees_come_as_often_as_the_prior_says(name: str, prior: str) -> None:
    grammar = made(name)
    trees, given = enumerate_trees(grammar), made_prior(prior, grammar)
    log_prob = given.log_prob(np, trees)
    shares = np.exp(log_prob - np.logaddexp.reduce(log_prob))  # given that the tree is legal
    drawn = PriorSampler(grammar, given).draw(NUM_DRAWS, np.random.default_rng(5))
    assert drawn.shape == (NUM_DRAWS, grammar.max_tokens)
    assert drawn.dtype == np.int8
    assert p_value(counted(drawn, trees), shares) > FALSE_ALARMS


def test_another_prior_would_be_noticed() -> None:
    grammar = made("default")
    trees = enumerate_trees(grammar)
    drawn = PriorSampler(grammar, tree_prior("allowed", grammar))
    counts = counted(drawn.draw(NUM_DRAWS, np.random.default_rng(5)), trees)
    for name in ("size-balanced", "weights"):
        shares = np.exp(made_prior(name, grammar).log_prob(np, trees))
        assert p_value(counts, shares) < FALSE_ALARMS


OPERATORS = ["+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt"]
LARGE = Library.create(OPERATORS, [f"x{place}" for place in range(30)], constants=True)


@pytest.mark.parametrize("size", [15, 40])
def test_large_grammars_give_legal_trees_of_every_size(size: int) -> None:
    grammar = Grammar(LARGE, size, ["default", "max-constants=4"])
    sampler = PriorSampler(grammar, tree_prior("size-balanced", grammar))
    drawn = sampler.draw(40_000, np.random.default_rng(1))
    assert Legality(grammar)(drawn).all()
    counts = np.bincount((drawn >= 0).sum(axis=1), minlength=size + 1)
    assert p_value(counts, np.append(0.0, np.full(size, 1.0 / size))) > FALSE_ALARMS
    # Variables differ in nothing, so they come equally often; draws of one tree are not quite
    # independent, hence the margin.
    uses = np.bincount(drawn[drawn >= 0], minlength=len(LARGE))[-30:]
    assert np.ptp(uses) < 12.0 * math.sqrt(uses.mean())


@pytest.mark.parametrize("name", ["allowed", "size-balanced"])
def test_more_trees_than_floats_can_count(name: str) -> None:
    operators = ["+", "-", "*", "/", "^", "sin"]
    library = Library.create(operators, [f"x{place}" for place in range(110)])
    grammar = Grammar(library, LARGEST_MAX_TOKENS, "no-nested-trig")
    counts = count_by_size(grammar)
    assert math.log10(sum(counts)) > 310
    drawn = PriorSampler(grammar, tree_prior(name, grammar)).draw(5000, np.random.default_rng(2))
    assert Legality(grammar)(drawn).all()
    total = sum(counts)
    if name == "allowed":
        shares = np.array([count / total for count in counts])
    else:
        shares = np.append(0.0, np.full(LARGEST_MAX_TOKENS, 1.0 / LARGEST_MAX_TOKENS))
    sizes = np.bincount((drawn >= 0).sum(axis=1), minlength=len(shares))
    assert p_value(sizes, shares) > FALSE_ALARMS


def test_draws_follow_from_the_generator() -> None:
    grammar = made("default")
    sampler = PriorSampler(grammar, tree_prior("size-balanced", grammar))
    first, again = (sampler.draw(50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(first, sampler.draw(50, rng))
    assert (sampler.draw(50, rng) != first).any()
    assert sampler.draw(0, rng).shape == (0, grammar.max_tokens)


def test_a_prior_of_another_grammar_is_refused() -> None:
    grammar = made("default")
    with pytest.raises(ValueError, match="made for another grammar"):
        PriorSampler(grammar, tree_prior("allowed", made("none")))
    with pytest.raises(ValueError, match="made for another grammar"):
        PriorSampler(made("max-constants"), tree_prior("allowed", grammar))


def test_a_prior_without_trees_is_refused() -> None:
    grammar = made("paper")
    nothing = TreePrior("nothing", np.full(6, -np.inf), np.zeros((1, len(grammar.library))))
    with pytest.raises(ValueError, match="no legal tree"):
        PriorSampler(grammar, nothing)


def test_too_many_costs_are_refused() -> None:
    library = Library.create(["+"], ["x", "y"], constants=True)
    rules = ["max-repeats:x=12", "max-repeats:y=12", "max-constants=12"]
    grammar = Grammar(library, 15, rules)
    prior = TreePrior("flat", np.zeros(16), np.zeros((1, len(library))))
    with pytest.raises(ValueError, match=r"35152 distinct costs.*4096"):
        PriorSampler(grammar, prior)

"""The likeliest trees against all trees, sorted."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.prior import TreePrior, tree_prior
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from tests.search.test_from_prior import CASES, PRIORS, made

GAP = 1e-9  # trees whose log probabilities differ by less are equally likely


def of(name: str, grammar: Grammar) -> TreePrior:
    if name != "weights":
        return tree_prior(name, grammar)
    heavy = {token.name: 2.0 + place for place, token in enumerate(grammar.library)}
    return tree_prior(heavy, grammar)


def expected(trees: np.ndarray, log_prob: np.ndarray, most: int) -> tuple[set[bytes], float]:
    """The first so many in order, without those as likely as the first that is left out."""
    order = np.argsort(-log_prob, kind="stable")
    if len(order) <= most:
        return {tree.tobytes() for tree in trees}, -np.inf
    next_one = log_prob[order[most]]
    return {trees[i].tobytes() for i in order if log_prob[i] > next_one + GAP}, float(next_one)


@pytest.mark.parametrize("prior_name", PRIORS)
@pytest.mark.parametrize("case", CASES)
def test_against_all_trees(case: str, prior_name: str) -> None:
    grammar = made(case)
    prior = of(prior_name, grammar)
    trees = enumerate_trees(grammar)
    log_prob = np.asarray(prior.log_prob(np, trees))
    for most in (1, 7, len(trees) // 3, len(trees) - 1, len(trees), 2 * len(trees)):
        found, bound = likeliest_trees(grammar, prior, most)
        kept, next_one = expected(trees, log_prob, most)
        own = {tree.tobytes() for tree in found}
        assert len(own) == len(found) <= most
        assert own <= kept
        logs = np.asarray(prior.log_prob(np, found))
        assert (np.diff(logs) <= GAP).all()
        # All that is likelier than the bound is there, and the bound is no lower than can be.
        assert bound >= next_one - GAP
        above = {tree.tobytes() for tree in trees[log_prob > bound + GAP]}
        assert above <= own
        if most >= len(trees):
            assert own == kept
            assert bound == -np.inf


def test_parts_of_trees_are_free_of_what_whole_ones_must_have() -> None:
    grammar = made("counts")  # at least three tokens
    for name in ("science", "size-balanced"):
        parts, own = of_subtrees(grammar, tree_prior(name, grammar), 3)
        found, bound = likeliest_trees(parts, own, 10_000)
        assert bound == -np.inf
        assert found.shape[1] == 3
        rules = ["max-repeats:x=2"]
        expected = enumerate_trees(Grammar(grammar.library, 3, rules))
        assert {tree.tobytes() for tree in found} == {tree.tobytes() for tree in expected}


def test_tokens_can_be_left_out() -> None:
    grammar = made("default")
    prior, constant = tree_prior("science", grammar), grammar.library.constant_id
    found, _ = likeliest_trees(grammar, prior, 10_000, leaving_out=(constant, -1))
    trees = enumerate_trees(grammar)
    expected = trees[(trees != constant).all(axis=1)]
    assert {tree.tobytes() for tree in found} == {tree.tobytes() for tree in expected}


def test_a_large_language() -> None:
    """As many as are asked for, or nearly, where there are more trees than could be listed."""
    operators = [*"+-*/^", "square", "sqrt", "exp", "log", "sin", "cos", "neg", *"1234", "pi"]
    names = [f"x{place}" for place in range(6)]
    grammar = Grammar(Library.create(operators, names, constants=True), 15, "default")
    prior = tree_prior("science", grammar)
    found, bound = likeliest_trees(grammar, prior, 5_000)
    logs = np.asarray(prior.log_prob(np, found))
    assert 2_000 < len(found) <= 5_000
    assert len(np.unique(found, axis=0)) == len(found)
    assert logs.min() > bound - GAP
    assert int((found >= 0).sum(axis=1).max()) >= 7

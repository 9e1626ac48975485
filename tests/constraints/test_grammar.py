"""Mask, check, enumeration and counts all follow from one declaration; here they are held against
brute force and against predicates written from the rules' words."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.constraints import (
    Constraints,
    ForbidChild,
    Grammar,
    MaxDepth,
    masking,
    max_constants,
    max_repeats,
    min_tokens,
)
from dvisr.counting import count_by_size, count_trees, weight_by_size
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from tests import reference, strategies

LENGTH = 6


def padded(trees: list[tuple[int, ...]], length: int) -> np.ndarray:
    rows = np.full((len(trees), length), -1, dtype=np.int32)
    for row, tokens in zip(rows, trees, strict=True):
        row[: len(tokens)] = tokens
    return rows


def as_tuples(trees: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(int(t) for t in row[row >= 0]) for row in trees]


@functools.partial(jax.jit, static_argnums=())
def masks_along(mask: masking.Mask, trees: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For each tree the mask before each of its tokens, and whether the check accepts it."""

    def one(tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(state: masking.MaskState, token: jax.Array) -> tuple[masking.MaskState, jax.Array]:
            return masking.step(mask, state, token), masking.allowed(mask, state)

        _, masks = jax.lax.scan(body, masking.start(mask), tokens)
        return masks, masking.is_allowed(mask, tokens)

    return jax.vmap(one)(trees)


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[Library, int, list[strategies.CheckedRule]]:
    library = draw(strategies.small_libraries())
    rules = draw(st.lists(strategies.checked_rules(library), max_size=4))
    return library, draw(st.integers(1, LENGTH)), rules


@settings(max_examples=60)
@given(problem=problems())
def test_enumeration_and_counts_equal_brute_force(
    problem: tuple[Library, int, list[strategies.CheckedRule]],
) -> None:
    library, max_tokens, rules = problem
    everything = reference.all_trees(library, max_tokens)
    legal = [t for t in everything if all(rule.holds(t) for rule in rules)]
    if not legal:
        with pytest.raises(ValueError, match="no expression of"):
            Grammar(library, max_tokens, [rule.rule for rule in rules])
        return
    grammar = Grammar(library, max_tokens, [rule.rule for rule in rules])
    found = as_tuples(enumerate_trees(grammar))
    assert len(found) == len(set(found))
    assert set(found) == {reference.prefix(tree) for tree in legal}
    sizes = [len(tokens) for tokens in found]
    assert sizes == sorted(sizes)
    assert count_by_size(grammar) == tuple(sizes.count(n) for n in range(max_tokens + 1))
    assert count_trees(grammar.unconstrained) == len(everything)
    weights = [0.3 + 0.1 * i for i in range(len(library))]
    by_hand = np.zeros(max_tokens + 1)
    for tokens in found:
        by_hand[len(tokens)] += np.prod([weights[token] for token in tokens])
    np.testing.assert_allclose(weight_by_size(grammar, weights), by_hand, rtol=1e-12)


@settings(max_examples=25)
@given(problem=problems(), data=st.data())
def test_mask_is_exact_and_check_agrees(
    problem: tuple[Library, int, list[strategies.CheckedRule]], data: st.DataObject
) -> None:
    """A token is in the mask if and only if a legal tree continues so; a tree is accepted if and
    only if it is legal."""
    library, max_tokens, rules = problem
    everything = reference.all_trees(library, max_tokens)
    legal = {reference.prefix(t) for t in everything if all(rule.holds(t) for rule in rules)}
    if not legal:
        return
    grammar = Grammar(library, max_tokens, [rule.rule for rule in rules])
    prefixes = {tokens[:n] for tokens in legal for n in range(1, len(tokens) + 1)}
    some = data.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=200, unique=True))
    trees = [reference.prefix(tree) for tree in some]
    trees += sorted(legal)[:: max(1, len(legal) // 200)][:200]
    trees = (trees * 512)[:512]  # one shape, fewer compilations
    masks, accepted = masks_along(
        masking.make_mask(grammar), jnp.asarray(padded(trees, max_tokens))
    )
    for tokens, mask, is_accepted in zip(
        trees, np.asarray(masks), np.asarray(accepted), strict=True
    ):
        assert bool(is_accepted) == (tokens in legal)
        for n in range(len(tokens)):
            if n > 0 and tokens[:n] not in prefixes:
                break
            expected = [(*tokens[:n], t) in prefixes for t in range(len(library))]
            assert mask[n].tolist() == expected, (grammar, tokens, n)


def test_check_refuses_what_is_no_tree() -> None:
    grammar = Grammar(Library.create(["+", "sin"], ["x"]), 5)
    mask = masking.make_mask(grammar)
    rows = [
        [0, 2, 2, -1, -1],  # x + x
        [0, 2, -1, -1, -1],  # unfinished
        [2, 2, -1, -1, -1],  # goes on after its end
        [2, -1, 2, -1, -1],
        [-1, -1, -1, -1, -1],
        [9, -1, -1, -1, -1],  # no such token
        [0, 0, 0, 2, 2],
    ]
    accepted = jax.vmap(lambda row: masking.is_allowed(mask, row))(
        jnp.asarray(rows, dtype=jnp.int32)
    )
    assert np.asarray(accepted).tolist() == [True] + [False] * 6


def test_uniform_walk_sums_to_one_and_never_ends_dead() -> None:
    """Choosing uniformly within the mask, the probabilities of all legal trees sum to one."""
    library = Library.create(["+", "*", "/", "sin", "exp", "log"], ["x", "y"], constants=True)
    grammar = Grammar(library, 7, ["default", max_constants(2), min_tokens(4), MaxDepth(3)])
    trees = enumerate_trees(grammar).astype(np.int32)
    masks, accepted = masks_along(masking.make_mask(grammar), jnp.asarray(trees))
    assert bool(accepted.all())
    is_token = trees >= 0
    choices = np.asarray(masks).sum(axis=2)
    assert (choices[is_token] > 0).all()
    assert (choices[~is_token] == 0).all()
    log_prob = -np.where(is_token, np.log(np.maximum(choices, 1)), 0.0).sum(axis=1)
    assert abs(np.exp(log_prob).sum() - 1.0) < 1e-12


def test_rules_that_leave_no_tree_are_named() -> None:
    library = Library.create(["+", "sin"], ["x"])
    with pytest.raises(ValueError, match="at least 2 tokens") as caught:
        Grammar(library, 3, [min_tokens(2), max_repeats(["+", "sin"], 0), MaxDepth(5)])
    message = str(caught.value)
    assert "at most 0 + or sin" in message
    assert "depth" not in message  # it is not at fault


def test_sizes_with_holes() -> None:
    """With binary operators alone every tree has an odd size."""
    library = Library.create(["+"], ["x"])
    with pytest.raises(ValueError, match="no expression"):
        Grammar(library, 4, min_tokens(4))
    assert count_by_size(Grammar(library, 5, min_tokens(4))) == (0, 0, 0, 0, 0, 2)


@pytest.mark.parametrize("bad", [0, -1, 201, 2.5, True])
def test_bad_max_tokens(bad: int) -> None:
    with pytest.raises(ValueError, match="max_tokens must be"):
        Grammar(Library.create(["+"], ["x"]), bad)


def test_a_rule_on_an_unknown_token_is_refused() -> None:
    library = Library.create(["+"], ["x"])
    with pytest.raises(ValueError, match="'tan', which is not in the library"):
        Grammar(library, 3, max_repeats("tan", 1))
    with pytest.raises(ValueError, match="'tan', which is not in the library"):
        Grammar(library, 3, ForbidChild(frozenset({"+"}), frozenset({"tan"})))


def test_counts_pass_the_largest_machine_integer() -> None:
    names = [f"x{i}" for i in range(5)]
    library = Library.create("+,-,*,/,sin,cos,exp,log,sqrt", names, constants=True)
    unconstrained = count_by_size(Grammar(library, 60))
    # Trees of n tokens with b binary operators: words of the language, counted by the cycle lemma.
    from math import comb

    def by_formula(n: int) -> int:
        total = 0
        for b in range((n - 1) // 2 + 1):
            leaves, unary = b + 1, n - 2 * b - 1
            words = comb(n, b) * comb(n - b, leaves) // n
            total += words * 4**b * 5**unary * 6**leaves
        return total

    assert unconstrained[1:] == tuple(by_formula(n) for n in range(1, 61))
    assert unconstrained[60] > 2**63


@pytest.mark.parametrize("size", [12, 20, 25])
def test_published_number_of_allowed_trees(size: int) -> None:
    grammar = Grammar(Library.create(["+", "*", "sin"], ["x0"]), size, "paper")
    known = {12: 26_804, 20: 182_515_572, 25: 53_072_787_188}
    assert count_trees(grammar) == known[size]


def test_grammars_of_the_same_words_size_and_rules_are_equal() -> None:
    def made(size: int = 7, rules: Constraints = "default", column: str = "x") -> Grammar:
        return Grammar(Library.create(["+", "*", "exp"], [column], constants=True), size, rules)

    assert made() == made()
    assert hash(made()) == hash(made())
    count_by_size.cache_clear()
    assert count_trees(made()) == count_trees(made())
    assert count_by_size.cache_info().hits == 1
    for other in (made(size=8), made(rules="none"), made(column="z")):
        assert made() != other
    apart = made().told_apart(made().scopes, np.arange(len(made().scopes.allowed)))
    assert apart == apart
    assert made() != apart

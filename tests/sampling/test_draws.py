"""q is a distribution, and draws from it are draws from it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dvisr.constraints import Constraints, Grammar, masking
from dvisr.divergence import tree_log_q
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.policy import GRUPolicy, Observation, observe
from dvisr.sampling import (
    AbstractDraws,
    ExploringDraws,
    IndependentDraws,
    Sample,
    StratifiedDraws,
    draw,
    log_prob,
    make_writer,
)
from tests.contracts import FALSE_ALARM
from tests.marks import quick_only

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "simple": (["+", "*", "sin"], ["x0"], False, 6, "paper"),
    "two variables": (["-", "*", "cos", "exp"], ["a", "b"], False, 5, "default"),
    "literals": (["/", "sqrt", "1", "pi"], ["x"], False, 5, "none"),
    "inverses": (["exp", "log", "+"], ["x"], False, 6, ["no-inverse", "max-depth=3"]),
    "counts": (["+", "^"], ["x", "y"], False, 5, ["min-tokens=3", "max-repeats:x=2"]),
    "constants": (["+", "*", "cos"], ["x0"], True, 3, "paper"),
    "more constants": (["+", "*", "sin"], ["x0"], True, 5, ["no-all-constant", "max-constants=2"]),
}


@functools.cache
def made(name: str) -> tuple[Grammar, GRUPolicy, np.ndarray]:
    operators, variables, constants, size, constraints = CASES[name]
    grammar = Grammar(Library.create(operators, variables, constants=constants), size, constraints)
    policy = GRUPolicy.create(grammar, 8, key=jax.random.key(5), dtype=jnp.float64)
    return grammar, jax.tree.map(lambda a: 3.0 * a, policy), enumerate_trees(grammar)


@pytest.mark.parametrize("name", quick_only(CASES, "two variables", "constants"))
def test_q_sums_to_one(name: str) -> None:
    """With constants they are integrated out first, by quadrature where a token follows one."""
    grammar, policy, trees = made(name)
    total = np.exp(tree_log_q(policy, make_writer(grammar), trees)).sum()
    assert abs(total - 1.0) < 1e-12


def counts(drawn: Sample, trees: np.ndarray) -> np.ndarray:
    places = {tuple(tree): place for place, tree in enumerate(trees.tolist())}
    rows = [places[tuple(tokens)] for tokens in np.asarray(drawn.tokens).tolist()]
    return np.bincount(rows, minlength=len(trees))


@pytest.mark.parametrize("name", quick_only(CASES, "two variables", "counts"))
def test_independent_draws_fit(name: str) -> None:
    grammar, policy, trees = made(name)
    writer, num = make_writer(grammar), 50_000
    q = np.exp(tree_log_q(policy, writer, trees))
    found = counts(IndependentDraws()(policy, writer, num, key=jax.random.key(11)), trees)
    expected = num * q / q.sum()
    rare = expected < 5.0
    if rare.any():  # pooled
        expected = np.append(expected[~rare], expected[rare].sum())
        found = np.append(found[~rare], found[rare].sum())
    keep = expected > 1.0
    assert found[~keep].sum() <= 15
    expected = expected[keep] * found[keep].sum() / expected[keep].sum()
    assert stats.chisquare(found[keep], expected).pvalue > FALSE_ALARM


EVEN = [(name, jnp.float64) for name in CASES if "constants" not in name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [*EVEN, ("simple", jnp.float32)])
def test_stratified_draws_are_even(name: str, dtype: type) -> None:
    """In prefix order the trees up to any one of them come up N q times, to within one."""
    grammar, policy, trees = made(name)
    policy = jax.tree.map(lambda a: a.astype(dtype), policy)
    writer, num = make_writer(grammar), 1000
    q = np.exp(tree_log_q(policy, writer, trees).astype(np.float64))
    order = np.lexsort(trees.T[::-1])
    slack = 0.01 if dtype == jnp.float64 else 0.1  # single precision moves the borders
    draws = jax.jit(lambda key: StratifiedDraws()(policy, writer, num, key=key))
    for seed in range(3):
        found = np.cumsum(counts(draws(jax.random.key(seed)), trees)[order])
        assert np.abs(found - num * np.cumsum(q[order])).max() < 1.0 + slack


def test_stratified_draws_are_even_where_there_are_constants() -> None:
    """Constants are drawn as ever, and later tokens depend on them; the first does not."""
    grammar, policy, _ = made("more constants")
    drawn = StratifiedDraws()(policy, make_writer(grammar), 1000, key=jax.random.key(0))
    found = np.bincount(np.asarray(drawn.tokens)[:, 0], minlength=len(grammar.library))
    expected = 1000 * _first_token(policy, grammar)
    assert np.abs(np.cumsum(found) - np.cumsum(expected)).max() < 1.01


def _first_token(policy: GRUPolicy, grammar: Grammar) -> np.ndarray:
    _, steps = draw(policy, make_writer(grammar), key=jax.random.key(0))
    return np.exp(np.asarray(steps.log_probs[0], dtype=np.float64))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("simple", jnp.float32), ("counts", jnp.float64)])
def test_stratified_batches_are_unbiased(name: str, dtype: type) -> None:
    """The frequencies in batches of four, averaged over many batches, are q."""
    grammar, policy, trees = made(name)
    policy = jax.tree.map(lambda a: a.astype(dtype), policy)
    writer, num_batches, size = make_writer(grammar), 20_000, 4
    q = np.exp(tree_log_q(policy, writer, trees).astype(np.float64))
    draws = jax.jit(jax.vmap(lambda k: StratifiedDraws()(policy, writer, size, key=k).tokens))
    tokens = np.asarray(draws(jax.random.split(jax.random.key(2), num_batches)))
    places = {tuple(tree): place for place, tree in enumerate(trees.tolist())}
    rows = np.array([[places[tuple(t)] for t in batch] for batch in tokens.tolist()])
    for tree in np.flatnonzero(q > 1e-3):
        shares = (rows == tree).mean(axis=1)
        error = shares.std() / np.sqrt(num_batches)
        assert abs(shares.mean() - q[tree]) < 4.5 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple", "counts", "more constants"])
def test_exploring_draws_are_those_of_q_once_weighted(name: str) -> None:
    """And they see the tokens that q has all but given up."""
    grammar, policy, trees = made(name)
    policy = jax.tree.map(lambda a: 4.0 * a, policy)
    writer, num, share = make_writer(grammar), 60_000, 0.2
    drawn = jax.jit(lambda k: ExploringDraws(share)(policy, writer, num, key=k))(jax.random.key(8))
    weights = np.exp(np.asarray(drawn.log_weight))
    assert weights.max() <= (1.0 - share) ** -grammar.max_tokens + 1e-9
    q = np.exp(tree_log_q(policy, writer, trees))
    places = {tuple(tree): place for place, tree in enumerate(trees.tolist())}
    rows = np.array([places[tuple(tokens)] for tokens in np.asarray(drawn.tokens).tolist()])
    first = np.bincount(rows, weights=weights, minlength=len(trees)) / num
    second = np.bincount(rows, weights=weights**2, minlength=len(trees)) / num
    errors = np.sqrt(np.maximum(second - first**2, 0.0) / num)
    seen = np.bincount(rows, minlength=len(trees)) > 30
    assert np.abs((first - q)[seen] / errors[seen]).max() < 4.5
    assert abs(weights.mean() - 1.0) < 4.5 * weights.std() / np.sqrt(num)
    independent = IndependentDraws()(policy, writer, num, key=jax.random.key(8))
    assert len(np.unique(rows)) >= (counts(independent, trees) > 0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("draws", [IndependentDraws(), StratifiedDraws()])
def test_constants_are_drawn_from_the_head(draws: AbstractDraws) -> None:
    """The tree `c`: its constant's distribution at the first step is the head's own."""
    grammar, policy, _ = made("constants")
    writer = make_writer(grammar)
    drawn = draws(policy, writer, 20_000, key=jax.random.key(4))
    tokens, constants = np.asarray(drawn.tokens), np.asarray(drawn.constants)
    alone = tokens[:, 0] == grammar.library.constant_id
    _, outputs = policy(policy.start(), _nothing_seen(grammar))
    mean, std = float(outputs.constant[0]), float(np.log1p(np.exp(outputs.constant[1])))
    assert alone.sum() > 100
    assert stats.kstest(constants[alone, 0], stats.norm(mean, std).cdf).pvalue > FALSE_ALARM


def _nothing_seen(grammar: Grammar) -> Observation:
    state = masking.start(masking.make_mask(grammar))
    return observe(state, jnp.zeros(3), grammar.library.constant_id)


def test_what_is_no_tree_has_no_probability() -> None:
    grammar, policy, _ = made("simple")
    library, writer = grammar.library, make_writer(grammar)
    plus, sin, x = (library.find(name) for name in ("+", "sin", "x0"))
    assert plus is not None
    assert sin is not None
    assert x is not None
    bad = [
        [sin, sin, x, -1, -1, -1],  # nested trig
        [plus, x, -1, -1, -1, -1],  # unfinished
        [x, x, -1, -1, -1, -1],  # goes on after its end
        [-1, x, -1, -1, -1, -1],
        [plus, x, len(library), -1, -1, -1],
        [plus, plus, plus, plus, x, x],  # too large
    ]
    zeros = jnp.zeros(6)
    for tokens in bad:
        assert log_prob(policy, writer, jnp.asarray(tokens, jnp.int32), zeros) == -jnp.inf
    good = jnp.asarray([plus, x, x, -1, -1, -1], jnp.int32)
    assert jnp.isfinite(log_prob(policy, writer, good, zeros))

"""The REINFORCE gradient against the exact one, by enumeration; baselines by their definitions."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.enumeration import enumerate_trees
from dvisr.objective import (
    EWMA,
    AbstractBaseline,
    BatchMean,
    LeaveOneOut,
    NoBaseline,
    Reinforce,
    elbo_terms,
)
from dvisr.policy import AbstractPolicy, GRUPolicy
from dvisr.sampling import ExploringDraws, IndependentDraws, StratifiedDraws, log_prob
from tests.marks import quick_only
from tests.problems import Small, small

NUM_SAMPLES = 4  # so few that a factor of 3/4 can't hide
NUM_BATCHES = 20_000
DIRECTIONS = 8
WITHOUT = small(("+", "*", "sin"), max_tokens=4)
UNDEFINED = small(("-", "log"), low=-1.0, max_tokens=4, constraints="none")
WITH = small(("+", "*", "cos"), constants=True, max_tokens=3, scale=1.0)


def exact_elbo(policy: GRUPolicy, case: Small) -> jax.Array:
    """Over all trees; a constant, of which these trees have at most one, on a fixed fine grid."""
    trees = enumerate_trees(case.problem.grammar)
    constant = case.problem.grammar.library.constant_id
    total = jnp.zeros(())
    for tree in trees:
        places = np.flatnonzero((tree == constant) & (tree >= 0))
        grid, step = np.linspace(-14.0, 14.0, 1401, retstep=True) if len(places) else ([0.0], 1.0)
        constants = np.zeros((len(grid), len(tree)))
        constants[:, places] = np.asarray(grid)[:, None]

        def term(c: jax.Array, tree: np.ndarray = tree) -> jax.Array:
            tokens = jnp.asarray(tree, jnp.int32)
            log_q = log_prob(policy, case.writer, tokens, c)
            return jnp.exp(log_q) * (case.target.log_joint(tokens, c)[0] - log_q)

        total = total + step * jax.vmap(term)(jnp.asarray(constants)).sum()
    return total


def directions(policy: GRUPolicy) -> list[GRUPolicy]:
    leaves, structure = jax.tree.flatten(policy)
    rng = np.random.default_rng(1)
    return [
        jax.tree.unflatten(structure, [jnp.asarray(rng.normal(size=a.shape)) for a in leaves])
        for _ in range(DIRECTIONS)
    ]


def along(gradient: AbstractPolicy, direction: GRUPolicy) -> jax.Array:
    products = jax.tree.map(lambda g, d: (g * d).sum(), gradient, direction)
    return jnp.stack(jax.tree.leaves(products)).sum()


def estimates(case: Small, objective: Reinforce, state: object) -> np.ndarray:
    """(batches, directions): the ELBO's slope as each batch has it."""
    chosen = directions(case.policy)

    @jax.jit
    def one_each(keys: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            loss_gradient, _, _ = objective.gradient(
                case.policy, case.writer, case.target, state, key=key
            )
            return jnp.stack([-along(loss_gradient, direction) for direction in chosen])

        return jax.vmap(one)(keys)

    keys = jax.random.split(jax.random.key(99), NUM_BATCHES)
    return np.concatenate([np.asarray(one_each(part)) for part in jnp.split(keys, 10)])


@functools.cache
def exact_slopes(case: Small) -> np.ndarray:
    gradient = jax.jit(jax.grad(lambda policy: exact_elbo(policy, case)))(case.policy)
    return np.array([along(gradient, direction) for direction in directions(case.policy)])


CASES: dict[str, tuple[Small, AbstractBaseline]] = {
    "without, none": (WITHOUT, NoBaseline()),
    "without, mean": (WITHOUT, BatchMean()),
    "without, leave one out": (WITHOUT, LeaveOneOut()),
    "without, moving average": (WITHOUT, EWMA(0.25)),
    "undefined, leave one out": (UNDEFINED, LeaveOneOut()),
    "with, none": (WITH, NoBaseline()),
    "with, mean": (WITH, BatchMean()),
}


@pytest.mark.parametrize("name", quick_only(CASES, "with, mean"))
def test_the_mean_gradient_is_the_exact_one(name: str) -> None:
    """Within four standard errors, after the factor that a baseline is known to have."""
    case, baseline = CASES[name]
    state = baseline.start(jnp.float64)
    if isinstance(baseline, EWMA):  # after a first batch, as its factor is stated
        samples = IndependentDraws()(case.policy, case.writer, 2000, key=jax.random.key(5))
        _, state = baseline(state, elbo_terms(case.target, samples)[0], jnp.ones(2000))
    found = estimates(case, Reinforce(NUM_SAMPLES, baseline), state)
    expected = exact_slopes(case)
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    factor = baseline.gradient_factor(NUM_SAMPLES)
    z = (found.mean(axis=0) - factor * expected) / errors
    assert np.abs(z).max() < 4.0
    # The test has power: half the gradient would be seen, and a mean's missing quarter is.
    assert np.abs((found.mean(axis=0) - 0.5 * factor * expected) / errors).max() > 6.0
    if isinstance(baseline, BatchMean):
        assert np.abs((found.mean(axis=0) - expected) / errors).max() > 6.0


@pytest.mark.slow
def test_stratified_draws_have_the_exact_gradient_and_less_noise() -> None:
    case, objective = WITHOUT, Reinforce(NUM_SAMPLES, NoBaseline(), StratifiedDraws())
    found = estimates(case, objective, None)
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.abs((found.mean(axis=0) - exact_slopes(case)) / errors).max() < 4.0
    independent = estimates(case, Reinforce(NUM_SAMPLES, NoBaseline()), None)
    assert found.var(axis=0).sum() < 0.7 * independent.var(axis=0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("case", [WITHOUT, WITH], ids=["without", "with"])
def test_exploring_draws_have_the_exact_gradient(case: Small) -> None:
    found = estimates(case, Reinforce(NUM_SAMPLES, NoBaseline(), ExploringDraws(0.3)), None)
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.abs((found.mean(axis=0) - exact_slopes(case)) / errors).max() < 4.0


@pytest.mark.slow
def test_elbo_terms_are_the_integrand() -> None:
    case = WITH
    samples = IndependentDraws()(case.policy, case.writer, 50, key=jax.random.key(0))
    terms, is_valid = elbo_terms(case.target, samples)
    assert is_valid.all()
    log_prior = jax.vmap(case.target.log_prior)(samples.tokens, samples.constants)
    log_likelihood, _ = jax.vmap(case.target.log_likelihood)(samples.tokens, samples.constants)
    log_q = jax.vmap(lambda t, c: log_prob(case.policy, case.writer, t, c))(
        samples.tokens, samples.constants
    )
    np.testing.assert_allclose(terms, log_likelihood + log_prior - log_q, atol=1e-12)


def test_baselines_by_their_definitions() -> None:
    rng = np.random.default_rng(3)
    batches = rng.normal(size=(5, 7)) * 10 - 100
    average = None
    ewma, state = EWMA(0.25), EWMA(0.25).start(jnp.float64)
    for number, batch in enumerate(batches):
        weights = np.ones(7) if number < 3 else rng.uniform(0.1, 1.1, size=7)
        given = (jnp.asarray(batch), jnp.asarray(weights))
        mean = np.average(batch, weights=weights)
        np.testing.assert_array_equal(NoBaseline()(None, *given)[0], np.zeros(7))
        np.testing.assert_allclose(BatchMean()(None, *given)[0], np.full(7, mean), rtol=1e-13)
        others = [np.average(np.delete(batch, i), weights=np.delete(weights, i)) for i in range(7)]
        np.testing.assert_allclose(LeaveOneOut()(None, *given)[0], others, rtol=1e-12)
        average = mean if average is None else 0.25 * mean + 0.75 * average
        found, state = ewma(state, *given)
        np.testing.assert_allclose(found, np.full(7, average), rtol=1e-13)


def test_an_invalid_share_is_reported() -> None:
    case = UNDEFINED
    objective = Reinforce(400, BatchMean())
    gradient, _, info = eqx.filter_jit(objective.gradient)(
        case.policy, case.writer, case.target, None, key=jax.random.key(0)
    )
    samples = IndependentDraws()(case.policy, case.writer, 400, key=jax.random.key(0))
    share = 1.0 - float(elbo_terms(case.target, samples)[1].mean())
    assert 0.0 < share < 1.0
    assert float(info.invalid_share) == pytest.approx(share)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    "make",
    [
        lambda: EWMA(0.0),
        lambda: EWMA(1.5),
        lambda: Reinforce(0, BatchMean()),
        lambda: LeaveOneOut()(None, jnp.zeros(1), jnp.ones(1)),
        lambda: ExploringDraws(0.0),
    ],
)
def test_wrong_settings_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        make()  # type: ignore[operator]


def test_leaving_one_out_where_one_has_all_of_the_weight() -> None:
    terms, weights = jnp.asarray([-3.0, -9.0], jnp.float32), jnp.asarray([1.2, 1e-9], jnp.float32)
    found, _ = LeaveOneOut()(None, terms, weights)
    assert np.isfinite(found).all()
    assert float(found[1]) == -3.0

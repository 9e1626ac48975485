"""Trees that are filled several times, against quadrature and the oracle."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr import training
from dvisr.constants import MixtureHead
from dvisr.divergence import sample_elbo_terms
from dvisr.enumeration import enumerate_trees
from dvisr.exact import log_marginal, solve
from dvisr.experiments.paper import tabled
from dvisr.expression import Expression
from dvisr.objective import AbstractObjective, LeaveOneOut, Refilled, Reinforce
from dvisr.objective.refilled import _filled
from dvisr.optim import Adam, CosineDecay
from dvisr.policy import GRUPolicy, PlaceInputs
from dvisr.recipes import GRUSpec, Recipe
from dvisr.sampling import (
    Choices,
    ExploringDraws,
    IndependentDraws,
    StratifiedDraws,
    log_densities,
    make_writer,
    write,
)
from dvisr.target import make_target
from tests.objective.test_others import (
    compiled,
    exact_gradient,
    flat,
    keys_of,
    largest_z,
    skeleton_first,
    skeleton_policy,
)
from tests.problems import Small, small

pytestmark = pytest.mark.slow

NUM_STEPS = 30
AT_FIRST, AT_LAST = jnp.asarray(0), jnp.asarray(20)  # nothing is faded, all is


@functools.cache
def with_two() -> Small:
    """Trees of up to two constants."""
    case = small(("+", "*"), constants=True, max_tokens=5)
    return dataclasses.replace(case, policy=skeleton_policy(case.problem.grammar, "mixture"))


def trees_with(case: Small, num_constants: int) -> list[np.ndarray]:
    constant = case.problem.grammar.library.constant_id
    trees = enumerate_trees(case.problem.grammar)
    return [tree for tree in trees if (tree == constant).sum() == num_constants]


@pytest.mark.parametrize("num_constants", [0, 1, 2])
def test_the_fillings_estimate_the_trees_probability(num_constants: int) -> None:
    """Not its logarithm: the mean of joint / proposal has no bias."""
    case = with_two()
    tree = trees_with(case, num_constants)[1]
    problem = case.problem
    expression = Expression(problem.grammar.library, tuple(int(t) for t in tree[tree >= 0]))
    exact = log_marginal(expression, problem.X, problem.likelihood, problem.constant_prior).value
    exact += float(problem.tree_prior.log_prob(np, tree[None])[0])

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        tokens = jnp.asarray(tree, jnp.int32)
        return _filled(case.policy, case.writer, case.target, tokens, 8, key).log_marginal

    found = np.exp(np.asarray(each(jax.random.split(jax.random.key(5), 20_000))) - exact)
    if num_constants == 0:
        np.testing.assert_allclose(found, 1.0, rtol=1e-12)
        return
    error = found.std() / np.sqrt(len(found))
    assert error < 0.03
    assert abs(found.mean() - 1.0) < 4.0 * error


def test_the_fit_goes_to_the_cross_entropy() -> None:
    """With many fillings: the mean over the posterior of the slope of log q, on a fine grid."""
    case = skeleton_first("mixture")
    tree = jnp.asarray(trees_with(case, 1)[0], jnp.int32)
    here = tree == case.problem.grammar.library.constant_id
    grid = jnp.linspace(-14.0, 14.0, 2001)
    filler, head = case.policy.filler, case.policy.head
    assert filler is not None

    @compiled
    def exact(policy: GRUPolicy) -> jax.Array:
        joint = jax.vmap(lambda v: case.target.log_joint(tree, jnp.where(here, v, 0.0))[0])(grid)

        def entropy(policy: GRUPolicy) -> jax.Array:
            def log_q(value: jax.Array) -> jax.Array:
                constants = jnp.where(here, value, 0.0)
                assert policy.filler is not None
                _, outputs = policy.filler(tree, lambda _, v: v, constants)
                densities = jax.vmap(lambda o: head.log_prob(o, value))(outputs)
                return jnp.where(here, densities, 0.0).sum()

            return (jax.nn.softmax(joint) * jax.vmap(log_q)(grid)).sum()

        return flat(jax.grad(entropy)(policy))

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        def fit(policy: GRUPolicy) -> jax.Array:
            return _filled(policy, case.writer, case.target, tree, 4000, key).fit

        return flat(jax.grad(fit)(case.policy))

    found = np.asarray(each(jax.random.split(jax.random.key(6), 60)))
    lines = np.random.default_rng(1).normal(size=(found.shape[1], 6))
    expected = np.asarray(exact(case.policy)) @ lines
    assert largest_z(found @ lines, expected) < 4.5
    assert largest_z(found @ lines, 0.75 * expected) > 6.0


@pytest.mark.parametrize("name", ["normal", "mixture"])
def test_in_the_end_the_filler_has_the_elbos_gradient(name: str) -> None:
    case = skeleton_first(name)
    objective = Refilled(64, NUM_STEPS, practice=0.0, draws=IndependentDraws())

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        gradient, after, _ = objective.gradient(
            case.policy, case.writer, case.target, AT_LAST, key=key
        )
        return jnp.where(after == AT_LAST + 1, -flat(gradient), jnp.nan)

    is_filler = np.asarray(flat(_marked(case.policy))) > 0.0
    found = np.concatenate([np.asarray(each(keys_of(number))) for number in range(4)])[:, is_filler]
    lines = np.random.default_rng(1).normal(size=(found.shape[1], 8))
    exact = exact_gradient(case)[is_filler] @ lines
    assert largest_z(found @ lines, exact) < 4.0
    assert largest_z(found @ lines, 0.75 * exact) > 6.0


def _marked(policy: GRUPolicy) -> GRUPolicy:
    """1 for the filler's weights, 0 for the others."""
    nothing = jax.tree.map(jnp.zeros_like, policy)
    marked: GRUPolicy = eqx.tree_at(
        lambda p: p.filler, nothing, jax.tree.map(jnp.ones_like, policy.filler)
    )
    return marked


def test_with_two_constants_too() -> None:
    """The second constant's component is chosen in view of the first, which moves: on a grid in the
    plane, with weights large enough for that to matter."""
    case = with_two()
    names = [token.name for token in case.problem.grammar.library]
    # A sum: of a product the terms grow with the fourth power, and the grid would have to be vast.
    sums = [t for t in trees_with(case, 2) if names.index("*") not in t.tolist()]
    tree = jnp.asarray(sums[0], jnp.int32)
    first, second = np.flatnonzero(np.asarray(tree) == case.problem.grammar.library.constant_id)
    assert case.policy.filler is not None
    filler = case.policy.filler
    weights = (1.5 * filler.writer.input_weight, filler.layer.weight.at[:2].multiply(3.0))
    filler = eqx.tree_at(lambda f: (f.writer.input_weight, f.layer.weight), filler, weights)
    policy = eqx.tree_at(lambda p: p.filler, case.policy, filler)
    grid, width = np.linspace(-24.0, 24.0, 641, retstep=True)
    pairs = jnp.asarray(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2))

    def parts(policy: GRUPolicy) -> tuple[jax.Array, jax.Array]:
        def term(pair: jax.Array) -> tuple[jax.Array, jax.Array]:
            constants = jnp.zeros(tree.shape[0]).at[first].set(pair[0]).at[second].set(pair[1])
            assert policy.filler is not None
            _, outputs = policy.filler(tree, lambda _, value: value, constants)
            log_q = log_densities(policy.head, case.writer, tree, constants, outputs).sum()
            return jnp.exp(log_q) * (case.target.log_joint(tree, constants)[0] - log_q), log_q

        terms, log_q = jax.vmap(term)(pairs)
        return width**2 * terms.sum(), width**2 * jnp.exp(log_q).sum()

    exact, mass = compiled(jax.grad(parts, has_aux=True))(policy)
    assert abs(float(mass) - 1.0) < 1e-9  # the grid is fine enough, and wide enough

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        def path(policy: GRUPolicy) -> jax.Array:
            return _filled(policy, case.writer, case.target, tree, 8, key).path

        return flat(jax.grad(path)(policy))

    found = np.concatenate([np.asarray(each(keys_of(number))) for number in range(10)])
    lines = np.random.default_rng(1).normal(size=(found.shape[1], 8))
    expected = np.asarray(flat(exact)) @ lines
    assert largest_z(found @ lines, expected) < 4.0
    assert largest_z(found @ lines, 0.9 * expected) > 6.0


def test_the_tokens_have_the_gradient_of_the_estimated_marginals() -> None:
    """Over all trees: the slope of q(tree) times what its term is on average."""
    case = skeleton_first("normal")
    trees = jnp.asarray(enumerate_trees(case.problem.grammar), jnp.int32)
    draws = ExploringDraws(0.3)
    objective = Refilled(64, NUM_STEPS, practice=0.25, draws=draws)

    @compiled
    def marginals(keys: jax.Array) -> jax.Array:
        each = jax.vmap(lambda t, k: _filled(case.policy, case.writer, case.target, t, 8, k))
        found = jax.vmap(lambda k: each(trees, jax.random.split(k, len(trees))).log_marginal)(keys)
        return jnp.mean(found, axis=0)

    average = np.mean([np.asarray(marginals(keys_of(number))) for number in range(4)], axis=0)

    @compiled
    def exact(policy: GRUPolicy) -> jax.Array:
        def value(policy: GRUPolicy) -> jax.Array:
            zeros = jnp.zeros(trees.shape[1])
            told = Choices(lambda _, log_probs, token: (token, None), lambda outputs, value: value)
            log_q = jax.vmap(lambda t: write(policy, case.writer, told, t, zeros)[0].log_q_tree)(
                trees
            )
            return jnp.vdot(jnp.exp(log_q), average - jax.lax.stop_gradient(log_q))

        return flat(jax.grad(value)(policy))

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        gradient, _, _ = objective.gradient(case.policy, case.writer, case.target, AT_LAST, key=key)
        return -flat(gradient)

    is_token = np.asarray(flat(_marked(case.policy))) == 0.0
    found = np.concatenate([np.asarray(each(keys_of(number))) for number in range(4)])[:, is_token]
    lines = np.random.default_rng(1).normal(size=(found.shape[1], 8))
    # A quarter of the 8 trees is practice and has no part in this.
    expected = 0.75 * np.asarray(exact(case.policy))[is_token] @ lines
    assert largest_z(found @ lines, expected) < 4.0
    assert largest_z(found @ lines, 0.75 * expected) > 6.0


def test_at_the_posterior_of_the_constants_no_filling_moves_the_filler() -> None:
    """The tree c: its posterior is a Normal in closed form, which the filler is set to."""
    case = small(("+",), constants=True, max_tokens=1)
    problem = case.problem
    policy = skeleton_policy(problem.grammar, "normal")
    y, prior = np.asarray(problem.likelihood.y), problem.constant_prior
    precision = len(y) + prior.scale**-2  # the noise is 1
    mean, std = (y.sum() + prior.centre / prior.scale**2) / precision, precision**-0.5
    bias = jnp.asarray([mean, np.log(np.expm1(std)), 0.0, 0.0])
    assert policy.filler is not None
    policy = eqx.tree_at(
        lambda p: (p.filler.layer.weight, p.filler.layer.bias),
        policy,
        (jnp.zeros_like(policy.filler.layer.weight), bias),
    )
    objective = Refilled(64, NUM_STEPS)
    step = compiled(
        lambda state: objective.gradient(
            policy, case.writer, case.target, state, key=jax.random.key(3)
        )[0]
    )
    last, first = step(AT_LAST), step(AT_FIRST)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(last.filler)) < 1e-12
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(first.filler)) > 1e-3


def test_it_keeps_modes_that_the_path_alone_gives_up() -> None:
    """cos(x0 + c) has a mode every 2 pi, as far as the prior goes. To give it up costs as much as
    it is probable; the oracle is the judge."""
    experiment = dataclasses.replace(tabled("constants", "quadratic"), max_tokens=4)
    problem = experiment.problem
    exact = solve(problem)
    log_evidence = exact.log_evidence
    lost = exact.table().set_index("expression").probability["cos(x0 + c)"]

    def kl(objective: AbstractObjective) -> float:
        recipe = Recipe(
            num_steps=400,
            policy=GRUSpec(32, 1, PlaceInputs, skeleton_first=True, head=MixtureHead(48, 1.0)),
            objective=objective,
            optimiser=Adam(),
            schedule=CosineDecay(1e-2, 400),
        )
        grammar = problem.grammar
        target = make_target(problem, np.float32)
        with jax.enable_x64(False):
            made = recipe.training(grammar, target)
            states = recipe.start(made, grammar, np.float32, seed=0, num_runs=1)
            for chunk in training.train(made, states, recipe.num_steps):
                states = chunk.states
        policy = jax.tree.map(lambda a: jnp.asarray(a[0], jnp.float64), states.policy)
        target = make_target(problem, np.float64)
        terms = sample_elbo_terms(
            policy, make_writer(grammar), target, 20_000, key=jax.random.key(0)
        )
        return log_evidence - float(np.mean(terms))

    assert kl(Refilled(400, 400)) < 0.5 * lost
    assert kl(Reinforce(400, LeaveOneOut(), StratifiedDraws(0.05))) > lost


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Refilled(100, 10, num_fillings=7), "even number"),
        (lambda: Refilled(100, 10, num_fillings=2), "at least 4"),
        (lambda: Refilled(100, 10, practice=1.0), "below 1"),
        (lambda: Refilled(100, 0), "at least 1 step"),
        (lambda: Refilled(16, 10), "at least 24 samples"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_it_is_for_policies_with_a_filler() -> None:
    case = small(("+",), constants=True, max_tokens=1)
    with pytest.raises(ValueError, match="skeleton first"):
        Refilled(64, 10).start(case.policy, case.writer)


def test_its_fading_follows_the_budget() -> None:
    assert Refilled(64, 10).with_budget(20, 128) == Refilled(128, 20)

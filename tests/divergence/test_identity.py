"""log p(y) = ELBO + KL at any weights. The ELBO is taken with the code that trains (the policy's
log q, the target, JAX); KL with the oracle's (enumeration, NumPy's evaluator, the marginal
likelihoods, SciPy's quadrature), so that a wrong sign, mask, density or prior on either side
shows."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from dvisr.divergence import integrate_trees, tree_log_q
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate
from dvisr.exact import log_marginal
from dvisr.expression import Expression
from dvisr.sampling import log_prob
from dvisr.target import UNDEFINED_ERRORS
from tests.marks import quick_only
from tests.problems import Small, small

WITHOUT = {
    "paper": small(("+", "*", "sin"), max_tokens=7),
    "two variables": small(("-", "*", "cos"), ("x0", "x1"), prior="size-balanced"),
    "undefined": small(("/", "log", "-"), low=-1.0, constraints="none"),
    "literals": small(("^", "2", "sqrt"), low=-0.5, noise=0.3, constraints="none"),
    "inferred noise": small(("+", "exp", "neg"), noise="infer", prior="weights"),
    "all undefined but a few": small(("sqrt", "inv"), low=-1.0, constraints="none"),
}


def floor(case: Small) -> float:
    """The price of an undefined expression, worked out from its definition."""
    likelihood = case.problem.likelihood
    wrong = UNDEFINED_ERRORS * (np.abs(likelihood.y).max() + likelihood.scale)
    return float(likelihood.log_prob(np, likelihood.y + wrong))


def host_log_joint(case: Small, trees: np.ndarray) -> np.ndarray:
    """Of trees without constants: NumPy's evaluator, one tree at a time."""
    found = []
    for tree in trees:
        expression = Expression(
            case.problem.grammar.library, tuple(int(t) for t in tree[tree >= 0])
        )
        values, is_defined = evaluate(expression, case.problem.X)
        if np.all(is_defined):
            values = np.broadcast_to(values, (len(case.problem.X),))
            found.append(float(case.problem.likelihood.log_prob(np, values)))
        else:
            found.append(floor(case))
    log_joint: np.ndarray = np.array(found) + case.problem.tree_prior.log_prob(np, trees)
    return log_joint


@pytest.mark.parametrize("name", WITHOUT)
def test_without_constants(name: str) -> None:
    case = WITHOUT[name]
    trees = enumerate_trees(case.problem.grammar)
    found = integrate_trees(case.policy, case.writer, case.target, trees)
    log_q = tree_log_q(case.policy, case.writer, trees)
    log_joint = host_log_joint(case, trees)
    log_evidence = float(np.logaddexp.reduce(log_joint))
    kl = math.fsum(np.exp(log_q) * (log_q - (log_joint - log_evidence)))
    assert kl > 1e-3  # q is not the posterior: the identity is not 0 = 0
    assert abs(found.elbo + kl - log_evidence) < 1e-10
    assert found.kl(log_evidence) == pytest.approx(kl, abs=1e-10)


def test_the_floor_is_used() -> None:
    case = WITHOUT["undefined"]
    trees = enumerate_trees(case.problem.grammar)
    _, is_valid = jax.vmap(lambda t: case.target.log_joint(t, jnp.zeros(t.shape)))(
        jnp.asarray(trees, jnp.int32)
    )
    assert 0 < int(is_valid.sum()) < len(trees)


WITH = {
    "paper": small(("+", "*", "cos"), constants=True, max_tokens=3),
    "a token after the constant": small(
        ("+", "*"), constants=True, max_tokens=5, constraints=("max-constants=1",)
    ),
    "nonlinear": small(
        ("*", "sin"), constants=True, max_tokens=4, constraints=("max-constants=1",)
    ),
    "two constants": small(("+", "*"), constants=True, max_tokens=5, constraints="paper"),
    "two, any side": small(("+", "cos"), constants=True, max_tokens=3, constraints="none"),
    "inferred noise": small(("+", "*"), constants=True, max_tokens=3, noise="infer"),
}  # fmt: skip


@pytest.mark.parametrize("name", quick_only(WITH, "paper", "inferred noise"))
def test_with_constants(name: str) -> None:
    """KL is taken apart: over the trees by the oracle's posterior, and within each tree, where
    q(c | tree) meets the posterior density that the oracle's marginal likelihood normalises."""
    case = WITH[name]
    problem = case.problem
    trees = enumerate_trees(problem.grammar)
    found = integrate_trees(case.policy, case.writer, case.target, trees)
    assert found.error < 1e-8
    expressions = [
        Expression(problem.grammar.library, tuple(int(t) for t in tree[tree >= 0]))
        for tree in trees
    ]
    marginals = np.array(
        [
            log_marginal(e, problem.X, problem.likelihood, problem.constant_prior).value
            for e in expressions
        ]
    )
    log_joint = marginals + problem.tree_prior.log_prob(np, trees)
    log_evidence = float(np.logaddexp.reduce(log_joint))
    log_q = tree_log_q(case.policy, case.writer, trees)
    np.testing.assert_allclose(log_q, found.log_q, atol=1e-10)
    kl = 0.0
    for row, expression in enumerate(expressions):
        within = conditional_kl(case, trees[row], expression, log_q[row], marginals[row])
        kl += math.exp(log_q[row]) * (log_q[row] - (log_joint[row] - log_evidence) + within)
    assert kl > 1e-3
    assert abs(found.elbo + kl - log_evidence) < 1e-8


log_probs = eqx.filter_jit(jax.vmap(log_prob, in_axes=(None, None, None, 0)))


def conditional_kl(
    case: Small, tree: np.ndarray, expression: Expression, log_q: float, marginal: float
) -> float:
    """By SciPy's adaptive cubature, on the policy's log q and NumPy's likelihood."""
    count = expression.num_constants
    if count == 0:
        return 0.0
    problem = case.problem
    places = np.flatnonzero(tree == problem.grammar.library.constant_id)
    tokens = jnp.asarray(tree, jnp.int32)

    def integrand(values: np.ndarray) -> np.ndarray:
        size = 4096 * -(-len(values) // 4096)  # few shapes to compile
        constants = np.zeros((size, len(tree)))
        constants[: len(values), places] = values
        log_density = (
            np.asarray(log_probs(case.policy, case.writer, tokens, jnp.asarray(constants)))[
                : len(values)
            ]
            - log_q
        )
        found, _ = evaluate(expression, problem.X, [values[:, [i]] for i in range(count)])
        found = np.broadcast_to(found, (len(values), len(problem.X)))
        log_posterior = (
            problem.likelihood.log_prob(np, found)
            + problem.constant_prior.log_prob(np, values).sum(axis=1)
            - marginal
        )
        terms: np.ndarray = np.exp(log_density) * (log_density - log_posterior)
        return terms

    low, high = [-40.0] * count, [40.0] * count
    result = integrate.cubature(integrand, low, high, rtol=1e-11, atol=1e-11)
    assert result.status == "converged"
    return float(result.estimate)

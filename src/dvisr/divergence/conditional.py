"""q(constant | tree) against the exact posterior of the constant, for trees with one constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dvisr.divergence.integrals import tree_log_q
from dvisr.evaluation import evaluate
from dvisr.exact import log_marginal
from dvisr.expression import Expression
from dvisr.policy import AbstractPolicy
from dvisr.problem import Problem
from dvisr.sampling import Writer, log_prob

_POINTS = 401
_DROP = 12.0  # the plotted range ends where the posterior has fallen by so many nats


@dataclasses.dataclass(frozen=True)
class ConstantDensity:
    expression: str
    values: np.ndarray  # (points,) of the constant
    exact: np.ndarray  # (points,) densities
    q: np.ndarray  # (runs, points)

    def moments(self, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of densities (..., points) on these values."""
        mass = np.trapezoid(density, self.values, axis=-1)
        mean = np.trapezoid(density * self.values, self.values, axis=-1) / mass
        spread = (self.values - np.expand_dims(mean, -1)) ** 2
        return mean, np.sqrt(np.trapezoid(density * spread, self.values, axis=-1) / mass)


def constant_density(
    policies: Sequence[AbstractPolicy], writer: Writer, problem: Problem, tree: np.ndarray
) -> ConstantDensity:
    """`tree`: ids padded with -1, with exactly one constant among them."""
    tokens = tuple(int(token) for token in tree[tree >= 0])
    expression = Expression(problem.grammar.library, tokens)
    if expression.num_constants != 1:
        raise ValueError(f"{expression} has {expression.num_constants} constants: one is needed")
    values = _range(expression, problem)
    exact = np.exp(_log_posterior(expression, problem, values))
    place = tokens.index(writer.constant_id)
    constants = np.zeros((len(values), len(tree)))
    constants[:, place] = values
    tokens_array = jnp.asarray(tree, jnp.int32)
    log_joint_q = eqx.filter_jit(jax.vmap(log_prob, in_axes=(None, None, None, 0)))
    q = []
    for policy in policies:
        found = log_joint_q(policy, writer, tokens_array, jnp.asarray(constants, policy.dtype))
        q.append(np.exp(np.asarray(found) - tree_log_q(policy, writer, tree[None])[0]))
    return ConstantDensity(str(expression), values, exact, np.stack(q))


def _log_posterior(expression: Expression, problem: Problem, values: np.ndarray) -> np.ndarray:
    """Log densities at the values, by the oracle's evaluator and its marginal likelihood."""
    found, is_defined = evaluate(expression, problem.X, [values[:, None]])
    found = np.broadcast_to(found, (len(values), len(problem.X)))
    log_likelihood = np.where(
        np.broadcast_to(is_defined, found.shape).all(axis=-1),
        problem.likelihood.log_prob(np, found),
        -np.inf,
    )
    log_joint = log_likelihood + problem.constant_prior.log_prob(np, values)
    marginal = log_marginal(expression, problem.X, problem.likelihood, problem.constant_prior)
    density: np.ndarray = log_joint - marginal.value
    return density


def _range(expression: Expression, problem: Problem) -> np.ndarray:
    """From a wide grid to the stretch that holds the posterior, twice over."""
    prior = problem.constant_prior
    low, high = prior.centre - 6.0 * prior.scale, prior.centre + 6.0 * prior.scale
    for _ in range(2):
        values = np.linspace(low, high, 20_001)
        log_density = _log_posterior(expression, problem, values)
        inside = values[log_density > log_density.max() - _DROP]
        step = values[1] - values[0]
        low, high = inside[0] - step, inside[-1] + step
    return np.linspace(low, high, _POINTS)

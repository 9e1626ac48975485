"""Small problems with their truth, for the tests of q."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.constants import Normal
from dvisr.constraints import Constraints, Grammar
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.policy import GRUPolicy
from dvisr.prior import tree_prior
from dvisr.problem import Problem
from dvisr.sampling import Writer, make_writer
from dvisr.target import Target, make_target
from dvisr.types import Dataset


@dataclasses.dataclass(frozen=True, eq=False)
class Small:
    problem: Problem
    policy: GRUPolicy
    writer: Writer
    target: Target


@functools.cache
def small(
    operators: tuple[str, ...],
    variables: tuple[str, ...] = ("x0",),
    *,
    constants: bool = False,
    max_tokens: int = 5,
    constraints: Constraints = "paper",
    prior: str = "uniform",
    noise: float | str = 1.0,
    low: float = 0.0,
    prior_std: float = 2.0,
    scale: float = 2.0,
    hidden_size: int = 6,
    seed: int = 0,
) -> Small:
    """Points from `low` to 1, the quadratic of the first column, random weights made larger."""
    x = np.linspace(low, 1.0, 7)
    X = np.stack([x if i == 0 else np.cos((i + 1) * x) for i in range(len(variables))], axis=1)
    library = Library.create(list(operators), list(variables), constants=constants)
    grammar = Grammar(library, max_tokens, constraints)
    problem = Problem(
        data=Dataset.create(X, x**2),
        grammar=grammar,
        likelihood=make_likelihood(x**2, noise),
        tree_prior=tree_prior(prior, grammar),
        constant_prior=Normal(0.3, prior_std),
    )
    policy = GRUPolicy.create(grammar, hidden_size, key=jax.random.key(seed), dtype=jnp.float64)
    policy = jax.tree.map(lambda a: scale * a, policy)
    target = make_target(problem, np.float64)
    return Small(problem, policy, make_writer(grammar), target)

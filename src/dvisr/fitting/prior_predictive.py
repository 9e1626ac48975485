"""What was thought possible before the data."""

from __future__ import annotations

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.problem import Problem
from dvisr.search.from_prior import PriorSampler


def prior_observations(
    problem: Problem, X: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """(rows, count): tree, constants and noise each from its prior."""
    trees = PriorSampler(problem.grammar, problem.tree_prior).draw(count, rng)
    likelihood = problem.likelihood
    scale = likelihood.typical_scale
    factors = np.ones(count) if likelihood.prior is None else likelihood.prior.draw(rng, count)
    drawn = np.full((len(X), count), np.nan)
    for column, tree in enumerate(trees):
        tokens = tuple(int(token) for token in tree if token >= 0)
        bare = Expression(problem.grammar.library, tokens)
        constants = problem.constant_prior.sample(rng, (bare.num_constants,))
        values, defined = evaluate(bare.with_constants(constants.tolist()), X)
        values = np.where(defined, values, np.nan)
        z = likelihood.noise.draw(rng, (len(X),))
        drawn[:, column] = likelihood.noise.observed(values, scale * factors[column], z)
    return drawn

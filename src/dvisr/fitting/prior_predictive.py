"""What was thought possible before the data."""

from __future__ import annotations

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.fitting.problem import Problem
from dvisr.likelihood import InferredNoise
from dvisr.search.from_prior import PriorSampler


def prior_observations(
    problem: Problem, X: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """(rows, count): tree, constants and noise each from its prior."""
    trees = PriorSampler(problem.grammar, problem.tree_prior).draw(count, rng)
    scale = float(np.median(problem.likelihood.scale))
    found = np.full((len(X), count), np.nan)
    for column, tree in enumerate(trees):
        tokens = tuple(int(token) for token in tree if token >= 0)
        bare = Expression(problem.grammar.library, tokens)
        constants = problem.constant_prior.sample(rng, (bare.num_constants,))
        values, defined = evaluate(bare.with_constants(constants.tolist()), X)
        sigma = scale
        if isinstance(problem.likelihood, InferredNoise):
            likelihood = problem.likelihood
            sigma *= float(np.sqrt(likelihood.rate / rng.gamma(likelihood.shape, 1.0)))
        noise = sigma * rng.standard_normal(len(X))
        found[:, column] = np.where(defined, values, np.nan) + noise
    return found

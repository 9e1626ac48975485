"""Draws of one function's constants and noise, as if it were known to be the right one."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.evaluation import evaluate
from dvisr.posterior.posterior import Function, Posterior
from dvisr.posterior.predictive import Draws
from dvisr.problem import Problem

_MOST_DRAWS, _FEWEST_DRAWS = 2000, 200
_MOST_VALUES = 4_000_000  # draws times rows; many rows leave little of the constants to draw


def function_draws(
    problem: Problem, posterior: Posterior, function: Function, *, seed: int = 0
) -> Draws:
    """Equally likely draws, of which those that are undefined on the data are left out."""
    rng = np.random.default_rng(seed)
    weighed, expression = function.weighed, function.expression
    count = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _MOST_VALUES // len(problem.X)))
    constants = weighed.constants[weighed.resampled(count, rng)]
    columns = [constants[:, place, None] for place in range(constants.shape[1])]
    values, _ = evaluate(expression, problem.X, columns)
    values = np.broadcast_to(values, (len(constants), len(problem.X)))
    likelihood = problem.likelihood
    with np.errstate(all="ignore"):
        residuals = np.asarray(likelihood.residuals(np, values))
    kept = np.isfinite(residuals).all(axis=1)
    factor = np.ones(int(kept.sum()))
    if likelihood.is_inferred and kept.any():
        factor = np.asarray(likelihood.scale_draws(rng, residuals[kept]))
    return dataclasses.replace(
        posterior.draws,
        expressions=(expression,),
        tree=np.zeros(len(factor), dtype=posterior.draws.tree.dtype),
        constants=constants[kept],
        noise_factor=factor,
    )

"""How well a tree can fit at all: a bound on its marginal likelihood, found by optimisation."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from dvisr.constants import AbstractConstantPrior
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.likelihood import Likelihood

NUM_STARTS = 100
_UNDEFINED = 1e8  # a residual where the tree is undefined


def log_best_fit(
    expression: Expression,
    X: np.ndarray,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
) -> float:
    """The highest log likelihood that least squares finds from many starts over the prior. The
    marginal likelihood is an average of the likelihood, so it is not higher than the highest."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((NUM_STARTS, expression.num_constants))
    # Half over the bulk of the prior, half close to its centre.
    spread[NUM_STARTS // 2 :] *= 0.1

    def residuals(z: np.ndarray) -> np.ndarray:
        constants = [np.full((1, 1), prior.centre + prior.scale * value) for value in z]
        values, is_defined = evaluate(expression, X, constants)
        whitened = likelihood.whitened(np, np.broadcast_to(values, (1, len(X))))
        is_defined = np.broadcast_to(is_defined, whitened.shape) & ~np.isnan(whitened)
        clean = np.where(is_defined, whitened, _UNDEFINED)
        bounded: np.ndarray = np.clip(clean[0], -_UNDEFINED, _UNDEFINED)
        return bounded

    root = 1.0 if likelihood.weights is None else np.sqrt(likelihood.weights)
    best = -np.inf
    with np.errstate(all="ignore"):
        for start in spread:
            fitted = scipy.optimize.least_squares(residuals, start, max_nfev=100)
            if likelihood.noise.by_squares:
                value = likelihood.of_squares(np, np.asarray(2.0 * fitted.cost))
            else:
                value = likelihood.of_residuals(np, residuals(fitted.x) / root)
            best = max(best, float(value))
    return best

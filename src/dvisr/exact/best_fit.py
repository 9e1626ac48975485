"""How well a tree can fit at all: a bound on its marginal likelihood, found by optimisation."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from dvisr.constants import AbstractConstantPrior
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.likelihood import AbstractLikelihood

NUM_STARTS = 100
_UNDEFINED = 1e8  # a residual where the tree is undefined


def log_best_fit(
    expression: Expression,
    X: np.ndarray,
    likelihood: AbstractLikelihood,
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
        clean = np.where(np.broadcast_to(is_defined, whitened.shape), whitened, _UNDEFINED)
        bounded: np.ndarray = np.clip(clean[0], -_UNDEFINED, _UNDEFINED)
        return bounded

    best = np.inf
    with np.errstate(all="ignore"):
        for start in spread:
            found = scipy.optimize.least_squares(residuals, start, max_nfev=100)
            best = min(best, 2.0 * float(found.cost))
    return float(likelihood.of_squares(np, np.asarray(best)))

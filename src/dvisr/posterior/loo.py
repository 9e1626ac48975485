"""Leave-one-out prediction, as ArviZ has it.

Leaving one observation out starts from the draws as they were proposed: each is weighed once, by
what it is worth without that observation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dvisr.diagnostics import smoothed_weights
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.marginal import Engine, Weighed, noise_draws

MOST_DRAWS = 2000
_FEWEST_DRAWS = 50  # below which the tail of the weights can't be fitted


def loo_of_draws(
    engine: Engine,
    expression: Expression,
    weighed: Weighed,
    *,
    count: int = MOST_DRAWS,
    seed: int,
) -> Any:
    """The expected log density of an observation that was left out, summed over all: an `ELPDData`
    of ArviZ, with the pointwise values and their Pareto k. By importance sampling from the draws
    that the tree was weighed with, at most `count` of them; those at which it is undefined have no
    weight and are left out. Where too few remain the sum is NaN."""
    check_defined(expression, weighed)
    rng = np.random.default_rng(seed)
    log_density, log_ratio = _proposed(engine, expression, weighed, count, rng)
    if weighed.constants.shape[1] == 0 and not engine.likelihood.is_inferred:
        # Nothing is to be found, so that leaving out changes nothing.
        elpd = within = log_density[0]
        k = np.zeros(len(elpd))
    elif len(log_ratio) < _FEWEST_DRAWS:
        elpd = within = k = np.full(len(engine.likelihood.y), math.nan)
    else:
        elpd, k = _left_out(log_density, log_ratio, engine.likelihood.weights)
        log_weights = log_ratio - logsumexp(log_ratio)
        within = logsumexp(log_density + log_weights[:, None], axis=0)
    return _elpd(engine.likelihood.weights, elpd, within, k, len(log_ratio), is_approximate=True)


def loo_of_posterior(log_density: np.ndarray, weights: np.ndarray | None) -> Any:
    """The same from draws of the posterior itself: (draws, rows) log densities of single rows."""
    elpd, k = _left_out(log_density, np.zeros(len(log_density)), weights)
    within = logsumexp(log_density, axis=0) - math.log(len(log_density))
    return _elpd(weights, elpd, within, k, len(log_density), is_approximate=False)


def _elpd(
    weights: np.ndarray | None,
    elpd: np.ndarray,
    within: np.ndarray,
    k: np.ndarray,
    count: int,
    *,
    is_approximate: bool,
) -> Any:
    import xarray
    from arviz_stats.utils import ELPDData

    often = np.ones(len(elpd)) if weights is None else np.asarray(weights)
    total = float(often @ elpd)
    spread = float(often @ (elpd - total / often.sum()) ** 2)
    good_k = min(1.0 - 1.0 / math.log10(max(count, 11)), 0.7)
    return ELPDData(
        "loo",
        total,
        math.sqrt(spread),
        float(often @ (within - elpd)),
        count,
        round(float(often.sum())),
        "log",
        bool((~(k <= good_k)).any()),
        good_k,
        xarray.DataArray(elpd, dims="observation"),
        xarray.DataArray(k, dims="observation"),
        approx_posterior=is_approximate,
    )


def check_defined(expression: Expression, weighed: Weighed) -> None:
    if not math.isfinite(weighed.log_marginal):
        raise ValueError(
            f"{expression} is undefined on these data, so there is nothing to draw: choose another"
        )


def _proposed(
    engine: Engine,
    expression: Expression,
    weighed: Weighed,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Of draws of constants and noise as proposed: the log densities of the observations (draws,
    rows), and what each draw counts: its log joint density less the log density that it was drawn
    with. The noise is drawn from its distribution given the constants, and so cancels there."""
    likelihood = engine.likelihood
    usable = np.flatnonzero(np.isfinite(weighed.log_weights) & np.isfinite(weighed.log_q))
    # Draws come in the order of the proposal's components: evenly spaced ones keep their shares.
    places = usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)]
    if weighed.constants.shape[1] == 0 and likelihood.is_inferred:
        places = np.repeat(places, count)  # there is only the noise to draw
    constants = weighed.constants[places]
    factor = noise_draws(engine, np.array(expression.tokens), constants, rng)
    log_density = row_log_density(engine, expression, constants, factor)
    kept = np.isfinite(log_density).all(axis=1)
    return log_density[kept], weighed.log_weights[places][kept]


def row_log_density(
    engine: Engine, expression: Expression, constants: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """(draws, rows): the log density of an observation of each row; NaN where the tree is
    undefined."""
    columns = [constants[:, place, None] for place in range(constants.shape[1])]
    values, _ = evaluate(expression, engine.X, columns)
    values = np.broadcast_to(values, (len(constants), len(engine.likelihood.y)))
    return engine.likelihood.row_log_density(values, factor)


def _left_out(
    log_density: np.ndarray, log_ratio: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Of each observation: its log density when it is left out, and the Pareto k of that. A row
    that was seen several times loses one observation; one of a smaller weight, all that it has."""
    often = 1.0 if weights is None else np.minimum(np.asarray(weights), 1.0)
    log_weights, k = smoothed_weights(log_ratio[:, None] - often * log_density)
    elpd: np.ndarray = logsumexp(log_weights + log_density, axis=0)
    return elpd, np.where(np.isneginf(k), 0.0, k)

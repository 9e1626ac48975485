"""One tree's constants and noise for ArviZ: a `DataTree` of draws, and leave-one-out prediction.

Draws for a `DataTree` are equally likely. Leaving one observation out starts instead from the draws
as they were proposed: each is weighed once, by what it is worth without that observation.
"""

from __future__ import annotations

import importlib.metadata
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln, logsumexp

from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.likelihood import AbstractLikelihood, InferredNoise
from dvisr.marginal import Engine, Weighed, noise_draws

if TYPE_CHECKING:
    import xarray

MOST_DRAWS = 2000
_FEWEST_DRAWS = 50  # below which the tail of the weights can't be fitted


def tree_datatree(
    engine: Engine,
    expression: Expression,
    weighed: Weighed,
    *,
    count: int = MOST_DRAWS,
    seed: int,
) -> xarray.DataTree:
    """Groups `posterior` (c0, c1, ... and `sigma`, or `noise_factor` where error bars differ from
    row to row), `log_likelihood`, `observed_data` and `constant_data`. A row that was weighted has
    the density of one observation of it; the weights are among the constant data."""
    import xarray

    _check(expression, weighed)
    if count < 1:
        raise ValueError(f"the number of draws must be at least 1, not {count}")
    rng = np.random.default_rng(seed)
    places = weighed.resampled(count, rng)
    constants = weighed.constants[places]
    factor = noise_draws(engine, weighed.squares[places], rng)
    likelihood = engine.likelihood
    draws = {f"c{j}": (("chain", "draw"), column[None]) for j, column in enumerate(constants.T)}
    name, scale = noise_unit(likelihood)
    draws[name] = (("chain", "draw"), (scale * factor)[None])
    log_density = _pointwise(engine, expression, constants, factor)
    given: dict[str, Any] = {"X": (("observation", "feature"), engine.X)}
    if name != "sigma":
        given["y_err"] = (("observation",), np.asarray(likelihood.scale))
    if likelihood.weights is not None:
        given["sample_weight"] = (("observation",), np.asarray(likelihood.weights))
    rows = {"observation": np.arange(len(likelihood.y))}
    steps = {"chain": [0], "draw": np.arange(count)}
    groups = {
        "posterior": xarray.Dataset(draws, coords=steps),
        "log_likelihood": xarray.Dataset(
            {"y": (("chain", "draw", "observation"), log_density[None])}, coords=steps | rows
        ),
        "observed_data": xarray.Dataset({"y": (("observation",), likelihood.y)}, coords=rows),
        "constant_data": xarray.Dataset(
            given, coords={**rows, "feature": list(engine.library.variables)}
        ),
    }
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs.update(
        expression=str(expression),
        inference_library="dvisr",
        inference_library_version=importlib.metadata.version("dvisr"),
    )
    return tree


def noise_unit(likelihood: AbstractLikelihood) -> tuple[str, float]:
    """What a draw of the noise is called and what the factor s is multiplied by for it: the
    standard deviation in units of y where it is one for all rows."""
    scale = np.asarray(likelihood.scale)
    if (scale == scale.flat[0]).all():
        return "sigma", float(scale.flat[0])
    return "noise_factor", 1.0


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
    _check(expression, weighed)
    rng = np.random.default_rng(seed)
    log_density, log_p, log_q = _proposed(engine, expression, weighed, count, rng)
    if weighed.constants.shape[1] == 0 and not isinstance(engine.likelihood, InferredNoise):
        # Nothing is to be found, so that leaving out changes nothing.
        elpd = within = log_density[0]
        k = np.zeros(len(elpd))
    elif len(log_p) < _FEWEST_DRAWS:
        elpd = within = k = np.full(len(engine.likelihood.y), math.nan)
    else:
        elpd, k = _left_out(log_density, log_p, log_q)
        log_weights = log_p - log_q - logsumexp(log_p - log_q)
        within = logsumexp(log_density + log_weights[:, None], axis=0)
    return _elpd(engine.likelihood.weights, elpd, within, k, len(log_p), is_approximate=True)


def loo_of_posterior(log_density: np.ndarray, weights: np.ndarray | None) -> Any:
    """The same from draws of the posterior itself: (draws, rows) log densities of single rows."""
    nothing = np.zeros(len(log_density))
    elpd, k = _left_out(log_density, nothing, nothing)
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


def pareto_k(log_weights: np.ndarray) -> float:
    """How heavy the tail of importance weights is: above 0.7, averages over them can't be trusted
    (Vehtari and others, 2024). NaN where there are too few to tell."""
    from arviz_stats.base import array_stats

    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < _FEWEST_DRAWS:
        return math.nan
    # What has no weight counts as a draw, and its weight as less than any other.
    floor = np.maximum(np.where(np.isfinite(log_weights), log_weights, -np.inf), finite.min())
    if float(np.ptp(finite)) < 1e-9:
        return 0.0  # all alike
    try:
        with np.errstate(all="ignore"):
            _, found = array_stats.psislw(-floor)
    except ValueError:  # the largest are all alike
        return 0.0
    return float(found)


def _check(expression: Expression, weighed: Weighed) -> None:
    if not math.isfinite(weighed.log_marginal):
        raise ValueError(
            f"{expression} is undefined on these data, so there is nothing to draw: choose another"
        )


def _pointwise(
    engine: Engine, expression: Expression, constants: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """(draws, observations): the log density of y; NaN where the tree is undefined."""
    likelihood = engine.likelihood
    columns = [constants[:, place, None] for place in range(constants.shape[1])]
    values, _ = evaluate(expression, engine.X, columns)
    values = np.broadcast_to(values, (len(constants), len(likelihood.y)))
    sigma = factor[:, None] * np.asarray(likelihood.scale)
    with np.errstate(over="ignore"):
        z = (likelihood.y - values) / sigma
        found: np.ndarray = -0.5 * z * z - np.log(sigma) - 0.5 * math.log(2.0 * math.pi)
    return found


def _proposed(
    engine: Engine,
    expression: Expression,
    weighed: Weighed,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of draws of constants and noise as proposed: the log densities of the observations, the log
    joint density with the data and the log density that they were drawn with."""
    likelihood = engine.likelihood
    usable = np.flatnonzero(np.isfinite(weighed.squares) & np.isfinite(weighed.log_q))
    # Draws come in the order of the proposal's components: every so manieth keeps their shares.
    places = usable[np.linspace(0, len(usable) - 1, min(count, len(usable))).astype(int)]
    if weighed.constants.shape[1] == 0 and isinstance(likelihood, InferredNoise):
        places = np.repeat(places, count)  # there is only the noise to draw
    constants, squares = weighed.constants[places], weighed.squares[places]
    log_q = weighed.log_q[places]
    factor = noise_draws(engine, squares, rng)
    log_density = _pointwise(engine, expression, constants, factor)
    often = 1.0 if likelihood.weights is None else likelihood.weights
    log_p = (log_density * often).sum(axis=1)
    log_p = log_p + np.asarray(engine.prior.log_prob(np, constants)).sum(axis=1)
    if isinstance(likelihood, InferredNoise):
        log_s, half = np.log(factor), 0.5 * likelihood.count
        log_p = log_p + _log_noise(log_s, likelihood.shape, np.asarray(likelihood.rate))
        log_q = log_q + _log_noise(log_s, likelihood.shape + half, likelihood.rate + 0.5 * squares)
    kept = np.isfinite(log_density).all(axis=1) & np.isfinite(log_p) & np.isfinite(log_q)
    return log_density[kept], log_p[kept], log_q[kept]


def _log_noise(log_s: np.ndarray, shape: float, rate: np.ndarray) -> np.ndarray:
    """The log density of log s where s^2 has an inverse gamma distribution."""
    found: np.ndarray = (
        math.log(2.0)
        + shape * np.log(rate)
        - float(gammaln(shape))
        - 2.0 * shape * log_s
        - rate * np.exp(-2.0 * log_s)
    )
    return found


def _left_out(
    log_density: np.ndarray, log_p: np.ndarray, log_q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each observation: its log density when it is left out, and the Pareto k of that."""
    from arviz_stats.base import array_stats

    points = log_density.shape[1]
    elpd, k = np.empty(points), np.empty(points)
    for point in range(points):
        try:
            with np.errstate(all="ignore"):
                elpd[point], k[point], _ = array_stats.loo_approximate_posterior(
                    log_density[:, point], log_p, log_q, chain_axis=None
                )
        except ValueError:  # the largest weights are all alike: there is no tail to smooth
            elpd[point], k[point] = math.nan, 0.0
        if math.isnan(elpd[point]):
            ratios = log_p - log_q - log_density[:, point]
            elpd[point] = logsumexp(log_p - log_q) - logsumexp(ratios)
    return elpd, k

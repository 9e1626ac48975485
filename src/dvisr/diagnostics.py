"""Pure functions of arrays: how far q is from the posterior, what importance weights are worth, and
how much of the data values explain."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class Estimate(NamedTuple):
    value: float
    stderr: float
    method: str  # "exact", "elbo" or "weights"


def kl_from_elbo(elbo_terms: np.ndarray, log_evidence: float) -> Estimate:
    """The paper's: log evidence - mean ELBO. Unbiased; can come out below zero."""
    terms = np.asarray(elbo_terms, dtype=np.float64)
    return Estimate(log_evidence - float(terms.mean()), _stderr(terms), "elbo")


def kl_from_weights(elbo_terms: np.ndarray, log_evidence: float) -> Estimate:
    """The mean of w - 1 - log w, with w = p(f, y) / (q(f) p(y)) whose mean is 1. Unbiased too, and
    never negative. The better one when q is close, since w - 1 cancels the noise of log w; the
    worse one when it is not, since then w has a heavy tail."""
    log_weights = np.asarray(elbo_terms, dtype=np.float64) - log_evidence
    with np.errstate(over="ignore"):
        terms = np.expm1(log_weights) - log_weights
    return Estimate(float(terms.mean()), _stderr(terms), "weights")


def best_kl_estimate(elbo_terms: np.ndarray, log_evidence: float) -> Estimate:
    """Whichever of the two has the smaller standard error; but the weights only if they add up.

    Where q has lost a part of the posterior, no sample shows it: the weights seen are all a little
    below 1, and w - 1 - log w comes out tiny, with a tiny error. Their mean then falls short of 1.
    """
    by_elbo = kl_from_elbo(elbo_terms, log_evidence)
    by_weights = kl_from_weights(elbo_terms, log_evidence)
    with np.errstate(over="ignore"):
        weights = np.exp(np.asarray(elbo_terms, dtype=np.float64) - log_evidence)
    adds_up = abs(float(weights.mean()) - 1.0) <= 3.0 * _stderr(weights)
    return by_weights if adds_up and by_weights.stderr < by_elbo.stderr else by_elbo


def exact_kl(log_q: np.ndarray, log_posterior: np.ndarray) -> float:
    """The sum over all outcomes of q (log q - log p); what has q = 0 adds nothing."""
    q = np.exp(log_q)
    with np.errstate(invalid="ignore"):
        terms = np.where(q == 0.0, 0.0, q * (log_q - log_posterior))  # NaN stays NaN
    return math.fsum(terms.tolist())


def total_variation(log_q: np.ndarray, log_posterior: np.ndarray) -> float:
    """Half the sum of |q - p|: the most by which any probability is wrong."""
    return 0.5 * float(np.abs(np.exp(log_q) - np.exp(log_posterior)).sum())


def _stderr(terms: np.ndarray) -> float:
    if len(terms) < 2:
        return math.nan
    return float(terms.std(ddof=1) / math.sqrt(len(terms)))


class ImportanceWeights(NamedTuple):
    """What weights p(tree, y) / q(tree) of draws from q say of the evidence and of q."""

    log_evidence: float
    stderr: float  # of the log evidence
    effective_size: float
    largest_share: float  # of the largest weight


def importance_weights(log_ratios: np.ndarray) -> ImportanceWeights:
    """`log_ratios` are log p(tree, y) - log q(tree) at draws from q."""
    ratios = np.asarray(log_ratios, dtype=np.float64)
    top = float(ratios.max()) if len(ratios) else -math.inf
    if not math.isfinite(top):
        return ImportanceWeights(-math.inf, math.inf, 0.0, 1.0)
    weights = np.exp(ratios - top)
    total = float(weights.sum())
    shares = weights / total
    effective = 1.0 / float((shares**2).sum())
    relative = math.sqrt(max(0.0, 1.0 / effective - 1.0 / len(ratios)))
    return ImportanceWeights(
        log_evidence=top + math.log(total / len(ratios)),
        stderr=relative,
        effective_size=effective,
        largest_share=float(shares.max()),
    )


_FEWEST_WEIGHTS = 50  # below which the tail of weights can't be fitted


def pareto_k(log_weights: np.ndarray) -> float:
    """How heavy the tail of importance weights is (Vehtari and others, 2024): above 0.7, averages
    over them can't be relied on.

    Parameters
    ----------
    log_weights : ndarray of shape (draws,)
        Up to a common constant; -inf counts as a weight smaller than any other.

    Returns
    -------
    float
        0 where all weights are alike, NaN where there are too few to tell.
    """
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < _FEWEST_WEIGHTS:
        return math.nan
    padded = np.maximum(np.where(np.isfinite(log_weights), log_weights, -np.inf), finite.min())
    k = float(smoothed_weights(padded[:, None])[1][0])
    return k if math.isfinite(k) else 0.0


_BLOCK = 200  # rows at a time: the fit of their tails holds 30 or more copies of them
_FEWEST_IN_TAIL = 5


def smoothed_weights(log_ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed log weights that sum to 1 and Pareto's k, for each column of ratios.

    Parameters
    ----------
    log_ratios
        (draws, rows), the log of each draw's importance ratio.

    Returns
    -------
    tuple
        Log weights (draws, rows) and k (rows,). k is minus infinity where the ratios are all equal
        and infinite where there are too few draws to fit a tail.
    """
    blocks = [
        _smoothed(log_ratios[:, start : start + _BLOCK])
        for start in range(0, log_ratios.shape[1], _BLOCK)
    ]
    return np.concatenate([b[0] for b in blocks], axis=1), np.concatenate([b[1] for b in blocks])


def _smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    draws, rows = log_ratios.shape
    shifted = log_ratios - log_ratios.max(axis=0)
    length = math.ceil(min(0.2 * draws, 3.0 * math.sqrt(draws)))
    flat = np.ptp(shifted, axis=0) < 1e-12
    k = np.full(rows, math.inf)
    if length >= _FEWEST_IN_TAIL:
        order = np.argsort(shifted, axis=0)
        tail = order[-length:]
        sorted_tail = np.take_along_axis(shifted, tail, axis=0)
        cut = np.take_along_axis(shifted, order[-length - 1][None], axis=0)
        with np.errstate(all="ignore"):
            excess = np.exp(sorted_tail) - np.exp(cut)
            fitted, scale = _pareto(excess.T)
            levels = (np.arange(length) + 0.5) / length
            tails = np.where(
                np.abs(fitted)[:, None] < 1e-9,
                -scale[:, None] * np.log1p(-levels),
                scale[:, None] * np.expm1(-fitted[:, None] * np.log1p(-levels)) / fitted[:, None],
            )
            smooth = np.minimum(np.log(tails.T + np.exp(cut)), 0.0)
        good = np.isfinite(smooth).all(axis=0) & np.isfinite(fitted) & ~flat
        k = np.where(good, fitted, k)
        np.put_along_axis(shifted, tail, np.where(good, smooth, sorted_tail), axis=0)
    k = np.where(flat, -math.inf, k)
    return shifted - logsumexp(shifted, axis=0), k


def _pareto(excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape and scale of generalised Pareto tails, one a row, by Zhang and Stephens (2009), with
    the weak prior on the shape that PSIS has. `excess` is sorted upwards and positive."""
    size = excess.shape[1]
    count = 30 + int(math.sqrt(size))
    places = np.arange(1, count + 1) - 0.5
    quarter = excess[:, int(size / 4 + 0.5) - 1]
    b = (1.0 - np.sqrt(count / places))[None] / (3.0 * quarter[:, None])
    b = b + 1.0 / excess[:, -1:]
    k = np.log1p(-b[:, :, None] * excess[:, None, :]).mean(axis=2)
    profile = size * (np.log(-b / k) - k - 1.0)
    weights = np.exp(profile - logsumexp(profile, axis=1, keepdims=True))
    mean_b = (b * weights).sum(axis=1)
    shape = np.log1p(-mean_b[:, None] * excess).mean(axis=1)
    scale = -shape / mean_b
    return (shape * size + 0.5 * 10.0) / (size + 10.0), scale


def r_squared(y: np.ndarray, values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The share of the variance of y that the values explain, in units of y's largest deviation, so
    that no square overflows; NaN for a constant y and for values that are not all finite."""
    centred = y - np.average(y, weights=weights)
    unit = float(np.abs(centred).max())
    if not unit > 1e-12 * float(np.abs(y).max()) or not np.isfinite(values).all():
        return math.nan
    with np.errstate(over="ignore"):
        left = float(np.average(((y - values) / unit) ** 2, weights=weights))
    return 1.0 - left / float(np.average((centred / unit) ** 2, weights=weights))


def log_total(values: np.ndarray) -> float:
    """The log of the sum of exp(values); -inf of none."""
    top = float(values.max()) if len(values) else -math.inf
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(values - top).sum()))


def calibration_curve(
    pit: np.ndarray, coverage: float = 0.9
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Levels from 0 to 1, the share of values at or below each, and where `coverage` of as many
    independent uniform values would have it, level by level."""
    from scipy.stats import binom  # takes long to import, and a fit needs nothing of it

    levels = np.linspace(0.0, 1.0, 101)
    count = len(pit)
    shares = np.searchsorted(np.sort(pit), levels, side="right") / max(count, 1)
    tail = 0.5 * (1.0 - coverage)
    low, high = (binom.ppf(q, count, levels) / max(count, 1) for q in (tail, 1.0 - tail))
    return levels, shares, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def ranks_of(values: np.ndarray) -> np.ndarray:
    """From 1 on; equal values share the mean of theirs."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.asarray(0.5 * (below + up_to + 1.0))


def rank_correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Spearman's, of values that are not all equal."""
    return float(np.corrcoef(ranks_of(one), ranks_of(two))[0, 1])


_TAIL = 0.005  # of the draws on either side: one far draw would hide all others in a histogram


def bulk(draws: np.ndarray) -> tuple[float, float]:
    """From the lowest to the highest of all but the outermost draws, and never empty."""
    low, high = (float(value) for value in np.quantile(draws, (_TAIL, 1.0 - _TAIL)))
    if low == high:
        reach = 0.5 * abs(low) if low else 0.5
        return low - reach, high + reach
    return low, high

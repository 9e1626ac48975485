"""Leaving rows out by importance sampling with Pareto-smoothed weights (Vehtari et al. 2024)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

_BLOCK = 200  # rows at a time: the fit of their tails holds 30 or more copies of them
_FEWEST_IN_TAIL = 5


def smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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

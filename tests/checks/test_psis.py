"""Pareto-smoothed weights against ArviZ's, and leaving out against fits that leave out."""

from __future__ import annotations

import math

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

from dvisr.diagnostics import smoothed_weights as smoothed
from tests.checks.posteriors import Table, fit


def test_weights_and_k_are_those_of_arviz() -> None:
    rng = np.random.default_rng(0)
    ratios = rng.standard_normal((500, 250)) * np.linspace(0.1, 3.0, 250)
    log_weights, k = smoothed(ratios)
    for row in range(0, 250, 25):
        theirs, their_k = array_stats.psislw(-ratios[:, row])
        np.testing.assert_allclose(k[row], float(their_k), rtol=0.05, atol=0.02)
        np.testing.assert_allclose(np.exp(log_weights[:, row]).sum(), 1.0)
        theirs = np.exp(np.asarray(theirs))
        np.testing.assert_allclose(np.exp(log_weights[:, row]), theirs, rtol=0.15, atol=1e-6)


def test_weights_that_are_equal_and_too_few_to_tell() -> None:
    log_weights, k = smoothed(np.zeros((100, 3)))
    np.testing.assert_allclose(log_weights, -math.log(100))
    assert (k == -math.inf).all()
    log_weights, k = smoothed(np.random.default_rng(0).standard_normal((4, 2)))
    np.testing.assert_allclose(np.exp(log_weights).sum(axis=0), 1.0)
    assert (k == math.inf).all()


def test_left_out_probabilities_are_those_of_a_fit_without_the_row() -> None:
    rng = np.random.default_rng(1)
    n, sigma = 25, 0.5
    x = np.sort(rng.uniform(-1.0, 1.0, n))
    basis = np.column_stack([np.ones(n), x])
    y = basis @ [1.0, 2.0] + sigma * rng.standard_normal(n)
    rep = fit(Table(x[:, None], basis, y, sigma=sigma), rng, 4000)
    for row in range(n):
        kept = np.arange(n) != row
        gram = basis[kept].T @ basis[kept]
        best = np.linalg.solve(gram, basis[kept].T @ y[kept])
        width = sigma * math.sqrt(1.0 + basis[row] @ np.linalg.solve(gram, basis[row]))
        exact = stats.norm.cdf((y[row] - basis[row] @ best) / width)
        assert abs(rep.left_out.pit[row] - exact) < 0.03


def test_leverage_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.0, 1.0, 20)
    basis = np.column_stack([np.ones(20), x, x**2])
    rep = fit(Table(x[:, None], basis, rng.standard_normal(20)), rng, 4000)
    order = np.argsort(x)
    hat = np.diag(basis @ np.linalg.solve(basis.T @ basis, basis.T))[order]
    np.testing.assert_allclose(rep.refit.leverage, hat, atol=0.06)
    assert abs(rep.refit.num_fitted - 3.0) < 0.15

"""The estimators of KL on distributions whose KL is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dvisr.diagnostics import (
    best_kl_estimate,
    exact_kl,
    kl_from_elbo,
    kl_from_weights,
    pareto_k,
    total_variation,
)

LOG_EVIDENCE = -12.5


def draws(q: np.ndarray, p: np.ndarray, count: int, seed: int) -> np.ndarray:
    """ELBO terms of draws from q, where the posterior is p."""
    found = np.random.default_rng(seed).choice(len(q), size=count, p=q)
    terms: np.ndarray = LOG_EVIDENCE + np.log(p[found]) - np.log(q[found])
    return terms


Q = np.array([0.5, 0.3, 0.15, 0.05])
FAR = np.array([0.02, 0.03, 0.05, 0.9])
NEAR = np.array([0.505, 0.297, 0.149, 0.049])


@pytest.mark.parametrize("p", [FAR, NEAR], ids=["far", "near"])
def test_both_estimators_are_unbiased(p: np.ndarray) -> None:
    truth = float(stats.entropy(Q, p))
    assert exact_kl(np.log(Q), np.log(p)) == pytest.approx(truth, rel=1e-10)
    terms = draws(Q, p, 400_000, 0)
    for estimate in (kl_from_elbo(terms, LOG_EVIDENCE), kl_from_weights(terms, LOG_EVIDENCE)):
        assert abs(estimate.value - truth) < 4 * estimate.stderr
        assert estimate.stderr < 0.02


def test_the_better_one_depends_on_how_near_q_is() -> None:
    near, far = draws(Q, NEAR, 50_000, 1), draws(Q, FAR, 50_000, 1)
    assert best_kl_estimate(near, LOG_EVIDENCE).method == "weights"
    assert best_kl_estimate(far, LOG_EVIDENCE).method == "elbo"
    assert kl_from_weights(near, LOG_EVIDENCE).value >= 0.0


def test_a_lost_part_of_the_posterior_is_not_overlooked() -> None:
    """q has lost 3.58 % of the posterior: every weight it sees is a little below one."""
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.02, size=50_000)
    terms = LOG_EVIDENCE + math.log(1 - 0.0358) + noise - noise.mean()
    assert kl_from_weights(terms, LOG_EVIDENCE).value < 1e-3
    estimate = best_kl_estimate(terms, LOG_EVIDENCE)
    assert estimate.method == "elbo"
    assert estimate.value == pytest.approx(0.03646, abs=1e-4)


def test_a_network_of_nan_has_no_kl_of_zero() -> None:
    assert math.isnan(exact_kl(np.array([math.nan, -1.0]), np.log([0.5, 0.5])))


def test_what_q_never_says_adds_nothing() -> None:
    with np.errstate(divide="ignore"):
        assert exact_kl(np.log([1.0, 0.0]), np.log([0.5, 0.5])) == pytest.approx(math.log(2))
        assert exact_kl(np.log([0.5, 0.5]), np.log([1.0, 0.0])) == math.inf


def test_total_variation() -> None:
    assert total_variation(np.log(Q), np.log(FAR)) == pytest.approx(0.85)


def test_one_sample_has_no_standard_error() -> None:
    assert math.isnan(kl_from_elbo(np.array([-12.0]), LOG_EVIDENCE).stderr)


def test_pareto_k_tells_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    assert pareto_k(np.log(rng.uniform(1.0, 2.0, 4000))) < 0.3
    assert pareto_k(np.log(rng.pareto(1.0, 4000))) == pytest.approx(1.0, abs=0.25)
    assert pareto_k(np.zeros(4000)) == 0.0
    assert math.isnan(pareto_k(np.zeros(3)))
    mostly_nothing = np.where(rng.uniform(size=4000) < 0.9, -np.inf, rng.normal(size=4000))
    assert math.isfinite(pareto_k(mostly_nothing))

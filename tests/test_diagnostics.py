"""Diagnostics of arrays whose truth is known: KL, importance weights and their tails, R²."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dvisr.diagnostics import (
    best_kl_estimate,
    exact_kl,
    importance_weights,
    kl_from_elbo,
    kl_from_weights,
    log_total,
    pareto_k,
    r_squared,
    rank_correlation,
    ranks_of,
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


@pytest.mark.parametrize("index", [4.0, 2.0, 1.25, 1.0, 0.7])
def test_pareto_k_is_one_over_the_index_of_the_tail(index: float) -> None:
    """Of 100,000 weights the largest 949 are fitted: a generalised Pareto's shape has a standard
    error of (1 + k) / sqrt(949), and the prior on it pulls by a hundredth."""
    k, size = 1.0 / index, 949
    error = (1.0 + k) / math.sqrt(size)
    weights = stats.pareto(index).rvs(100_000, random_state=np.random.default_rng(0))
    expected = (k * size + 0.5 * 10.0) / (size + 10.0)
    assert abs(pareto_k(np.log(weights)) - expected) < 4.0 * error
    assert pareto_k(np.log(weights) - 500.0) == pytest.approx(pareto_k(np.log(weights)), rel=1e-6)


def test_importance_weights_of_a_known_evidence() -> None:
    """Normal draws weighed to another Normal: the evidence and its error are known."""
    rng = np.random.default_rng(0)
    draws = rng.normal(0.0, 1.2, 40_000)
    found = importance_weights(3.0 + stats.norm.logpdf(draws) - stats.norm.logpdf(draws, 0.0, 1.2))
    assert abs(found.log_evidence - 3.0) < 4.0 * found.stderr
    # E[w^2] = s^2 / sqrt(2 s^2 - 1) for a proposal of standard deviation s.
    square = 1.2**2 / math.sqrt(2.0 * 1.2**2 - 1.0)
    assert found.effective_size == pytest.approx(40_000 / square, rel=0.02)
    assert found.stderr == pytest.approx(math.sqrt((square - 1.0) / 40_000), rel=0.05)
    assert 0.0 < found.largest_share < 0.001


def test_importance_weights_where_one_or_none_counts() -> None:
    one = importance_weights(np.array([-np.inf, 2.0, -np.inf, -np.inf]))
    assert one.log_evidence == pytest.approx(2.0 - math.log(4.0))
    assert (one.effective_size, one.largest_share) == (1.0, 1.0)
    for nothing in (np.full(3, -np.inf), np.empty(0)):
        found = importance_weights(nothing)
        assert (found.log_evidence, found.effective_size) == (-math.inf, 0.0)
        assert found.stderr == math.inf


def test_r_squared() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(3.0, 2.0, 50)
    values = y + rng.normal(0.0, 0.5, 50)
    expected = 1.0 - ((y - values) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert r_squared(y, values) == pytest.approx(expected)
    assert r_squared(y, y) == 1.0
    assert r_squared(y, np.full(50, y.mean())) == pytest.approx(0.0, abs=1e-12)
    assert r_squared(1e300 * y, 1e300 * values) == pytest.approx(expected)
    often = rng.integers(1, 4, 50)
    copies = r_squared(np.repeat(y, often), np.repeat(values, often))
    assert r_squared(y, values, often.astype(float)) == pytest.approx(copies)
    assert math.isnan(r_squared(np.full(5, 0.1), np.full(5, 0.1)))
    assert math.isnan(r_squared(y, np.where(np.arange(50) == 3, np.nan, values)))


def test_log_total() -> None:
    values = np.array([-1000.0, -1000.0 + math.log(3.0), -np.inf])
    assert log_total(values) == pytest.approx(-1000.0 + math.log(4.0), abs=1e-12)
    assert log_total(np.array([])) == -math.inf
    assert log_total(np.array([-np.inf, -np.inf])) == -math.inf


@pytest.mark.parametrize("count", [2, 5, 40])
def test_ranks_are_those_of_scipy(count: int) -> None:
    rng = np.random.default_rng(count)
    one, two = rng.integers(0, 2 + count // 2, (2, count)).astype(float)
    one[0], two[0] = -1.0, count  # not all are equal
    assert ranks_of(one) == pytest.approx(stats.rankdata(one))
    expected = stats.spearmanr(one, two).statistic
    assert rank_correlation(one, two) == pytest.approx(expected, abs=1e-12)

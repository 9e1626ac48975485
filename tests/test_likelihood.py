from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from dvisr.likelihood import make_likelihood

RNG = np.random.default_rng(2)
Y = RNG.normal(3.0, 2.0, 8)
VALUES = Y + RNG.normal(0.0, 0.4, 8)
BARS = np.linspace(0.2, 1.0, 8)


@pytest.mark.parametrize("bars", [None, BARS])
def test_given_noise(bars: np.ndarray | None) -> None:
    found = make_likelihood(Y, 0.7, bars).log_prob(np, VALUES)
    sigma = 0.7 * (np.ones(8) if bars is None else bars)
    assert found == pytest.approx(scipy.stats.norm(VALUES, sigma).logpdf(Y).sum(), abs=1e-12)


@pytest.mark.parametrize("bars", [None, BARS])
def test_inferred_noise_is_an_integral(bars: np.ndarray | None) -> None:
    """sigma^2 has an inverse gamma prior: shape 1/2; rate 1/2 in units of the square of a
    thousandth of the spread of y, or of the error bars."""
    found = make_likelihood(Y, "infer", bars).log_prob(np, VALUES)
    unit = 1e-3 * Y.std() if bars is None else 1.0
    sigma = unit * (np.ones(8) if bars is None else bars)

    def f(log_s2: float) -> float:
        s2 = math.exp(log_s2)
        noise = scipy.stats.norm(VALUES, sigma * math.sqrt(s2)).logpdf(Y).sum()
        return math.exp(noise + scipy.stats.invgamma(0.5, scale=0.5).logpdf(s2) + log_s2)

    expected = math.log(scipy.integrate.quad(f, -15.0, 40.0, epsabs=0.0, limit=500)[0])
    assert found == pytest.approx(expected, abs=1e-8)


def test_the_stated_quantiles_of_the_noise_prior() -> None:
    """sigma = 0.1 spread / |z|: median 0.15 of the spread, 90 % between 0.05 and 1.6."""
    s2 = scipy.stats.invgamma(0.5, scale=0.5)
    quantiles = 0.1 * np.sqrt(s2.ppf([0.05, 0.5, 0.95]))
    np.testing.assert_allclose(quantiles, [0.051, 0.148, 1.59], rtol=0.01)


def test_a_perfect_fit_is_finite() -> None:
    for bars in (None, BARS):
        likelihood = make_likelihood(Y, "infer", bars)
        assert math.isfinite(likelihood.log_prob(np, Y))
        assert likelihood.log_prob(np, Y) > likelihood.log_prob(np, VALUES)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_units_do_not_matter_when_noise_is_inferred(scale: float) -> None:
    """In other units of y the density changes by the units alone."""
    plain = make_likelihood(Y, "infer").log_prob(np, VALUES)
    scaled = make_likelihood(Y * scale, "infer").log_prob(np, VALUES * scale)
    assert scaled == pytest.approx(plain - 8 * math.log(scale), rel=1e-10)


@pytest.mark.parametrize("y", [np.full(4, 3.0), np.zeros(4), np.array([2.0])])
def test_constant_y(y: np.ndarray) -> None:
    assert math.isfinite(make_likelihood(y, "infer").log_prob(np, y))
    assert math.isfinite(make_likelihood(y, "infer").log_prob(np, y + 1.0))


def test_the_same_under_jax() -> None:
    for noise in (0.5, "infer"):
        likelihood = make_likelihood(Y, noise, BARS)
        found = likelihood.log_prob(jnp, jnp.asarray(VALUES))
        assert float(found) == pytest.approx(float(likelihood.log_prob(np, VALUES)), abs=1e-12)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, "infr", ""])
def test_bad_noise(noise: float | str) -> None:
    with pytest.raises(ValueError, match="noise must be a number above 0, infer, student"):
        make_likelihood(Y, noise)


# Weights: how often each row was seen.

COUNTS = np.array([1, 3, 2, 1, 1, 5, 2, 1])


def repeated(bars: np.ndarray | None) -> np.ndarray | None:
    return None if bars is None else np.repeat(bars, COUNTS)


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("noise", [0.7, "infer"])
def test_a_weight_is_so_many_rows(noise: float | str, bars: np.ndarray | None) -> None:
    weighted = make_likelihood(Y, noise, bars, COUNTS.astype(float))
    rows = make_likelihood(np.repeat(Y, COUNTS), noise, repeated(bars))
    assert weighted.count == rows.count == 16.0
    for values in (VALUES, Y, np.zeros(8), VALUES + 100.0):
        found = float(weighted.log_prob(np, values))
        expected = float(rows.log_prob(np, np.repeat(values, COUNTS)))
        assert found == pytest.approx(expected, rel=1e-13, abs=1e-10)


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("noise", [0.7, "infer"])
def test_weights_of_one_change_nothing(noise: float | str, bars: np.ndarray | None) -> None:
    found = make_likelihood(Y, noise, bars, np.ones(8)).log_prob(np, VALUES)
    expected = make_likelihood(Y, noise, bars).log_prob(np, VALUES)
    assert float(found) == pytest.approx(float(expected), abs=1e-12)


def test_weights_need_not_be_whole() -> None:
    """With the noise given, each row's log density counts in proportion."""
    weights = np.linspace(0.25, 2.0, 8)
    found = make_likelihood(Y, 0.7, BARS, weights).log_prob(np, VALUES)
    each = scipy.stats.norm(VALUES, 0.7 * BARS).logpdf(Y)
    assert float(found) == pytest.approx(float(weights @ each), abs=1e-12)


@pytest.mark.parametrize("bars", [None, BARS])
def test_inferred_noise_with_weights_is_an_integral(bars: np.ndarray | None) -> None:
    weights = np.linspace(0.25, 2.0, 8)
    likelihood = make_likelihood(Y, "infer", bars, weights)
    assert likelihood.is_inferred
    mean = np.average(Y, weights=weights)
    spread = math.sqrt(np.average((Y - mean) ** 2, weights=weights))
    sigma = 1e-3 * spread * np.ones(8) if bars is None else bars

    def f(log_s: float) -> float:
        each = scipy.stats.norm(VALUES, sigma * math.exp(log_s)).logpdf(Y)
        s2 = math.exp(2.0 * log_s)
        log_prior = scipy.stats.invgamma(0.5, scale=0.5).logpdf(s2) + math.log(2.0 * s2)
        return math.exp(float(weights @ each) + log_prior)

    expected = math.log(scipy.integrate.quad(f, -6.0, 15.0, epsabs=0.0, limit=500)[0])
    assert float(likelihood.log_prob(np, VALUES)) == pytest.approx(expected, abs=1e-7)
    # Row by row given s, with the prior of s, it is the same integrand.
    assert likelihood.prior is not None
    for log_s in (-1.0, 0.0, 2.5, 6.0):
        rows = likelihood.row_log_density(VALUES[None], np.array([math.exp(log_s)]))
        found = weights @ rows[0] + likelihood.prior.log_density(np, log_s)
        each = scipy.stats.norm(VALUES, sigma * math.exp(log_s)).logpdf(Y)
        s2 = math.exp(2.0 * log_s)
        log_prior = scipy.stats.invgamma(0.5, scale=0.5).logpdf(s2) + math.log(2.0 * s2)
        assert float(found) == pytest.approx(float(weights @ each) + log_prior, rel=1e-10)


def test_weights_under_jax() -> None:
    weights = np.linspace(0.25, 2.0, 8)
    for noise in (0.5, "infer"):
        likelihood = make_likelihood(Y, noise, BARS, weights)
        found = jax.jit(lambda a, b: a.log_prob(jnp, b))(likelihood, jnp.asarray(VALUES))
        assert float(found) == pytest.approx(float(likelihood.log_prob(np, VALUES)), abs=1e-10)


def test_weights_of_many_values_at_once() -> None:
    likelihood = make_likelihood(Y, "infer", None, COUNTS.astype(float))
    together = likelihood.log_prob(np, np.stack([VALUES, Y, np.zeros(8)]))
    alone = [float(likelihood.log_prob(np, values)) for values in (VALUES, Y, np.zeros(8))]
    np.testing.assert_allclose(together, alone, rtol=1e-13)

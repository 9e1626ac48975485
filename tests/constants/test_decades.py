"""The heavy-tailed prior of constants: its density, draws, bounds and name."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from dvisr.constants import AbstractConstantPrior, Decades, Normal, constant_prior
from dvisr.likelihood import make_likelihood
from dvisr.marginal.engine import make_law
from dvisr.marginal.law import log_prior, log_prior_slope, majorising, precision

PRIORS = [Decades(), Decades(1e-6, 1e6), Decades(0.5, 2.0), Decades(1.0, 1.01)]
IDS = [f"{prior.low:g}-{prior.high:g}" for prior in PRIORS]


def density(prior: Decades, c: float) -> float:
    return math.exp(float(prior.log_prob(np, np.float64(c))))


def mass_beyond(prior: Decades, t: float) -> float:
    """P(|c| > t) as the mixture has it: P(|Cauchy| > t / scale), the scale log-uniform."""
    found, _ = scipy.integrate.quad(
        lambda log_scale: 2.0 / math.pi * math.atan2(math.exp(log_scale), t),
        math.log(prior.low),
        math.log(prior.high),
        epsabs=0.0,
        epsrel=1e-11,
        limit=400,
    )
    return found / math.log(prior.high / prior.low)


@pytest.mark.parametrize("prior", PRIORS, ids=IDS)
def test_it_integrates_to_one(prior: Decades) -> None:
    """Decade by decade of |c|, from where it is flat to where hardly anything is left."""
    low, high = math.log(1e-9 * prior.low), math.log(1e12 * prior.high)
    edges = np.linspace(low, high, 80)
    total = 2.0 * math.exp(low) * density(prior, 0.0)
    for a, b in itertools.pairwise(edges):
        total += 2.0 * scipy.integrate.quad(
            lambda z: density(prior, math.exp(z)) * math.exp(z), a, b, epsrel=1e-12
        )[0]  # fmt: skip
    assert total == pytest.approx(1.0, abs=1e-8)
    assert total + mass_beyond(prior, math.exp(high)) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS, ids=IDS)
def test_it_is_a_mixture_of_cauchys(prior: Decades) -> None:
    """Their scales are log-uniform between the ends."""
    width = math.log(prior.high / prior.low)
    for size in (0.0, 1e-9, 1e-5, 3e-4, 1e-3, 0.02, 0.7, 1.0, 33.0, 475.0, 1e4, 1e7, 1e20):
        expected = scipy.integrate.quad(
            lambda z, size=size: scipy.stats.cauchy(0.0, math.exp(z)).pdf(size) / width,
            math.log(prior.low),
            math.log(prior.high),
            epsabs=0.0,
            epsrel=1e-11,
            limit=400,
        )[0]
        assert density(prior, size) == pytest.approx(expected, rel=1e-7)
        assert density(prior, -size) == density(prior, size)
    assert prior.is_symmetric
    assert prior.centre == 0.0


def test_every_decade_is_about_equally_likely() -> None:
    """A seventh each, less near the ends."""
    prior = Decades()
    inner = [
        mass_beyond(prior, 10.0**k) - mass_beyond(prior, 10.0 ** (k + 1)) for k in range(-2, 3)
    ]
    np.testing.assert_allclose(inner, 1.0 / 7.0, rtol=0.05)


@pytest.mark.parametrize("prior", PRIORS, ids=IDS)
def test_draws(prior: Decades) -> None:
    draws = prior.sample(np.random.default_rng(0), (5000, 4))
    assert draws.shape == (5000, 4)
    # The CDF by quadrature, on a grid of log |c| fine enough to interpolate.
    logs = np.linspace(math.log(1e-9 * prior.low), math.log(1e9 * prior.high), 1500)
    beyond = [mass_beyond(prior, math.exp(z)) for z in logs]

    # A draw's place in the CDF is uniform.
    flat = draws.reshape(-1)
    tails = 0.5 * np.interp(np.log(np.abs(flat)), logs, beyond, left=1.0, right=0.0)
    places = np.where(flat > 0.0, 1.0 - tails, tails)
    assert scipy.stats.kstest(places, "uniform").pvalue > 2e-5


@pytest.mark.parametrize("prior", PRIORS, ids=IDS)
def test_the_radius_bounds_the_tails(prior: Decades) -> None:
    for log_mass in (-1.0, 0.0, 0.5, 3.0, 20.0, 60.0):
        radius = prior.radius(log_mass)
        assert mass_beyond(prior, radius) <= math.exp(-max(log_mass, 0.0))
    assert math.isfinite(prior.radius(1e9))


@pytest.mark.parametrize("value", [0.0, 1e-320, 1e-30, 1.0, 1e160, 1e300, -1e300, 1.7e308])
def test_it_is_finite_everywhere(value: float) -> None:
    assert math.isfinite(float(Decades().log_prob(np, np.float64(value))))


def test_far_out_it_falls_like_the_square() -> None:
    """p(c) = (high - low) / (pi log(high / low) c^2) there."""
    prior = Decades()
    constant = math.log((prior.high - prior.low) / math.pi / math.log(prior.high / prior.low))
    for size in (1e9, 1e30, 1e100, 1e150, 1e200, 1e300, 1.7e308):
        found = float(prior.log_prob(np, np.float64(size)))
        assert found == pytest.approx(constant - 2.0 * math.log(size), abs=1e-8)


def test_the_same_under_jax() -> None:
    prior = Decades()
    values = np.array([0.0, -1e-7, 1e-3, 0.4, -475.0, 1e4, 1e20])
    found = prior.log_prob(jnp, jnp.asarray(values))
    np.testing.assert_allclose(np.asarray(found), prior.log_prob(np, values), rtol=1e-12)
    slopes = jax.vmap(jax.grad(lambda c: prior.log_prob(jnp, c)))(jnp.asarray(values))
    assert np.isfinite(np.asarray(slopes)).all()


# The same in compiled code.

ALL: list[AbstractConstantPrior] = [*PRIORS, Normal(), Normal(-1.5, 0.3)]
SIZES = [0.0, 1e-8, 1e-6, 3e-5, 2e-4, 1e-3, 0.03, 0.8, 1.0, 1.5, 40.0, 475.0, 1e4, 3e6, 1e9]


@pytest.mark.parametrize("prior", ALL, ids=str)
def test_compiled_density(prior: AbstractConstantPrior) -> None:
    """In its own units: what is below a ten thousandth of `low` counts as that, in both."""
    law = make_law(make_likelihood(np.zeros(2), 1.0), prior)
    for size, sign in itertools.product(SIZES, (1.0, -1.0)):
        value = sign * size
        expected = float(prior.log_prob(np, np.float64(value)))
        assert log_prior(value, law) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=IDS)
def test_compiled_slope(prior: Decades) -> None:
    """Against differences of the closed form in 60 digits; compiled code takes a series near 0."""
    law = make_law(make_likelihood(np.zeros(2), 1.0), prior)

    def exact(c: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log((mpmath.atan(c / prior.low) - mpmath.atan(c / prior.high)) / c)

    assert log_prior_slope(0.0, law) == 0.0
    for size in SIZES[1:]:
        with mpmath.workdps(60):
            at, step = mpmath.mpf(size), mpmath.mpf(size) * mpmath.mpf(10) ** -15
            expected = float((exact(at + step) - exact(at - step)) / (2 * step))
        assert log_prior_slope(size, law) == pytest.approx(expected, rel=3e-6)
        assert log_prior_slope(-size, law) == pytest.approx(-expected, rel=3e-6)


@pytest.mark.parametrize("prior", [Normal(), Normal(-1.5, 0.3)], ids=str)
def test_compiled_slope_of_a_normal(prior: Normal) -> None:
    law = make_law(make_likelihood(np.zeros(2), 1.0), prior)
    for value in (-475.0, -1.5, 0.0, 1e-3, 20.0):
        step = 1e-3 * prior.std
        high, low = (float(prior.log_prob(np, np.float64(value + s))) for s in (step, -step))
        # The log density is a parabola: differences are its slope but for rounding.
        expected = (high - low) / (2.0 * step)
        assert log_prior_slope(value, law) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("prior", ALL, ids=str)
def test_the_parabola_above_minus_the_log_prior(prior: AbstractConstantPrior) -> None:
    """It touches at the value and is nowhere below: no descent overshoots. To the eight digits that
    the density has near 0, where it counts as flat."""
    law = make_law(make_likelihood(np.zeros(2), 1.0), prior)
    for size, sign in itertools.product(SIZES, (1.0, -1.0)):
        value = sign * size
        slope, curvature = log_prior_slope(value, law), majorising(value, law)
        assert curvature > 0.0
        assert precision(value, law) > 0.0
        for other in (0.0, -value, 0.5 * value, 2.0 * value, value + 1e-3, 30.0, -1e5):
            move = other - value
            above = -log_prior(value, law) - slope * move + 0.5 * curvature * move * move
            rounding = 2e-8 * (1.0 + abs(above)) + 1e-6 * 0.5 * curvature * move * move
            assert above >= -log_prior(other, law) - rounding


# What a user types.


def test_priors_by_name() -> None:
    assert constant_prior("decades") == Decades()
    assert constant_prior("normal") == Normal()
    assert constant_prior("decades:1e-6,1e6") == Decades(1e-6, 1e6)
    assert constant_prior("normal:0,10") == Normal(0.0, 10.0)
    assert constant_prior(" normal : -1.5 , 2 ") == Normal(-1.5, 2.0)
    mine = Decades(0.1, 10.0)
    assert constant_prior(mine) is mine


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nomal", "'nomal' is no prior of constants: did you mean 'normal'"),
        ("decade:1,2", "did you mean 'decades'"),
        ("cauchy", "choose from decades, normal"),
        ("", "choose from decades, normal"),
        ("decades:1", "'decades:1' is no prior of constants: write it like decades:1e-3,1e4"),
        ("normal:0,1,2", "write it like"),
        ("normal:a,b", "write it like"),
        ("decades:3,1", "from a size above 0 to a larger one, not from 3.0 to 1.0"),
        ("decades:0,1", "from a size above 0"),
        ("decades:1,inf", "from a size above 0"),
        ("decades:nan,1", "from a size above 0"),
        ("normal:0,0", "standard deviation must be above 0"),
        ("normal:nan,1", "mean must be finite"),
    ],
)
def test_bad_names(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        constant_prior(text)
    assert "\n" not in str(caught.value)


def test_it_says_what_it_is() -> None:
    assert str(Decades(1e-3, 1e4)) == (
        "either sign, every decade from 0.001 to 10000 about equally likely, heavy tails beyond"
    )

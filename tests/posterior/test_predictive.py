"""Predictions from draws that are made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dvisr.expression import parse
from dvisr.library import Library
from dvisr.noise import AbstractNoise, Gaussian, Relative, Student
from dvisr.posterior import predictive
from dvisr.posterior.predictive import Draws


def by_hand(
    texts: list[str],
    shares: list[int],
    noise: float = 0.1,
    model: AbstractNoise = Gaussian(),  # noqa: B008
) -> Draws:
    library = Library.create(["+", "*", "/", "exp", "log"], ["x"], constants=True)
    expressions = tuple(parse(text, library) for text in texts)
    tree = np.repeat(np.arange(len(texts)), shares)
    rng = np.random.default_rng(0)
    constants = rng.normal(1.0, 0.1, (len(tree), 1))
    return Draws(expressions, tree, constants, np.full(len(tree), noise), 1.0, model)


def test_a_draw_that_explodes_does_not_take_the_mean_along() -> None:
    draws = by_hand(["x + c", "exp(exp(x))"], [999, 1])
    X = np.array([[0.0], [6.0]])
    mean, std, undefined = predictive.moments(draws, X)
    calm = by_hand(["x + c"], [999])
    assert draws.curves(X)[-1, 1] > 1e100
    np.testing.assert_allclose(mean, predictive.moments(calm, X)[0], atol=0.01)
    np.testing.assert_allclose(std, predictive.moments(calm, X)[1], rtol=0.2)
    assert undefined.tolist() == [0.0, 0.0]


def test_undefined_draws_are_counted_and_not_averaged() -> None:
    draws = by_hand(["x + c", "log(x)", "c / x"], [700, 200, 100])
    X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    mean, std, undefined = predictive.moments(draws, X)
    np.testing.assert_allclose(undefined, [0.2, 0.3, 0.0, 0.0], atol=1e-12)
    curves = draws.curves(X)
    np.testing.assert_allclose(mean, np.nanmean(curves, axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(np.nanvar(curves, axis=0) + 0.01), rtol=1e-12)
    levels = predictive.quantiles(draws, X, [0.2, 0.5], with_noise=False)
    np.testing.assert_allclose(levels, np.nanquantile(curves, [0.2, 0.5], axis=0).T)
    drawn = predictive.observations(draws, X, 1000, np.random.default_rng(1))
    np.testing.assert_allclose(np.isnan(drawn).mean(axis=1), undefined, atol=1e-12)


def test_a_row_at_which_nothing_is_defined() -> None:
    draws = by_hand(["log(x)"], [50])
    mean, std, undefined = predictive.moments(draws, np.array([[-1.0], [1.0]]))
    assert np.isnan([mean[0], std[0]]).all()
    assert (mean[1], undefined.tolist()) == (0.0, [1.0, 0.0])
    found = predictive.quantiles(draws, np.array([[-1.0]]), [0.5], with_noise=True)
    assert np.isnan(found).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_no_scale_is_too_large_or_small_for_the_moments(scale: float) -> None:
    draws = by_hand(["x * c"], [500], noise=0.5 * scale)
    X = np.array([[1.0], [-2.0]])
    mean, std, _ = predictive.moments(draws, scale * X)
    expected = predictive.moments(by_hand(["x * c"], [500], noise=0.5), X)
    np.testing.assert_allclose(mean / scale, expected[0], rtol=1e-9)
    np.testing.assert_allclose(std / scale, expected[1], rtol=1e-9)


# Other noise ----------------------------------------------------------------------------------

AT = np.array([[0.5], [2.0]])


@pytest.mark.parametrize("freedom", [2.5, 4.0, 30.0])
def test_moments_and_quantiles_with_student_noise(freedom: float) -> None:
    """A mixture over the draws of Student t densities about their curves."""
    draws = by_hand(["x + c"], [400], noise=0.3, model=Student(freedom=freedom))
    curves = draws.curves(AT)
    mean, std, _ = predictive.moments(draws, AT)
    np.testing.assert_allclose(mean, curves.mean(axis=0), rtol=1e-12)
    expected = np.sqrt(curves.var(axis=0) + 0.09 * freedom / (freedom - 2.0))
    np.testing.assert_allclose(std, expected, rtol=1e-9)
    found = predictive.quantiles(draws, AT, [0.05, 0.5, 0.9], with_noise=True)
    for row, values in enumerate(curves.T):
        for level, quantile in zip((0.05, 0.5, 0.9), found[row], strict=True):
            below = stats.t.cdf((quantile - values) / 0.3, freedom).mean()
            assert below == pytest.approx(level, abs=0.003)


def test_without_a_second_moment_there_is_no_standard_deviation() -> None:
    draws = by_hand(["x + c"], [400], noise=0.3, model=Student(freedom=1.5))
    _, std, _ = predictive.moments(draws, AT)
    assert np.isinf(std).all()
    assert np.isfinite(predictive.quantiles(draws, AT, [0.05, 0.95], with_noise=True)).all()


def test_moments_and_quantiles_with_relative_noise() -> None:
    """The curve is the median of an observation, not its mean."""
    draws = by_hand(["x * c"], [400], noise=0.2, model=Relative())
    curves = draws.curves(AT)
    mean, std, _ = predictive.moments(draws, AT)
    np.testing.assert_allclose(mean, curves.mean(axis=0), rtol=1e-12)
    of_one = stats.lognorm(0.2)
    second, _ = integrate.quad(lambda v: (v - of_one.mean()) ** 2 * of_one.pdf(v), 0.0, 20.0)
    expected = np.sqrt(curves.var(axis=0) + second * (curves**2).mean(axis=0))
    np.testing.assert_allclose(std, expected, rtol=1e-6)
    found = predictive.quantiles(draws, AT, [0.01, 0.5, 0.9], with_noise=True)
    assert (found > 0.0).all()
    for row, values in enumerate(curves.T):
        for level, quantile in zip((0.01, 0.5, 0.9), found[row], strict=True):
            assert of_one.cdf(quantile / values).mean() == pytest.approx(level, abs=0.003)


def test_relative_noise_about_a_curve_that_is_not_positive_is_none() -> None:
    draws = by_hand(["x + c"], [300], noise=0.2, model=Relative())
    drawn = predictive.observations(draws, np.array([[-5.0], [5.0]]), 50, np.random.default_rng(0))
    assert np.isnan(drawn[0]).all()
    assert (drawn[1] > 0.0).all()


@pytest.mark.parametrize("model", [Gaussian(), Student(), Relative()], ids=lambda m: m.name)
def test_error_bars_are_in_the_units_of_y(model: AbstractNoise) -> None:
    draws = by_hand(["x * c"], [200], noise=2.0, model=model)
    curves, bars = draws.curves(AT), np.array([0.1, 0.4])
    found = draws.sigmas(curves, bars)
    expected = 2.0 * np.broadcast_to(bars, curves.shape)
    if model.link == "log":
        expected = expected / curves
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(draws.sigmas(curves, None), np.full(curves.shape, 2.0))


def test_quantiles_with_and_without_what_is_undefined() -> None:
    """To the last bit what NumPy says of each column by itself."""
    rng = np.random.default_rng(0)
    values = rng.standard_cauchy((501, 6))
    values[::3, 1] = np.nan
    values[:, 2] = np.nan
    values[0, 3] = np.inf
    values[:-1, 4] = np.nan
    levels = (0.05, 0.5, 0.95)
    found = predictive._quantiles(values, levels)
    for column in (0, 1, 3, 4, 5):
        assert np.array_equal(found[:, column], np.nanquantile(values[:, column], levels))
    assert np.isnan(found[:, 2]).all()

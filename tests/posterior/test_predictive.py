"""Predictions from draws that are made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.expression import parse
from dvisr.library import Library
from dvisr.noise import Gaussian
from dvisr.posterior import predictive
from dvisr.posterior.predictive import Draws


def by_hand(texts: list[str], shares: list[int], noise: float = 0.1) -> Draws:
    library = Library.create(["+", "*", "/", "exp", "log"], ["x"], constants=True)
    expressions = tuple(parse(text, library) for text in texts)
    tree = np.repeat(np.arange(len(texts)), shares)
    rng = np.random.default_rng(0)
    constants = rng.normal(1.0, 0.1, (len(tree), 1))
    return Draws(expressions, tree, constants, np.full(len(tree), noise), 1.0, Gaussian())


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

"""Draws for ArviZ and leave-one-out prediction, against models whose truth is known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
import xarray

from dvisr.constants import Normal
from dvisr.exact import log_marginal
from dvisr.expression import Expression, parse
from dvisr.library import Library
from dvisr.likelihood import AbstractLikelihood, GaussianNoise, InferredNoise, make_likelihood
from dvisr.marginal import Engine, Weighed, weigh
from dvisr.posterior.datatree import loo_of_draws, pareto_k, tree_datatree

RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, (12, 1))
Y = 1.3 * X[:, 0] - 0.4 + RNG.normal(0.0, 0.3, 12)
PRIOR = Normal(0.0, 10.0)


def solved(
    text: str,
    likelihood: AbstractLikelihood,
    X: np.ndarray = X,
    names: tuple[str, ...] = ("x",),
) -> tuple[Engine, Expression, Weighed]:
    library = Library.create(["+", "*", "exp", "log"], names, constants=True)
    expression = parse(text, library)
    engine = Engine(library, X, likelihood, PRIOR, num_threads=1)
    tokens = np.array(expression.tokens, dtype=np.int8)
    return engine, expression, weigh(engine, tokens, np.random.default_rng(0))


def line(X: np.ndarray, y: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The exact posterior of the constants of x * c + c: mean and covariance."""
    slopes = np.column_stack([X[:, 0], np.ones(len(X))]) / sigma[:, None]
    covariance = np.linalg.inv(slopes.T @ slopes + np.eye(2) / PRIOR.std**2)
    return covariance @ slopes.T @ (y / sigma), covariance


def values_of(tree: xarray.DataTree, path: str) -> np.ndarray:
    return np.asarray(tree[path])


def test_groups_and_what_is_in_them() -> None:
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, 0.3))
    tree = tree_datatree(engine, expression, weighed, count=500, seed=1)
    assert set(tree.children) == {"posterior", "log_likelihood", "observed_data", "constant_data"}
    posterior = tree["posterior"]
    assert set(posterior.data_vars) == {"c0", "c1", "sigma"}
    assert dict(posterior.sizes) == {"chain": 1, "draw": 500}
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "observation")
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y)
    np.testing.assert_array_equal(tree["constant_data"]["X"].sel(feature="x"), X[:, 0])
    assert tree.attrs["expression"] == "x * c + c"
    assert tree.attrs["inference_library"] == "dvisr"
    assert tree.attrs["inference_library_version"]
    draws = [values_of(tree, f"posterior/{name}")[0] for name in ("c0", "c1", "sigma")]
    np.testing.assert_allclose(draws[2], 0.3)
    values = draws[0][:, None] * X[:, 0] + draws[1][:, None]
    np.testing.assert_allclose(
        values_of(tree, "log_likelihood/y")[0], scipy.stats.norm(values, 0.3).logpdf(Y), atol=1e-10
    )


def test_draws_are_of_the_posterior() -> None:
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, 0.3))
    tree = tree_datatree(engine, expression, weighed, count=4000, seed=1)
    mean, covariance = line(X, Y, np.full(12, 0.3))
    std = np.sqrt(np.diag(covariance))
    draws = np.stack([values_of(tree, f"posterior/c{j}")[0] for j in range(2)])
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.06 * std.max())
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.08 * covariance.max())


def test_the_noise_in_units_of_y_or_of_the_error_bars() -> None:
    bars = np.linspace(0.2, 0.5, 12)
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, "infer"))
    sigma = values_of(tree_datatree(engine, expression, weighed, seed=0), "posterior/sigma")
    mean, _ = line(X, Y, np.full(12, 0.3))
    residual = Y - mean[0] * X[:, 0] - mean[1]
    assert sigma.mean() == pytest.approx(math.sqrt((residual**2).sum() / 10.0), rel=0.15)
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, "infer", bars))
    tree = tree_datatree(engine, expression, weighed, seed=0)
    assert set(tree["posterior"].data_vars) == {"c0", "c1", "noise_factor"}
    np.testing.assert_array_equal(tree["constant_data"]["y_err"], bars)
    factor = values_of(tree, "posterior/noise_factor")
    assert factor.std() > 0.05
    assert 0.3 < factor.mean() < 2.0
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, 1.0, bars))
    tree = tree_datatree(engine, expression, weighed, seed=0)
    np.testing.assert_array_equal(values_of(tree, "posterior/noise_factor"), 1.0)


def test_odd_columns_weights_and_trees_without_constants() -> None:
    weights = np.arange(1.0, 13.0)
    names = ("draw", "a b")
    both = np.column_stack([X, X**2])
    engine, expression, weighed = solved(
        "draw * `a b`", make_likelihood(Y, "infer", None, weights), both, names
    )
    tree = tree_datatree(engine, expression, weighed, count=50, seed=0)
    assert set(tree["posterior"].data_vars) == {"sigma"}
    assert list(values_of(tree, "constant_data/feature")) == list(names)
    np.testing.assert_array_equal(tree["constant_data"]["sample_weight"], weights)


def test_the_same_seed_gives_the_same_draws() -> None:
    engine, expression, weighed = solved("x * c + c", make_likelihood(Y, "infer"))
    one, two, other = (tree_datatree(engine, expression, weighed, seed=s) for s in (3, 3, 4))
    assert one.identical(two)
    assert not one.identical(other)


def test_what_is_undefined_or_asks_for_nothing_is_refused() -> None:
    engine, expression, weighed = solved("log(x)", make_likelihood(Y, 0.3))
    for refused in (tree_datatree, loo_of_draws):
        with pytest.raises(ValueError, match=r"log\(x\) is undefined on these data"):
            refused(engine, expression, weighed, seed=0)
    engine, expression, weighed = solved("x * c", make_likelihood(Y, 0.3))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        tree_datatree(engine, expression, weighed, count=0, seed=0)


def test_leaving_one_out_of_a_line_with_known_noise() -> None:
    bars = np.linspace(0.2, 0.5, 12)
    for likelihood, sigma in ((make_likelihood(Y, 0.3), np.full(12, 0.3)),
                              (make_likelihood(Y, 1.0, bars), bars)):  # fmt: skip
        found = loo_of_draws(*solved("x * c + c", likelihood), seed=0)
        expected = np.empty(12)
        for i in range(12):
            rest = np.arange(12) != i
            mean, covariance = line(X[rest], Y[rest], sigma[rest])
            row = np.array([X[i, 0], 1.0])
            spread = math.sqrt(row @ covariance @ row + sigma[i] ** 2)
            expected[i] = scipy.stats.norm(row @ mean, spread).logpdf(Y[i])
        np.testing.assert_allclose(found.elpd_i, expected, atol=0.06)
        assert found.elpd == pytest.approx(expected.sum(), abs=0.15)
        assert found.se == pytest.approx(math.sqrt(12.0 * expected.var()), rel=0.1)
        assert 1.0 < found.p < 3.5  # two constants
        assert float(found.pareto_k.max()) < 0.7
        assert not found.warning
        assert (found.n_data_points, found.n_samples) == (12, 2000)


@pytest.mark.parametrize("text", ["x * c + c", "x"])
def test_leaving_one_out_with_the_noise_inferred(text: str) -> None:
    """p(y_i | the others) is a ratio of marginal likelihoods, the prior of the noise kept."""
    full = make_likelihood(Y, "infer")
    assert isinstance(full, InferredNoise)
    engine, expression, weighed = solved(text, full)
    found = loo_of_draws(engine, expression, weighed, seed=0)
    total = log_marginal(expression, X, full, PRIOR).value
    for i in range(0, 12, 3):
        rest = np.arange(12) != i
        part = InferredNoise(Y[rest], full.scale[rest], full.shape, full.rate)
        expected = total - log_marginal(expression, X[rest], part, PRIOR).value
        assert float(found.elpd_i[i]) == pytest.approx(expected, abs=0.1)
    again = loo_of_draws(engine, expression, weighed, seed=0)
    assert again.elpd == found.elpd


def test_leaving_out_changes_nothing_where_nothing_is_found() -> None:
    found = loo_of_draws(*solved("x", make_likelihood(Y, 0.3)), seed=0)
    np.testing.assert_allclose(found.elpd_i, scipy.stats.norm(X[:, 0], 0.3).logpdf(Y))
    assert found.p == 0.0
    assert not found.warning


def test_a_weight_is_a_number_of_copies_of_which_one_is_left_out() -> None:
    weights = np.array([3.0, 1.0, 2.0] + [1.0] * 9)
    often = np.repeat(np.arange(12), weights.astype(int))
    weighted = loo_of_draws(*solved("x * c + c", make_likelihood(Y, 0.3, None, weights)), seed=0)
    copied = loo_of_draws(*solved("x * c + c", make_likelihood(Y[often], 0.3), X[often]), seed=0)
    assert weighted.elpd == pytest.approx(copied.elpd, abs=0.05)
    assert weighted.se == pytest.approx(copied.se, rel=0.02)
    assert weighted.p == pytest.approx(copied.p, abs=0.1)
    assert weighted.n_data_points == copied.n_data_points == 15


def test_draws_that_are_undefined_are_left_out() -> None:
    """log(x + c) is undefined for half of the prior's constants."""
    y = np.log(X[:, 0] + 3.0) + RNG.normal(0.0, 0.1, 12)
    engine, expression, weighed = solved("log(x + c)", make_likelihood(y, 0.1))
    assert np.isinf(weighed.squares).any()
    found = loo_of_draws(engine, expression, weighed, seed=0)
    assert math.isfinite(found.elpd)
    few = dataclasses.replace(
        weighed, squares=np.where(np.arange(len(weighed.squares)) < 9, 1.0, np.inf)
    )
    nothing = loo_of_draws(engine, expression, few, seed=0)
    assert math.isnan(nothing.elpd)
    assert nothing.warning


def test_a_hopeless_fit_still_has_a_finite_answer() -> None:
    found = loo_of_draws(*solved("x * c", GaussianNoise(Y, np.full(12, 1e-3))), seed=0)
    assert math.isfinite(found.elpd)


def test_pareto_k_tells_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    assert pareto_k(np.log(rng.uniform(1.0, 2.0, 4000))) < 0.3
    assert pareto_k(np.log(rng.pareto(1.0, 4000))) == pytest.approx(1.0, abs=0.25)
    assert pareto_k(np.zeros(4000)) == 0.0
    assert math.isnan(pareto_k(np.zeros(3)))
    mostly_nothing = np.where(rng.uniform(size=4000) < 0.9, -np.inf, rng.normal(size=4000))
    assert math.isfinite(pareto_k(mostly_nothing))

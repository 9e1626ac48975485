"""Importance sampling of one tree's constants against the oracle and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.evaluation import evaluate
from dvisr.exact import log_marginal
from dvisr.expression import parse
from dvisr.library import OPERATORS, Library
from dvisr.likelihood import Likelihood, make_likelihood
from dvisr.marginal import Engine, Weighed, log_joint_of, noise_draws, residuals_of, weigh
from dvisr.marginal.mixtures import Mixture, inverse
from tests.marginal.test_engine import CLASSIC, on_a_grid, simulated
from tests.marks import quick_only

LIBRARY = Library.create([*OPERATORS, "1", "2"], ["x", "z"], constants=True)
RNG = np.random.default_rng(5)
X = RNG.uniform(0.2, 2.0, size=(9, 2))
Y = 1.5 * X[:, 0] + 0.7 + RNG.normal(0.0, 0.3, 9)
BARS = np.linspace(0.2, 1.1, 9)
# The paper's data.
PAPER_X = np.stack([np.linspace(0.0, 1.0, 11)] * 2, axis=1)
PAPER_Y = PAPER_X[:, 0] ** 2


def weighed(
    text: str,
    X: np.ndarray,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    seed: int = 0,
    error: float = 0.01,
) -> Weighed:
    engine = Engine(LIBRARY, X, likelihood, prior, num_threads=1)
    tokens = np.array(parse(text, LIBRARY).tokens, dtype=np.int8)
    return weigh(engine, tokens, np.random.default_rng(seed), error=error)


def check_against_the_oracle(
    text: str,
    X: np.ndarray,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    seeds: range,
) -> None:
    oracle = log_marginal(parse(text, LIBRARY), X, likelihood, prior)
    assert oracle.error < 1e-2
    for seed in seeds:
        found = weighed(text, X, likelihood, prior, seed)
        assert found.method == "importance sampling"
        assert 0.0 < found.error < 0.05
        away = abs(found.log_marginal - oracle.value)
        assert away < 5.0 * found.error + oracle.error, (seed, found.log_marginal, oracle.value)


ONE = ["sin(x * c)", "x ^ c", "exp(x * c)", "log(x + c)", "sqrt(x + c)", "square(x - c)",
       "abs(c) * x", "inv(c) + x", "x / c", "c ^ x", "x * exp(c)", "tanh(x + c)"]  # fmt: skip
TWO = ["(x * c) * c", "c * (c + x)", "c / (x + c)", "tanh(c * x) * c", "c * exp(x * c)",
       "exp(c * x) + exp(c * z)", "c * x ^ c", "sqrt(x * c) + c"]  # fmt: skip


@pytest.mark.parametrize("noise", [1.0, "infer"])
@pytest.mark.parametrize("text", [*ONE, *TWO])
def test_the_papers_data(text: str, noise: float | str) -> None:
    """Noise as large as the data leaves wide posteriors of odd shapes; inferred, narrow ones."""
    likelihood = make_likelihood(PAPER_Y, noise)
    check_against_the_oracle(text, PAPER_X, likelihood, Normal(), range(2))


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("text", ["exp(x * c)", "c ^ x", "(x * c) * c", "c / (x + c)"])
def test_a_line_under_a_prior_off_centre(text: str, bars: np.ndarray | None) -> None:
    likelihood = make_likelihood(Y, 0.5, bars)
    check_against_the_oracle(text, X, likelihood, Normal(0.5, 3.0), range(2))


@pytest.mark.parametrize("noise", [0.5, "infer"])
@pytest.mark.parametrize(
    "text", ["x * c", "exp(x * c)", "x ^ c", "x / c", "log(x + c)", "abs(c) * x"]
)
def test_one_constant_under_decades(text: str, noise: float | str) -> None:
    check_against_the_oracle(text, X, make_likelihood(Y, noise), Decades(), range(2))


@pytest.mark.parametrize(
    ("text", "true"),
    [("c * exp(x * c)", (5.0, -0.7)), ("c * x ^ c", (2.0, 1.7)), ("c * x / (c + x)", (3.0, 0.5))],
)
@pytest.mark.parametrize("noise", ["given", "infer"])
def test_two_constants_under_decades(text: str, true: tuple[float, ...], noise: str) -> None:
    problem = simulated(text, true, 0, noise)
    found = weighed(text, problem.X, problem.likelihood, Decades())
    expected = on_a_grid(problem, Decades())
    assert found.log_marginal == pytest.approx(expected, rel=0.0, abs=5.0 * found.error)


def test_a_ridge() -> None:
    """Of (x * c) * c the data know the product alone. Laplace's approximation is too high by the
    better part of a nat at each of two modes; the truth is -14.04."""
    likelihood = make_likelihood(PAPER_Y, 1.0)
    oracle = log_marginal(parse("(x * c) * c", LIBRARY), PAPER_X, likelihood, Normal())
    assert oracle.value == pytest.approx(-14.04, abs=0.005)
    found = weighed("(x * c) * c", PAPER_X, likelihood, Normal(), error=0.005)
    assert found.error < 0.005
    assert found.log_marginal == pytest.approx(oracle.value, rel=0.0, abs=5.0 * found.error)
    # Either constant is as often negative, and both are so together where the product is known.
    assert np.abs(found.mean).max() < 4.0 * 10.0 / math.sqrt(found.effective_size)
    product = found.constants.prod(axis=1)
    assert found.weights @ (product > 0.0) > 0.8


@pytest.mark.parametrize("noise", [1.0, "infer"])
@pytest.mark.parametrize(
    "text",
    quick_only(["cos(c)", "sin(x + c)", "sin(c * x + c)", "sin(x * c)"], "cos(c)", "sin(x + c)"),
)
def test_phases_that_repeat(text: str, noise: float | str) -> None:
    """Within the prior there are up to a dozen turns of a phase, each a mode or two of its own."""
    likelihood = make_likelihood(PAPER_Y, noise)
    check_against_the_oracle(text, PAPER_X, likelihood, Normal(), range(3))


def test_two_far_modes_of_one_constant() -> None:
    """square(x - c) at a single place: c on either side of it, equally often."""
    rows = np.full((6, 2), 1.5)
    y = 4.0 + np.random.default_rng(3).normal(0.0, 0.05, 6)
    found = weighed("square(x - c)", rows, make_likelihood(y, 0.05), Normal(1.5, 2.0))
    oracle = log_marginal(
        parse("square(x - c)", LIBRARY), rows, make_likelihood(y, 0.05), Normal(1.5, 2.0)
    )
    assert found.log_marginal == pytest.approx(oracle.value, rel=0.0, abs=5.0 * found.error)
    upper = found.constants[:, 0] > 1.5
    share = float(found.weights @ upper)
    deviation = math.sqrt(float(found.weights**2 @ (upper - share) ** 2))
    assert abs(share - 0.5) < 4.0 * deviation


def test_a_smaller_error_may_be_asked_for() -> None:
    likelihood = make_likelihood(Y, 0.5)
    oracle = log_marginal(parse("exp(x * c)", LIBRARY), X, likelihood, Normal())
    for error in (0.01, 0.003):
        found = weighed("exp(x * c)", X, likelihood, Normal(), error=error)
        assert found.error < error
        assert abs(found.log_marginal - oracle.value) < 5.0 * found.error


def test_stated_errors_are_standard_errors() -> None:
    """Over 40 independent runs, deviations in units of the stated error have a spread of about
    one: chi-squared with 40 degrees of freedom, between its quantiles of 1e-4 and 1 - 1e-4."""
    likelihood, prior = make_likelihood(PAPER_Y, 1.0), Normal()
    oracle = log_marginal(parse("x ^ c", LIBRARY), PAPER_X, likelihood, prior)
    z = []
    for seed in range(40):
        found = weighed("x ^ c", PAPER_X, likelihood, prior, seed)
        z.append((found.log_marginal - oracle.value) / found.error)
    low, high = scipy.stats.chi2(40).ppf([1e-4, 1.0 - 1e-4])
    assert low < float(np.sum(np.square(z))) < high


# A line: everything in closed form.


def standard_error(found: Weighed, values: np.ndarray) -> float:
    """Of an average over the posterior by weighted draws."""
    weights = found.weights
    return math.sqrt(float(weights**2 @ (values - weights @ values) ** 2))


def line_posterior(sigma: np.ndarray, prior: Normal) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the constants of x * c + c."""
    A = np.stack([X[:, 0], np.ones(9)], axis=1) / sigma[:, None]
    covariance = np.linalg.inv(A.T @ A + np.eye(2) / prior.std**2)
    mean = covariance @ (A.T @ (Y / sigma) + prior.mean / prior.std**2)
    return mean, covariance


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("prior", [Normal(0.0, 10.0), Normal(1.0, 0.5)])
def test_the_posterior_of_a_line(prior: Normal, bars: np.ndarray | None) -> None:
    likelihood = make_likelihood(Y, 0.4, bars)
    found = weighed("x * c + c", X, likelihood, prior)
    assert found.method == "exact"
    assert found.error == 0.0
    oracle = log_marginal(parse("x * c + c", LIBRARY), X, likelihood, prior)
    assert found.log_marginal == pytest.approx(oracle.value, rel=0.0, abs=1e-8)
    mean, covariance = line_posterior(0.4 * (np.ones(9) if bars is None else bars), prior)
    std = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.mode, mean, rtol=0.0, atol=1e-5 * float(std.min()))
    np.testing.assert_allclose(found.curvature, covariance, rtol=1e-6)
    for j in range(2):
        draws = found.constants[:, j]
        assert abs(found.mean[j] - mean[j]) < 4.0 * standard_error(found, draws)
        spread = standard_error(found, (draws - mean[j]) ** 2) / (2.0 * std[j])
        assert abs(found.std[j] - std[j]) < 4.0 * spread
    together = found.constants[:, 0] * found.constants[:, 1]
    product = covariance[0, 1] + mean[0] * mean[1]
    assert abs(found.weights @ together - product) < 4.0 * standard_error(found, together)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    quantiles = found.quantiles(levels)
    assert quantiles.shape == (5, 2)
    for j in range(2):
        reached = scipy.stats.norm(mean[j], std[j]).cdf(quantiles[:, j])
        for level, probability, at in zip(levels, reached, quantiles[:, j], strict=True):
            below = (found.constants[:, j] <= at).astype(float)
            assert abs(probability - level) < 4.0 * standard_error(found, below)


@pytest.mark.parametrize("bars", [None, BARS])
def test_draws_of_the_noise(bars: np.ndarray | None) -> None:
    """Against p(s | y), by quadrature over the closed form for each s."""
    prior = Normal(0.0, 3.0)
    likelihood = make_likelihood(Y, "infer", bars)
    assert likelihood.prior is not None
    engine = Engine(LIBRARY, X, likelihood, prior, num_threads=1)
    tree = parse("x * c + c", LIBRARY)
    rng = np.random.default_rng(11)
    tokens = np.array(tree.tokens, dtype=np.int8)
    found = weigh(engine, tokens, rng)
    drawn = noise_draws(engine, tokens, found.constants, rng)
    assert drawn.shape == found.log_weights.shape
    assert (drawn > 0.0).all()

    log_evidence = log_marginal(tree, X, likelihood, prior).value
    shape, rate = likelihood.prior.shape, likelihood.prior.rate

    def density(log_s: float) -> float:
        s = math.exp(log_s)
        known = log_marginal(tree, X, make_likelihood(Y, s, likelihood.scale), prior).value
        log_prior = scipy.stats.invgamma(shape, scale=rate).logpdf(s * s)
        return float(np.exp(known - log_evidence + log_prior) * 2.0 * s * s)

    nodes = np.linspace(-4.0, 10.0, 501)
    cumulative = scipy.integrate.cumulative_simpson(
        [density(float(node)) for node in nodes], x=nodes, initial=0.0
    )
    assert cumulative[-1] == pytest.approx(1.0, abs=1e-6)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = float(np.interp(level, cumulative, nodes))
        below = (np.log(drawn) < at).astype(float)
        assert abs(found.weights @ below - level) < 4.0 * standard_error(found, below)


def test_noise_that_is_given_is_not_drawn() -> None:
    engine = Engine(LIBRARY, X, make_likelihood(Y, 0.5), Normal(), num_threads=1)
    tokens = np.array(parse("x * c", LIBRARY).tokens, dtype=np.int8)
    constants = np.linspace(0.0, 9.0, 5)[:, None]
    drawn = noise_draws(engine, tokens, constants, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, np.ones(5))


@pytest.mark.parametrize(("text", "true"), CLASSIC, ids=[row[0] for row in CLASSIC])
def test_the_mode_is_a_mode(text: str, true: tuple[float, ...]) -> None:
    problem = simulated(text, true, 0, "infer")
    for prior in (Normal(), Decades()):
        found = weighed(text, problem.X, problem.likelihood, prior)
        assert problem.could_gain(prior, found.mode) < 1e-6
        log_joint = problem.log_joint(prior)
        assert log_joint(found.mode) > log_joint(problem.goal) - 1e-9


@pytest.mark.parametrize("noise", [0.5, "infer"])
@pytest.mark.parametrize("prior", [Normal(), Decades()])
def test_draws_are_what_they_say(prior: AbstractConstantPrior, noise: float | str) -> None:
    """Weights, residuals and the estimate itself, worked out once more by NumPy."""
    likelihood = make_likelihood(Y, noise, BARS, np.linspace(0.5, 2.0, 9))
    tree = parse("c * sqrt(x + c)", LIBRARY)
    found = weighed("c * sqrt(x + c)", X, likelihood, prior)
    values, is_defined = evaluate(tree, X, [found.constants[:, :1], found.constants[:, 1:]])
    inside = np.asarray(is_defined.all(axis=1))
    assert 0 < inside.sum() < len(inside)  # the mixture reaches past the edge of the domain
    assert (found.log_weights[~inside] == -math.inf).all()
    engine = Engine(LIBRARY, X, likelihood, prior, num_threads=1)
    tokens = np.array(tree.tokens, dtype=np.int8)
    misfits, residuals = residuals_of(engine, tokens, found.constants)
    assert (misfits[~inside] == math.inf).all()
    assert np.isnan(residuals[~inside]).all()
    expected = (Y - values[inside]) / likelihood.scale
    np.testing.assert_allclose(residuals[inside], expected, rtol=1e-9, atol=1e-9)
    log_likelihood = likelihood.log_prob(np, values[inside])
    np.testing.assert_allclose(
        misfits[inside], likelihood.perfect - log_likelihood, rtol=1e-9, atol=1e-9
    )
    log_joint = log_likelihood + np.asarray(prior.log_prob(np, found.constants[inside])).sum(axis=1)
    of_kernel = log_joint_of(engine, tokens, found.constants)
    assert (of_kernel[~inside] == -math.inf).all()
    np.testing.assert_allclose(of_kernel[inside], log_joint, rtol=1e-9, atol=1e-9)
    ratios = log_joint - found.log_q[inside]
    total = float(scipy.special.logsumexp(ratios))
    assert found.log_marginal == pytest.approx(total - math.log(len(inside)), rel=0.0, abs=1e-9)
    kept = ratios - total > -300.0
    np.testing.assert_allclose(
        found.log_weights[inside][kept], (ratios - total)[kept], rtol=0.0, atol=1e-8
    )
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_tree_without_constants() -> None:
    for noise in (0.5, "infer"):
        likelihood = make_likelihood(Y, noise)
        found = weighed("x + z", X, likelihood, Normal())
        expected = float(likelihood.log_prob(np, X[:, 0] + X[:, 1]))
        assert found.log_marginal == pytest.approx(expected, rel=0.0, abs=1e-10)
        assert (found.error, found.method) == (0.0, "exact")
        assert found.constants.shape == (1, 0)
        assert found.weights.tolist() == [1.0]
        assert found.effective_size == 1.0
        assert found.mean.shape == found.std.shape == found.mode.shape == (0,)
        assert found.quantiles(np.array([0.1, 0.9])).shape == (2, 0)


@pytest.mark.parametrize(
    "text", ["log(-2)", "c / (x - x)", "sqrt(-(square(c) + 2))", "sqrt(x - 1)"]
)
def test_an_undefined_tree(text: str) -> None:
    found = weighed(text, X, make_likelihood(Y, 0.5), Normal())
    assert found.log_marginal == -math.inf
    assert found.method == "undefined"


@pytest.mark.parametrize("noise", [0.5, "infer"])
def test_the_same_seed_gives_the_same_draws(noise: float | str) -> None:
    likelihood = make_likelihood(Y, noise)
    first, second = (weighed("c * exp(x * c)", X, likelihood, Normal(), 7) for _ in range(2))
    other = weighed("c * exp(x * c)", X, likelihood, Normal(), 8)
    assert first.log_marginal == second.log_marginal
    np.testing.assert_array_equal(first.constants, second.constants)
    np.testing.assert_array_equal(first.log_weights, second.log_weights)
    np.testing.assert_array_equal(first.mode, other.mode)  # found without chance
    assert first.log_marginal != other.log_marginal


# A handful of draws, made here.


def made(constants: np.ndarray, weights: np.ndarray) -> Weighed:
    count = len(weights)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return Weighed(
        log_marginal=0.0, error=0.0, method="importance sampling", mode=np.zeros(1),
        curvature=np.eye(1), constants=constants, log_weights=log_weights,
        log_q=np.zeros(count),
    )  # fmt: skip


def test_averages_by_hand() -> None:
    found = made(np.array([[1.0, 10.0], [3.0, 20.0], [7.0, 0.0]]), np.array([0.5, 0.25, 0.25]))
    np.testing.assert_allclose(found.mean, [3.0, 10.0])
    np.testing.assert_allclose(found.std, np.sqrt([0.5 * 4.0 + 0.25 * 16.0, 0.25 * 100 * 2]))
    assert found.effective_size == pytest.approx(1.0 / (0.25 + 2.0 * 0.0625))
    even = made(np.arange(10.0)[:, None], np.full(10, 0.1))
    assert even.effective_size == pytest.approx(10.0)
    assert even.quantiles(np.array([0.5]))[0, 0] == pytest.approx(4.5)
    one = made(np.arange(3.0)[:, None], np.array([0.0, 1.0, 0.0]))
    assert one.effective_size == pytest.approx(1.0)
    assert one.quantiles(np.array([0.01, 0.5, 0.99]))[1, 0] == pytest.approx(1.0)


def heavy_tailed() -> Weighed:
    """Weights of very different sizes, three of them above all others."""
    rng = np.random.default_rng(0)
    weights = rng.pareto(1.2, 3000) + np.where(np.arange(3000) % 1000 == 7, 500.0, 0.0)
    weights[5::9] = 0.0
    return made(rng.normal(size=(3000, 2)), weights / weights.sum())


def test_thinned_draws_keep_the_heavy_ones_as_they_are() -> None:
    found = heavy_tailed()
    thinned = found.thinned(400, np.random.default_rng(1))
    assert abs(len(thinned.log_weights) - 400) <= 1
    assert scipy.special.logsumexp(thinned.log_weights) == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(thinned.log_weights).all()
    heaviest = np.argsort(-found.weights)[:3]
    for place in heaviest:
        (where,) = np.flatnonzero((thinned.constants == found.constants[place]).all(axis=1))
        assert thinned.weights[where] == pytest.approx(found.weights[place], rel=0.01)
    assert found.thinned(3000, np.random.default_rng(1)) is found


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_thinned_draws_of_which_few_weigh_anything_are_those(first: float) -> None:
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 1.0, 900) * (rng.uniform(size=900) < 0.2)
    weights[0] = first
    found = made(rng.normal(size=(900, 1)), weights / weights.sum())
    thinned = found.thinned(400, rng)
    np.testing.assert_array_equal(thinned.constants, found.constants[weights > 0.0])
    np.testing.assert_allclose(thinned.weights, found.weights[weights > 0.0], rtol=1e-12)


def test_thinned_draws_are_right_on_average() -> None:
    """What each of 20 parts weighs, heavy draws left out, averaged over many ways to thin."""
    found, rounds = heavy_tailed(), 2000
    part = {float(first): number % 20 for number, first in enumerate(found.constants[:, 0])}
    heavy = {float(first) for first in found.constants[np.argsort(-found.weights)[:100], 0]}

    def weights_of(one: Weighed) -> np.ndarray:
        total = np.zeros(20)
        for first, weight in zip(one.constants[:, 0].tolist(), one.weights, strict=True):
            total[part[first]] += 0.0 if first in heavy else weight
        return total

    expected = weights_of(found)
    thinned = [weights_of(found.thinned(300, np.random.default_rng(s))) for s in range(rounds)]
    error = np.std(thinned, axis=0) / np.sqrt(rounds)
    assert (np.abs(np.mean(thinned, axis=0) - expected) < 5.0 * error).all()
    assert (error < 0.01 * expected).all()


def test_quantiles_of_many_even_draws() -> None:
    draws = np.random.default_rng(0).normal(size=(5000, 2))
    levels = np.array([0.025, 0.3, 0.5, 0.975])
    found = made(draws, np.full(5000, 1.0 / 5000))
    expected = np.quantile(draws, levels, axis=0, method="hazen")
    np.testing.assert_allclose(found.quantiles(levels), expected, rtol=0.0, atol=1e-9)


def test_resampling_is_in_proportion() -> None:
    weights = np.random.default_rng(1).dirichlet(np.full(50, 0.3))
    found = made(np.zeros((50, 1)), weights)
    rng = np.random.default_rng(2)
    for count in (1, 7, 1000):
        places = found.resampled(count, rng)
        assert places.shape == (count,)
        frequencies = np.bincount(places, minlength=50)
        assert (np.abs(frequencies - count * weights) < 1.0).all()
    # One at a time it is as likely as it weighs, and no order is left in many.
    singles = np.array([found.resampled(1, rng)[0] for _ in range(4000)])
    often = weights * 4000 > 5.0
    observed = [*np.bincount(singles, minlength=50)[often], np.sum(~often[singles])]
    expected = [*(4000 * weights[often]), 4000 * weights[~often].sum()]
    assert scipy.stats.chisquare(observed, expected).pvalue > 2e-5
    many = found.resampled(2000, rng)
    assert abs(scipy.stats.spearmanr(np.arange(2000), many).statistic) < 4.0 / math.sqrt(2000)


# The mixture itself.

PRIORS = [Normal(0.5, 3.0), Decades(1e-2, 1e2)]


def one_dimensional(prior: AbstractConstantPrior) -> Mixture:
    modes = np.array([[1.2], [-4.0]])
    precisions = np.array([[[25.0]], [[2.0]]])
    return Mixture.at_modes(prior, modes, precisions, np.array([-1.0, -2.0]))


def two_dimensional(prior: AbstractConstantPrior) -> Mixture:
    modes = np.array([[1.2, -0.5], [-1.2, 0.5]])
    precisions = np.array([[[9.0, 4.0], [4.0, 5.0]], [[9.0, 4.0], [4.0, 5.0]]])
    return Mixture.at_modes(prior, modes, precisions, np.array([0.0, -0.3]))


def with_a_phase(prior: AbstractConstantPrior) -> Mixture:
    modes = np.array([[1.2, -0.5], [0.4, 2.5]])
    precisions = np.array([[[9.0, 4.0], [4.0, 5.0]], [[16.0, 0.0], [0.0, 25.0]]])
    return Mixture.at_modes(prior, modes, precisions, np.array([0.0, -0.3]), 1)


def density(mixture: Mixture, constants: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.exp(scipy.special.logsumexp(mixture.log_parts(constants)[0], axis=0))
    return found


def adapted(mixture: Mixture, seed: int) -> Mixture:
    """To a Gaussian about (1, 1, ...)."""
    draws = mixture.sample(4000, np.random.default_rng(seed))
    parts, distances = mixture.log_parts(draws)
    log_p = -0.5 * 4.0 * ((draws - 1.0) ** 2).sum(axis=1)
    ratios = log_p - scipy.special.logsumexp(parts, axis=0)
    weights = np.exp(ratios - scipy.special.logsumexp(ratios))
    return mixture.adapted(draws, weights, parts, distances)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("prior", PRIORS, ids=["normal", "decades"])
def test_a_mixtures_draws_have_its_density(prior: AbstractConstantPrior, steps: int) -> None:
    mixture = one_dimensional(prior)
    for step in range(steps):
        mixture = adapted(mixture, step)
    # Over asinh(c / 0.01), in which the far tails and the finest detail are both in reach.
    nodes = np.linspace(-30.0, 30.0, 200_001)
    c = 0.01 * np.sinh(nodes)
    cumulative = scipy.integrate.cumulative_simpson(
        density(mixture, c[:, None]) * 0.01 * np.cosh(nodes), x=nodes, initial=0.0
    )
    assert cumulative[-1] == pytest.approx(1.0, abs=1e-6)
    draws = mixture.sample(20_000, np.random.default_rng(4))[:, 0]
    found = scipy.stats.kstest(np.arcsinh(draws / 0.01), lambda z: np.interp(z, nodes, cumulative))
    assert found.pvalue > 2e-5


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("prior", PRIORS, ids=["normal", "decades"])
@pytest.mark.parametrize("at", [(1.2, -0.5), (0.3, 0.3), (-1.0, 2.0)])
def test_a_known_integral_by_a_mixtures_draws(
    at: tuple[float, float], prior: AbstractConstantPrior, steps: int
) -> None:
    """Of a Gaussian's density: 1, within four standard errors."""
    mixture = two_dimensional(prior)
    for step in range(steps):
        mixture = adapted(mixture, step)
    draws = mixture.sample(40_000, np.random.default_rng(6))
    assert draws.shape == (40_000, 2)
    known = scipy.stats.multivariate_normal(at, [[0.2, 0.1], [0.1, 0.3]])
    ratios = known.pdf(draws) / density(mixture, draws)
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / math.sqrt(40_000)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(
    "prior", [Normal(0.5, 20.0), Decades(1e-2, 1e3)], ids=["normal", "decades"]
)
def test_peaks_whole_turns_apart(prior: AbstractConstantPrior, steps: int) -> None:
    """The integral of a peak that repeats itself every turn, each time with the prior there: drawn,
    within four standard errors, and as a sum over the turns. Its draws are worth many."""
    mixture = with_a_phase(prior)
    peak = scipy.stats.multivariate_normal([1.2, -0.5], [[0.05, 0.0], [0.0, 0.1]])
    turns = 2.0 * math.pi * np.arange(-4000, 4001)
    # The prior over the peaks; it is steep at zero, and flat far out.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    far = np.exp(prior.log_prob(np, -0.5 + math.sqrt(0.1) * nodes[:, None] + turns[turns != 0.0]))
    of_phase = scipy.stats.norm(-0.5, math.sqrt(0.1))
    known = float(weights @ far.sum(axis=1) / weights.sum()) + sum(
        scipy.integrate.quad(
            lambda c: of_phase.pdf(c) * math.exp(prior.log_prob(np, np.array(c))),
            low, high, epsabs=1e-10, limit=500,
        )[0]
        for low, high in ((-4.0, -0.02), (-0.02, 0.0), (0.0, 0.02), (0.02, 4.0))
    )  # fmt: skip

    def ratios(mixture: Mixture, draws: np.ndarray) -> np.ndarray:
        folded = draws.copy()
        folded[:, 1] -= 2.0 * math.pi * np.rint((draws[:, 1] + 0.5) / (2.0 * math.pi))
        prior_there = np.exp(np.asarray(prior.log_prob(np, draws[:, 1])))
        found: np.ndarray = peak.pdf(folded) * prior_there / density(mixture, draws)
        return found

    for step in range(steps):
        draws = mixture.sample(4000, np.random.default_rng(step))
        parts, distances = mixture.log_parts(draws)
        weights = ratios(mixture, draws)
        mixture = mixture.adapted(draws, weights / weights.sum(), parts, distances)
    draws = mixture.sample(40_000, np.random.default_rng(6))
    found = ratios(mixture, draws)
    assert abs(found.mean() - known) < 4.0 * found.std() / math.sqrt(40_000)
    assert found.sum() ** 2 / (found**2).sum() > 4000


def test_a_sine_with_a_phase_under_decades() -> None:
    """Against a grid over one turn of the phase, with the prior of all turns summed."""
    rng = np.random.default_rng(11)
    X = rng.uniform(-3.0, 3.0, (20, 2))
    y = np.sin(2.5 * X[:, 0] + 0.8) + rng.normal(0.0, 0.1, 20)
    prior, noise = Decades(), 0.1
    turns = 2.0 * math.pi * np.arange(-40_000, 40_001)
    phases = np.linspace(-math.pi, math.pi, 1000, endpoint=False)
    of_phase = np.array([np.exp(prior.log_prob(np, p + turns)).sum() for p in phases])
    log_terms = []
    near = np.linspace(2.2, 2.8, 1201)
    for rate in np.concatenate([near, -near]):  # sin(-a x + pi - p) = sin(a x + p)
        off = y - np.sin(rate * X[:, 0] + phases[:, None])
        log_likelihood = -0.5 * (off**2).sum(axis=1) / noise**2
        with np.errstate(divide="ignore"):
            log_terms.append(
                scipy.special.logsumexp(log_likelihood, b=of_phase * 2.0 * math.pi / len(phases))
                + float(prior.log_prob(np, np.array(rate)))
            )
    log_integral = scipy.special.logsumexp(log_terms) + math.log(near[1] - near[0])
    known = log_integral - len(y) * math.log(noise * math.sqrt(2.0 * math.pi))
    found = weighed("sin(x * c + c)", X, make_likelihood(y, noise), prior)
    assert found.error < 0.02
    assert abs(found.log_marginal - known) < 5.0 * found.error


@pytest.mark.parametrize("prior", PRIORS, ids=["normal", "decades"])
@pytest.mark.parametrize("make", [one_dimensional, two_dimensional])
def test_adapting_a_mixture(make: object, prior: AbstractConstantPrior) -> None:
    """Shares sum to one, draws become more useful, and what looks elsewhere goes on doing so."""
    assert callable(make)
    mixture = make(prior)
    k = mixture.means.shape[1]
    assert mixture.shares.sum() == pytest.approx(1.0, abs=1e-12)

    def usefulness(mixture: Mixture) -> float:
        draws = mixture.sample(20_000, np.random.default_rng(9))
        log_ratios = -2.0 * ((draws - 1.0) ** 2).sum(axis=1) - np.log(density(mixture, draws))
        log_weights = log_ratios - scipy.special.logsumexp(log_ratios)
        return math.exp(-float(scipy.special.logsumexp(2.0 * log_weights))) / 20_000

    before = usefulness(mixture)
    first = mixture
    for step in range(4):
        mixture = adapted(mixture, step)
        assert mixture.shares.sum() == pytest.approx(1.0, abs=1e-12)
        assert (mixture.shares > 0.0).all()
        assert mixture.means.shape == first.means.shape
    assert usefulness(mixture) > max(0.6, before)
    searching = mixture.redrawn != -1
    assert searching.sum() == (1 if k == 1 else 1 + 2 * k)
    assert mixture.shares[searching].sum() > 0.05
    # None of them is starved: not below a twentieth of what it began with.
    assert (mixture.shares[searching] > 0.05 * first.shares[searching]).all()


def test_inverses_of_constants_decades_apart() -> None:
    scales = np.array([1e-6, 1.0, 1e5])
    correlations = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]])
    precision = correlations / np.outer(scales, scales)
    expected = np.linalg.inv(correlations) * np.outer(scales, scales)
    np.testing.assert_allclose(inverse(precision), expected, rtol=1e-9)
    flat = inverse(np.array([[1.0, 1.0], [1.0, 1.0]]))  # no data along one direction
    assert np.isfinite(flat).all()
    assert np.linalg.eigvalsh(flat).min() > 0.0


def test_more_phases_than_modes_are_kept() -> None:
    """A sine of one constant under a prior thirty wide has sixty modes that matter."""
    rng = np.random.default_rng(3)
    y = math.sin(2.67) + rng.normal(0.0, 0.01, 9)
    check_against_the_oracle("sin(c)", X, make_likelihood(y, 0.01), Normal(0.0, 30.0), range(3))


@pytest.mark.parametrize("num_threads", [1, 3])
def test_many_rows_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch, num_threads: int) -> None:
    """Residuals by several threads, and the noise of some draws at a time: the same numbers."""
    likelihood = make_likelihood(PAPER_Y + np.linspace(0.0, 0.1, 11), "infer")
    engine = Engine(LIBRARY, PAPER_X, likelihood, Normal(), num_threads=num_threads)
    tokens = np.array(parse("x * c + c", LIBRARY).tokens, dtype=np.int8)
    constants = np.random.default_rng(0).normal(size=(50, 2))
    whole = residuals_of(engine, tokens, constants)
    noise = noise_draws(engine, tokens, constants, np.random.default_rng(1))
    monkeypatch.setattr("dvisr.marginal.weighing._VALUES_A_TASK", 100)
    monkeypatch.setattr("dvisr.marginal.weighing._MOST_VALUES", 77)
    for one, two in zip(whole, residuals_of(engine, tokens, constants), strict=True):
        np.testing.assert_array_equal(one, two)
    again = noise_draws(engine, tokens, constants, np.random.default_rng(1))
    np.testing.assert_array_equal(noise, again)

"""Batches of fits against the oracle, SciPy's least squares and themselves."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.evaluation import evaluate
from dvisr.exact import log_marginal
from dvisr.expression import Expression, parse
from dvisr.library import OPERATORS, Library
from dvisr.likelihood import Likelihood, make_likelihood
from dvisr.marginal import Engine, Fits
from dvisr.marginal.engine import METHODS
from dvisr.settings import WeighingSettings
from tests.evaluation.test_tree import OWN_LIBRARY

LIBRARY = Library.create([*OPERATORS, "1", "2"], ["x", "z"], constants=True)
RNG = np.random.default_rng(5)
X = RNG.uniform(0.2, 2.0, size=(9, 2))
Y = 1.5 * X[:, 0] + 0.7 + RNG.normal(0.0, 0.3, 9)
BARS = np.linspace(0.2, 1.1, 9)
COUNTS = np.array([1, 2, 3, 1, 5, 1, 2, 2, 1])
NUM_STARTS = WeighingSettings().num_starts


def as_array(trees: Sequence[Expression]) -> np.ndarray:
    tokens = np.full((len(trees), max(len(tree.tokens) for tree in trees)), -1, dtype=np.int8)
    for row, tree in zip(tokens, trees, strict=True):
        row[: len(tree.tokens)] = tree.tokens
    return tokens


def parsed(texts: Sequence[str], library: Library = LIBRARY) -> list[Expression]:
    return [parse(text, library) for text in texts]


def fitted(
    trees: Sequence[Expression],
    X: np.ndarray,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    num_starts: int | None = None,
) -> Fits:
    engine = Engine(trees[0].library, X, likelihood, prior, num_threads=1)
    tokens = as_array(trees)
    return engine.fit(tokens) if num_starts is None else engine.fit(tokens, num_starts)


def methods(fits: Fits) -> list[str]:
    return [METHODS[int(code)] for code in fits.method]


CONSTANT_FREE = ["x", "2", "x + z", "sin(x) * exp(z) - 2", "x / (z + 1) ^ 2"]
LINEAR = [
    "c",
    "x * c",
    "x + c",
    "c * sin(x) + c * z - c",
    "(x - c) / (z + 2) * 2",
    "-(c * x + z)",
    "c + c",
    "x * c + (c + x * c)",
    "c * x + c * square(x) + c * cube(x) + c",
]


@pytest.mark.parametrize("weights", [None, COUNTS.astype(float), np.linspace(0.3, 2.0, 9)])
@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("noise", [0.5, "infer"])
def test_without_constants_it_is_the_likelihood(
    noise: float | str, bars: np.ndarray | None, weights: np.ndarray | None
) -> None:
    likelihood = make_likelihood(Y, noise, bars, weights)
    trees = parsed(CONSTANT_FREE)
    fits = fitted(trees, X, likelihood, Normal())
    assert methods(fits) == ["exact"] * len(trees)
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        values = np.broadcast_to(evaluate(tree, X)[0], 9)
        assert found == pytest.approx(float(likelihood.log_prob(np, values)), rel=0.0, abs=1e-10)


@pytest.mark.parametrize("prior", [Normal(), Decades()])
def test_undefined_trees(prior: AbstractConstantPrior) -> None:
    """Some whatever the constants, one only at some of the points."""
    trees = parsed(["log(-2)", "c / (x - x)", "sqrt(-(square(c) + 2))", "sqrt(x - 1)", "x"])
    fits = fitted(trees, X, make_likelihood(Y, 0.5), prior)
    assert methods(fits) == ["undefined"] * 4 + ["exact"]
    assert (fits.log_marginal[:4] == -math.inf).all()
    assert math.isfinite(fits.log_marginal[4])


@pytest.mark.parametrize("prior", [Normal(0.0, 10.0), Normal(-1.5, 4.0)])
@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("noise", [0.5, 1e-2, "infer"])
def test_linear_trees_are_exact(noise: float | str, bars: np.ndarray | None, prior: Normal) -> None:
    likelihood = make_likelihood(Y, noise, bars)
    trees = parsed(LINEAR)
    fits = fitted(trees, X, likelihood, prior)
    assert methods(fits) == ["exact"] * len(trees)
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, X, likelihood, prior).value
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-8), str(tree)


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("noise", [0.5, "infer"])
def test_a_weight_is_so_many_rows(noise: float | str, bars: np.ndarray | None) -> None:
    weighted = make_likelihood(Y, noise, bars, COUNTS.astype(float))
    repeated_bars = None if bars is None else np.repeat(bars, COUNTS)
    repeated = make_likelihood(np.repeat(Y, COUNTS), noise, repeated_bars)
    rows = np.repeat(X, COUNTS, axis=0)
    trees = parsed([*CONSTANT_FREE, *LINEAR])
    prior = Normal(0.3, 5.0)
    fits = fitted(trees, X, weighted, prior)
    same = fitted(trees, rows, repeated, prior)
    np.testing.assert_allclose(fits.log_marginal, same.log_marginal, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(fits.constants, same.constants, rtol=1e-6, atol=1e-6)
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, rows, repeated, prior).value
        assert found == pytest.approx(expected, rel=0.0, abs=1e-8), str(tree)


def test_a_weight_is_so_many_rows_for_curved_trees_too() -> None:
    """Laplace's approximation at the same mode, which is found to 1e-4 of the log joint."""
    trees = parsed(["exp(x * c)", "c * exp(x * c)", "sqrt(x + c)", "x ^ c"])
    for noise in (0.5, "infer"):
        weighted = make_likelihood(Y, noise, None, COUNTS.astype(float))
        repeated = make_likelihood(np.repeat(Y, COUNTS), noise)
        fits = fitted(trees, X, weighted, Normal())
        same = fitted(trees, np.repeat(X, COUNTS, axis=0), repeated, Normal())
        np.testing.assert_allclose(fits.log_marginal, same.log_marginal, rtol=0.0, atol=1e-3)


def test_many_observations_make_a_narrow_peak_of_the_noise() -> None:
    """The noise is then known to a part in some thousand."""
    prior = Normal()
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.2, 2.0, size=(3000, 2))
    y = 1.5 * rows[:, 0] + 0.7 + rng.normal(0.0, 0.3, 3000)
    inferred = make_likelihood(y, "infer")
    trees = parsed(["x * c", "x * c + c"])
    for tree, found in zip(trees, fitted(trees, rows, inferred, prior).log_marginal, strict=True):
        expected = log_marginal(tree, rows, inferred, prior)
        assert found == pytest.approx(expected.value, rel=0.0, abs=1e-6), str(tree)
    # A row seen w times as often adds a term of its own: check w = 1000 by the repeated rows.
    weighted = make_likelihood(Y, "infer", None, np.full(9, 1000.0))
    repeated = make_likelihood(np.repeat(Y, 1000), "infer")
    fits = fitted(trees, X, weighted, prior)
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, np.repeat(X, 1000, axis=0), repeated, prior)
        assert found == pytest.approx(expected.value, rel=0.0, abs=1e-6), str(tree)


def test_data_that_overrule_the_prior() -> None:
    """A slope of 1e5 is 1e4 standard deviations of the prior away: the noise explains the data
    rather than the constants, although constants would fit them perfectly."""
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.2, 2.0, size=(50, 2))
    y = 1e5 * rows[:, 0] + rng.normal(0.0, 1.0, 50)
    trees, prior, likelihood = parsed(LINEAR), Normal(), make_likelihood(y, "infer")
    fits = fitted(trees, rows, likelihood, prior)
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, rows, likelihood, prior).value
        assert found == pytest.approx(expected, rel=0.0, abs=1e-7), str(tree)


@pytest.mark.parametrize("noise", [1e-3, 1e-5, "infer"])
def test_constants_that_do_the_same_work(noise: float | str) -> None:
    """Of two the data know only the sum, and that very well."""
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.2, 2.0, size=(50, 2))
    size = 1e-5 if isinstance(noise, str) else noise
    y = 1.5 * rows[:, 0] + 0.7 + rng.normal(0.0, size, 50)
    trees = parsed(["x * c + c", "x * c + (c + c)", "x * c + (c + x * c)"])
    likelihood = make_likelihood(y, noise)
    fits = fitted(trees, rows, likelihood, Normal())
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, rows, likelihood, Normal()).value
        assert found == pytest.approx(expected, rel=0.0, abs=1e-7), str(tree)


# Classic formulas with constants that the data can know, and the constants they were made with.
CLASSIC: list[tuple[str, tuple[float, ...]]] = [
    ("c * exp(x * c)", (5.0, -0.7)),
    ("exp(x * c) * c + c", (-0.7, 5.0, 1.0)),
    ("c / (1 + exp(c - x * c))", (10.0, 3.0, 1.2)),
    ("c * x ^ c", (2.0, 1.7)),
    ("c * x / (c + x)", (3.0, 0.5)),
    ("c * sqrt(x + c)", (2.0, 0.5)),
    ("c * log(x + c)", (2.0, 1.5)),
    ("c * exp(-square((x - c) / c))", (3.0, 2.0, 0.8)),
    ("c * tanh(x * c)", (2.0, 0.9)),
    ("c / (square(x - c) + c)", (1.0, 2.0, 0.3)),
]
PERIODIC: list[tuple[str, tuple[float, ...]]] = [
    ("sin(x * c)", (3.7,)),
    ("c * sin(x * c + c)", (2.0, 3.7, 0.4)),
    ("c * cos(x * c) + c", (2.0, 2.5, 5.0)),
]
PRIORS: list[AbstractConstantPrior] = [Normal(), Decades()]


def differences(
    function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Central ones, a row for each constant."""
    rows = []
    for place, step in enumerate(steps):
        move = np.zeros(len(at))
        move[place] = step
        rows.append((function(at + move) - function(at - move)) / (2.0 * step))
    return np.array(rows)


class Simulated:
    """A formula's values at 30 places with noise of a twentieth of their spread."""

    def __init__(self, text: str, true: Sequence[float], seed: int, noise: str) -> None:
        rng = np.random.default_rng(seed)
        self.tree = parse(text, LIBRARY)
        x = rng.uniform(0.05, 5.0, 30)
        self.X = np.stack([x, np.zeros(30)], axis=1)
        self.true = np.array(true)
        values = self.values(self.true)
        self.sigma = 0.05 * float(values.std())
        y = values + rng.normal(0.0, self.sigma, 30)
        self.likelihood = make_likelihood(y, self.sigma if noise == "given" else noise)

    def values(self, constants: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.broadcast_to(evaluate(self.tree, self.X, list(constants))[0], (30,))
        return found

    def residuals(self, constants: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.likelihood.whitened(np, self.values(constants))
        return found

    def log_joint(self, prior: AbstractConstantPrior) -> Callable[[np.ndarray], float]:
        return lambda constants: float(
            self.likelihood.log_prob(np, self.values(constants))
            + np.sum(prior.log_prob(np, constants))
        )

    @functools.cached_property
    def goal(self) -> np.ndarray:
        """Least squares from the constants that made the data: only to be refined."""
        found = scipy.optimize.least_squares(
            self.residuals, self.true, x_scale=np.abs(self.true), xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
        return np.asarray(found.x)

    def slopes(self, at: np.ndarray) -> np.ndarray:
        """(constants, points): of the residuals, by differences."""
        return differences(self.residuals, at, 1e-6 * np.abs(at))

    def weight(self, at: np.ndarray) -> float:
        """One over the variance of a residual."""
        prior = self.likelihood.prior
        if prior is None:
            return 1.0
        squares = float(np.sum(self.residuals(at) ** 2))
        return (2.0 * prior.shape + 30.0) / (2.0 * prior.rate + squares)

    def could_gain(self, prior: AbstractConstantPrior, at: np.ndarray) -> float:
        """About how much higher the log joint is at the top of the parabola that touches it here:
        0 where its slopes are 0."""
        slopes = self.slopes(at)
        precision = self.weight(at) * slopes @ slopes.T
        widths = np.sqrt(np.diag(np.linalg.inv(precision)))
        log_joint = self.log_joint(prior)
        gradient = differences(lambda c: np.array([log_joint(c)]), at, 1e-2 * widths)[:, 0]
        return float(0.5 * gradient @ np.linalg.solve(precision, gradient))


@functools.cache
def simulated(text: str, true: tuple[float, ...], seed: int, noise: str) -> Simulated:
    return Simulated(text, true, seed, noise)


def is_reached(problem: Simulated, best: np.ndarray) -> bool:
    """As good as least squares that start at the truth. The prior's pull is far less than 1 %."""
    squares, least = (float(np.sum(problem.residuals(c) ** 2)) for c in (best, problem.goal))
    return squares < 1.01 * least


@pytest.mark.parametrize("prior", PRIORS, ids=["normal", "decades"])
@pytest.mark.parametrize(("text", "true"), CLASSIC, ids=[row[0] for row in CLASSIC])
def test_few_starts_nearly_always_find_the_best_mode(
    text: str, true: tuple[float, ...], prior: AbstractConstantPrior
) -> None:
    """In 9 of 10 data sets at the least; and where it is found, its top is."""
    num_reached, num_problems = 0, 0
    for seed in range(20):
        for noise in ("given", "infer"):
            problem = simulated(text, true, seed, noise)
            fits = fitted([problem.tree], problem.X, problem.likelihood, prior)
            assert methods(fits) == ["laplace"]
            best = fits.constants[0]
            num_problems += 1
            if is_reached(problem, best):
                num_reached += 1
                assert problem.could_gain(prior, best) < 1e-4, (seed, noise, best)
                log_joint = problem.log_joint(prior)
                assert log_joint(best) > log_joint(problem.goal) - 1e-4, (seed, noise, best)
    assert num_reached >= 0.9 * num_problems


@pytest.mark.parametrize("noise", ["given", "infer"])
@pytest.mark.parametrize("prior", PRIORS, ids=["normal", "decades"])
@pytest.mark.parametrize(
    ("text", "true"), [*CLASSIC, *PERIODIC], ids=[row[0] for row in [*CLASSIC, *PERIODIC]]
)
def test_many_starts_find_the_best_mode(
    text: str, true: tuple[float, ...], prior: AbstractConstantPrior, noise: str
) -> None:
    """As many as `weigh` takes. A phase may be another by a multiple of 2 pi."""
    for seed in range(5):
        problem = simulated(text, true, seed, noise)
        fits = fitted([problem.tree], problem.X, problem.likelihood, prior, NUM_STARTS)
        best = fits.constants[0]
        assert is_reached(problem, best), (seed, best, problem.goal)
        assert problem.could_gain(prior, best) < 1e-4, (seed, best, problem.goal)


def on_a_grid(problem: Simulated, prior: AbstractConstantPrior) -> float:
    """Two well-determined constants: the trapezium rule, which is as good as exact for a smooth
    peak, over twelve standard deviations each way."""
    at = problem.goal
    slopes = problem.slopes(at)
    covariance = np.linalg.inv(problem.weight(at) * slopes @ slopes.T)
    factor = np.linalg.cholesky(covariance)
    steps = np.linspace(-12.0, 12.0, 121)
    nodes = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    constants = at + nodes @ factor.T
    values, is_defined = evaluate(problem.tree, problem.X, [constants[:, :1], constants[:, 1:]])
    assert is_defined.all()
    log_joint = problem.likelihood.log_prob(np, values)
    log_joint = log_joint + np.asarray(prior.log_prob(np, constants)).sum(axis=1)
    log_cell = math.log((steps[1] - steps[0]) ** 2 * np.linalg.det(factor))
    return float(scipy.special.logsumexp(log_joint) + log_cell)


@pytest.mark.parametrize(
    ("text", "true", "prior", "noise"),
    [
        ("c * exp(x * c)", (5.0, -0.7), Normal(), "given"),
        ("c * exp(x * c)", (5.0, -0.7), Normal(), "infer"),
        ("c * x / (c + x)", (3.0, 0.5), Normal(), "given"),
        ("c * x ^ c", (2.0, 1.7), Normal(), "infer"),
        ("c * sqrt(x + c)", (2.0, 0.5), Normal(), "given"),
        ("exp(x * c)", (-0.7,), Decades(), "infer"),
        ("c * x", (3.0,), Decades(), "infer"),
        ("c * x", (3.0,), Decades(), "given"),
    ],
)
def test_laplace_is_close_where_constants_are_well_determined(
    text: str, true: tuple[float, ...], prior: AbstractConstantPrior, noise: str
) -> None:
    problem = simulated(text, true, 0, noise)
    fits = fitted([problem.tree], problem.X, problem.likelihood, prior)
    assert methods(fits) == ["laplace"]
    expected = log_marginal(problem.tree, problem.X, problem.likelihood, prior)
    assert expected.error < 1e-3
    assert fits.log_marginal[0] == pytest.approx(expected.value, rel=0.0, abs=0.1)


@pytest.mark.parametrize("noise", ["given", "infer"])
@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("c * exp(x * c)", (5.0, -0.7)),
        ("c * x ^ c", (2.0, 1.7)),
        ("c * x / (c + x)", (3.0, 0.5)),
    ],
)
def test_laplace_under_decades_with_two_constants(
    text: str, true: tuple[float, ...], noise: str
) -> None:
    """The oracle promises nothing in two dimensions of so heavy tails; a grid does. With the
    Normal prior both can, and agree."""
    problem = simulated(text, true, 0, noise)
    oracle = log_marginal(problem.tree, problem.X, problem.likelihood, Normal())
    assert on_a_grid(problem, Normal()) == pytest.approx(oracle.value, rel=0.0, abs=1e-4)
    fits = fitted([problem.tree], problem.X, problem.likelihood, Decades())
    assert fits.log_marginal[0] == pytest.approx(on_a_grid(problem, Decades()), rel=0.0, abs=0.1)


MIXED = [
    *CONSTANT_FREE,
    *LINEAR,
    "sin(x * c) + c",
    "c / (x + c)",
    "exp(x * c) - z",
    "log(c)",
    "sqrt(-2)",
    "c * tanh(c * x + c * z + c)",
    "c ^ x",
]


@pytest.mark.parametrize("noise", [0.5, "infer"])
def test_neighbours_threads_and_order_do_not_matter(noise: float | str) -> None:
    trees = parsed(MIXED) * 10  # more than one task
    likelihood = make_likelihood(Y, noise)
    tokens = as_array(trees)
    together = Engine(LIBRARY, X, likelihood, Normal(), num_threads=1).fit(tokens)
    threaded = Engine(LIBRARY, X, likelihood, Normal(), num_threads=3).fit(tokens)
    np.testing.assert_array_equal(together.log_marginal, threaded.log_marginal)
    np.testing.assert_array_equal(together.constants, threaded.constants)
    np.testing.assert_array_equal(together.method, threaded.method)
    backwards = Engine(LIBRARY, X, likelihood, Normal(), num_threads=1).fit(tokens[::-1])
    np.testing.assert_array_equal(together.log_marginal, backwards.log_marginal[::-1])
    np.testing.assert_array_equal(together.constants, backwards.constants[::-1])
    for place, tree in enumerate(trees[: len(MIXED)]):
        alone = fitted([tree], X, likelihood, Normal())  # also with no more room than it needs
        assert alone.log_marginal[0] == together.log_marginal[place], str(tree)
        k = tree.num_constants
        np.testing.assert_array_equal(alone.constants[0, :k], together.constants[place, :k])


@pytest.mark.parametrize("noise", [0.5, "infer"])
def test_trees_that_come_up_to_the_bar_are_fitted_as_ever(noise: float | str) -> None:
    trees = parsed(MIXED)
    engine = Engine(LIBRARY, X, make_likelihood(Y, noise), Normal(), num_threads=1)
    plain = engine.fit(as_array(trees))
    for bar in (-1e9, *np.quantile(plain.log_marginal[1:], [0.3, 0.6, 0.9], method="nearest")):
        fits = engine.fit(as_array(trees), bar=float(bar))
        above = plain.log_marginal >= bar
        np.testing.assert_array_equal(fits.log_marginal[above], plain.log_marginal[above])
        np.testing.assert_array_equal(fits.constants[above], plain.constants[above])
        assert (fits.log_marginal[~above] < bar).all()
        np.testing.assert_array_equal(
            fits.log_marginal == -math.inf, plain.log_marginal == -math.inf
        )


def test_no_trees_and_no_constants() -> None:
    engine = Engine(LIBRARY, X, make_likelihood(Y, 0.5), Normal())
    assert len(engine.fit(np.zeros((0, 5), dtype=np.int8)).log_marginal) == 0
    library = Library.create(["+", "*"], ["x", "z"])
    likelihood = make_likelihood(Y, 0.5)
    fits = fitted([parse("x * x + z", library), parse("x", library)], X, likelihood, Normal())
    for found, values in zip(fits.log_marginal, [X[:, 0] ** 2 + X[:, 1], X[:, 0]], strict=True):
        assert found == pytest.approx(float(likelihood.log_prob(np, values)), abs=1e-10)


def test_operators_of_the_users_own() -> None:
    likelihood, prior = make_likelihood(Y, 0.4), Normal(0.0, 3.0)
    texts = ["shift(x * c)", "logistic(x) + c", "shift(x)", "c * bell(x)"]
    trees = parsed(texts, OWN_LIBRARY)
    fits = fitted(trees, X, likelihood, prior)
    assert methods(fits) == ["exact"] * 4
    for tree, found in zip(trees, fits.log_marginal, strict=True):
        expected = log_marginal(tree, X, likelihood, prior).value
        assert found == pytest.approx(expected, rel=0.0, abs=1e-8), str(tree)
    # Curved, with a slope of the user's and with none: made to be recovered.
    for text, truth in [
        ("c * logistic(x * c)", lambda x: 3.0 / (1.0 + np.exp(-2.0 * x))),
        ("c * bell(x - c)", lambda x: 3.0 * np.exp(-((x - 1.2) ** 2))),
        ("c * blend(x, x * c)", lambda x: 3.0 * x * np.tanh(0.8 * x)),
    ]:
        x = np.linspace(-1.0, 3.0, 25)
        rows = np.stack([x, x], axis=1)
        exact = make_likelihood(truth(x), 0.02)
        (tree,) = parsed([text], OWN_LIBRARY)
        curved = fitted([tree], rows, exact, prior)
        found = np.abs(curved.constants[0])  # blend is even in both together
        expected_constants = {"logistic": [3.0, 2.0], "bell": [3.0, 1.2], "blend": [3.0, 0.8]}
        name = next(key for key in expected_constants if key in text)
        np.testing.assert_allclose(found, expected_constants[name], rtol=0.01)
        oracle = log_marginal(tree, rows, exact, prior)
        assert curved.log_marginal[0] == pytest.approx(oracle.value, rel=0.0, abs=0.1), text


def test_a_prior_that_the_kernel_does_not_know_is_refused() -> None:
    class Other(Normal):
        pass

    Engine(LIBRARY, X, make_likelihood(Y, 0.5), Other())  # still a Normal

    class Strange(AbstractConstantPrior):
        log_prob = Normal.log_prob
        is_symmetric = Normal.is_symmetric
        centre = Normal.centre
        scale = Normal.scale
        radius = Normal.radius
        sample = Normal.sample

    with pytest.raises(ValueError, match="must have a Normal or a Decades prior"):
        Engine(LIBRARY, X, make_likelihood(Y, 0.5), Strange())

"""Integrals over constants against SciPy, mpmath and closed forms written out by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

from dvisr import exact_posterior
from dvisr.constants import AbstractConstantPrior, Normal
from dvisr.evaluation import evaluate
from dvisr.exact import CannotPromise, TooManyConstants, log_marginal
from dvisr.exact.quadrature import GAUSS, KRONROD, NODES
from dvisr.expression import Expression, parse
from dvisr.library import OPERATORS, Library, Linearity
from dvisr.likelihood import Likelihood, make_likelihood

LIBRARY = Library.create([*OPERATORS, "2"], ["x", "z"], constants=True)
RNG = np.random.default_rng(5)
X = RNG.uniform(0.2, 2.0, size=(9, 2))
Y = 1.5 * X[:, 0] + 0.7 + RNG.normal(0.0, 0.3, 9)


def test_rules_integrate_what_they_must() -> None:
    """Kronrod's rule is exact to degree 22 or more, Gauss' to degree 13."""
    for degree in range(23):
        exact = 2.0 / (degree + 1) if degree % 2 == 0 else 0.0
        assert np.dot(KRONROD, NODES**degree) == pytest.approx(exact, abs=1e-15)
        if degree <= 13:
            assert np.dot(GAUSS, NODES**degree) == pytest.approx(exact, abs=1e-15)


LINEAR = [
    ("c", lambda x: [np.ones(9)], lambda x: 0.0 * x[:, 0]),
    ("x * c", lambda x: [x[:, 0]], lambda x: 0.0 * x[:, 0]),
    ("x + c", lambda x: [np.ones(9)], lambda x: x[:, 0]),
    ("c * sin(x) + c * z - c", lambda x: [np.sin(x[:, 0]), x[:, 1], -np.ones(9)],
     lambda x: 0.0 * x[:, 0]),
    ("(x - c) / (z + 2) * 2", lambda x: [-2.0 / (x[:, 1] + 2)],
     lambda x: 2 * x[:, 0] / (x[:, 1] + 2)),
    ("-(c * x + z)", lambda x: [-x[:, 0]], lambda x: -x[:, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "slopes", "offset"), LINEAR, ids=[row[0] for row in LINEAR])
@pytest.mark.parametrize("mean", [0.0, -1.5])
@pytest.mark.parametrize("bars", [None, np.linspace(0.2, 1.1, 9)])
def test_linear_trees_are_gaussian(
    text: str, slopes: Any, offset: Any, mean: float, bars: np.ndarray | None
) -> None:
    """y ~ Normal(offset + slopes * mean, noise + std^2 * slopes slopes')."""
    likelihood = make_likelihood(Y, 0.5, bars)
    found = log_marginal(parse(text, LIBRARY), X, likelihood, Normal(mean, 4.0))
    assert found.method == "closed form"
    A = np.stack(slopes(X), axis=1)
    sigma = 0.5 * (np.ones(9) if bars is None else bars)
    covariance = np.diag(sigma**2) + 16.0 * A @ A.T
    expected = scipy.stats.multivariate_normal(
        offset(X) + A @ np.full(A.shape[1], mean), covariance
    ).logpdf(Y)
    assert found.value == pytest.approx(expected, abs=1e-10)


def by_scipy(
    expression: Expression,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    points: list[float],
    reach: float,
) -> float:
    """One constant, by SciPy's adaptive routine with the interesting places pointed out."""

    def log_f(c: float) -> float:
        values, defined = evaluate(expression, X, [np.full((1, 1), c)])
        if not defined.all():
            return -math.inf
        value = np.broadcast_to(values, (1, len(X)))
        return float(likelihood.log_prob(np, value)[0] + prior.log_prob(np, c))

    grid = np.linspace(-reach, reach, 40_001)
    level = max(log_f(float(c)) for c in grid[::20])
    edges = np.unique(np.concatenate([np.linspace(-reach, reach, 401), points]))
    total = sum(
        scipy.integrate.quad(
            lambda c: math.exp(log_f(c) - level), a, b, epsabs=1e-13, epsrel=1e-10
        )[0]
        for a, b in itertools.pairwise(edges)
    )
    return level + math.log(total)


@pytest.mark.parametrize("noise", [0.5, "infer"])
@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("sin(x * c)", []),
        ("exp(x * c) - z", []),
        ("x / (z + c)", list(-X[:, 1])),
        ("log(x + c) + z", list(-X[:, 0])),
        ("sqrt(z + c)", list(-X[:, 1])),
        ("x ^ c", []),
        ("square(x - c)", []),
        ("abs(c) * x", [0.0]),
        ("tanh(c + x) * 2", []),
        ("inv(c) + x", [0.0]),
    ],
)
def test_one_nonlinear_constant(text: str, points: list[float], noise: float | str) -> None:
    expression = parse(text, LIBRARY)
    likelihood = make_likelihood(Y, noise)
    prior = Normal(0.5, 3.0)
    found = log_marginal(expression, X, likelihood, prior)
    expected = by_scipy(expression, likelihood, prior, points, 30.0)
    assert found.value == pytest.approx(expected, abs=1e-7)
    assert abs(found.value - expected) <= max(100 * found.error, 2e-8)


def test_two_nonlinear_constants_against_mpmath() -> None:
    expression = parse("sin(c * x + c)", LIBRARY)
    likelihood = make_likelihood(Y, 1.0)
    prior = Normal(0.0, 1.0)

    def f(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
        values = np.sin(float(a) * X[:, 0] + float(b))
        log_prior = -0.5 * float(a * a + b * b) - math.log(2 * math.pi)
        return mpmath.exp(float(likelihood.log_prob(np, values)) + log_prior)

    breaks = [-9, -5, -3, -2, -1, 0, 1, 2, 3, 5, 9]
    expected = float(mpmath.log(mpmath.quad(f, breaks, breaks, maxdegree=4)))
    found = log_marginal(expression, X, likelihood, prior)
    assert found.value == pytest.approx(expected, abs=1e-8)
    assert found.error < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("text", ["x * c", "x * c + c", "c * exp(c * z) + x"])
def test_inferred_noise_is_one_more_dimension(text: str) -> None:
    """The noise integrated last, by hand, over the known-noise answers."""
    expression = parse(text, LIBRARY)
    prior = Normal(0.0, 2.0)
    inferred = make_likelihood(Y, "infer")
    spread = 1e-3 * Y.std()

    def f(log_s: float) -> float:
        s = math.exp(log_s)
        given = log_marginal(expression, X, make_likelihood(Y, s * spread), prior).value
        # sigma = spread * s, and s^2 is inverse gamma with shape and rate 1/2: s = 1/|z|.
        log_prior = scipy.stats.invgamma(0.5, scale=0.5).logpdf(s * s) + math.log(2 * s * s)
        return math.exp(given + log_prior)

    expected = math.log(scipy.integrate.quad(f, -4.0, 13.0, epsabs=0.0, epsrel=1e-10, limit=400)[0])
    found = log_marginal(expression, X, inferred, prior)
    assert found.value == pytest.approx(expected, abs=1e-7)


def test_a_narrow_peak_far_from_the_prior_is_found() -> None:
    """The nodes of a first look all miss it; the residuals on its two sides do not."""
    x = np.linspace(0.0, 10.0, 200)[:, None]
    rng = np.random.default_rng(0)
    library = Library.create(["sin", "*", "exp", "+"], ["x"], constants=True)
    y = np.sin(37.123 * x[:, 0]) + rng.normal(0.0, 0.01, 200)
    found = log_marginal(
        parse("sin(x * c)", library), x, make_likelihood(y, 0.01), Normal(0.0, 10.0)
    )

    # Laplace's method is exact to many digits in so sharp a peak.
    best = scipy.optimize.minimize_scalar(
        lambda c: float(np.sum((y - np.sin(c * x[:, 0])) ** 2)), bounds=(37.12, 37.126),
        method="bounded", options={"xatol": 1e-12},
    ).x  # fmt: skip
    slopes = x[:, 0] * np.cos(best * x[:, 0]) / 0.01
    residuals = (y - np.sin(best * x[:, 0])) / 0.01
    laplace = (
        -0.5 * np.sum(residuals**2)
        - 200 * math.log(0.01 * math.sqrt(2 * math.pi))
        + scipy.stats.norm(0.0, 10.0).logpdf(best)
        + 0.5 * math.log(2 * math.pi)
        - 0.5 * math.log(np.sum(slopes**2))
    )
    # sin(-c x) = -sin(c x) is no second peak: y is not odd in c.
    assert found.value == pytest.approx(laplace, abs=2e-3)
    assert found.error < 1e-6


def test_slopes_of_475_under_a_prior_of_width_10() -> None:
    """The data overrule the prior by 47 standard deviations, in closed form and by quadrature."""
    x = np.linspace(0.1, 2.0, 24)[:, None]
    y = 475.0 * x[:, 0] + np.random.default_rng(1).normal(0.0, 20.0, 24)
    library = Library.create(["*", "abs"], ["x"], constants=True)
    likelihood = make_likelihood(y, 20.0)
    straight = log_marginal(parse("x * c", library), x, likelihood, Normal(0.0, 10.0))
    folded = log_marginal(parse("x * abs(c)", library), x, likelihood, Normal(0.0, 10.0))
    assert folded.method == "quadrature"
    # |c| has the positive half of the peak twice: once at c, once at -c.
    assert folded.value == pytest.approx(straight.value + math.log(2.0), abs=1e-6)


@dataclasses.dataclass(frozen=True)
class Laplace(AbstractConstantPrior):
    """A prior of a user's own."""

    width: float

    def log_prob(self, np: Any, values: Any) -> Any:
        return -np.abs(values) / self.width - math.log(2.0 * self.width)

    @property
    def is_symmetric(self) -> bool:
        return True

    @property
    def centre(self) -> float:
        return 0.0

    @property
    def scale(self) -> float:
        return self.width

    def radius(self, log_mass: float) -> float:
        return self.width * max(log_mass, 0.0)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.laplace(0.0, self.width, shape)


def test_another_prior_of_constants() -> None:
    expression = parse("x * c", LIBRARY)
    likelihood = make_likelihood(Y, 0.5)
    found = log_marginal(expression, X, likelihood, Laplace(2.0))
    assert found.method == "quadrature"
    expected = by_scipy(expression, likelihood, Laplace(2.0), [0.0], 60.0)
    assert found.value == pytest.approx(expected, abs=1e-8)
    posterior = exact_posterior(
        X, Y, operators=["+", "*"], max_tokens=3, constants=True, constant_prior=Laplace(2.0)
    )
    assert posterior.table()["probability"].sum() == pytest.approx(1.0, abs=1e-12)


def test_a_constant_not_in_the_tree_integrates_to_one() -> None:
    for noise in (0.5, "infer"):
        likelihood = make_likelihood(Y, noise)
        without = log_marginal(parse("x + z", LIBRARY), X, likelihood, Normal(0.0, 10.0))
        assert without.value == float(likelihood.log_prob(np, X[:, 0] + X[:, 1]))


@pytest.mark.parametrize("text", ["log(-(2)) + c", "c / (x - x)", "sqrt(-(square(c) + 2))"])
def test_undefined_whatever_the_constants(text: str) -> None:
    library = Library.create([*OPERATORS, "2"], ["x", "z"], constants=True)
    found = log_marginal(parse(text, library), X, make_likelihood(Y, 1.0), Normal(0.0, 10.0))
    assert found.value == -math.inf


def test_too_many_dimensions_are_refused() -> None:
    expression = parse("sin(c * x + c) * exp(c * z + c)", LIBRARY)
    with pytest.raises(TooManyConstants, match="needs an integral of 4 dimensions"):
        log_marginal(expression, X, make_likelihood(Y, 1.0), Normal(0.0, 10.0))


def test_an_integral_that_is_not_known_well_enough_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dvisr.exact import by_tree, marginal

    monkeypatch.setattr(by_tree, "SECOND_EFFORT", 1)
    monkeypatch.setattr(marginal, "MAX_NODES", {1: 500_000, 2: 40_000, 3: 40_000})
    with pytest.raises(CannotPromise, match="known only to within"):
        exact_posterior(
            X[:, :1], np.sin(3.0 * X[:, 0] + 1.0), operators=["*", "+", "sin"], max_tokens=6,
            constants=True, constraints="paper,min-tokens=6", noise=0.1,
        )  # fmt: skip


def test_too_many_trees_with_constants_are_refused() -> None:
    with pytest.raises(CannotPromise, match="lower max_tokens"):
        exact_posterior(
            X, Y, operators=["+", "-", "*", "/", "sin", "exp"], max_tokens=11, constants=True
        )


@pytest.mark.slow
def test_merging_by_canonical_form_changes_nothing() -> None:
    """The same request, with every tree integrated by itself."""
    operators = ["+", "-", "*", "sin"]
    posterior = exact_posterior(
        X, Y, operators=operators, max_tokens=4, constants=True, constraints="none", noise=0.5,
        constant_prior_std=2.0,
    )  # fmt: skip
    likelihood, prior = make_likelihood(Y, 0.5), Normal(0.0, 2.0)
    table = posterior.table(10**6)
    log_prior = -math.log(posterior.num_trees)
    for text, log_joint in zip(table["expression"], table["log_joint"], strict=True):
        expression = parse(text, posterior.grammar.library)
        alone = log_marginal(expression, X, likelihood, prior)
        assert log_joint == pytest.approx(alone.value + log_prior, abs=1e-8)
    assert len(table) == posterior.num_allowed
    assert table["probability"].sum() == pytest.approx(1.0, abs=1e-9)
    functions = posterior.functions(10**6)
    assert functions["num_trees"].sum() == posterior.num_allowed
    assert functions["probability"].sum() == pytest.approx(1.0, abs=1e-9)


def on_a_grid(log_f: Any, low: float, high: float, steps: int) -> float:
    """The midpoint rule, in pieces: nothing to go wrong but patience."""
    width = (high - low) / steps
    parts = []
    for start in range(0, steps, 100_000):
        c = low + width * (np.arange(start, min(start + 100_000, steps)) + 0.5)
        with np.errstate(all="ignore"):
            values = log_f(c[:, None])
        parts.append(np.logaddexp.reduce(np.where(np.isnan(values), -np.inf, values)))
    return float(np.logaddexp.reduce(parts) + math.log(width))


@pytest.mark.parametrize("noise", [1.0, "infer"])
def test_narrow_windows_of_the_domain_are_found(noise: float | str) -> None:
    """sqrt(sin(x + c)) is defined for c in windows of width 0.04, one every 2 pi."""
    x = np.linspace(0.0, 3.1, 12)
    y = np.sqrt(np.sin(x + 0.02))
    likelihood, prior = make_likelihood(y, noise), Normal(0.0, 10.0)
    library = Library.create(["sqrt", "sin", "+"], ["x"], constants=True)
    found = log_marginal(parse("sqrt(sin(x + c))", library), x[:, None], likelihood, prior)

    def log_f(c: np.ndarray) -> np.ndarray:
        log_likelihood = likelihood.log_prob(np, np.sqrt(np.sin(x + c)))
        return np.asarray(log_likelihood + prior.log_prob(np, c[:, 0]))

    assert found.value == pytest.approx(on_a_grid(log_f, -90.0, 90.0, 4_000_000), abs=1e-3)


@pytest.mark.slow
def test_a_peak_that_inferred_noise_makes_sharp_is_found() -> None:
    """With 200 points and a perfect fit, the peak is far narrower than the error bars of the
    prior; at nearly regular points the first nodes see almost the same values everywhere."""
    n = 200
    rng = np.random.default_rng(1)
    x = np.arange(1, n + 1) * 2 * np.pi / 20 + 1e-4 * rng.standard_normal(n)
    y = np.sin(3.1 * x)
    likelihood, prior = make_likelihood(y, "infer"), Normal(0.0, 10.0)
    library = Library.create(["sin", "*"], ["x"], constants=True)
    found = log_marginal(parse("sin(x * c)", library), x[:, None], likelihood, prior)

    def log_f(c: np.ndarray) -> np.ndarray:
        return np.asarray(likelihood.log_prob(np, np.sin(c * x)) + prior.log_prob(np, c[:, 0]))

    # The points are nearly multiples of 2 pi / 20: every 20 further on the fit is nearly as good.
    peaks = [3.1 + 20.0 * k for k in range(-4, 5)]
    parts = [on_a_grid(log_f, peak - 0.002, peak + 0.002, 200_000) for peak in peaks]
    assert found.value == pytest.approx(np.logaddexp.reduce(parts), abs=1e-6)


@pytest.mark.slow
def test_noise_is_searched_where_the_tree_needs_it() -> None:
    """log(c) is undefined at the centre of the prior, and exp(10) makes all residuals huge."""
    x = np.linspace(0.0, 10.0, 11)
    y = np.random.default_rng(0).standard_normal(11)
    library = Library.create(["+", "*", "exp", "log"], ["x"], constants=True)
    prior = Normal(0.0, 10.0)
    inferred = make_likelihood(y, "infer")
    found = log_marginal(parse("exp(x) + log(c)", library), x[:, None], inferred, prior)

    def log_f(c: np.ndarray) -> np.ndarray:
        values = np.exp(x) + np.log(c)
        return np.asarray(inferred.log_prob(np, values) + prior.log_prob(np, c[:, 0]))

    assert found.value == pytest.approx(on_a_grid(log_f, 0.0, 90.0, 1_000_000), abs=1e-5)
    with_slope = log_marginal(
        parse("x * c + (exp(x) + log(c))", library), x[:, None], inferred, prior
    )
    # Two dimensions by hand, with the prior of the noise centred a hundred times higher: -126.26.
    # So far above either centre the prior falls like 1 / s: it is log 100 less.
    assert with_slope.value == pytest.approx(-126.26 - math.log(100.0), abs=0.05)


@pytest.mark.parametrize(
    ("x", "noise", "std"),
    [(1e160, 1.0, 10.0), (1.0, 1.0, 1e160), (1e-160, 1e-160, 10.0), (1e150, 1e-140, 1.0)],
)
def test_closed_form_at_extreme_scales(x: float, noise: float, std: float) -> None:
    """One point: y = 0 with variance noise^2 + (x std)^2, which itself would overflow."""
    library = Library.create(["*"], ["x"], constants=True)
    found = log_marginal(
        parse("x * c", library),
        np.array([[x]]),
        make_likelihood(np.zeros(1), noise),
        Normal(0.0, std),
    )
    expected = -math.log(math.hypot(noise, x * std)) - 0.5 * math.log(2 * math.pi)
    assert found.value == pytest.approx(expected, rel=1e-12)


def test_a_large_prior_mean_cancels_nothing() -> None:
    x = np.linspace(-1.0, 2.0, 9)
    y = 1e-12 * (1.3 * x + 0.1 * np.random.default_rng(0).standard_normal(9))
    library = Library.create(["*"], ["x"], constants=True)
    found = log_marginal(
        parse("x * c", library), x[:, None], make_likelihood(y, 1e-13), Normal(2.0, 10.0)
    )
    with mpmath.workdps(60):
        xs, ys = ([mpmath.mpf(float(v)) for v in values] for values in (x, y))
        s2, v2 = mpmath.mpf(1e-13) ** 2, mpmath.mpf(100)
        r = [b - 2 * a for a, b in zip(xs, ys, strict=True)]
        xx, xr, rr = (mpmath.fdot(*pair) for pair in ((xs, xs), (xs, r), (r, r)))
        quadratic = (rr - v2 * xr**2 / (s2 + v2 * xx)) / s2
        log_det = 8 * mpmath.log(s2) + mpmath.log(s2 + v2 * xx)
        expected = float(-(quadratic + log_det + 9 * mpmath.log(2 * mpmath.pi)) / 2)
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_an_affine_operator_of_the_users() -> None:
    """With and without the promise of linearity the answer is one; a domain overrules it."""
    from dvisr import new_operator

    likelihood, prior = make_likelihood(Y, 0.7), Normal(0.0, 2.0)
    found = {}
    choices: tuple[Linearity | None, ...] = ("joint", None)
    for linearity in choices:
        shift = new_operator("shift", 1, lambda np, x: 2.0 * x + 1.0, linearity=linearity)
        library = Library.create([shift, "*"], ["x", "z"], constants=True)
        found[linearity] = log_marginal(parse("shift(x * c)", library), X, likelihood, prior)
    assert found["joint"].method == "closed form"
    assert found["joint"].value == pytest.approx(found[None].value, abs=1e-9)
    half = new_operator(
        "half", 1, lambda np, x: 0.5 * x, is_defined=lambda np, x: x > 0.0, linearity="joint"
    )
    library = Library.create([half, "+"], ["x", "z"], constants=True)
    bounded = log_marginal(parse("half(x + c)", library), X, likelihood, prior)
    assert bounded.method == "quadrature"
    assert math.isfinite(bounded.value)


@pytest.mark.parametrize("text", ["exp(x * c)", "x ^ c", "x / c", "inv(c * x)"])
@pytest.mark.parametrize("noise", [1.0, 0.01, "infer"])
def test_values_that_overflow_break_nothing(text: str, noise: float | str) -> None:
    x = np.linspace(-10.0, 10.0, 11)
    found = log_marginal(
        parse(text, LIBRARY), np.stack([x, x], 1), make_likelihood(x**2, noise), Normal()
    )
    assert not math.isnan(found.value)
    assert found.error < 1e-3 or found.value == -math.inf


@pytest.mark.slow
def test_a_tree_that_can_not_fit_stops_nothing() -> None:
    """exp(t * c * c) is 1 at t = 0, where y is 100: hopeless, however hard its integral is."""
    t = np.linspace(0.0, 5.0, 12)
    y = 100.0 * np.exp(-0.7 * t) + np.random.default_rng(0).normal(0.0, 1.0, 12)
    posterior = exact_posterior(
        t[:, None], y, operators=["*", "exp"], max_tokens=6, constants=True, noise=1.0,
        feature_names=["t"],
    )  # fmt: skip
    first = posterior.table(1).iloc[0]
    assert first["expression"] == "exp(t * c) * c"
    assert first["probability"] == pytest.approx(1.0, abs=1e-9)
    assert posterior.log_evidence_error < 1e-8

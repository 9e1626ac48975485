"""What every noise model must hold to. Densities come from SciPy, integrals from Gauss' rule: none
of it from the package. The model on the page docs/extending.md is held to the same."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from dvisr import DVISRRegressor, compare
from dvisr.constants import Normal
from dvisr.library import Library
from dvisr.likelihood import Likelihood, make_likelihood
from dvisr.marginal import Engine
from dvisr.noise import MODELS, AbstractNoise, Gaussian, Relative, ScalePrior, Student, noise_model
from tests.marks import quick_only
from tests.pages import example

FALSE_ALARM = 2e-5  # of each goodness of fit, seeds being fixed
Logistic = example("extending.md", "A noise model").Logistic
PRIOR = ScalePrior(0.5, 0.5)  # of one observation, as fits have it
WIDE = ScalePrior(1.5, 4.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and what SciPy calls its standardised residual."""

    model: AbstractNoise
    law: Any

    def __str__(self) -> str:
        return self.model.spelling


CASES = [
    Case(Gaussian(), scipy.stats.norm()),
    *(Case(Student(freedom=nu), scipy.stats.t(nu)) for nu in (0.5, 1.0, 2.5, 4.0, 30.0, 1000.0)),
    Case(Relative(), scipy.stats.norm()),
    Case(Logistic(), scipy.stats.logistic()),
]
every = pytest.mark.parametrize("case", CASES, ids=str)
_QUICK = [case for case in CASES if str(case) not in ("student:0.5", "student:2.5", "student:30")]
some_slow = pytest.mark.parametrize("case", quick_only(CASES, *_QUICK), ids=str)


def tables() -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Residuals of 1, 2, 4, 5 and 30 rows: smaller than the prior's scale, of its size and larger,
    with an outlier and without, perfect; each seen once, or weighted."""
    rng = np.random.default_rng(0)
    found: list[tuple[np.ndarray, np.ndarray | None]] = []
    for rows, size, outlier in itertools.product(
        (1, 2, 4, 5, 30), (0.0, 1e-3, 1.0, 1e3), (1.0, 300.0)
    ):
        residuals = size * rng.standard_normal(rows)
        residuals[0] *= outlier
        found += [(residuals, None), (residuals, np.linspace(0.5, 3.0, rows))]
    return found


TABLES = tables()


def total_of(residuals: np.ndarray, counts: np.ndarray | None) -> float:
    return float(len(residuals)) if counts is None else float(counts.sum())


# The density -------------------------------------------------------------------------------------


@every
def test_the_density_is_scipys_and_integrates_to_one(case: Case) -> None:
    z = np.concatenate([-np.geomspace(1e-9, 1e5, 40)[::-1], [0.0], np.geomspace(1e-9, 1e5, 40)])
    np.testing.assert_allclose(
        case.model.log_density(np, z), case.law.logpdf(z), rtol=1e-12, atol=1e-12
    )
    # Over asinh z, so that the far tails of a t of half a degree of freedom are in reach.
    mass = 2.0 * sum(
        scipy.integrate.quad(
            lambda u: float(np.exp(case.model.log_density(np, np.sinh(u)))) * math.cosh(u), *edges
        )[0]
        for edges in itertools.pairwise([0.0, 1.0, 3.0, 10.0, 30.0, 90.0])
    )
    assert mass == pytest.approx(1.0, abs=1e-9)


@every
def test_what_a_density_promises(case: Case) -> None:
    """Symmetric; z times the slope of minus its log never falls: so log s has one peak."""
    z = np.geomspace(1e-3, 1e6, 400)
    heights = np.asarray(case.model.log_density(np, z))
    np.testing.assert_array_equal(heights, case.model.log_density(np, -z))
    assert (np.diff(heights) < 0.0).all()
    pull = -np.diff(heights) / np.diff(np.log(z))
    assert (np.diff(pull) > -1e-9 * np.abs(pull[1:]) - 1e-9).all()


@every
def test_cdf_and_quantile(case: Case) -> None:
    z = np.linspace(-20.0, 20.0, 101)
    np.testing.assert_allclose(case.model.cdf(z), case.law.cdf(z), rtol=1e-9, atol=1e-14)
    levels = np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.999])
    np.testing.assert_allclose(case.model.cdf(case.model.quantile(levels)), levels, rtol=1e-8)


@every
def test_draws_have_the_density(case: Case) -> None:
    drawn = case.model.draw(np.random.default_rng(7), (4000, 5))
    assert drawn.shape == (4000, 5)
    assert scipy.stats.kstest(drawn.reshape(-1), case.law.cdf).pvalue > FALSE_ALARM
    variance = float(case.law.var())  # NaN where there is no mean either
    assert case.model.variance == pytest.approx(variance if variance < math.inf else math.inf)


@every
def test_score_and_information(case: Case) -> None:
    """The score against a difference of SciPy's log density; Fisher's information in closed form:
    (nu + 1) / (nu + 3) of a t, 1/3 of a logistic."""
    z = np.array([-30.0, -2.0, -0.3, 0.0, 0.1, 1.0, 8.0])
    gap = 1e-5
    slope = (case.law.logpdf(z - gap) - case.law.logpdf(z + gap)) / (2.0 * gap)
    np.testing.assert_allclose(case.model.score(z), slope, rtol=1e-5, atol=1e-8)
    known = {"gaussian": 1.0, "relative": 1.0, "logistic": 1.0 / 3.0}
    nu = getattr(case.model, "freedom", math.nan)
    expected = known.get(case.model.name, (nu + 1.0) / (nu + 3.0))
    assert case.model.information == pytest.approx(expected, rel=2e-3)


def test_heavy_tails() -> None:
    heavy = {str(case): case.model.has_heavy_tails for case in CASES}
    assert not any(heavy[name] for name in ("infer", "relative", "student:1000"))
    assert all(heavy[name] for name in ("student:0.5", "student:1", "student:4", "logistic"))


# The likelihood ----------------------------------------------------------------------------------


def log_integral(
    law: Any, residuals: np.ndarray, often: np.ndarray, prior: ScalePrior, moment: float = 0.0
) -> float:
    """log of the integral over u = log s of p(residuals | s) p(s) s^moment: Gauss' rule of 20 nodes
    in panels of 0.1, which is exact to all digits."""
    u, weights = _panels()
    s = np.exp(u)
    log_f = (often * law.logpdf(residuals / s[:, None])).sum(axis=1) - often.sum() * u + moment * u
    log_f += scipy.stats.invgamma(prior.shape, scale=prior.rate).logpdf(s * s) + np.log(2.0 * s * s)
    top = log_f.max()
    return float(top + math.log(weights @ np.exp(log_f - top)))


@functools.cache
def _panels() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(-12.0, 78.0, 901)
    half = 0.5 * np.diff(edges)[:, None]
    u = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes
    return u.reshape(-1), (half * weights).reshape(-1)


@every
def test_given_noise_is_a_sum_over_rows(case: Case) -> None:
    for residuals, counts in TABLES:
        often = np.ones(len(residuals)) if counts is None else counts
        expected = float(often @ case.law.logpdf(residuals))
        total = total_of(residuals, counts)
        for xp in (np, jnp):
            found = case.model.log_likelihood(
                xp,
                xp.asarray(residuals),
                None if counts is None else xp.asarray(counts),
                total,
                None,
            )
            assert float(found) == pytest.approx(expected, rel=1e-11, abs=1e-11)
        perfect = case.model.perfect(total, None)
        assert perfect == pytest.approx(total * float(case.law.logpdf(0.0)), rel=1e-13)
        misfit = case.model.kernel.misfits(residuals[None], counts, total, None)
        assert float(misfit[0]) == pytest.approx(perfect - expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("prior", [PRIOR, WIDE], ids=["one", "wide"])
@some_slow
def test_inferred_noise_is_an_integral(case: Case, prior: ScalePrior) -> None:
    """Also where the density of log s is flat over decades, as for a t of 4 degrees of freedom with
    one outlier in four rows."""
    tables = TABLES if prior is PRIOR else TABLES[::5]
    for residuals, counts in tables:
        often = np.ones(len(residuals)) if counts is None else counts
        total = total_of(residuals, counts)
        expected = log_integral(case.law, residuals, often, prior)
        found = float(case.model.log_likelihood(np, residuals, counts, total, prior))
        assert found == pytest.approx(expected, rel=0.0, abs=1e-9), (residuals, counts)
        misfit = float(case.model.kernel.misfits(residuals[None], counts, total, prior)[0])
        perfect = case.model.perfect(total, prior)
        assert misfit == pytest.approx(perfect - expected, rel=0.0, abs=2e-9)
        if (residuals == 0.0).all():
            assert perfect == pytest.approx(expected, rel=0.0, abs=1e-9)


@some_slow
def test_jax_agrees_where_the_noise_is_inferred(case: Case) -> None:
    for residuals, counts in TABLES[::3]:
        total = total_of(residuals, counts)
        expected = float(case.model.log_likelihood(np, residuals, counts, total, PRIOR))
        often = None if counts is None else jnp.asarray(counts)
        found = case.model.log_likelihood(jnp, jnp.asarray(residuals), often, total, PRIOR)
        assert float(found) == pytest.approx(expected, rel=0.0, abs=1e-8), (residuals, counts)


@every
def test_many_rows_of_residuals_at_once(case: Case) -> None:
    rows = np.random.default_rng(1).normal(0.0, 30.0, (7, 5))
    for prior in (None, PRIOR):
        together = case.model.log_likelihood(np, rows, None, 5.0, prior)
        alone = [float(case.model.log_likelihood(np, row, None, 5.0, prior)) for row in rows]
        np.testing.assert_allclose(together, alone, rtol=1e-13)


@pytest.mark.parametrize("scale", [0.7, None], ids=["given", "inferred"])
@every
def test_a_weight_is_so_many_copies(case: Case, scale: float | None) -> None:
    model = dataclasses.replace(case.model, scale=scale)
    rng = np.random.default_rng(3)
    y = rng.uniform(1.0, 3.0, 6)
    values, bars = y * rng.uniform(0.7, 1.3, 6), rng.uniform(0.5, 2.0, 6)
    times = np.array([1, 3, 2, 1, 4, 2])
    for y_err in (None, bars):
        repeated = None if y_err is None else np.repeat(y_err, times)
        weighted = make_likelihood(y, model, y_err, times.astype(float))
        copies = make_likelihood(np.repeat(y, times), model, repeated)
        expected = float(copies.log_prob(np, np.repeat(values, times)))
        assert float(weighted.log_prob(np, values)) == pytest.approx(expected, rel=0.0, abs=1e-9)
        assert weighted.perfect == pytest.approx(copies.perfect, rel=0.0, abs=1e-9)
        assert weighted.is_inferred == (scale is None)


# What descents go by -----------------------------------------------------------------------------


def with_slopes(
    model: AbstractNoise,
    which: str,
    residuals: np.ndarray,
    counts: np.ndarray,
    prior: ScalePrior | None,
) -> tuple[float, np.ndarray, np.ndarray]:
    kernel = model.kernel
    weights, curvatures = np.full(len(residuals), np.nan), np.full(len(residuals), np.nan)
    parameters = kernel.parameters(float(counts.sum()), prior, is_fine=True)
    function = kernel.misfit if which == "misfit" else kernel.squares
    found = _call(function, residuals.copy(), counts.copy(), parameters, weights, curvatures)
    return float(found), weights, curvatures


def _call(function: Any, *arrays: np.ndarray) -> float:
    return float(_caller()(function, *arrays))


@functools.cache
def _caller() -> Any:
    import numba

    @numba.njit
    def call(function, residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
        return function(residuals, counts, parameters, weights, curvatures)

    return call


def slopes_by_differences(f: Any, at: np.ndarray) -> np.ndarray:
    """Five points, so that the rounding of the values decides."""
    found = np.empty(len(at))
    for place in range(len(at)):
        step = np.zeros(len(at))
        h = 1e-3 * max(1.0, abs(at[place]))
        step[place] = h
        found[place] = (
            8.0 * (f(at + step) - f(at - step)) - f(at + 2 * step) + f(at - 2 * step)
        ) / (12.0 * h)
    return found


SLOPE_TABLES = [
    (np.array([0.8]), np.array([1.0])),
    (np.array([0.3, -2.5]), np.array([1.0, 2.0])),
    (np.array([0.3, -1.1, 40.0, 2.0, 0.7]), np.array([1.0, 2.0, 1.0, 0.5, 3.0])),
]


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["given", "inferred"])
@pytest.mark.parametrize("which", ["misfit", "squares"])
@every
def test_weights_are_slopes(case: Case, which: str, prior: ScalePrior | None) -> None:
    """Of `misfit` counts * weights * residuals, of `squares` twice that."""
    for residuals, counts in SLOPE_TABLES:
        value, weights, _ = with_slopes(case.model, which, residuals, counts, prior)
        kernel = case.model.kernel
        each = kernel.misfits if which == "misfit" else kernel.squares_of

        def f(at: np.ndarray, each: Any = each, counts: np.ndarray = counts) -> float:
            return float(each(at[None], counts, float(counts.sum()), prior)[0])

        assert value == pytest.approx(f(residuals), rel=1e-12)
        factor = 1.0 if which == "misfit" else 2.0
        expected = slopes_by_differences(f, residuals)
        np.testing.assert_allclose(
            factor * counts * weights * residuals, expected, rtol=1e-6, atol=1e-7 * abs(value)
        )


@every
def test_curvatures_are_second_derivatives_where_the_scale_is_given(case: Case) -> None:
    for residuals, counts in SLOPE_TABLES:
        _, _, curvatures = with_slopes(case.model, "misfit", residuals, counts, None)
        h = 1e-4 * np.maximum(1.0, np.abs(residuals))
        log_density = functools.partial(case.law.logpdf)
        expected = (
            2.0 * log_density(residuals) - log_density(residuals + h) - log_density(residuals - h)
        ) / (h * h)
        np.testing.assert_allclose(curvatures, expected, rtol=1e-5, atol=1e-6)


@every
def test_squares_rank_residuals_as_their_likeliest_scale_does(case: Case) -> None:
    """`squares` grows as the highest joint density of residuals and s falls; for Gaussian noise it
    is the sum of squares."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((40, 5)) * np.geomspace(0.01, 1e3, 40)[:, None]
    counts = np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    found = case.model.kernel.squares_of(rows, counts, 7.5, PRIOR)
    assert (found >= 0.0).all()
    if case.model.by_squares:
        np.testing.assert_allclose(found, rows**2 @ counts, rtol=1e-12)
    u = np.linspace(-4.0, 10.0, 14_001)
    s2 = np.exp(2.0 * u)
    of_prior = scipy.stats.invgamma(0.5, scale=0.5).logpdf(s2) + np.log(2.0 * s2) - 7.5 * u
    profile = [
        float((of_prior + case.law.logpdf(row / np.exp(u)[:, None]) @ counts).max()) for row in rows
    ]
    order = np.argsort(found)
    assert (np.diff(np.array(profile)[order]) < 1e-5).all()  # 1e-5: the grid of s
    none = case.model.kernel.squares_of(np.zeros((1, 5)), counts, 7.5, PRIOR)
    assert float(none[0]) == pytest.approx(0.0, abs=1e-9)


@every
def test_residuals_too_large_to_be_squared_are_no_better_than_large_ones(case: Case) -> None:
    for prior in (None, PRIOR):
        large = np.array([[1.0, -0.5, 1e100], [1.0, -0.5, 1e140]])
        near, far = case.model.kernel.misfits(large, None, 3.0, prior)
        assert 100.0 < near <= far


@every
def test_residuals_many_decades_apart(case: Case) -> None:
    """Each row is a bound on how large s need be; the peak may be decades from the first guess."""
    residuals = np.array([1e3, -1e9, 1e15, 1e21, -1e24])
    assert math.isfinite(float(case.model.kernel.misfits(residuals[None], None, 5.0, PRIOR)[0]))
    expected = log_integral(case.law, residuals, np.ones(5), PRIOR)
    found = float(case.model.log_likelihood(np, residuals, None, 5.0, PRIOR))
    assert found == pytest.approx(expected, rel=0.0, abs=1e-9)
    wide = np.array([[1e3, -1e36, 1e88, 1e110, -1e137]])
    misfit = case.model.kernel.misfits(wide, None, 5.0, PRIOR)[0]
    assert 100.0 < float(misfit) < math.inf


# The scale given the residuals -------------------------------------------------------------------


@some_slow
def test_draws_of_the_scale(case: Case) -> None:
    for residuals, counts in SLOPE_TABLES[1:]:
        total = float(counts.sum())
        rows = np.broadcast_to(residuals, (20_000, len(residuals)))
        drawn = case.model.scale_draws(np.random.default_rng(2), rows, counts, total, PRIOR)
        u = np.linspace(-8.0, 25.0, 66_001)
        log_f = case.law.logpdf(residuals / np.exp(u)[:, None]) @ counts - total * u
        log_f += scipy.stats.invgamma(0.5, scale=0.5).logpdf(np.exp(2.0 * u)) + 2.0 * u
        cumulative = scipy.integrate.cumulative_simpson(np.exp(log_f - log_f.max()), x=u, initial=0)
        cumulative /= cumulative[-1]
        ranks = np.interp(np.log(drawn), u, cumulative)
        assert scipy.stats.kstest(ranks, scipy.stats.uniform.cdf).pvalue > FALSE_ALARM


@some_slow
def test_moments_of_the_scale(case: Case) -> None:
    for residuals, counts in TABLES[::3]:
        total = total_of(residuals, counts)
        often = np.ones(len(residuals)) if counts is None else counts
        if total < 2.0:
            continue
        mean, square = case.model.scale_moments(residuals[None], counts, total, PRIOR)
        whole = log_integral(case.law, residuals, often, PRIOR)
        first = math.exp(log_integral(case.law, residuals, often, PRIOR, 1.0) - whole)
        second = math.exp(log_integral(case.law, residuals, often, PRIOR, 2.0) - whole)
        assert float(mean[0]) == pytest.approx(first, rel=1e-6)
        # With two rows s^2 has so heavy a tail that its end is cut off.
        assert float(square[0]) == pytest.approx(second, rel=1e-6 if total > 2.5 else 1e-5)


@every
def test_one_row_leaves_the_square_of_the_scale_without_a_mean(case: Case) -> None:
    mean, square = case.model.scale_moments(np.array([[0.7]]), None, 1.0, PRIOR)
    first = log_integral(case.law, np.array([0.7]), np.ones(1), PRIOR, 1.0)
    first -= log_integral(case.law, np.array([0.7]), np.ones(1), PRIOR)
    assert float(mean[0]) == pytest.approx(math.exp(first), rel=1e-6)
    assert float(square[0]) == math.inf


@every
def test_a_scale_that_is_given_is_one(case: Case) -> None:
    rows = np.zeros((3, 5))
    drawn = case.model.scale_draws(np.random.default_rng(0), rows, None, 5.0, None)
    np.testing.assert_array_equal(drawn, np.ones(3))
    for moment in case.model.scale_moments(rows, None, 5.0, None):
        np.testing.assert_array_equal(moment, np.ones(3))


# Observations ------------------------------------------------------------------------------------


@every
def test_observed_is_the_inverse_of_a_residual(case: Case) -> None:
    y = np.array([0.5, 1.0, 4.0])
    likelihood = make_likelihood(y, dataclasses.replace(case.model, scale=0.3))
    values = np.array([0.6, 0.9, 4.4])
    z = likelihood.residuals(np, values)
    np.testing.assert_allclose(case.model.observed(values, likelihood.scale, z), y, rtol=1e-12)


@every
def test_the_spread_of_observations(case: Case) -> None:
    if not math.isfinite(case.model.variance):
        return
    if case.model.link == "log":
        expected = 2.0 * scipy.stats.lognorm(0.3).std()
    else:
        expected = 0.3 * case.law.std()
    found = case.model.spread(np.array([2.0]), np.array([0.3]))
    assert float(found[0]) == pytest.approx(float(expected), rel=1e-12)


@every
def test_rows_add_up_to_the_whole(case: Case) -> None:
    y, values = np.array([0.5, 1.0, 4.0]), np.array([[0.6, 0.9, 4.4], [0.5, 1.5, 3.0]])
    likelihood = make_likelihood(
        y, dataclasses.replace(case.model, scale=0.3), np.array([1, 2, 3.0])
    )
    rows = likelihood.row_log_density(values, np.ones(2))
    np.testing.assert_allclose(rows.sum(axis=1), likelihood.log_prob(np, values), rtol=1e-12)


# Words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [None, 0.25, 1.0 / 3.0, 1e-7])
@every
def test_a_spelling_is_read_back(
    case: Case, scale: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's by the one line that a newcomer adds to `MODELS`."""
    monkeypatch.setitem(MODELS, "logistic", lambda scale=None: Logistic(scale))
    model = dataclasses.replace(case.model, scale=scale)
    assert noise_model(model.spelling) == model
    assert noise_model(model) is model
    assert case.model.sentence


def test_degrees_of_freedom_are_spelt_to_the_last_digit() -> None:
    for freedom in (3.14159265, 1.0 / 3.0 + 1.0, 123.4567891):
        model = Student(0.1, freedom=freedom)
        assert noise_model(model.spelling) == model


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("studnet", "did you mean 'student'"),
        ("relativ:0.1", "did you mean 'relative'"),
        ("infr", "did you mean 'infer'"),
        ("", "noise must be a number above 0"),
        ("poisson", "noise must be a number above 0"),
        ("student:x", "noise must be a number above 0"),
        ("student:4,", "noise must be a number above 0"),
        ("student:4,0.1,7", "too many numbers"),
        ("infer:3", "too many numbers"),
        ("student:0.1", "between 0.5 and 1000"),
        ("student:nan", "between 0.5 and 1000"),
        ("student:4,0", "above 0"),
        ("relative:-1", "above 0"),
        ("relative:inf", "above 0"),
        (0.0, "above 0"),
        (-1.0, "above 0"),
        (math.nan, "above 0"),
        (math.inf, "above 0"),
        (True, "above 0"),
        (None, "above 0"),
        ([0.1, 0.2], "above 0"),
        (frozenset({1}), "noise must be a number above 0"),
        (Gaussian, "noise must be a number above 0"),
    ],
    ids=repr,
)
def test_words_that_are_refused(word: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        noise_model(word)
    with pytest.raises(ValueError, match=sentence):
        make_likelihood(np.array([1.0, 2.0]), word)


def test_an_object_that_is_no_noise_model_is_refused_by_fits() -> None:
    y = np.array([1.0, 2.0])
    strange = Likelihood(object(), y, np.ones(2))  # type: ignore[arg-type]
    library = Library.create(["+"], ["x0"], constants=True)
    with pytest.raises(ValueError, match="noise model"):
        Engine(library, y[:, None], strange, Normal())


@pytest.mark.parametrize("y", [[1.0, -2.0], [0.0, 1.0]])
def test_relative_noise_is_for_positive_targets(y: list[float]) -> None:
    with pytest.raises(ValueError, match="relative noise is for a positive target"):
        make_likelihood(np.array(y), "relative")


# A newcomer's model everywhere -------------------------------------------------------------------


def test_a_newcomers_model_in_compare_and_in_a_fit() -> None:
    x = np.linspace(1.0, 3.0, 14)
    y = 2.37 * x + 0.1 * np.random.default_rng(0).logistic(size=14)
    found = compare(x[:, None], y, ["c * x0", "c"], noise=Logistic(), random_state=0)
    assert found.table["expression"][0] == "c * x0"
    assert any("logistic" in sentence for sentence in found.assumptions)
    model = DVISRRegressor(
        operators=("+", "*"), max_tokens=3, noise=Logistic(), random_state=0, n_jobs=1
    ).fit(x[:, None], y)
    assert model.functions_["expression"][0] == "x0 * c"
    # The scale of 0.1 that made the data lies well within what was inferred.
    assert abs(model.noise_["mean"] - 0.1) < 4.0 * model.noise_["std"]
    assert model.sample_y(x[:, None], random_state=0).shape[0] == 14


def test_a_constant_target_of_relative_noise_in_any_units() -> None:
    """Its logarithm is as constant in grams as in kilograms: so is the prior of the noise."""
    for unit in (1.0, 1e3, 1e-6):
        likelihood = make_likelihood(np.full(4, 2.0 * unit), "relative")
        np.testing.assert_allclose(likelihood.scale, 1e-3, rtol=1e-12)

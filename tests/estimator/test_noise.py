"""Student and relative noise wherever a user of the estimator meets them, against densities and
integrals by SciPy."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dvisr import DVISRRegressor, FitSettings, Relative, Student, exact_posterior, load
from dvisr.settings import SearchSettings, WeighingSettings

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")

RNG = np.random.default_rng(11)
X = RNG.uniform(0.5, 2.0, (14, 1))
Y = 2.3 * X[:, 0] * np.exp(0.1 * RNG.standard_t(4, 14))
BARS = RNG.uniform(0.05, 0.3, 14)
COUNTS = RNG.integers(1, 4, 14).astype(float)
NEW = np.linspace(0.3, 3.0, 6)[:, None]

NOISES = ["student", "student:3,0.2", "relative", "relative:0.1"]
WITH: dict[str, dict[str, Any]] = {
    "nothing": {},
    "y_err": {"y_err": BARS},
    "sample_weight": {"sample_weight": COUNTS},
    "both": {"y_err": BARS, "sample_weight": COUNTS},
}


def quick(**options: Any) -> DVISRRegressor:
    chosen = {"operators": ("+", "*"), "max_tokens": 3, "max_constants": 1, "random_state": 0}
    return DVISRRegressor(**{**chosen, **options})


def known(noise: Any, **options: Any) -> DVISRRegressor:
    """One formula, x0, and nothing to be found but perhaps the noise."""
    return quick(operators=(), constants=False, noise=noise, **options)


# A second opinion -----------------------------------------------------------------------------


def log_likelihood(
    noise: str,
    y: np.ndarray,
    f: np.ndarray,
    y_err: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
) -> float:
    """log p(y | f): densities by SciPy, the scale's factor integrated out by quadrature. Its square
    has an inverse gamma prior of shape and rate a half, about a thousandth of the spread of y (of
    log y), or about the error bars."""
    name, _, numbers = noise.partition(":")
    given = [float(part) for part in numbers.split(",")] if numbers else []
    counts = np.ones(len(y)) if sample_weight is None else sample_weight
    is_log = name == "relative"
    t, centre = (np.log(y), np.log(f)) if is_log else (y, f)
    bars = np.ones(len(y)) if y_err is None else y_err / (y if is_log else 1.0)
    freedom: float | None = None
    if name == "student":
        freedom = given.pop(0) if given else 4.0
    scale: float | None = given[0] if given else None

    def of(log_s: float, unit: float) -> float:
        sizes = math.exp(log_s) * unit * bars
        if freedom is None:
            logs = stats.norm.logpdf(t, centre, sizes) - t
        else:
            logs = stats.t.logpdf(t, freedom, centre, sizes)
        return float(counts @ logs)

    if scale is not None:
        return of(0.0, scale)
    mean = np.average(t, weights=counts)
    spread = math.sqrt(np.average((t - mean) ** 2, weights=counts))
    unit = 1.0 if y_err is not None else 1e-3 * spread
    prior = stats.invgamma(0.5, scale=0.5)

    def joint(log_s: float) -> float:
        return of(log_s, unit) + prior.logpdf(math.exp(2.0 * log_s)) + math.log(2.0) + 2.0 * log_s

    grid = np.linspace(-10.0, 25.0, 4001)
    values = np.array([joint(log_s) for log_s in grid])
    top, best = values.max(), float(grid[values.argmax()])
    found, _ = integrate.quad(
        lambda log_s: math.exp(joint(log_s) - top),
        best - 6.0,
        best + 12.0,
        points=[best],
        limit=400,
    )
    return float(top + math.log(found))


@pytest.mark.parametrize("with_", WITH)
@pytest.mark.parametrize("noise", NOISES)
def test_the_evidence_of_one_formula(noise: str, with_: str) -> None:
    expected = log_likelihood(noise, Y, X[:, 0], **WITH[with_])
    model = known(noise).fit(X, Y, **WITH[with_])
    assert model.log_evidence_ == pytest.approx(expected, abs=1e-6)
    oracle = exact_posterior(
        X, Y, operators=(), max_tokens=1, noise=noise, constraints="none", **WITH[with_]
    )
    assert oracle.log_evidence == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("with_", ["nothing", "both"])
@pytest.mark.parametrize("noise", NOISES)
def test_the_posterior_over_formulas_with_constants_is_the_oracles(noise: str, with_: str) -> None:
    options: dict[str, Any] = {
        "operators": ("+", "*"), "max_tokens": 3, "max_constants": 1, "noise": noise,
        "constraints": "default", "tree_prior": "size-balanced", "constant_prior": "normal:0,10",
    }  # fmt: skip
    model = DVISRRegressor(**options, random_state=0).fit(X, Y, **WITH[with_])
    oracle = exact_posterior(X, Y, **options, constants=True, **WITH[with_])
    assert model.diagnostics_["exact"]
    assert model.log_evidence_ == pytest.approx(oracle.log_evidence, abs=0.02)
    found = model.posterior_.set_index("expression")["probability"]
    expected = oracle.table(50).set_index("expression")["probability"]
    assert 0.5 * float((found - expected.reindex(found.index)).abs().sum()) < 0.02


@pytest.mark.parametrize("noise", ["student", "relative"])
@pytest.mark.parametrize("with_bars", [False, True])
def test_a_weight_is_how_often_a_row_was_seen(noise: str, with_bars: bool) -> None:
    bars = BARS if with_bars else None
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(14), COUNTS.astype(int)))
    weighed = quick(noise=noise).fit(X, Y, sample_weight=COUNTS, y_err=bars)
    copied = quick(noise=noise).fit(X[order], Y[order], y_err=None if bars is None else bars[order])
    assert weighed.log_evidence_ == copied.log_evidence_
    assert weighed.functions_.equals(copied.functions_)
    np.testing.assert_array_equal(weighed.predict(NEW), copied.predict(NEW))


@pytest.mark.parametrize(
    ("text", "made"), [("student", Student()), ("relative:0.1", Relative(0.1))]
)
def test_a_model_as_text_or_as_an_object(text: str, made: Any) -> None:
    one, two = quick(noise=text).fit(X, Y), quick(noise=made).fit(X, Y)
    assert one.log_evidence_ == two.log_evidence_
    np.testing.assert_array_equal(one.predict_interval(NEW), two.predict_interval(NEW))


def test_an_outlier_moves_students_answer_less() -> None:
    spoilt = Y.copy()
    spoilt[3] += 30.0
    options: dict[str, Any] = {"operators": ("*",), "constraints": ["default", "min-tokens=3"]}

    def moved(noise: str) -> float:
        before, after = (quick(noise=noise, **options).fit(X, y).predict(NEW) for y in (Y, spoilt))
        return float(np.abs(after / before - 1.0).max())

    assert moved("student") < 0.1 < moved("infer")


# Predictions ----------------------------------------------------------------------------------

LEVELS = np.array([0.02, 0.1, 0.5, 0.9, 0.98])


def test_quantiles_where_all_is_known() -> None:
    def quantiles(noise: str) -> np.ndarray:
        return known(noise).fit(X, Y).predict_quantiles(NEW, LEVELS.tolist())

    t = NEW + 0.2 * stats.t.ppf(LEVELS, 3)
    np.testing.assert_allclose(quantiles("student:3,0.2"), t, atol=0.01)
    normal = quantiles("0.2")
    assert (np.ptp(quantiles("student:3,0.2"), axis=1) > 1.3 * np.ptp(normal, axis=1)).all()
    lognormal = NEW * np.exp(0.1 * stats.norm.ppf(LEVELS))
    np.testing.assert_allclose(quantiles("relative:0.1"), lognormal, rtol=0.002)


@pytest.mark.parametrize("noise", ["student:5,2", "relative:0.5"])
def test_error_bars_of_new_rows(noise: str) -> None:
    """In the units of y; for relative noise they are compared with the curve."""
    model = known(noise).fit(X, Y, y_err=BARS)
    asked = np.linspace(0.05, 0.4, 6)
    found = model.predict_quantiles(NEW, LEVELS.tolist(), y_err=asked)
    if noise.startswith("student"):
        expected = NEW + 2.0 * asked[:, None] * stats.t.ppf(LEVELS, 5)
        std = 2.0 * asked * math.sqrt(5.0 / 3.0)
    else:
        sizes = 0.5 * asked[:, None] / NEW
        expected = NEW * np.exp(sizes * stats.norm.ppf(LEVELS))
        std = NEW[:, 0] * np.sqrt(np.expm1(sizes**2) * np.exp(sizes**2))[:, 0]
    np.testing.assert_allclose(found, expected, atol=0.02)
    np.testing.assert_allclose(model.predict(NEW, return_std=True, y_err=asked)[1], std, rtol=1e-9)
    drawn = model.sample_y(NEW, 4000, y_err=asked)
    inside = (drawn > found[:, 1:2]) & (drawn < found[:, 3:4])
    np.testing.assert_allclose(inside.mean(axis=1), 0.8, atol=4.5 * math.sqrt(0.16 / 4000))
    with pytest.warns(UserWarning, match=f"their median, {np.median(BARS):.3g}, is used"):
        model.predict_interval(NEW)


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_cover_what_the_model_draws(noise: str) -> None:
    model = quick(noise=noise).fit(X, Y)
    drawn = model.sample_y(NEW, 20_000)
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(NEW, coverage).T
        inside = ((drawn > low[:, None]) & (drawn < high[:, None])).mean(axis=1)
        error = math.sqrt(coverage * (1.0 - coverage) / 20_000)
        np.testing.assert_allclose(inside, coverage, atol=4.5 * error + 0.005)
    if noise.startswith("relative"):
        assert (drawn > 0.0).all()
        assert (model.predict_quantiles(NEW, (1e-4,)) > 0.0).all()
        assert (model.predict(NEW) > 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["student", "relative"])
def test_intervals_cover_new_data_of_the_law(noise: str) -> None:
    """Data sets drawn from c * x0 with this noise; both constant and scale are to be found."""
    shares = []
    for seed in range(25):
        rng = np.random.default_rng([7, seed])
        x = rng.uniform(0.5, 2.0, (42, 1))
        slope = rng.normal(2.0, 0.3)
        if noise == "student":
            y = slope * x[:, 0] + 0.2 * rng.standard_t(4, 42)
        else:
            y = slope * x[:, 0] * np.exp(0.2 * rng.standard_normal(42))
        model = quick(
            operators=("*",), noise=noise, constraints=["default", "min-tokens=3"],
            constant_prior="normal:2,0.3",
        ).fit(x[:12], y[:12])  # fmt: skip
        low, high = model.predict_interval(x[12:], 0.9).T
        shares.append(float(((y[12:] > low) & (y[12:] < high)).mean()))
    error = np.std(shares, ddof=1) / math.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.9) < 4.0 * error


@pytest.mark.parametrize("noise", ["student:3,0.2", "relative:0.1"])
def test_samples_have_the_noises_distribution(noise: str) -> None:
    model = known(noise).fit(X, Y)
    for draw in (model.sample_y, model.sample_prior_y):
        drawn = draw(NEW[:2], 5000)
        z = (drawn - NEW[:2]) / 0.2
        law: Any = stats.t(3)
        if noise.startswith("relative"):
            z, law = np.log(drawn / NEW[:2]) / 0.1, stats.norm
        for row in z:
            assert stats.kstest(row, law.cdf).pvalue > 1e-4


# Everything else that a model can be asked for ------------------------------------------------


@pytest.mark.parametrize("with_", WITH)
@pytest.mark.parametrize("noise", ["student:3,0.2", "relative:0.1"])
def test_leaving_one_out_and_draws_for_arviz(noise: str, with_: str) -> None:
    """Where all is known, leaving one out changes nothing: densities by SciPy."""
    model = known(noise).fit(X, Y, **WITH[with_])
    bars, counts = WITH[with_].get("y_err"), WITH[with_].get("sample_weight")
    rows = np.argsort(X[:, 0])  # the model keeps rows in sorted order
    each = np.array(
        [
            log_likelihood(noise, Y[[i]], X[[i], 0], None if bars is None else bars[[i]])
            for i in rows
        ]
    )
    tree = model.to_datatree()
    np.testing.assert_allclose(
        np.asarray(tree["log_likelihood"]["y"])[0], np.broadcast_to(each, (2000, 14)), atol=1e-9
    )
    assert {"posterior", "posterior_predictive", "observed_data"} <= set(tree.children)
    often = np.ones(14) if counts is None else counts[rows]
    for found in (model.loo(), model.loo(tree=0)):
        assert found.elpd == pytest.approx(float(often @ each), abs=1e-6)
    replicated = np.asarray(tree["posterior_predictive"]["y"])
    assert np.isfinite(replicated).all()
    if noise.startswith("relative"):
        assert (replicated > 0.0).all()
    own = model.to_datatree(tree=0)
    np.testing.assert_allclose(
        np.asarray(own["log_likelihood"]["y"])[0], np.broadcast_to(each, (2000, 14)), atol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["student", "relative"])
def test_leaving_one_out_where_the_noise_is_inferred(noise: str) -> None:
    """Its prior stays that of all the data, so that the ratio of evidences is only near."""
    found = known(noise).fit(X, Y).loo()
    rows = np.argsort(X[:, 0])
    total = log_likelihood(noise, Y, X[:, 0])
    for place in (0, 5, 13):
        rest = np.delete(rows, place)
        expected = total - log_likelihood(noise, Y[rest], X[rest, 0])
        assert float(found.elpd_i[place]) == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize("with_", ["nothing", "both"])
@pytest.mark.parametrize("noise", [*NOISES, Student(freedom=3.0), Relative(0.1)], ids=str)
def test_a_saved_model_answers_the_same(noise: Any, with_: str, tmp_path: Path) -> None:
    settings = FitSettings(
        search=dataclasses.replace(SearchSettings(), num_starts=6),
        weighing=WeighingSettings(num_draws=400, rounds=(500, 2000)),
    )
    model = quick(noise=noise, settings=settings).fit(X, Y, **WITH[with_])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    bars = 0.1 if "y_err" in WITH[with_] else None
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(
        again.predict_interval(NEW, y_err=bars), model.predict_interval(NEW, y_err=bars)
    )
    np.testing.assert_array_equal(
        again.sample_y(NEW, 5, y_err=bars), model.sample_y(NEW, 5, y_err=bars)
    )
    np.testing.assert_array_equal(again.sample_prior_y(NEW, 5), model.sample_prior_y(NEW, 5))
    assert again.settings == settings
    assert again.diagnostics_ == model.diagnostics_
    assert again.verdict_ == model.verdict_
    assert again.noise_ == model.noise_
    assert again.loo().elpd == model.loo().elpd
    assert again.to_datatree().identical(model.to_datatree())
    assert again._problem.is_same_as(model._problem)


def test_the_scale_that_is_reported() -> None:
    """In the units of y, of its logarithm, or a factor of the error bars."""
    assert known("student:3,0.2").fit(X, Y).noise_ == {"mean": 0.2, "std": 0.0}
    assert known("relative:0.1").fit(X, Y).noise_ == {"mean": 0.1, "std": 0.0}
    assert known("relative:0.1").fit(X, Y, y_err=BARS).noise_ == {"mean": 0.1, "std": 0.0}
    options: dict[str, Any] = {"operators": ("*",), "constraints": ["default", "min-tokens=3"]}
    x = np.random.default_rng(0).uniform(0.5, 2.0, (200, 1))
    y = 2.3 * x[:, 0] * np.exp(0.1 * np.random.default_rng(1).standard_normal(200))
    relative = quick(noise="relative", **options).fit(x, y).noise_
    assert abs(relative["mean"] - 0.1) < 4.0 * relative["std"]
    y = 2.3 * x[:, 0] + 0.2 * np.random.default_rng(1).standard_t(4, 200)
    student = quick(noise="student", **options).fit(x, y).noise_
    assert abs(student["mean"] - 0.2) < 4.0 * student["std"]


@pytest.mark.parametrize("value", [0.0, -1.5])
def test_relative_noise_is_for_a_positive_target(value: float) -> None:
    spoilt = Y.copy()
    spoilt[4] = value
    said = f"relative noise is for a positive target, but y is {value:g} in one row: "
    for ask in (
        lambda: quick(noise="relative").fit(X, spoilt),
        lambda: exact_posterior(X, spoilt, noise="relative", max_tokens=3),
    ):
        with pytest.raises(ValueError, match=said) as error:
            ask()
        assert str(error.value).count(". ") == 0
    weights = np.ones(14)
    weights[4] = 0.0  # a row that was never seen does no harm
    assert math.isfinite(
        quick(noise="relative").fit(X, spoilt, sample_weight=weights).log_evidence_
    )


@pytest.mark.parametrize(
    ("noise", "cause"),
    [
        ("studnet", "did you mean 'student'"),
        ("student:0", "freedom"),
        ("student:3,-1", "scale of the noise must be above 0"),
        ("student:3,1,2", "too many numbers"),
        ("relative:x", "noise must be"),
        (True, "noise must be"),
        (None, "noise must be"),
    ],
)
def test_noise_that_is_none(noise: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        quick(noise=noise).fit(X, Y)

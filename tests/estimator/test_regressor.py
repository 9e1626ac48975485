"""The regressor against truth where truth is known, and every promise that it makes."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import sympy
from scipy.stats import norm

from dvisr import exact_posterior, load
from dvisr.constants import Normal
from dvisr.estimator import DVISRRegressor, FitWarning
from dvisr.evaluation import evaluate
from dvisr.expression import parse
from dvisr.fitting.fitters import SearchFitter
from dvisr.library import Library
from dvisr.posterior import predictive
from dvisr.settings import FitSettings, SearchSettings

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (15, 2))
Y = 1.3 * X[:, 0] + 0.4 + RNG.normal(0.0, 0.2, 15)
NEW = RNG.uniform(0.2, 3.0, (9, 2))


# A verdict that is not "ok" is the point of a few tests only.
pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")


def quick(**options: Any) -> DVISRRegressor:
    """All of its trees are enumerated."""
    chosen = {"operators": ("+", "*"), "max_tokens": 3, "max_constants": 1, "random_state": 0}
    return DVISRRegressor(**{**chosen, **options})


@pytest.fixture(scope="module")
def fitted() -> DVISRRegressor:
    """With room for a line."""
    return quick(max_tokens=5, max_constants=2).fit(X, Y)


# Truth ----------------------------------------------------------------------------------------


def total_variation(one: pd.DataFrame, two: pd.DataFrame) -> float:
    both = pd.merge(one, two, on="expression", how="outer").fillna({"probability_x": 0.0})
    both = both.fillna({"probability_y": 0.0})
    return 0.5 * float((both["probability_x"] - both["probability_y"]).abs().sum())


CONSTANT_FREE = [
    {"operators": ("+", "*", "sin"), "max_tokens": 7, "constraints": "paper"},
    {"operators": ("+", "-", "/", "exp"), "max_tokens": 5, "constraints": "none"},
    {"operators": ("*", "log", "2"), "max_tokens": 6, "constraints": ["no-inverse", "max-depth=3"]},
]


@pytest.mark.parametrize("noise", [0.5, "infer"])
@pytest.mark.parametrize("prior", ["uniform", "size-balanced"])
@pytest.mark.parametrize("case", range(len(CONSTANT_FREE)))
def test_without_constants_the_posterior_is_the_oracles(
    case: int, prior: str, noise: float | str
) -> None:
    options: dict[str, Any] = {**CONSTANT_FREE[case], "tree_prior": prior, "noise": noise}
    model = DVISRRegressor(constants=False, random_state=0, **options).fit(X, Y)
    oracle = exact_posterior(X, Y, **options)
    assert model.diagnostics_["exact"]
    assert model.diagnostics_["num_allowed"] == oracle.num_allowed
    assert model.log_evidence_ == pytest.approx(oracle.log_evidence, abs=1e-9)
    assert model.log_evidence_stderr_ == 0.0
    assert model.elbo_ == model.log_evidence_
    trees = oracle.table(len(model.posterior_))
    np.testing.assert_allclose(model.posterior_["probability"], trees["probability"], atol=1e-9)
    shown = model.posterior_[model.posterior_["probability"] > 1e-12]
    expected = dict(zip(trees["expression"], trees["probability"], strict=True))
    for text, found in zip(shown["expression"], shown["probability"], strict=True):
        if text in expected:  # of trees as likely as each other, any may be beyond the last row
            assert found == pytest.approx(expected[text], abs=1e-9)
    functions = oracle.functions(len(model.functions_))
    np.testing.assert_allclose(model.functions_["probability"], functions["probability"], atol=1e-9)
    np.testing.assert_array_equal(model.functions_["num_trees"], functions["num_trees"])


WITH_CONSTANTS = {
    "two in a line": {"operators": ("+", "*"), "max_tokens": 5, "max_constants": 2},
    "inside a function": {"operators": ("+", "exp"), "max_tokens": 5, "max_constants": 1},
    "below a line": {"operators": ("/", "+"), "max_tokens": 5, "max_constants": 1},
    "paper": {"operators": ("*", "sin"), "max_tokens": 5, "max_constants": 1,
              "constraints": "paper", "tree_prior": "uniform"},
}  # fmt: skip


@pytest.mark.parametrize("noise", [0.3, "infer"])
@pytest.mark.parametrize("name", WITH_CONSTANTS)
def test_with_constants_the_posterior_is_the_oracles(name: str, noise: float | str) -> None:
    options: dict[str, Any] = {
        "constraints": "default", "tree_prior": "size-balanced", **WITH_CONSTANTS[name]
    }  # fmt: skip
    model = DVISRRegressor(
        **options, constant_prior="normal:0,10", noise=noise, random_state=0
    ).fit(X[:, :1], Y)
    limit = f"max-constants={options.pop('max_constants')}"
    oracle = exact_posterior(
        X[:, :1],
        Y,
        constants=True,
        noise=noise,
        constant_prior_std=10.0,
        **{**options, "constraints": [options["constraints"], limit]},
    )
    assert model.diagnostics_["exact"]
    assert model.diagnostics_["num_allowed"] == oracle.num_allowed
    assert model.log_evidence_ == pytest.approx(oracle.log_evidence, abs=0.02)
    trees = oracle.table(oracle.num_allowed)
    assert total_variation(model.posterior_, trees) < 0.02
    # Functions: by whatever row, probabilities add up to those of all their trees.
    assert model.functions_["probability"].sum() == pytest.approx(1.0, abs=0.01)
    assert model.functions_["num_trees"].sum() <= oracle.num_allowed


def test_functions_with_constants_are_the_oracles() -> None:
    """Where no two forms of the grammar are one function."""
    options: dict[str, Any] = {"operators": ("+", "exp"), "max_tokens": 4, "noise": 0.3}
    model = quick(**options, max_constants=1, constant_prior="normal:0,10").fit(X[:, :1], Y)
    oracle = exact_posterior(
        X[:, :1], Y, constants=True, constraints=["default", "max-constants=1"],
        tree_prior="size-balanced", **options,
    )  # fmt: skip
    functions = oracle.functions(len(model.functions_))
    assert model.functions_["expression"].tolist() == functions["expression"].tolist()
    np.testing.assert_allclose(model.functions_["probability"], functions["probability"], atol=0.02)
    np.testing.assert_array_equal(model.functions_["num_trees"], functions["num_trees"])


def test_one_function_in_many_forms_is_one_row() -> None:
    x = np.linspace(-1.0, 2.0, 20)[:, None]
    y = 2.0 * x[:, 0] + 1.0 + 0.05 * np.cos(40.0 * x[:, 0])
    model = quick(operators=("+", "-", "*"), max_tokens=5, max_constants=2).fit(x, y)
    lines = [text for text in model.posterior_["expression"] if text.count("c") == 2]
    assert {"x0 * c + c", "(x0 + c) * c"} <= set(lines)
    first = model.functions_.iloc[0]
    assert first["probability"] > 0.95
    assert model.functions_["expression"].tolist()[0] == "x0 * c + c"
    assert first["num_trees"] > 2
    sorted_constants = sorted(first["constants"])
    slope, offset = np.polyfit(x[:, 0], y, 1)
    assert sorted_constants == pytest.approx(sorted([slope, offset]), abs=0.02)


def test_a_line_has_the_posterior_of_linear_regression() -> None:
    """x * c + c with known noise under a Normal prior: conjugate, so all of it is known."""
    x = np.linspace(0.0, 1.0, 12)[:, None]
    y = 3.3 * x[:, 0] - 1.2 + np.random.default_rng(1).normal(0.0, 0.1, 12)
    model = quick(
        noise=0.1, constant_prior="normal:0,10", constraints=["default", "min-tokens=5"],
        max_tokens=5, max_constants=2,
    ).fit(x, y)  # fmt: skip
    rows = model.functions_["expression"].tolist()
    assert rows[0] == "x0 * c + c"
    assert model.functions_["probability"][0] > 0.99
    design = np.column_stack([x[:, 0], np.ones(12)])
    covariance = np.linalg.inv(design.T @ design / 0.1**2 + np.eye(2) / 10.0**2)
    mean = covariance @ design.T @ y / 0.1**2
    new = np.array([[-1.0], [0.5], [3.0]])
    at = np.column_stack([new[:, 0], np.ones(3)])
    std = np.sqrt(np.einsum("ri,ij,rj->r", at, covariance, at) + 0.1**2)
    found, found_std = model.predict(new, return_std=True)
    np.testing.assert_allclose(found, at @ mean, atol=0.05 * std.max())
    np.testing.assert_allclose(found_std, std, rtol=0.1)
    np.testing.assert_allclose(
        model.functions_["constants_std"][0], np.sqrt(np.diag(covariance)), rtol=0.1
    )


# What the parameters do -----------------------------------------------------------------------


def test_operators() -> None:
    assert "sin" in " ".join(quick(operators=("+", "sin")).fit(X, Y).posterior_["expression"])
    assert "sin" not in " ".join(quick().fit(X, Y).posterior_["expression"])
    default = DVISRRegressor().operators
    assert {"+", "-", "*", "/", "sin", "exp"} <= set(default)


def test_constants(fitted: DVISRRegressor) -> None:
    without = quick(constants=False).fit(X, Y)
    assert fitted.functions_["constants"].map(len).max() > 0
    assert without.functions_["constants"].map(len).max() == 0


def test_max_tokens() -> None:
    for size in (1, 3, 4):
        model = quick(max_tokens=size, operators=("+", "sin")).fit(X, Y)
        assert model.posterior_["complexity"].max() == size


def test_max_constants() -> None:
    for most, found in ((0, 0), (1, 1), (2, 2), (None, 3)):
        model = quick(
            max_constants=most, operators=("+",), max_tokens=5, constraints="none", noise=0.3
        ).fit(X[:, :1], Y)
        counts = [len(re.findall(r"\bc\b", text)) for text in model.posterior_["expression"]]
        assert max(counts) == found


def test_constraints() -> None:
    everything, some = quick(constraints="none").fit(X, Y), quick().fit(X, Y)
    assert everything.diagnostics_["num_allowed"] > some.diagnostics_["num_allowed"]
    assert "c * x0" in everything.posterior_["expression"].tolist()
    assert "c * x0" not in some.posterior_["expression"].tolist()
    mixed = quick(constraints=["default", "min-tokens=3"]).fit(X, Y)
    assert mixed.posterior_["complexity"].min() == 3


def test_tree_prior() -> None:
    def probability(prior: Any) -> float:
        model = quick(tree_prior=prior, operators=("+",), max_tokens=3).fit(X, np.zeros(15))
        trees = model.posterior_.set_index("expression")["log_joint"]
        return float(trees["x0"] - trees["x0 + x1"])

    balanced, allowed = probability("size-balanced"), probability("allowed")
    weighed = probability({"x1": 0.01, "+": 0.01})
    # Sizes 1 and 3 have 3 trees (x0, x1, c) and 6 (sums of two of them, c not on the left).
    assert balanced - allowed == pytest.approx(np.log(6 / 3), abs=1e-9)
    assert weighed > balanced + 3.0


def test_constant_prior() -> None:
    """A prior that is far from the constants that the data want shrinks them."""
    shrunk = quick(constant_prior="normal:0,0.01", noise=0.5).fit(X, Y)
    wide = quick(constant_prior=Normal(0.0, 10.0), noise=0.5).fit(X, Y)
    assert shrunk.log_evidence_ != wide.log_evidence_
    sizes = [abs(np.array(row)).max() for row in shrunk.functions_["constants"] if len(row)]
    assert max(sizes, default=0.0) < 0.1
    named = quick(constant_prior="normal:0,10", noise=0.5).fit(X, Y)
    assert named.log_evidence_ == wide.log_evidence_
    narrow, usual = quick(constant_prior="decades:1,2"), quick()
    assert narrow.fit(X, Y).log_evidence_ != usual.fit(X, Y).log_evidence_


def test_noise(fitted: DVISRRegressor) -> None:
    given = quick(noise=3.0).fit(X, Y)
    assert given.noise_ == {"mean": 3.0, "std": 0.0}
    _, std = given.predict(X, return_std=True)
    assert (std >= 3.0).all()
    assert 0.1 < fitted.noise_["mean"] < 0.4  # 0.2 in truth
    assert fitted.noise_["std"] > 0.0


def test_the_noise_beside_error_bars_is_their_factor() -> None:
    bars = np.full(15, 0.1)
    assert quick(noise=2.0).fit(X, Y, y_err=bars).noise_["mean"] == pytest.approx(2.0)
    assert 1.0 < quick().fit(X, Y, y_err=bars).noise_["mean"] < 4.0  # 2 in truth


def test_n_jobs() -> None:
    """Threads change the time alone."""
    one, *others = (quick(n_jobs=count).fit(X, Y) for count in (1, 2, -1, None))
    for other in others:
        pd.testing.assert_frame_equal(other.functions_, one.functions_, check_exact=True)


def test_random_state() -> None:
    one, same, other = (quick(random_state=seed).fit(X, Y) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(same.functions_, one.functions_, check_exact=True)
    np.testing.assert_array_equal(same.predict(NEW), one.predict(NEW))
    assert (other.predict(NEW) != one.predict(NEW)).any()
    np.testing.assert_allclose(other.predict(NEW), one.predict(NEW), atol=0.05)
    states = [quick(random_state=np.random.RandomState(7)).fit(X, Y) for _ in range(2)]
    np.testing.assert_array_equal(states[0].predict(NEW), states[1].predict(NEW))
    nobodys = [quick(random_state=None).fit(X, Y).predict(NEW) for _ in range(2)]
    assert (nobodys[0] != nobodys[1]).any()


@pytest.mark.slow
def test_recipe() -> None:
    """Another than the default draws its constants, and learns to."""
    with pytest.raises(ValueError, match="there is no recipe 'papr': did you mean 'paper'"):
        quick(recipe="papr").fit(X, Y)
    model = quick(recipe="paper", num_steps=3, num_samples=50).fit(X, Y)
    assert not model.diagnostics_["exact"]
    assert len(model.history_) == model.n_iter_ > 0
    assert np.isfinite(model.predict(X)).all()
    assert model.verdict_.group_word("search") != "ok"  # three steps teach it nothing
    assert model.elbo_ < quick().fit(X, Y).log_evidence_


def test_run_dir(tmp_path: Path) -> None:
    quick(run_dir=tmp_path / "kept").fit(X, Y)
    assert any((tmp_path / "kept").iterdir())


def test_warm_start_where_everything_was_enumerated() -> None:
    """There is nothing to go on with, but other data or weights are another problem."""
    model = quick(warm_start=True, noise=0.3).fit(X, Y)
    before = model.log_evidence_
    assert model.fit(X, Y).log_evidence_ == before
    first, second = np.ones(15), np.ones(15)
    first[0], second[1] = 7.0, 7.0
    for weights in (first, second):
        model.fit(X, Y, sample_weight=weights)
        fresh = quick(noise=0.3).fit(X, Y, sample_weight=weights)
        assert model.log_evidence_ == fresh.log_evidence_
    assert model.fit(X, 2.0 * Y).log_evidence_ == quick(noise=0.3).fit(X, 2.0 * Y).log_evidence_
    model.set_params(noise=0.5).fit(X, Y)
    assert model.log_evidence_ == quick(noise=0.5).fit(X, Y).log_evidence_


def test_parameters_are_those_of_the_signature() -> None:
    signature = list(inspect.signature(DVISRRegressor).parameters)
    assert list(DVISRRegressor().get_params()) == sorted(signature)


def test_parameters_are_kept_as_they_were_given() -> None:
    operators = ["+", "sin"]
    model = quick(operators=operators, tree_prior={"sin": 0.5})
    assert model.get_params()["operators"] is operators
    assert model.set_params(max_tokens=4, noise=0.1) is model
    assert (model.max_tokens, model.noise) == (4, 0.1)
    with pytest.raises(ValueError, match="no parameter 'max_token': did you mean 'max_tokens'"):
        model.set_params(max_token=3)
    before = dict(model.get_params())
    model.fit(X, Y)
    assert model.get_params() == before


# The tables -----------------------------------------------------------------------------------


def test_an_enumerated_fit_is_exact(fitted: DVISRRegressor) -> None:
    found = fitted.diagnostics_
    assert found["exact"] is True
    assert found["num_trees_visited"] == found["num_allowed"] == len(fitted.posterior_)
    assert not fitted.interrupted_
    assert fitted.posterior_["probability"].sum() == pytest.approx(1.0, abs=1e-9)
    assert (fitted.posterior_["probability"].diff().dropna() <= 1e-9).all()
    assert (fitted.functions_["probability"].diff().dropna() <= 1e-9).all()


def test_the_diagnostics(fitted: DVISRRegressor) -> None:
    found = fitted.diagnostics_
    assert {
        "verdict", "reasons", "exact", "num_trees_visited", "num_forms_visited", "num_allowed",
        "shown_share", "checks", "r2",
    } <= set(found)  # fmt: skip
    assert (found["verdict"] == "ok") == (found["reasons"] == [])
    assert found["shown_share"] == pytest.approx(fitted.functions_["probability"].sum())
    residuals = Y - fitted.predict(X)
    assert found["r2"] == pytest.approx(1.0 - residuals.var() / Y.var(), abs=0.02)


def test_what_fits_nothing_is_doubtful() -> None:
    y = np.random.default_rng(2).normal(size=15)
    with pytest.warns(
        FitWarning, match="verdict on this fit: caution: the formulas explain 0.0% of"
    ):
        model = quick(constants=False).fit(X, y)
    assert model.diagnostics_["verdict"] == "caution"
    assert model.verdict_.group_word("search") == "caution"
    grades = {check.name: check.grade.word for check in model.verdict_.checks}
    assert grades["explained"] == "caution"


def test_inclusion(fitted: DVISRRegressor) -> None:
    assert fitted.inclusion_.index.tolist() == ["x0", "x1"]
    # Of functions, not of trees: one that is written with x1 / x1 says nothing of x1.
    functions = fitted.functions_
    for name, probability in fitted.inclusion_.items():
        with_it = functions["expression"].str.contains(str(name))
        expected = functions["probability"][with_it].sum() / functions["probability"].sum()
        assert probability == pytest.approx(expected, abs=1e-9)
    assert fitted.inclusion_["x0"] > 0.99
    assert fitted.inclusion_["x1"] < 0.5


def test_the_front_trades_accuracy_for_size(fitted: DVISRRegressor) -> None:
    table = fitted.front_
    assert (table["complexity"].diff().dropna() > 0).all()
    assert (table["loss"].diff().dropna() < 0.0).all()
    assert (table["r2"].diff().dropna() > 0.0).all()
    assert (table["score"] >= 0.0).all()
    assert table["probability"].between(0.0, 1.0).all()
    library = Library.create(["+", "*"], ["x0", "x1"], constants=True)
    number = re.compile(r"(?<![\w.])-?\d[\d.]*(?:e[+-]?\d+)?")
    for row in table.itertuples():
        equation = str(row.equation)
        constants = [float(text) for text in number.findall(equation)]
        expression = parse(number.sub("c", equation), library).with_constants(constants)
        assert expression.complexity == row.complexity
        values, _ = evaluate(expression, X)
        assert row.loss == pytest.approx(float(np.mean((Y - values) ** 2)), rel=1e-3)
        assert row.r2 == pytest.approx(1.0 - row.loss / Y.var(), abs=1e-9)


# One formula ----------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 1, -1])
def test_one_formula_in_every_shape(index: int) -> None:
    model = quick(operators=("+", "*", "exp", "sin", "/"), max_tokens=4).fit(X, Y)
    expected = model.predict(NEW, index=index)
    row = model.functions_.iloc[index]
    np.testing.assert_allclose(model.numpy(index)(NEW), expected, rtol=1e-12, atol=1e-12)
    assert float(model.numpy(index)(NEW[0])) == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(model.jax(index)(jnp.asarray(NEW)), expected, rtol=1e-12, atol=1e-12)
    assert float(model.jax(index)(jnp.asarray(NEW[0]))) == pytest.approx(expected[0], abs=1e-12)
    symbols = [sympy.Symbol(name, real=True) for name in ("x0", "x1")]
    function = sympy.lambdify(symbols, model.sympy(index))
    np.testing.assert_allclose(function(*NEW.T), expected, rtol=1e-12, atol=1e-12)
    assert str(model.expression(index)) == row["equation"]
    assert model.expression(index).complexity == row["complexity"]
    assert model.latex(index)
    digits = re.findall(r"\d\.\d+", model.latex(index, digits=2))
    assert all(len(number) <= 4 for number in digits)


def test_formulas_are_undefined_alike() -> None:
    x = np.linspace(0.5, 3.0, 12)[:, None]
    model = quick(operators=("log",), constants=False, max_tokens=2).fit(x, np.log(x[:, 0]))
    assert model.functions_["expression"][0] == "log(x0)"
    asked = np.array([[-1.0], [0.0], [2.0]])
    expected = np.array([np.nan, np.nan, np.log(2.0)])
    np.testing.assert_allclose(model.predict(asked, index=0), expected)
    np.testing.assert_allclose(model.numpy()(asked), expected)
    np.testing.assert_allclose(model.jax()(jnp.asarray(asked)), expected)
    np.testing.assert_allclose(model.predict(asked), expected)
    np.testing.assert_array_equal(model.predict_undefined(asked), [1.0, 1.0, 0.0])
    mean, std = model.predict(asked, return_std=True)
    np.testing.assert_array_equal(np.isnan(std), np.isnan(mean))
    np.testing.assert_array_equal(
        np.isnan(model.predict_interval(asked)).all(axis=1), [True, True, False]
    )


@pytest.mark.parametrize("index", [99_999, -99_999, 1.5, "a"])
def test_no_such_formula(fitted: DVISRRegressor, index: Any) -> None:
    for ask in (fitted.sympy, fitted.latex, fitted.jax, fitted.numpy, fitted.expression):
        with pytest.raises(ValueError, match="index must be a row of functions_"):
            ask(index)
    with pytest.raises(ValueError, match="index must be a row of functions_"):
        fitted.predict(X, index=index)


def test_error_bars_are_for_observations(fitted: DVISRRegressor) -> None:
    with pytest.raises(ValueError, match="add return_std=True"):
        fitted.predict(X, index=0, y_err=np.ones(len(X)))
    with pytest.raises(ValueError, match="y_err is for observations"):
        fitted.predict_interval(X, kind="function", y_err=np.ones(len(X)))


# Predictions ----------------------------------------------------------------------------------


def test_a_row_does_not_depend_on_its_company(fitted: DVISRRegressor) -> None:
    together, std = fitted.predict(NEW, return_std=True)
    interval = fitted.predict_interval(NEW)
    for row in range(len(NEW)):
        alone, alone_std = fitted.predict(NEW[row : row + 1], return_std=True)
        assert alone[0] == pytest.approx(together[row], rel=1e-12)
        assert alone_std[0] == pytest.approx(std[row], rel=1e-12)
        np.testing.assert_allclose(
            fitted.predict_interval(NEW[row : row + 1])[0], interval[row], rtol=1e-12
        )
    np.testing.assert_allclose(fitted.predict(NEW[::-1]), together[::-1], rtol=1e-12)


def test_many_rows_are_worked_out_in_parts(
    fitted: DVISRRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted.predict(NEW, return_std=True), fitted.predict_interval(NEW)
    monkeypatch.setattr(predictive, "_MOST_VALUES", 2 * 8 * 2000)
    parts = fitted.predict(NEW, return_std=True), fitted.predict_interval(NEW)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-12)


def test_intervals_are_nested(fitted: DVISRRegressor) -> None:
    for kind in ("observation", "function"):
        inner = fitted.predict_interval(NEW, 0.1, kind=kind)
        for coverage in (0.3, 0.5, 0.9, 0.99):
            outer = fitted.predict_interval(NEW, coverage, kind=kind)
            assert (outer[:, 0] <= inner[:, 0]).all()
            assert (outer[:, 1] >= inner[:, 1]).all()
            inner = outer


def test_a_curve_is_surer_than_an_observation(fitted: DVISRRegressor) -> None:
    for coverage in (0.5, 0.9):
        curve = np.diff(fitted.predict_interval(NEW, coverage, kind="function"))
        assert (curve > 0.0).all()
        assert (curve < np.diff(fitted.predict_interval(NEW, coverage))).all()


def test_quantiles_rise_with_their_level(fitted: DVISRRegressor) -> None:
    levels = np.linspace(0.01, 0.99, 25)
    for kind in ("observation", "function"):
        found = fitted.predict_quantiles(NEW, levels.tolist(), kind=kind)
        assert found.shape == (len(NEW), 25)
        assert (np.diff(found, axis=1) >= 0.0).all()
    interval = fitted.predict_interval(NEW, 0.9)
    np.testing.assert_allclose(fitted.predict_quantiles(NEW, (0.05, 0.95)), interval, rtol=1e-9)
    turned = fitted.predict_quantiles(NEW, [0.95, 0.05])
    np.testing.assert_allclose(turned, interval[:, ::-1], rtol=1e-9)


def test_where_all_is_known_intervals_are_the_noises() -> None:
    """One formula without constants and noise that is given: a Normal about the curve."""
    model = quick(operators=(), constants=False, noise=0.7).fit(X[:, :1], X[:, 0])
    mean, std = model.predict(NEW[:, :1], return_std=True)
    np.testing.assert_allclose(mean, NEW[:, 0], rtol=1e-12)
    np.testing.assert_allclose(std, 0.7, rtol=1e-12)
    levels = np.array([0.005, 0.025, 0.1, 0.25, 0.4, 0.5, 0.6, 0.8, 0.95, 0.99])
    expected = NEW[:, :1] + 0.7 * norm.ppf(levels)
    found = model.predict_quantiles(NEW[:, :1], levels.tolist())
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_allclose(
        model.predict_quantiles(NEW[:, :1], levels.tolist(), kind="function"),
        np.broadcast_to(NEW[:, :1], (9, 10)),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"alpha": (0.0, 0.5)}, "alpha must be levels between 0 and 1"),
        ({"alpha": (0.5, 1.0)}, "alpha must be levels between 0 and 1"),
        ({"alpha": [[0.5]]}, "alpha must be levels between 0 and 1"),
        ({"alpha": (np.nan,)}, "alpha must be levels between 0 and 1"),
        ({"kind": "curve"}, "kind must be 'observation' or 'function'"),
    ],
)
def test_impossible_quantiles(fitted: DVISRRegressor, options: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        fitted.predict_quantiles(NEW, **options)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1.0, np.nan])
def test_impossible_coverage(fitted: DVISRRegressor, coverage: float) -> None:
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        fitted.predict_interval(NEW, coverage)


def test_samples_have_the_moments_of_the_prediction(fitted: DVISRRegressor) -> None:
    mean, std = fitted.predict(NEW, return_std=True)
    count = 40_000
    drawn = fitted.sample_y(NEW, count)
    assert drawn.shape == (len(NEW), count)
    assert (abs(drawn.mean(axis=1) - mean) < 5.0 * std / np.sqrt(count) + 1e-3 * std).all()
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=0.05)
    inside = fitted.predict_interval(NEW, 0.8)
    covered = (drawn > inside[:, :1]) & (drawn < inside[:, 1:])
    np.testing.assert_allclose(covered.mean(axis=1), 0.8, atol=0.02)


def test_samples_are_whole_data_sets(fitted: DVISRRegressor) -> None:
    """A column is one formula with one set of constants: rows of one column hang together."""
    rows = np.array([[5.0, 1.0], [5.0, 1.0], [6.0, 1.0]])
    drawn = fitted.sample_y(rows, 5000)
    curves = drawn[1:] - drawn[:1]
    _, std = fitted.predict(rows, return_std=True)
    assert curves[0].std() < 2.0 * fitted.noise_["mean"] + 2.0 * fitted.noise_["std"]
    assert np.corrcoef(drawn)[0, 2] > 0.2
    assert drawn[0].std() == pytest.approx(std[0], rel=0.1)
    np.testing.assert_array_equal(fitted.sample_y(rows, 7), fitted.sample_y(rows, 7))
    assert (fitted.sample_y(rows, 7, random_state=1) != fitted.sample_y(rows, 7)).any()
    for bad in (0, -1):
        with pytest.raises(ValueError, match="n_samples must be a whole number"):
            fitted.sample_y(rows, bad)


def test_samples_of_the_prior() -> None:
    model = quick(operators=(), constants=False, noise=0.5).fit(X[:, :1], X[:, 0])
    drawn = model.sample_prior_y(NEW[:, :1], 20_000)
    assert drawn.shape == (len(NEW), 20_000)
    np.testing.assert_allclose(drawn.mean(axis=1), NEW[:, 0], atol=0.02)
    np.testing.assert_allclose(drawn.std(axis=1), 0.5, rtol=0.05)
    constants = quick(
        operators=(), max_tokens=1, constant_prior="normal:3,2", noise=1.0
    ).fit(X[:, :1], Y)  # fmt: skip
    drawn = constants.sample_prior_y(np.zeros((1, 1)), 20_000)[0]
    # Half of the trees are x0 = 0, and half are c.
    assert drawn.mean() == pytest.approx(1.5, abs=0.1)
    assert drawn.var() == pytest.approx(1.0 + 0.5 * (4.0 + 9.0) - 1.5**2, rel=0.1)


# Searches, where there are too many trees to list ---------------------------------------------
# One grammar and one number of samples, so that all of them share what JAX compiles.

LINE = np.linspace(-2.0, 3.0, 30)[:, None]
ON_LINE = 1.57 * LINE[:, 0] + 0.83 + np.random.default_rng(0).normal(0.0, 0.1, 30)


def searching(**options: Any) -> DVISRRegressor:
    small = SearchSettings(table_functions=2_000, table_contexts=100, likeliest_trees=1_000)
    chosen = {
        "max_tokens": 7, "num_steps": 4, "num_samples": 32, "random_state": 0,
        "settings": FitSettings(search=small),
    }  # fmt: skip
    return DVISRRegressor(**{**chosen, **options})


@pytest.fixture(scope="module")
def searched() -> DVISRRegressor:
    model = searching(warm_start=True)
    return model.fit(LINE, ON_LINE)


def test_a_search_finds_the_line(searched: DVISRRegressor) -> None:
    first = searched.functions_.iloc[0]
    assert first["expression"] == "x0 * c + c"
    assert first["probability"] > 0.5
    slope, offset = np.polyfit(LINE[:, 0], ON_LINE, 1)
    assert first["constants"] == pytest.approx((slope, offset), abs=0.01)
    np.testing.assert_allclose(searched.predict(LINE), slope * LINE[:, 0] + offset, atol=0.05)
    assert searched.noise_["mean"] == pytest.approx(0.1, rel=0.3)
    doubts = [check.name for check in searched.verdict_.checks if check.grade]
    assert doubts == []  # four steps are few, but the last two moved nothing


def test_the_diagnostics_of_a_search(searched: DVISRRegressor) -> None:
    found = searched.diagnostics_
    assert found["exact"] is False
    assert found["num_trees_visited"] < found["num_allowed"]
    assert {
        "island_agreement", "total_variation", "effective_sample_size", "largest_weight", "moved",
        "unseen_share", "unseen_mass", "log_evidence_importance", "log_evidence_visited", "elbo",
    } <= set(found)  # fmt: skip
    for name in ("island_agreement", "total_variation", "moved", "unseen_share", "unseen_mass"):
        assert 0.0 <= found[name] <= 1.0
    assert searched.elbo_ == found["elbo"]
    assert searched.elbo_ <= searched.log_evidence_ + 1.0
    assert found["log_evidence_visited"] <= searched.log_evidence_ + 0.05
    history = searched.history_
    assert history["step"].tolist() == list(range(1, 5))
    assert (history["log_evidence"].diff().dropna() >= -1e-9).all()
    assert (history["num_trees"].diff().dropna() >= 0).all()
    assert searched.n_iter_ == 4


def test_the_same_seed_gives_the_same_search(searched: DVISRRegressor) -> None:
    """With other threads too, and without a warm start."""
    again = searching(n_jobs=1).fit(LINE, ON_LINE)
    assert again._fitter is None  # only a warm start keeps what was visited
    pd.testing.assert_frame_equal(again.functions_, searched.functions_, check_exact=True)
    pd.testing.assert_frame_equal(again.posterior_, searched.posterior_, check_exact=True)
    assert again.log_evidence_ == searched.log_evidence_
    np.testing.assert_array_equal(again.predict(LINE), searched.predict(LINE))
    copy = pickle.loads(pickle.dumps(again))  # noqa: S301
    np.testing.assert_array_equal(copy.predict(LINE), searched.predict(LINE))
    np.testing.assert_array_equal(copy.sample_y(LINE, 5), searched.sample_y(LINE, 5))
    assert not hasattr(copy, "_fitter")


class Interrupting(io.StringIO):
    """A standard error that sends this process a signal at the second step that it is told of."""

    def __init__(self, times: int, kind: signal.Signals = signal.SIGINT) -> None:
        super().__init__()
        self._times, self._kind = times, kind

    def write(self, text: str) -> int:
        if "step 2 of " in text:
            for _ in range(self._times):
                os.kill(os.getpid(), self._kind)
        return super().write(text)


def test_an_interrupt_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with fewer samples a step visits fewer trees; and progress goes to standard error."""
    stream = Interrupting(1)
    monkeypatch.setattr(sys, "stderr", stream)
    before = signal.getsignal(signal.SIGINT)
    model = searching(num_steps=100_000, num_samples=16, verbose=1).fit(LINE, ON_LINE)
    assert signal.getsignal(signal.SIGINT) is before
    assert model.interrupted_
    assert model.n_iter_ == len(model.history_) == 2
    assert model.predict(LINE).shape == (30,)
    assert model.functions_["expression"][0] == "x0 * c + c"
    assert model.diagnostics_["verdict"] == "do-not-trust"
    assert "stopped early, after 2 steps" in model.diagnostics_["reasons"][0]
    found = r"[\d,]+ functions visited, log evidence -?\d+\.\d+, \d+ s"
    assert re.search(rf"step 1 of 100000 made, {found}", stream.getvalue())
    left = r"about [\d.]+ (s|h|min \d\d s) of steps left, then weighing, best so far: "
    assert re.search(left, stream.getvalue())


def test_a_second_interrupt_is_obeyed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Interrupting(2))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        searching(num_steps=100_000, verbose=1).fit(LINE, ON_LINE)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_that_is_told_to_end_ends_with_its_fit_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stderr", Interrupting(1, signal.SIGTERM))
    model = searching(num_steps=100_000, num_samples=16, verbose=1, run_dir=tmp_path / "run")
    with pytest.raises(SystemExit) as ended:
        model.fit(LINE, ON_LINE)
    assert ended.value.code == 143
    assert model.interrupted_
    assert load(tmp_path / "run").n_iter_ == model.n_iter_ == 2


def test_a_fit_in_a_thread_of_its_own() -> None:
    """Signals are the main thread's alone."""
    found: list[DVISRRegressor] = []
    thread = threading.Thread(target=lambda: found.append(quick().fit(X, Y)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0].predict(NEW), quick().fit(X, Y).predict(NEW))


def test_max_time() -> None:
    """A hundred thousand steps would take an hour."""
    began = time.perf_counter()
    model = searching(num_steps=100_000, max_time=3).fit(LINE, ON_LINE)
    assert time.perf_counter() - began < 120.0
    assert model.interrupted_
    assert model.n_iter_ < 100_000
    assert model.functions_["expression"][0] == "x0 * c + c"


@pytest.mark.parametrize("max_time", [1e-6, 0.01])
def test_hardly_any_time_leaves_a_fit(max_time: float) -> None:
    model = quick(max_time=max_time).fit(X, Y)
    assert model.functions_["expression"][0] in ("x0 * c", "x0 + c")
    assert np.isfinite(model.predict(X, return_std=True)).all()


def test_num_samples_and_num_steps(searched: DVISRRegressor) -> None:
    """Half as many samples and a quarter of the steps: fewer trees."""
    fewer = searching(num_samples=16, num_steps=1).fit(LINE, ON_LINE)
    assert fewer.n_iter_ == 1
    assert not fewer.interrupted_
    assert fewer.history_["num_trees"].iloc[0] < searched.history_["num_trees"].iloc[0]
    assert fewer.history_["num_trees"].iloc[-1] < searched.history_["num_trees"].iloc[-1]


def test_a_warm_start_goes_on(searched: DVISRRegressor) -> None:
    """The last test that uses this model, since it is fitted anew."""
    evidence, error, trees = (
        searched.log_evidence_, searched.log_evidence_stderr_,
        searched.diagnostics_["num_trees_visited"],
    )  # fmt: skip
    searched.set_params(num_steps=2).fit(LINE, ON_LINE)
    assert searched.n_iter_ == 6
    assert searched.history_["step"].tolist() == list(range(1, 7))
    assert (searched.history_["seconds"].diff().dropna() > 0.0).all()
    assert searched.diagnostics_["num_trees_visited"] > trees
    assert searched.log_evidence_ >= evidence - 4.0 * error
    seed = searched._seed
    searched.set_params(random_state=77, n_jobs=1).fit(LINE, ON_LINE)
    assert searched._seed == seed, "the search that went on has the seed that it began with"
    assert isinstance(searched._fitter, SearchFitter)
    assert searched._fitter.search is not None
    assert searched._fitter.search.engine.num_threads == 1
    searched.set_params(num_steps=1).fit(LINE, -ON_LINE)  # other data
    assert searched.n_iter_ == 1
    assert searched.predict(LINE)[0] == pytest.approx(-ON_LINE[0], abs=0.5)


@pytest.mark.parametrize(
    ("name", "value"), [("settings", {"foo": 1}), ("max_time", "5"), ("verbose", "x")]
)
def test_parameters_of_another_kind_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be .*, not {re.escape(repr(value))}"):
        quick(**{name: value}).fit(X, Y)


def test_rows_where_most_of_the_posterior_is_undefined_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all of it is, the mean is NaN, which says so itself."""
    model = quick().fit(X, Y)
    mean, undefined = np.array([1.0, 2.0, np.nan]), np.array([0.9, 0.1, 1.0])
    monkeypatch.setattr(predictive, "moments", lambda *asked: (mean, mean, undefined))
    with pytest.warns(UserWarning, match="at 1 of 3 rows most of the posterior is undefined"):
        found = model.predict(X[:3])
    np.testing.assert_array_equal(found, mean)

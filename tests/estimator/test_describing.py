"""A fitted model as text, as HTML and as a figure; parameters under other names; saving at once."""

from __future__ import annotations

import ast
import inspect
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from dvisr import DVISRRegressor, load, plots
from dvisr.constants import AbstractConstantPrior, constant_prior
from dvisr.estimator.describing import _call
from dvisr.estimator.parameters import changed, parameters_of
from dvisr.neighbours import OURS
from dvisr.posterior import predictive
from dvisr.posterior.of_function import function_draws
from dvisr.reporting.words import share
from dvisr.runs import folder

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def quick(**options: object) -> DVISRRegressor:
    return DVISRRegressor(operators=("+", "*"), max_tokens=5, random_state=0, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fitted() -> DVISRRegressor:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({HOSTILE: rng.uniform(0.5, 2.0, 20)})
    y = pd.Series(1.5 * X[HOSTILE] + 0.4 + 0.05 * rng.standard_normal(20), name="force <N>")
    return quick().fit(X, y)


def test_the_summary_has_what_was_found(fitted: DVISRRegressor) -> None:
    text = fitted.summary(top=1)
    first = fitted._posterior.functions[0]
    assert "Functions of force <N>" in text
    assert share(first.probability) in text
    formula, listed = text.splitlines()[1:3]
    for value, shown in zip(first.weighed.mode, listed.split("; "), strict=True):
        own = shown.split()[0]  # the number in the formula is that in the list
        assert own.lstrip("-") in formula.split()
        assert float(own) == pytest.approx(value, rel=1e-3)
    assert "most probable values, with central 90 % intervals" in text
    assert f"log evidence {fitted.log_evidence_:.4f}" in text
    assert f"verdict: {fitted.verdict_.word}" in text
    assert "was everything found?" in text
    assert fitted.summary(top=99).count("\n") >= text.count("\n")


def test_the_summary_names_what_is_doubtful() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 30)
    y = 2.0 * x + 0.01 * rng.standard_normal(30)
    y[7] += 5.0
    text = quick().fit(x[:, None], y).summary()
    assert "verdict: ok" not in text
    assert "    outliers: " in text
    assert "noise 'student'" in text


def test_repr_of_an_unfitted_model_is_scikit_learns() -> None:
    model = quick()
    assert repr(model) == BaseEstimator.__repr__(model)
    assert "sk-estimator" in model._repr_html_()


def test_repr_of_a_fitted_model_has_verdict_and_functions(fitted: DVISRRegressor) -> None:
    first, *rest = repr(fitted).splitlines()
    assert first.startswith("DVISRRegressor(")
    assert f"verdict {fitted.verdict_.word}" in rest[0]
    assert f"{fitted.functions_['probability'][0]:.3f}" in rest[1]
    assert str(fitted.functions_["equation"][0]) in rest[1]


def test_html_is_escaped(fitted: DVISRRegressor) -> None:
    for page in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert "<img" not in page
        assert "</script>" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert "force &lt;N&gt;" in page
        assert page.count("<math>") == min(5, len(fitted.functions_))


def test_the_figure_has_data_functions_and_residuals(fitted: DVISRRegressor) -> None:
    data, functions, residuals = fitted.plot().axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()) for line in data.lines}
    expected = np.c_[fitted._problem.X[:, 0], fitted._problem.data.y]
    np.testing.assert_array_equal(drawn["data"], expected)
    at = pd.DataFrame(drawn["posterior mean"][:, :1], columns=[HOSTILE])
    np.testing.assert_allclose(drawn["posterior mean"][:, 1], fitted.predict(at), rtol=1e-12)
    widths = [bar.get_width() for bar in functions.patches]  # type: ignore[attr-defined]
    assert widths == fitted.functions_["probability"].head(6).tolist()
    assert data.get_xlabel() == HOSTILE
    assert data.get_ylabel() == "force <N>"
    left = np.asarray(residuals.lines[-1].get_ydata())
    unit = np.median(fitted._posterior.draws.noise_factor) * fitted._posterior.draws.scale
    mean = fitted.predict(pd.DataFrame(expected[:, :1], columns=[HOSTILE]))
    np.testing.assert_allclose(left, (expected[:, 1] - mean) / unit)


def test_the_figure_of_several_columns_has_observed_against_predicted() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (12, 2))
    model = quick().fit(X, X[:, 0] + 0.1 * rng.standard_normal(12), y_err=0.1)
    drawn = model.plot().axes[0].lines
    lines = {str(line.get_label()): np.asarray(line.get_xydata()) for line in drawn}
    data = model._problem.data
    np.testing.assert_allclose(lines["data"], np.c_[model.predict(data.X), data.y], rtol=1e-12)


def test_nothing_is_shown_of_a_model_that_was_not_fitted(tmp_path: Path) -> None:
    for ask in (quick().summary, quick().plot, lambda: quick().report(tmp_path / "a.html")):
        with pytest.raises(NotFittedError):
            ask()


def test_the_table_of_functions_is_latex(fitted: DVISRRegressor) -> None:
    table = fitted.functions_[["equation", "probability"]].to_latex(escape=True)
    assert r"\begin{tabular}" in table
    assert f"{fitted.functions_['probability'][0]:.6f}"[:6] in table


# One function ---------------------------------------------------------------------------------


def test_draws_of_one_function(fitted: DVISRRegressor) -> None:
    tree = fitted.to_datatree(function=0)
    weighed = fitted._posterior.functions[0].weighed
    draws = np.asarray(tree["posterior"]["c0"])
    assert tree.attrs["expression"] == fitted.functions_["expression"][0]
    assert draws.mean() == pytest.approx(weighed.mean[0], abs=0.1 * weighed.std[0])
    with pytest.raises(ValueError, match="leave out the other"):
        fitted.to_datatree(0, function=0)
    with pytest.raises(ValueError, match="index must be a row of functions_"):
        fitted.to_datatree(function=99)


def test_the_spread_of_one_function_is_that_of_its_line() -> None:
    """Of a line with known noise: sigma^2 (1 + x (X'X)^-1 x), its prior being wide."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 15)
    y = 1.5 * x + 0.4 + 0.1 * rng.standard_normal(15)
    model = quick(noise=0.1, constant_prior="normal:0,100").fit(x[:, None], y)
    index = model.functions_["expression"].tolist().index("x0 * c + c")
    new = np.array([[0.0], [0.5], [3.0]])
    values, std = model.predict(new, index=index, return_std=True)
    np.testing.assert_array_equal(values, model.predict(new, index=index))
    design, at = np.c_[x, np.ones(15)], np.c_[new[:, 0], np.ones(3)]
    hat = np.einsum("ij,jk,ik->i", at, np.linalg.inv(design.T @ design), at)
    np.testing.assert_allclose(std, 0.1 * np.sqrt(1.0 + hat), rtol=0.03)
    with pytest.raises(ValueError, match="add return_std=True"):
        model.predict(new, index=0, y_err=0.1)


def test_draws_of_one_function_have_its_noise(fitted: DVISRRegressor) -> None:
    own = function_draws(fitted._problem, fitted._posterior, fitted._posterior.functions[0])
    sigma = np.asarray(fitted.to_datatree(function=0)["posterior"]["sigma"])
    assert np.median(own.noise_factor) * own.scale == pytest.approx(np.median(sigma), rel=0.03)
    _, std, _ = predictive.moments(own, fitted._problem.X)
    assert (std > 0.9 * own.scale * own.noise_factor.mean()).all()


# Input ----------------------------------------------------------------------------------------


def test_one_error_bar_is_one_for_every_row() -> None:
    x = np.linspace(0.0, 1.0, 12)
    y = 2.0 * x + 0.1 * np.sin(40.0 * x)
    one = quick(noise=1.0).fit(x[:, None], y, y_err=0.1)
    each = quick(noise=1.0).fit(x[:, None], y, y_err=np.full(12, 0.1))
    assert one.functions_.equals(each.functions_)
    with pytest.raises(ValueError, match="y_err must be above zero"):
        quick().fit(x[:, None], y, y_err=-0.1)


def test_priors_of_constants_that_are_proposed_are_understood() -> None:
    proposed = re.findall(r'"([\w:.,-]+)"', OURS["const_range"])
    assert len(proposed) == 2
    for text in proposed:
        assert isinstance(constant_prior(text), AbstractConstantPrior)


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_neighbours_word_is_answered_with_ours(name: str) -> None:
    known = set(inspect.signature(DVISRRegressor).parameters)
    assert name not in known
    with pytest.raises(TypeError, match=f"no parameter '{name}': use ") as told:
        DVISRRegressor(**{name: 1})  # type: ignore[arg-type]
    named = str(told.value).split(": use ")[1]
    assert any(own in named for own in (*known, "model.", "predict"))
    with pytest.raises(ValueError, match=f"no parameter '{name}': use "):
        quick().set_params(**{name: 1})


def test_a_misspelt_parameter_is_answered_with_the_right_one() -> None:
    with pytest.raises(TypeError, match="did you mean 'max_tokens'"):
        DVISRRegressor(max_token=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="it has operators, "):
        DVISRRegressor(zzz=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="did you mean 'max_tokens'"):
        DVISRRegressor().set_params(max_token=3)


# Saving ---------------------------------------------------------------------------------------


def test_names_and_command_are_saved(fitted: DVISRRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    again = load(tmp_path)
    assert again.summary() == fitted.summary()
    assert repr(again) == repr(fitted)
    assert again._subject().target == "force <N>"


def test_threads_may_save_at_once(fitted: DVISRRegressor, tmp_path: Path) -> None:
    problems: list[BaseException] = []
    start = threading.Barrier(8)

    def work() -> None:
        try:
            start.wait()
            for _ in range(5):
                fitted.save(tmp_path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert load(tmp_path).functions_.equals(fitted.functions_)
    assert folder.verify(tmp_path) == {}
    assert folder.strangers(tmp_path) == []


# The page ---------------------------------------------------------------------------------------


def test_the_examples_of_the_page_run(fitted: DVISRRegressor) -> None:
    """The last of docs/report.md, line by line what it says."""
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    for call in ("plot_band", "plot_agreement", "plot_functions", "plot_constants",
                 "plot_residuals", "plot_calibration", "plot_evidence", "plot_front"):  # fmt: skip
        assert f"`{call}`" in page
        assert callable(getattr(plots, call))
    draws: Any = fitted.to_datatree(function=0)["posterior"]
    both = np.column_stack([draws["c0"][0], draws["c1"][0]])
    assert 'np.column_stack([draws["c0"][0], draws["c1"][0]])' in page
    np.testing.assert_array_equal(
        plots.plot_constants(both, ["c0", "c1"])[1, 0].lines[0].get_xydata(), both
    )
    front = {name: fitted.front_[name].to_numpy() for name in ("complexity", "loss", "probability")}
    axes = plots.plot_front(front["complexity"], front["loss"], front["probability"])
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_xdata()), front["complexity"])


def test_the_call_that_is_shown_is_the_call() -> None:
    """Python that makes the same estimator, whatever its parameters hold."""
    model = quick(run_dir="a folder of many words " * 6, max_constants=None, tree_prior="uniform")
    text = _call(changed(model))
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    made: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    assert DVISRRegressor(**made).get_params() == model.get_params()
    assert "\n" in text
    assert text.count("\n") < len(made)


def test_a_subclass_may_take_more_words() -> None:
    class Own(DVISRRegressor):
        def __init__(self, max_tokens: int = 3, **others: Any) -> None:
            super().__init__(max_tokens=max_tokens, **others)

    assert parameters_of(Own()) == {"max_tokens": 3}

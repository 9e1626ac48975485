"""Saved models: the same answers again, and nothing from a file that is not as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dvisr import DVISRRegressor, load, new_operator
from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.estimator import answers
from dvisr.estimator.saving import FILE
from dvisr.marginal import Weighed

# That rows were seen several times, or have no noise, is a doubt, and not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")


@pytest.fixture(scope="module")
def fitted() -> tuple[DVISRRegressor, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(0.5, 2.0, 15), "x y": rng.uniform(0.5, 2.0, 15)})
    y = 1.5 * X["a"] + 0.05 * rng.standard_normal(15)
    model = DVISRRegressor(operators=("+", "*"), max_tokens=3, random_state=0)
    return model.fit(X, y, sample_weight=np.arange(15) % 3), X


def test_a_model_that_was_saved_answers_the_same(
    fitted: tuple[DVISRRegressor, pd.DataFrame], tmp_path: Path
) -> None:
    model, X = fitted
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.functions_.equals(model.functions_)
    assert again.posterior_.equals(model.posterior_)
    assert again.diagnostics_ == model.diagnostics_
    assert again.log_evidence_ == model.log_evidence_
    one, two = (m.to_datatree(tree=0)["posterior"] for m in (again, model))
    for name in ("c0", "sigma"):  # draws of one tree's constants are rounded
        np.testing.assert_allclose(one[name], two[name], rtol=1e-6)


def test_a_column_may_be_called_number(tmp_path: Path) -> None:
    """Which is also the mark of a number that JSON has no word for."""
    x = np.linspace(1.0, 2.0, 12)
    model = DVISRRegressor(operators=("+", "*"), max_tokens=3, random_state=0)
    model.fit(pd.DataFrame({"number": x}), 1.5 * x + 0.01 * np.cos(9.0 * x)).save(tmp_path / "run")
    assert load(tmp_path / "run").inclusion_.to_dict() == model.inclusion_.to_dict()
    strange = {"number": float("nan"), "other": {"number": float("inf")}, "more": [-np.inf]}
    again = answers.restored(answers.finite(strange))
    assert np.isnan(again["number"])
    assert again["other"] == {"number": np.inf}
    assert again["more"] == [-np.inf]


@pytest.mark.parametrize("furthest", [3.0, 1e30, 1e60, 1e300, -1e308])
def test_one_draw_far_away_leaves_the_others_their_digits(furthest: float) -> None:
    """The tail of a wide prior of constants reaches far; an interval must not shrink to a point."""
    rng = np.random.default_rng(0)
    constants = np.append(1e-5 + 1e-4 * rng.standard_normal(999), furthest)[:, None]
    weighed = Weighed(
        log_marginal=0.0, error=0.0, method="importance sampling", mode=np.array([1e-5]),
        curvature=np.eye(1), constants=constants, log_weights=np.full(1000, -np.log(1000.0)),
        log_q=np.zeros(1000),
    )  # fmt: skip
    kept = answers._Kept()
    kept.number(weighed)
    again = answers._weighed(0, kept.rows[0], kept.arrays)
    np.testing.assert_allclose(again.constants, constants, rtol=1e-6, atol=1e-11)
    levels = np.array([0.05, 0.95])
    np.testing.assert_allclose(again.quantiles(levels), weighed.quantiles(levels), rtol=1e-6)


def test_a_prior_of_formulas_that_are_gone(tmp_path: Path) -> None:
    """The model has the prior's numbers, not the file's name alone."""
    formulas = tmp_path / "formulas.txt"
    formulas.write_text("a * x + b\na * exp(x)\n")
    x = np.linspace(0.5, 2.0, 12)
    y = 1.5 * x + 0.3 + 0.01 * np.random.default_rng(0).standard_normal(12)
    model = DVISRRegressor(
        operators=("+", "*", "exp"), max_tokens=4, tree_prior=f"science:{formulas}", random_state=0
    ).fit(x[:, None], y)
    model.save(tmp_path / "run")
    formulas.unlink()
    again = load(tmp_path / "run")
    assert again.functions_.equals(model.functions_)
    assert again._problem.is_same_as(model._problem)
    one, two = (m.sample_prior_y(x[:, None], 5, random_state=1) for m in (model, again))
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_a_fit_of_forty_rows_is_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (40, 2))
    y = 2.5 * X[:, 0] * np.exp(-0.7 * X[:, 1]) + 0.3 + 0.05 * rng.standard_normal(40)
    DVISRRegressor(random_state=0, run_dir=tmp_path).fit(X, y)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5_000_000


def test_run_dir_saves(tmp_path: Path) -> None:
    X = np.linspace(0.0, 1.0, 8)[:, None]
    DVISRRegressor(operators=("+",), max_tokens=3, run_dir=tmp_path / "r").fit(X, 2.0 * X[:, 0])
    assert load(tmp_path / "r").n_features_in_ == 1


def test_a_folder_that_can_not_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    X = np.linspace(0.0, 1.0, 8)[:, None]
    model = DVISRRegressor(operators=("+",), max_tokens=3, run_dir=tmp_path / "file" / "run")
    with pytest.raises(ValueError, match=r"file/run' can't be made \(.*\): choose another one"):
        model.fit(X, 2.0 * X[:, 0])
    model.set_params(run_dir=None).fit(X, 2.0 * X[:, 0])
    with pytest.raises(ValueError, match="can't be made"):
        model.save(tmp_path / "file" / "run")


@pytest.mark.parametrize(
    "prior", [Normal(0.0, 3.0), Normal(np.float64(1.5), 2), Decades(1e-6, 1e6), Decades()]
)
def test_a_prior_of_constants_that_is_an_object_is_kept(
    tmp_path: Path, prior: AbstractConstantPrior
) -> None:
    X = np.linspace(0.0, 1.0, 8)[:, None]
    words: dict[str, Any] = {"operators": ("+",), "max_tokens": 3, "random_state": 0}
    made = DVISRRegressor(**words, constant_prior=prior, run_dir=tmp_path).fit(X, 2.0 * X[:, 0])
    again = load(tmp_path)
    assert again._problem.constant_prior == prior
    assert again.log_evidence_ == made.log_evidence_


@pytest.mark.parametrize("damage", ["cut", "flip", "foreign", "missing"])
def test_a_damaged_file_is_one_clear_error(
    fitted: tuple[DVISRRegressor, pd.DataFrame], tmp_path: Path, damage: str
) -> None:
    fitted[0].save(tmp_path)
    file = tmp_path / FILE
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-10] ^= 0xFF
        file.write_bytes(content)
    elif damage == "foreign":
        file.write_bytes(b"not a model")
    else:
        file.unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors is not as it was written"):
        load(tmp_path)


def test_an_operator_of_ones_own_is_refused(tmp_path: Path) -> None:
    from dvisr.estimator.parameters import plain_settings

    own = new_operator("twice", 1, lambda np, x: 2.0 * x)
    with pytest.raises(ValueError, match="'twice' is code of your own"):
        plain_settings({"operators": ("+", own)})

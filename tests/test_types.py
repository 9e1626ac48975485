"""Bad tables are refused by name; odd but sound ones are taken."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from dvisr import exact_posterior
from dvisr.types import Dataset

Y = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 2, 3]),
        np.array([True, False, True]),
        np.array([1.0, 2.0, 3.0], dtype=np.float32),
        np.array([1.0, 2.0, 3.0], dtype=np.float16),
        np.array([1, 2.5, True], dtype=object),
        np.array([decimal.Decimal("1.5"), 2, 3], dtype=object),
        pd.array([1, 2, 3], dtype="Int64"),
        pd.array([True, False, True], dtype="boolean"),
        np.array([1e300, -1e300, 1e-300]),
    ],
)
def test_sound_columns(column: object) -> None:
    data = Dataset.create(pd.DataFrame({"a": column}), Y)
    assert data.X.dtype == np.float64
    assert data.X.shape == (3, 1)
    assert data.feature_names == ("a",)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0, np.nan, 3.0], "column 'a' has a missing value in row 2"),
        ([1.0, 2.0, np.inf], "column 'a' has an infinite value in row 3"),
        (["1", "2", "3"], "column 'a' holds text"),
        (np.array([1, "b", 3], dtype=object), "column 'a' holds text in row 2"),
        (np.array([1, None, 3], dtype=object), "column 'a' has a missing value in row 2"),
        (np.array([1, [2], 3], dtype=object), "in row 2, which is no number"),
        (np.array([1, 10**400, 3], dtype=object), "in row 2, which is no number"),
        (pd.array([1, None, 3], dtype="Int64"), "column 'a' has a missing value in row 2"),
        ([1j, 2j, 3j], "column 'a' holds complex numbers"),
        (pd.date_range("2020-01-01", periods=3), "column 'a' holds dates"),
        ([datetime.date(2020, 1, 1)] * 3, "column 'a' has .* in row 1, which is no number"),
        (pd.Categorical(["u", "v", "u"]), "column 'a' holds text"),
    ],
)
def test_bad_columns(column: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset.create(pd.DataFrame({"a": column}), Y)
    with pytest.raises(ValueError, match=message.replace("column 'a'", "y")):
        Dataset.create(np.ones((3, 1)), pd.Series(column))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(3), Y, "reshape a single column"),
        (np.ones((3, 2, 2)), Y, "3 dimension"),
        (np.ones((2, 1)), Y, "X has 2 rows and y has 3"),
        (np.ones((0, 1)), [], "no rows"),
        (np.ones((3, 0)), Y, "no columns"),
        (np.ones((3, 1)), np.ones((3, 2)), "y must be one column"),
        (np.ones((3, 1)), 5.0, "y must be one column"),
        (pd.DataFrame([[1, 2]] * 3, columns=["a", "a"]), Y, "two columns are called 'a'"),
    ],
)
def test_bad_shapes(X: object, y: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset.create(X, y)


@pytest.mark.parametrize(
    ("bars", "message"),
    [
        ([1.0, 0.0, 1.0], "above zero, but is 0 in row 2"),
        ([1.0, -1.0, 1.0], "above zero, but is -1 in row 2"),
        ([1.0, 1.0], "y_err has 2 rows and y has 3"),
        ([1.0, np.nan, 1.0], "y_err has a missing value"),
    ],
)
def test_bad_error_bars(bars: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset.create(np.ones((3, 1)), Y, bars)


def test_names() -> None:
    assert Dataset.create(np.ones((3, 2)), Y).feature_names == ("x0", "x1")
    with pytest.raises(ValueError, match="2 columns need as many feature names"):
        Dataset.create(np.ones((3, 2)), Y, feature_names=["a"])
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        Dataset.create(np.ones((3, 2)), Y, feature_names=["a", "a"])
    assert Dataset.create(pd.DataFrame({0: Y}), Y).feature_names == ("0",)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("constants", [False, True])
def test_few_rows_constant_and_duplicate_columns(rows: int, constants: bool) -> None:
    """More columns than rows, a column of one value, the same column twice, a constant y."""
    x = np.linspace(0.5, 1.0, rows)
    X = np.stack([x, x, np.full(rows, 2.0)], axis=1)
    posterior = exact_posterior(
        X,
        np.full(rows, 2.0),
        operators=["+", "*"],
        max_tokens=3,
        constants=constants,
        noise="infer",
    )
    assert np.isfinite(posterior.log_evidence)
    table = posterior.table(100)
    assert table["probability"].sum() == pytest.approx(1.0, abs=1e-6)
    assert "x2" in set(table["expression"])


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales(scale: float) -> None:
    x = np.linspace(0.5, 1.0, 6)
    posterior = exact_posterior(
        (scale * x)[:, None], scale * x, operators=["+", "*"], max_tokens=3, noise="infer"
    )
    assert posterior.table(1)["expression"][0] == "x0"


@pytest.mark.parametrize(
    "name", ["I", "E", "N", "lambda", "x y", "%", "ü", "<script>", "=cmd()", "c"]
)
def test_any_column_name(name: str) -> None:
    frame = pd.DataFrame({name: [0.1, 0.5, 0.9, 1.3]})
    posterior = exact_posterior(
        frame, [0.2, 1.0, 1.8, 2.6], operators=["+"], max_tokens=3, noise=0.1
    )
    shown = name if name.isidentifier() and name.isascii() and name != "c" else f"`{name}`"
    assert posterior.table(1)["expression"][0] == f"{shown} + {shown}"


def test_masked_values_are_missing() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(ValueError, match="y has a missing value in row 2"):
        Dataset.create(np.ones((3, 1)), masked)
    with pytest.raises(ValueError, match="column 'x0' has a missing value in row 2"):
        Dataset.create(masked.reshape(3, 1), Y)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_token": 3}, TypeError, "did you mean 'max_tokens'"),
        ({"max_tokens": float("inf")}, ValueError, "max_tokens must be a whole number"),
        ({"noise": None}, ValueError, "noise must be"),
        ({"operators": None}, ValueError, "operators must be"),
        ({"constraints": None}, ValueError, "a constraint must be a name or a rule"),
        ({"constant_prior": "nrmal"}, ValueError, "did you mean 'normal'"),
    ],
)
def test_wrong_settings(settings: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        exact_posterior(np.ones((3, 1)), Y, **settings)  # type: ignore[arg-type]


def test_the_text_at_fault_is_named() -> None:
    column = np.array(["2", "-", "6"], dtype=object)
    with pytest.raises(ValueError, match="y holds text in row 2 \\('-'\\)"):
        Dataset.create(np.ones((3, 1)), column)
    with pytest.raises(ValueError, match="constants must be True or False"):
        exact_posterior(np.ones((3, 1)), Y, constants="no")  # type: ignore[arg-type]

"""The estimator among scikit-learn's, and what it makes of odd tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sympy
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dvisr.estimator import DVISRRegressor, FitWarning

# The verdict on a fit is not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")


def quick(**options: Any) -> DVISRRegressor:
    """All of its trees are enumerated, so that a fit takes no time."""
    chosen = {"operators": ("+", "*"), "max_tokens": 3, "max_constants": 1, "random_state": 0}
    return DVISRRegressor(**{**chosen, **options})


@parametrize_with_checks([quick()])  # type: ignore[untyped-decorator]
def test_scikit_learn(estimator: DVISRRegressor, check: Callable[[Any], None]) -> None:
    check(estimator)


# Data that every test may use: y is twice the first column, and a little noise.
RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (12, 2))
Y = 2.0 * X[:, 0] + RNG.normal(0.0, 0.1, 12)
FRAME = pd.DataFrame(X, columns=["a", "b"])


def assert_same(one: DVISRRegressor, two: DVISRRegressor, rows: Any = X) -> None:
    """To the last bit."""
    pd.testing.assert_frame_equal(one.functions_, two.functions_, check_exact=True)
    pd.testing.assert_frame_equal(one.posterior_, two.posterior_, check_exact=True)
    assert one.log_evidence_ == two.log_evidence_
    assert one.noise_ == two.noise_
    np.testing.assert_array_equal(one.predict(rows), two.predict(rows))
    assert one.diagnostics_["r2"] == pytest.approx(two.diagnostics_["r2"], abs=1e-12)


# Company --------------------------------------------------------------------------------------


def test_in_a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), quick(operators=("+", "*"), max_tokens=5))
    model.fit(X, Y)
    assert model.score(X, Y) > 0.9
    np.testing.assert_array_equal(
        model.predict(X), model[-1].predict(StandardScaler().fit_transform(X))
    )


def test_in_a_grid_search() -> None:
    grid = GridSearchCV(quick(), {"max_tokens": [1, 3]}, cv=3)
    grid.fit(X, Y)
    assert grid.best_params_ == {"max_tokens": 3}  # one token can't double a column
    assert grid.best_estimator_.max_tokens == 3
    assert grid.predict(X).shape == (12,)


def test_in_cross_validation() -> None:
    found = cross_val_predict(quick(), X, Y, cv=4)
    assert found.shape == (12,)
    assert 1.0 - np.mean((found - Y) ** 2) / np.var(Y) > 0.9


def test_cloned() -> None:
    model = quick(noise=0.1, constraints=["default", "max-depth=1"]).fit(X, Y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert_same(copy.fit(X, Y), model)


def test_a_pickled_model_predicts_the_same() -> None:
    model = quick().fit(FRAME, Y)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert_same(copy, model, FRAME)
    np.testing.assert_array_equal(copy.predict_interval(FRAME), model.predict_interval(FRAME))
    assert_same(copy.fit(FRAME, Y), model, FRAME)


# Frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_columns_their_names(kind: Any) -> None:
    frame = kind({"a": X[:, 0], "b": X[:, 1]})
    target = kind({"y": Y})["y"]
    model = quick().fit(frame, target)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.inclusion_.index.tolist() == ["a", "b"]
    assert model.functions_["expression"][0] in ("a + a", "a * c")
    np.testing.assert_array_equal(model.predict(frame), quick().fit(X, Y).predict(X))
    for other in (pd.DataFrame, pl.DataFrame):
        turned = other({"b": X[:, 1], "a": X[:, 0]})
        np.testing.assert_array_equal(model.predict(turned), model.predict(frame))
        np.testing.assert_array_equal(model.predict_interval(turned), model.predict_interval(frame))


def test_columns_beside_those_that_were_fitted_do_not_matter() -> None:
    model = quick().fit(FRAME, Y)
    wider = FRAME.assign(text="t", when=pd.Timestamp("2020-01-01"))[["when", "b", "text", "a"]]
    np.testing.assert_array_equal(model.predict(wider), model.predict(FRAME))


@pytest.mark.parametrize(
    "frame",
    [FRAME[["a"]], FRAME.rename(columns={"a": "z"}), pl.DataFrame({"b": X[:, 1]})],
)
def test_a_missing_column_is_named(frame: Any) -> None:
    with pytest.raises(ValueError, match=r"missing:\n- (a|b)"):
        quick().fit(FRAME, Y).predict(frame)


def test_arrays_have_to_have_as_many_columns() -> None:
    model = quick().fit(X, Y)
    with pytest.raises(ValueError, match="1 features, but DVISRRegressor is expecting 2"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="Reshape your data"):
        model.predict(X[0])


NAMES = [
    "I", "E", "N", "lambda", "x y", "%", "ünï", "数", "<script>", "=cmd()", "c", "c0", "sin", "pi",
    "1", "", "a`b", "{", "\\", "$", "__import__('os')", "None", "\n",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_column(name: str) -> None:
    frame = pd.DataFrame({"other": X[:, 1], name: X[:, 0]})
    model = quick(operators=("+", "*", "sin"), constants=False).fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["other", name]
    assert model.inclusion_[name] > 0.99
    formula = model.sympy()
    symbol = sympy.Symbol(name, real=True)
    assert formula == 2 * symbol
    np.testing.assert_array_equal(
        model.predict(frame, index=0), sympy.lambdify([symbol], formula)(X[:, 0])
    )
    assert model.latex()
    assert model.expression().complexity == 3
    turned = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(model.predict(turned), model.predict(frame))


def test_numbers_as_names() -> None:
    numbered = pd.DataFrame(X)
    model = quick().fit(numbered, Y)
    assert model.inclusion_.index.tolist() == ["0", "1"]
    np.testing.assert_array_equal(model.predict(numbered), model.predict(X))
    mixed = pd.DataFrame(X, columns=["a", 1])
    model = quick().fit(mixed, Y)
    assert model.feature_names_in_.tolist() == ["a", "1"]
    np.testing.assert_array_equal(model.predict(mixed[[1, "a"]]), model.predict(mixed))


@pytest.mark.parametrize("names", [["a", "a"], ["1", 1]])
def test_names_that_are_the_same_are_refused(names: list[Any]) -> None:
    with pytest.raises(ValueError, match="two columns are called"):
        quick().fit(pd.DataFrame(X, columns=names), Y)


# Weights --------------------------------------------------------------------------------------

WEIGHED = [
    {},
    {"noise": 0.3},
    {"operators": ("+", "*", "exp"), "max_tokens": 4, "constant_prior": "normal:0,10"},
]


@pytest.mark.parametrize("options", WEIGHED)
@pytest.mark.parametrize("with_bars", [False, True])
def test_a_weight_is_how_often_a_row_was_seen(options: dict[str, Any], with_bars: bool) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, len(Y))
    bars = rng.uniform(0.05, 0.2, len(Y)) if with_bars else None
    weighed = quick(**options).fit(X, Y, sample_weight=counts, y_err=bars)
    order = rng.permutation(np.repeat(np.arange(len(Y)), counts))  # in any order
    copied = quick(**options).fit(X[order], Y[order], y_err=None if bars is None else bars[order])
    assert_same(weighed, copied)


def test_weights_need_not_be_whole() -> None:
    one = quick().fit(X, Y, sample_weight=np.full(len(Y), 0.5))
    two = quick().fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2), sample_weight=np.full(24, 0.25))
    assert_same(one, two)
    assert one.log_evidence_ != quick().fit(X, Y).log_evidence_
    assert_same(quick().fit(X, Y, sample_weight=np.ones(len(Y))), quick().fit(X, Y))


def test_a_weight_of_zero_leaves_a_row_out() -> None:
    """Also one at which most formulas are undefined, and one with another error bar."""
    options: dict[str, Any] = {"operators": ("log", "sqrt", "/"), "max_tokens": 4}
    rows = np.concatenate([X, [[-5.0, 0.0]]])
    target, weights = np.append(Y, 1e6), np.append(np.ones(len(Y)), 0.0)
    assert_same(
        quick(**options).fit(rows, target, sample_weight=weights), quick(**options).fit(X, Y)
    )
    bars = np.full(len(Y), 0.1)
    assert_same(
        quick(**options).fit(rows, target, sample_weight=weights, y_err=np.append(bars, 9.0)),
        quick(**options).fit(X, Y, y_err=bars),
    )


@pytest.mark.parametrize(
    ("weights", "cause"),
    [
        (-np.ones(12), "sample_weight must not be negative"),
        (np.full(12, np.nan), "sample_weight has a missing value in row 1"),
        (np.full(12, np.inf), "sample_weight has an infinite value in row 1"),
        (np.zeros(12), "sample_weight of zero: give at least one more"),
        (np.ones(3), "sample_weight"),
        (np.ones((12, 2)), "[Ss]ample.weight"),
        (["a"] * 12, "sample_weight holds text"),
    ],
)
def test_impossible_weights(weights: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        quick().fit(X, Y, sample_weight=weights)


# Error bars -----------------------------------------------------------------------------------


def test_error_bars_say_which_rows_to_trust() -> None:
    """Half of the rows follow one line and half another; the bars say which are to be believed."""
    x = np.linspace(1.0, 2.0, 20)[:, None]
    even = np.arange(20) % 2 == 0
    y = np.where(even, x[:, 0] + x[:, 0], x[:, 0] * x[:, 0])
    for believed, formula in ((even, "x0 + x0"), (~even, "x0 * x0")):
        model = quick(constants=False, noise=1.0).fit(x, y, y_err=np.where(believed, 0.01, 10.0))
        assert model.functions_["expression"][0] == formula
        assert model.functions_["probability"][0] > 0.99


def test_equal_error_bars_are_the_noise() -> None:
    bars = quick(noise=1.0).fit(X, Y, y_err=np.full(12, 0.3))
    given = quick(noise=0.3).fit(X, Y)
    assert bars.log_evidence_ == pytest.approx(given.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(
        bars.predict(X, return_std=True, y_err=0.3)[1], given.predict(X, return_std=True)[1]
    )
    twice = quick(noise=2.0).fit(X, Y, y_err=np.full(12, 0.15))
    assert twice.log_evidence_ == pytest.approx(given.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(
        twice.predict(X, return_std=True, y_err=0.15)[1], given.predict(X, return_std=True)[1]
    )


def test_new_rows_may_have_error_bars_of_their_own() -> None:
    bars = np.random.default_rng(2).uniform(0.1, 0.2, 12)
    model = quick(noise=1.0, constants=False).fit(X, Y, y_err=bars)
    asked = np.linspace(0.01, 3.0, 12)
    _, std = model.predict(X, return_std=True, y_err=asked)
    spread = model.predict_quantiles(X, (0.5,), kind="function")
    assert spread.shape == (12, 1)
    assert (std >= asked - 1e-12).all()
    drawn = model.sample_y(X, 2000, y_err=asked).std(axis=1)
    np.testing.assert_allclose(drawn, std, rtol=0.1)
    np.testing.assert_array_equal(model.predict(X), model.predict(X, y_err=asked))


def test_new_rows_without_error_bars_are_warned_of() -> None:
    """The median is used; where no noise is asked for there is nothing to say."""
    bars = np.linspace(0.1, 0.3, 12)
    model = quick(noise=1.0).fit(X, Y, y_err=bars)
    said = "fitted with error bars and the new rows have none: their median, 0.2, is used"
    asked: list[Callable[..., Any]] = [
        lambda **more: model.predict(X, return_std=True, **more)[1],
        lambda **more: model.predict_interval(X, **more),
        lambda **more: model.predict_quantiles(X, **more),
        lambda **more: model.sample_y(X, 3, **more),
    ]
    for ask in asked:
        with pytest.warns(UserWarning, match=said):
            found = ask()
        np.testing.assert_array_equal(found, ask(y_err=float(np.median(bars))))
    model.predict(X)  # a warning would be an error here
    model.predict(X, index=0)
    model.predict_interval(X, kind="function")
    model.predict_undefined(X)
    model.sample_prior_y(X, 3)


@pytest.mark.parametrize(
    ("bars", "cause"),
    [
        (np.zeros(12), "y_err must be above zero, but is 0 in row 1"),
        (np.append(np.ones(11), -1.0), "y_err must be above zero, but is -1 in row 12"),
        (np.append(np.ones(11), np.nan), "y_err has a missing value in row 12"),
        (np.append(np.ones(11), np.inf), "y_err has an infinite value in row 12"),
        (np.ones(3), "y_err has 3 rows and the table has 12"),
        (["a"] * 12, "y_err holds text"),
    ],
)
def test_impossible_error_bars(bars: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        quick().fit(X, Y, y_err=bars)


@pytest.mark.parametrize(
    ("bars", "cause"),
    [
        (0.0, "y_err must be above zero"),
        ([1.0, 2.0], "y_err has 2 rows and the table has 12"),
        (np.nan, "y_err has a missing value"),
        ("a", "y_err holds text"),
    ],
)
def test_impossible_error_bars_of_new_rows(bars: Any, cause: str) -> None:
    model = quick().fit(X, Y, y_err=np.ones(12))
    with pytest.raises(ValueError, match=cause):
        model.predict(X, return_std=True, y_err=bars)


def test_error_bars_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="fitted with y_err: leave it out"):
        quick().fit(X, Y).predict(X, return_std=True, y_err=1.0)


# Bad input ------------------------------------------------------------------------------------


def spoilt(values: np.ndarray, value: Any) -> np.ndarray:
    copy = values.copy()
    copy[1] = value
    return copy


DATES = pd.date_range("2020-01-01", periods=12)
TEXT = list("abcdefghijkl")
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "NaN in X": (spoilt(X, np.nan), Y, "X contains NaN"),
    "NaN in y": (X, spoilt(Y, np.nan), "y contains NaN"),
    "NaN in a column": (FRAME.assign(b=np.nan), Y, "column 'b' has a missing value in row 1"),
    "infinity in X": (spoilt(X, np.inf), Y, "X contains infinity"),
    "infinity in y": (X, spoilt(Y, -np.inf), "y contains infinity"),
    "infinity in a column": (
        FRAME.assign(a=spoilt(X[:, 0], np.inf)), Y, "column 'a' has an infinite value in row 2",
    ),
    "NA": (FRAME.assign(a=pd.array([pd.NA, *[1] * 11])), Y, "column 'a' has a missing value"),
    "null": (pl.DataFrame({"a": [None, *[1.0] * 11]}), Y, "column 'a' has a missing value"),
    "masked": (np.ma.masked_greater(X, 1.9), Y, "X has a missing value"),
    "no rows": (X[:0], Y[:0], "0 sample"),
    "no columns": (X[:, :0], Y, "0 feature"),
    "no columns in a frame": (FRAME[[]], Y, "0 feature|no columns|at least one array"),
    "rows that differ": (X, Y[:-1], r"\[12, 11\]"),
    "one dimension": (X[:, 0], Y, "Reshape your data"),
    "three dimensions": (X[None], Y, "dim 3"),
    "no table": (None, Y, "Expected 2D array"),
    "no target": (X, None, "y is None|y cannot be None"),
    "two targets": (X, np.stack([Y, Y], axis=1), "y should be a 1d array"),
    "dates": (np.asarray(DATES)[:, None], Y, "X holds dates"),
    "dates in a column": (FRAME.assign(when=DATES), Y, "column 'when' holds dates"),
    "dates in a column of polars": (pl.DataFrame({"d": DATES.to_list()}), Y, "column 'd' holds d"),
    "durations": (FRAME.assign(d=DATES - DATES[0]), Y, "column 'd' holds dates or times"),
    "dates as a target": (X, DATES, "y holds dates"),
    "text": (np.array(TEXT)[:, None], Y, "could not convert string to float"),
    "text in a column": (FRAME.assign(t=TEXT), Y, "column 't' holds text"),
    "text in a column of polars": (pl.DataFrame({"t": TEXT}), Y, "column 't' holds text"),
    "numbers as text": (FRAME.assign(t="1.5"), Y, "column 't' holds text"),
    "categories": (FRAME.assign(t=pd.Categorical(TEXT)), Y, "column 't' holds text"),
    "text as a target": (X, TEXT, "y holds text"),
    "objects": (FRAME.assign(o=pd.Series([object()] * 12)), Y, "column 'o' has .* no number"),
    "complex": (X.astype(complex), Y, "[Cc]omplex"),
    "complex in a column": (FRAME.assign(z=1j), Y, "column 'z' holds complex numbers"),
    "too large": ([[10**400]] * 12, Y, "too large"),
    "too large in a column": (pd.DataFrame({"a": [10**400] * 12}), Y, "column 'a' has 1000"),
    "too many columns": (np.ones((12, 130)), Y, "at most 120: select fewer columns"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_cause(name: str) -> None:
    table, target, cause = REFUSED[name]
    model = quick()
    with pytest.raises(ValueError, match=cause):
        model.fit(table, target)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        (spoilt(X, np.nan), "X contains NaN"),
        (spoilt(X, np.inf), "X contains infinity"),
        (X[:0], "0 sample"),
        (np.asarray(DATES)[:, None] + np.zeros((1, 2), "m8[ns]"), "X holds dates"),
        (np.array([["a", "b"]]), "could not convert string"),
        ([[10**400, 1]], "too large"),
        (None, "Expected 2D array"),
    ],
)
def test_refused_at_predict(rows: Any, cause: str) -> None:
    model = quick().fit(X, Y)
    for ask in (model.predict, model.predict_interval, model.sample_y, model.predict_undefined):
        with pytest.raises(ValueError, match=cause):
            ask(rows)


def test_refused_columns_at_predict_are_named() -> None:
    model = quick().fit(FRAME, Y)
    with pytest.raises(ValueError, match="column 'b' has a missing value in row 1"):
        model.predict(FRAME.assign(b=np.nan))
    with pytest.raises(ValueError, match="column 'a' holds text in row 1"):
        model.predict(FRAME.assign(a="t"))
    with pytest.raises(ValueError, match="column 'a' holds dates"):
        model.predict(FRAME.assign(a=DATES))


ALL = ("+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt", "square", "^")
HARD: dict[str, tuple[Any, Any]] = {
    "constant y": (X, np.full(12, 3.0)),
    "constant y that is no binary fraction": (X, np.full(12, 0.1)),
    "zero y": (X, np.zeros(12)),
    "constant column": (np.column_stack([X, np.full(12, 7.0)]), Y),
    "zero column": (np.column_stack([X, np.zeros(12)]), Y),
    "equal columns": (np.column_stack([X, X]), Y),
    "columns in proportion": (np.column_stack([X, 2.0 * X]), Y),
    "equal rows": (np.ones((12, 2)), Y),
    "equal rows and a constant y": (np.ones((12, 2)), np.ones(12)),
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "three rows": (X[:3], Y[:3]),
    "four rows": (X[:4], Y[:4]),
    "five rows": (X[:5], Y[:5]),
    "more columns than rows": (np.random.default_rng(3).normal(size=(4, 6)), Y[:4]),
    "negative X": (-X, Y),
    "noise": (X, np.random.default_rng(4).normal(size=12)),
    "an outlier": (X, spoilt(Y, 1e9)),
    "1e300 in X": (1e300 * X, Y),
    "1e-300 in X": (1e-300 * X, Y),
    "1e300 in y": (X, 1e300 * Y),
    "1e-300 in y": (X, 1e-300 * Y),
    "1e300 in both": (1e300 * X, 1e300 * Y),
    "1e-300 in both": (1e-300 * X, 1e-300 * Y),
    "1e300 beside 1e-300": (X * [1e300, 1e-300], Y),
    "booleans": (X > 1.0, Y),
    "booleans as a target": (X, Y > 2.0),
    "booleans in a column": (FRAME.assign(a=FRAME["a"] > 1.0), Y),
    "integers": ((10.0 * X).astype(int), (10.0 * Y).astype(int)),
    "bytes": ((10.0 * X).astype(np.uint8), (10.0 * Y).astype(np.uint8)),
    "float32": (X.astype(np.float32), Y.astype(np.float32)),
    "float16": (X.astype(np.float16), Y.astype(np.float16)),
    "long doubles": (X.astype(np.longdouble), Y),
    "objects": (X.astype(object), Y.astype(object)),
    "objects in columns": (FRAME.astype(object), pd.Series(Y, dtype=object)),
    "nullable": (FRAME.convert_dtypes(), pd.Series(Y).convert_dtypes()),
    "lists": (X.tolist(), Y.tolist()),
    "large integers": (X, [10**30 + row for row in range(12)]),
}


@pytest.mark.parametrize("operators", [("+", "*"), ALL], ids=["few", "all"])
@pytest.mark.parametrize("name", HARD)
def test_a_fit_or_an_error_that_says_why(name: str, operators: tuple[str, ...]) -> None:
    table, target = HARD[name]
    model = quick(operators=operators)
    try:
        model.fit(table, target)
    except ValueError as error:
        assert "rescale the columns" in str(error)  # noqa: PT017
        assert "1e" in name  # other scales are no reason to give up
        return
    assert np.isfinite(model.log_evidence_)
    assert np.isfinite(list(model.noise_.values())).all()
    shown = model.diagnostics_["shown_share"]
    assert model.functions_["probability"].sum() == pytest.approx(shown)
    assert shown > 0.5
    mean, std = model.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert (model.predict_undefined(table) == 0.0).all()  # what is undefined has no likelihood
    low, high = model.predict_interval(table).T
    assert (low <= high).all()
    assert np.isfinite(model.sample_y(table, 3)).all()
    assert model.sample_prior_y(table, 5).shape == (len(mean), 5)
    for _, row in model.front_.iterrows():
        assert row["loss"] >= 0.0
    assert model.latex()


def test_nothing_that_is_defined() -> None:
    model = quick(operators=("log", "sqrt"), constants=False, constraints=["min-tokens=2"])
    with pytest.raises(ValueError, match="no expression that was tried is defined on these data"):
        model.fit(-X, Y)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"operators": ("+", "add")}, r"did you mean '\+'"),
        ({"operators": 3}, "operators must be a list of names"),
        ({"operators": ("+", "+")}, "twice"),
        ({"constants": "yes"}, "constants must be True or False"),
        ({"max_tokens": 0}, "max_tokens must be between 1 and 200"),
        ({"max_constants": -1}, "max_constants must be a whole number of at least 0"),
        ({"max_constants": 1.5}, "max_constants must be a whole number of at least 0"),
        ({"constraints": "papr"}, "did you mean 'paper'"),
        ({"constraints": 3}, "a constraint must be a name or a rule, not 3"),
        ({"tree_prior": "flat"}, "is no tree prior"),
        ({"tree_prior": {"sun": 1.0}}, "'sun' is of no token"),
        ({"constant_prior": "decade"}, "did you mean 'decades'"),
        ({"constant_prior": "normal:1"}, "write it like"),
        ({"noise": 0.0}, "noise must be a number above 0, infer, student"),
        ({"noise": "loud"}, "noise must be a number above 0, infer, student"),
        ({"num_steps": 0}, "num_steps must be a whole number of at least 1"),
        ({"num_samples": 1}, "num_samples must be a whole number of at least 2"),
        ({"max_time": 0}, "max_time must be a number of seconds above 0 or None"),
        ({"max_time": "soon"}, "max_time must be a number of seconds above 0 or None"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0"),
        ({"random_state": -1}, "random_state must be from 0"),
    ],
)
def test_a_wrong_setting_is_named(options: dict[str, Any], cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        quick(**options).fit(X, Y)


def test_a_doubtful_fit_warns_and_a_good_one_does_not(recwarn: Any) -> None:
    quick().fit(X, Y)
    assert not [warning for warning in recwarn if warning.category is FitWarning]
    with pytest.warns(
        FitWarning, match="verdict on this fit: caution: the formulas explain 0.0% of"
    ):
        quick(constants=False).fit(X, np.random.default_rng(5).normal(size=12))

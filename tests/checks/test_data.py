"""Every check gives every grade that it has, and copes with the smallest tables."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.data_checks import copied, lever, noiseless, repeated, rounded, scarce
from scipy import stats

from dvisr.checks import CHECKS, DATA, Check, Grade, Replication, check_data
from dvisr.checks.base import graded
from dvisr.checks.reference import FALSE_ALARMS
from dvisr.checks.repeats import expected_distinct, rounding
from dvisr.checks.support import OUTSIDE, by_chance
from tests.checks.posteriors import Rng, Table, fit

OK, CAUTION, GRAVE = Grade
BY_NAME = {check.__name__: check for check in CHECKS}


def line(
    n: int,
    rng: Rng,
    *,
    size: Callable[[np.ndarray], np.ndarray] = np.ones_like,
    extra: Callable[[np.ndarray], np.ndarray] = np.zeros_like,
    sigma: float | None = None,
    noise: str = "gaussian",
) -> Table:
    """A line fitted to 20 + 5 x + extra(x), with noise of standard deviation size(x)."""
    x = rng.uniform(-1.0, 1.0, n)
    basis = np.column_stack([np.ones(n), x])
    y = basis @ [20.0, 5.0] + extra(x) + size(x) * rng.standard_normal(n)
    return Table(x[:, None], basis, y, noise, sigma)


def thrown(table: Table, rows: list[int], by: float) -> Table:
    y = table.y.copy()
    y[rows] += by
    return dataclasses.replace(table, y=y)


def drifting(n: int, by: float, rng: Rng) -> Table:
    table = line(n, rng)
    return dataclasses.replace(table, y=table.y + np.linspace(-by, by, n))


def copies_of(n: int, times: int, rng: Rng) -> Table:
    table, rows = line(n, rng), np.tile(np.arange(n), times)
    return Table(table.X[rows], table.basis[rows], table.y[rows])


def growth(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: factor ** ((x + 1.0) / 2.0)


def bend(by: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: by * (2.0 * x**2 - 1.0)


GRADES: tuple[tuple[str, Grade, Callable[[Rng], Table], str], ...] = (
    ("outliers", OK, lambda r: line(40, r), "no row lies further"),
    ("outliers", CAUTION, lambda r: thrown(line(40, r), [3], 7.0), "1 of 40 rows (row 4) lies"),
    ("outliers", GRAVE, lambda r: thrown(line(80, r), [3, 9], 40.0), "2 of 80 rows (rows "),
    ("spread", OK, lambda r: line(40, r), "does not change"),
    ("spread", CAUTION, lambda r: line(60, r, size=growth(8.0)), "give an error bar"),
    ("spread", GRAVE, lambda r: line(300, r, size=growth(20.0)), "spread of the residuals grows"),
    ("columns", OK, lambda r: line(40, r), "no order is left"),
    ("columns", CAUTION, lambda r: line(40, r, extra=bend(2.5)), "neighbours along x0"),
    ("columns", GRAVE, lambda r: line(150, r, extra=bend(9.0)), "the formula lacks a term"),
    ("order", OK, lambda r: line(40, r), "no order is left"),
    ("order", CAUTION, lambda r: drifting(40, 2.0, r), "neighbouring rows of the table"),
    ("order", GRAVE, lambda r: drifting(150, 8.0, r), "order of measurement as a column"),
    ("coverage", OK, lambda r: line(40, r, sigma=1.0), "as many as chance allows"),
    ("coverage", CAUTION, lambda r: line(40, r, sigma=0.5), "predictions are too sure"),
    (
        "coverage",
        CAUTION,
        lambda r: line(150, r, sigma=9.0),
        "wider than most rows need; let",
    ),
    ("coverage", GRAVE, lambda r: line(80, r, sigma=0.3), "predictions are too sure"),
    ("noise", OK, lambda r: line(40, r, sigma=1.0), "as the noise that was given says"),
    ("noise", CAUTION, lambda r: line(40, r, sigma=0.6), "more about the curve"),
    ("noise", CAUTION, lambda r: line(40, r, sigma=9.0), "less about the curve"),
    ("noise", GRAVE, lambda r: line(40, r, sigma=0.2), "noise 'infer'"),
    ("noise", OK, lambda r: line(40, r), "what the data say"),
    ("noise", CAUTION, lambda r: noiseless(40, r), "than the prior of the noise allows"),
    ("copies", OK, lambda r: line(40, r), "no row is a copy"),
    ("copies", OK, lambda r: rounded(300, r), "copies matter little"),
    ("copies", OK, lambda r: repeated(60, r), "no row is a copy"),
    ("copies", CAUTION, lambda r: copies_of(40, 2, r), "80 observations are 40 distinct rows"),
    ("copies", GRAVE, lambda r: copied(8, r), "80 observations are 8 distinct rows"),
    ("rows", OK, lambda r: line(40, r), "to check them with"),
    ("rows", CAUTION, lambda r: scarce(5, r), "there are only 5 distinct rows for 3 fitted"),
    ("rows", GRAVE, lambda r: scarce(3, r), "allow fewer constants"),
    ("influence", OK, lambda r: line(40, r), "no single row carries the answer"),
    ("influence", CAUTION, lambda r: lever(30, r), "the answer depends on row 1 of the table"),
)


@pytest.mark.parametrize(
    ("name", "grade", "make", "words"), GRADES, ids=[f"{g[0]}-{g[1].word}-{g[3]}" for g in GRADES]
)
def test_every_grade(name: str, grade: Grade, make: Callable[[Rng], Table], words: str) -> None:
    rng = np.random.default_rng(5)
    check = BY_NAME[name](fit(make(rng), rng))
    assert check.grade is grade, check
    assert words in check.sentence
    assert (check.name, check.group) == (name, DATA)


@pytest.mark.parametrize("make", [g[2] for g in GRADES[::3]])
def test_a_grade_follows_from_the_measurement(make: Callable[[Rng], Table]) -> None:
    rng = np.random.default_rng(6)
    for check in check_data(fit(make(rng), rng)):
        assert check.grade is graded(check.measured, check.limit, check.grave_limit)
        assert "\n" not in check.sentence
        assert not check.sentence.endswith(".")


@pytest.mark.parametrize("rows", [1, 7, 40, 2000])
def test_rows_outside_are_held_against_a_binomial(rows: int) -> None:
    chance = stats.binom(rows, OUTSIDE)
    for outside in {0, 1, rows // 10, rows // 5, rows}:
        many, none, most = by_chance(outside, rows)
        assert many == pytest.approx(chance.sf(outside - 1), rel=1e-9)
        assert none == pytest.approx(chance.cdf(outside), rel=1e-9)
        assert most == chance.isf(FALSE_ALARMS / 2)


def test_cures() -> None:
    rng = np.random.default_rng(7)
    x = rng.uniform(1.0, 10.0, 80)
    y = 2.0 * x * np.exp(0.2 * rng.standard_normal(80))
    spread = BY_NAME["spread"](fit(Table(x[:, None], x[:, None], y), rng))
    assert "noise 'relative'" in spread.sentence
    basis = np.log(x)[:, None] * 0.0 + 1.0
    table = Table(x[:, None], np.column_stack([basis[:, 0], np.log(x)]), y, "relative")
    assert BY_NAME["spread"](fit(table, rng)).grade is OK
    far = thrown(line(60, rng, noise="student"), [7, 8], 300.0)
    found = BY_NAME["outliers"](fit(far, rng))
    assert "noise 'student'" not in found.sentence
    assert "look at rows 8, 9" in found.sentence or "look at rows 9, 8" in found.sentence
    gaussian = BY_NAME["outliers"](fit(dataclasses.replace(far, noise="gaussian"), rng))
    assert "refit with noise 'student'" in gaussian.sentence


def test_rows_in_the_order_of_a_column() -> None:
    rng = np.random.default_rng(8)
    table = line(60, rng, extra=bend(3.0))
    rows = np.argsort(table.X[:, 0])
    rep = fit(Table(table.X[rows], table.basis[rows], table.y[rows]), rng)
    assert "the rows are in the order of x0" in BY_NAME["order"](rep).sentence
    columns = BY_NAME["columns"](rep)
    assert columns.grade > OK
    assert "or the noise is correlated from row to row" in columns.sentence


def test_far_rows_come_before_a_spread_that_they_make() -> None:
    rng = np.random.default_rng(9)
    table = line(100, rng)
    top = int(np.argmax(table.X[:, 0]))
    found = {c.name: c for c in check_data(fit(thrown(table, [top], 1000.0), rng))}
    assert found["outliers"].grade is GRAVE
    assert found["spread"].grade is not GRAVE
    assert "noise 'student'" in found["coverage"].sentence


def with_draws(rep: Replication, draws: np.ndarray) -> Replication:
    names = ("curves", "residuals", "replicated", "log_density", "cdf", "num_constants")
    return dataclasses.replace(rep, **{name: getattr(rep, name)[draws] for name in names})


def finished(rep: Replication) -> list[Check]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check_data(rep)
    assert all(math.isfinite(check.measured) or "not measured" in check.sentence for check in found)
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9])
@pytest.mark.parametrize("noise", ["gaussian", "student", "relative"])
def test_few_rows(n: int, noise: str) -> None:
    rng = np.random.default_rng(n)
    x = rng.uniform(1.0, 2.0, (n, 1))
    y = np.exp(0.1 * rng.standard_normal(n))
    assert len(finished(fit(Table(x, np.ones((n, 1)), y, noise), rng))) == len(CHECKS)


def test_constant_columns_and_equal_draws() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(20, 3.0), np.full(20, 1.0)])
    rep = fit(Table(X, np.ones((20, 1)), rng.standard_normal(20)), rng)
    assert all(check.grade is OK for check in finished(rep))
    one = fit(line(20, rng, sigma=1.0), rng)
    equal = with_draws(one, np.zeros(300, dtype=int))
    finished(dataclasses.replace(equal, replicated=rng.standard_normal((300, 20))))
    finished(equal)
    finished(with_draws(one, np.array([0])))


def test_rows_on_the_curve() -> None:
    rep = fit(line(20, np.random.default_rng(0), sigma=1.0), np.random.default_rng(0))
    on_it = dataclasses.replace(rep, residuals=np.zeros_like(rep.residuals))
    assert {c.name for c in finished(on_it) if c.grade > OK} == {"noise"}


def test_draws_that_are_not_finite_are_left_out() -> None:
    rng = np.random.default_rng(0)
    rep = fit(line(30, rng), rng)
    broken = rep.residuals.copy()
    broken[::3, 5], broken[1::3, 7] = math.nan, math.inf
    rest = finished(dataclasses.replace(rep, residuals=broken))
    assert rest == finished(with_draws(rep, np.arange(len(broken))[2::3]))
    none = dataclasses.replace(rep, residuals=np.full_like(broken, math.nan))
    assert check_data(none) == []
    for check in CHECKS:
        assert check(none).grade is OK


def test_shapes_are_checked() -> None:
    rep = fit(line(30, np.random.default_rng(0)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="cdf must be"):
        dataclasses.replace(rep, cdf=rep.cdf[:, 1:])
    with pytest.raises(ValueError, match="counts must be"):
        dataclasses.replace(rep, counts=rep.counts[1:])
    with pytest.raises(ValueError, match="X must be"):
        dataclasses.replace(rep, column_names=("a", "b"))


def test_the_answer_is_the_same_in_other_units_and_another_order() -> None:
    rng = np.random.default_rng(3)
    table = thrown(line(40, rng), [3], 7.0)
    scaled = dataclasses.replace(table, X=1e3 * table.X, y=1e-6 * table.y)
    first = check_data(fit(table, np.random.default_rng(1)))
    second = check_data(fit(scaled, np.random.default_rng(1)))
    for one, two in zip(first, second, strict=True):
        assert one.grade is two.grade
        assert one.measured == pytest.approx(two.measured, rel=1e-3, abs=1e-6)


def test_rounding_is_found() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal(50)
    assert rounding(y) == 0.0
    assert rounding(np.round(y, 1)) == pytest.approx(0.1)
    assert rounding(np.ones(9)) == 0.0


def test_expected_distinct_rows_by_drawing_them() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(4.0), 50)
    drawn = [
        np.unique(np.column_stack([X, np.round(2.0 * rng.standard_normal(200))]), axis=0)
        for _ in range(200)
    ]
    mean = np.mean([len(one) for one in drawn])
    _, first, counts = np.unique(
        np.column_stack([X, np.round(2.0 * rng.standard_normal(200))]),
        axis=0,
        return_index=True,
        return_counts=True,
    )
    y = np.arange(len(first)) % 9 * 1.0
    found = expected_distinct(X[first][:, None], y, counts.astype(float), 2.0)
    assert found == pytest.approx(mean, rel=0.03)

"""What is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.container import ErrorbarContainer

from dvisr import plots
from dvisr.diagnostics import bulk, calibration_curve

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 1.0, 12)
Y = X + 0.1
HOSTILE = r"$\frac{a_b^c"


def line(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_the_band_runs_from_low_to_high_in_the_order_of_x() -> None:
    axes = plots.plot_band(X, Y, Y - 1.0, Y + 1.0, x=X, y=Y, names=("speed", "force"))
    at, middle = line(axes, "posterior mean")
    np.testing.assert_array_equal(at, np.sort(X))
    np.testing.assert_array_equal(middle, Y[np.argsort(X)])
    np.testing.assert_array_equal(line(axes, "data")[1], Y)
    corners = np.asarray(axes.collections[0].get_paths()[0].vertices).tolist()
    assert all([a, b] in corners for a, b in zip(X, Y + 1.0, strict=True))
    assert all([a, b] in corners for a, b in zip(X, Y - 1.0, strict=True))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("speed", "force")


def test_error_bars_are_as_long_as_given() -> None:
    axes = plots.plot_band(X, Y, Y, Y, x=X, y=Y, y_err=np.full(12, 0.25))
    (bars,) = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    segments = bars.lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in segments], np.c_[Y - 0.25, Y + 0.25])


def test_observed_against_predicted_has_an_interval_a_row() -> None:
    axes = plots.plot_agreement(X, Y, X - 0.5, X + 0.5, name="force")
    (intervals,) = [one for one in axes.collections if isinstance(one, LineCollection)]
    np.testing.assert_allclose(
        [segment[:, 1] for segment in intervals.get_segments()], np.c_[X - 0.5, X + 0.5]
    )
    np.testing.assert_array_equal(line(axes, "data"), (X, Y))
    np.testing.assert_array_equal(*line(axes, "observed = predicted"))


def test_bars_are_as_long_as_the_probabilities_and_the_first_is_on_top() -> None:
    shares = [0.9, 0.07, 0.03]
    axes = plots.plot_functions(["x", "x" * 99, HOSTILE], shares)
    assert [bar.get_width() for bar in axes.patches] == shares  # type: ignore[attr-defined]
    assert axes.yaxis_inverted()
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == ["x", "x" * 35 + "…", HOSTILE]
    assert not any(label.get_parse_math() for label in labels)
    assert [text.get_text() for text in axes.texts] == ["0.900", "0.070", "0.030"]


def test_residuals_have_a_line_at_zero() -> None:
    axes = plots.plot_residuals(X, Y - 0.5)
    np.testing.assert_array_equal(line(axes, "residuals"), (X, Y - 0.5))
    assert [0.0, 0.0] in [list(one.get_ydata()) for one in axes.lines]  # type: ignore[arg-type]


def test_calibration_counts_values_below_each_level() -> None:
    pit = np.array([0.055, 0.105, 0.555, 0.905])
    levels, shares, low, high = calibration_curve(pit)
    np.testing.assert_array_equal(shares[[0, 10, 50, 60, 100]], [0.0, 0.25, 0.5, 0.75, 1.0])
    assert (low <= high).all()
    axes = plots.plot_calibration(pit)
    np.testing.assert_array_equal(line(axes, "observed"), (levels, shares))


def test_the_band_of_calibration_holds_good_fits() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        _, shares, low, high = calibration_curve(rng.uniform(size=30), 0.9)
        inside.append(((low <= shares) & (shares <= high))[50])
    assert 0.86 < np.mean(inside) < 0.98  # more than 0.9: counts are whole numbers


def test_evidence_over_time() -> None:
    axes = plots.plot_evidence(np.arange(3.0), np.array([-5.0, -2.0, -2.0]))
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [-5.0, -2.0, -2.0])


def test_the_front_is_logarithmic_only_where_it_can_be() -> None:
    sizes, loss = np.array([1, 3, 5]), np.array([1.0, 0.1, 0.01])
    axes = plots.plot_front(sizes, loss, np.array([0.0, 0.5, 0.5]))
    (points,) = [one for one in axes.collections if isinstance(one, PathCollection)]
    np.testing.assert_array_equal(points.get_offsets(), np.c_[sizes, loss])
    np.testing.assert_allclose(points.get_sizes(), [20.0, 110.0, 110.0])
    assert axes.get_yscale() == "log"
    assert plots.plot_front(sizes, np.array([1.0, 0.5, 0.0])).get_yscale() == "linear"


def test_the_corner_has_each_constant_and_each_pair() -> None:
    draws = RNG.normal(size=(500, 3))
    made = plots.plot_constants(draws, ["c0", "c1", HOSTILE], at=[0.0, 1.0, 2.0])
    assert [[axes is not None for axes in row] for row in made] == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
    np.testing.assert_array_equal(made[2, 1].lines[0].get_xydata(), draws[:, [1, 2]])
    assert list(made[1, 1].lines[0].get_xdata()) == [1.0, 1.0]
    low, high = np.quantile(draws[:, 0], [0.005, 0.995])
    heights = [bar.get_height() for bar in made[0, 0].patches]
    kept = ((draws[:, 0] >= low) & (draws[:, 0] <= high)).sum()
    assert sum(heights) * (high - low) / 40 == pytest.approx(1.0)
    assert kept >= 494
    assert made[2, 2].get_xlabel() == HOSTILE


def test_a_constant_that_does_not_vary_has_a_range() -> None:
    assert bulk(np.full(9, 2.0)) == (1.0, 3.0)
    assert bulk(np.zeros(9)) == (-0.5, 0.5)


def test_names_are_drawn_as_they_are_and_no_setting_changes() -> None:
    before = dict(rcParams)
    axes = plots.plot_band(X, Y, Y, Y, x=X, y=Y, names=(HOSTILE, HOSTILE))
    axes.figure.canvas.draw()  # as mathematics it would be an error
    plots.plot_constants(X[:, None], ["$"])[0, 0].figure.canvas.draw()
    assert dict(rcParams) == before
    with pytest.raises(ValueError, match="as many names"):
        plots.plot_constants(X[:, None], ["a", "b"])

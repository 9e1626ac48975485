"""What a fit answers, drawn: data and band, functions, residuals, calibration, evidence, front.
Names are drawn as they are: a dollar sign in one is no mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dvisr.diagnostics import calibration_curve
from dvisr.plots.style import BLUE, GREY, ORANGE, new_axes

_MOST_LETTERS = 36  # of a function beside its bar


def plot_band(
    at: np.ndarray,
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    y_err: np.ndarray | None = None,
    names: tuple[str, str] = ("x", "y"),
    label: str = "90 % of new observations",
    axes: Axes | None = None,
) -> Axes:
    """The curve and the interval about it at `at`, and the observations (x, y) over them."""
    axes = new_axes() if axes is None else axes
    order = np.argsort(at)
    axes.fill_between(at[order], low[order], high[order], color=BLUE, alpha=0.2, lw=0, label=label)
    axes.plot(at[order], middle[order], color=BLUE, linewidth=1.4, label="posterior mean")
    if x is not None and y is not None:
        _points(axes, x, y, y_err, "data")
    _named(axes, *names)
    axes.legend(frameon=False, fontsize=8)
    return axes


def plot_agreement(
    predicted: np.ndarray,
    observed: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    name: str = "y",
    axes: Axes | None = None,
) -> Axes:
    """Observed against predicted, each row with its interval: where there are several columns."""
    axes = new_axes() if axes is None else axes
    reach = [float(np.nanmin(predicted)), float(np.nanmax(predicted))]
    axes.plot(reach, reach, color=GREY, linewidth=1.0, label="observed = predicted")
    axes.vlines(predicted, low, high, color=BLUE, alpha=0.35, label="90 % of new observations")
    _points(axes, predicted, observed, None, "data")
    _named(axes, f"{name}, predicted", f"{name}, observed")
    axes.legend(frameon=False, fontsize=8)
    return axes


def plot_functions(
    expressions: Sequence[str], probabilities: Sequence[float], *, axes: Axes | None = None
) -> Axes:
    """Bars, the likeliest on top."""
    axes = new_axes() if axes is None else axes
    places = np.arange(len(expressions))
    axes.barh(places, list(probabilities), color=BLUE, height=0.7)
    shown = [t if len(t) <= _MOST_LETTERS else t[: _MOST_LETTERS - 1] + "…" for t in expressions]
    axes.set_yticks(places, shown, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    for place, share in zip(places, probabilities, strict=True):
        is_inside = share > 0.85
        axes.text(
            share - 0.01 if is_inside else share + 0.01,
            float(place),
            f"{share:.3f}",
            va="center",
            ha="right" if is_inside else "left",
            color="white" if is_inside else "black",
            fontsize=8,
        )
    axes.set_xlabel("posterior probability")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_residuals(
    at: np.ndarray,
    residuals: np.ndarray,
    *,
    name: str = "predicted",
    unit: str = "residual, in units of the noise",
    axes: Axes | None = None,
) -> Axes:
    """Residuals in units of the noise, with the lines that a twentieth of Gaussian ones pass."""
    axes = new_axes() if axes is None else axes
    axes.axhline(0.0, color=GREY, linewidth=1.0)
    for level in (-1.96, 1.96):
        axes.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
    _points(axes, at, residuals, None, "residuals")
    _named(axes, name, unit)
    return axes


def plot_calibration(pit: np.ndarray, *, coverage: float = 0.9, axes: Axes | None = None) -> Axes:
    """The share of observations below each level of their own predictive distribution: on the
    diagonal where predictions are as sure as they should be. `pit` has the probability of less than
    what was observed; the band is where `coverage` of good fits lie, level by level."""
    axes = new_axes() if axes is None else axes
    levels, shares, low, high = calibration_curve(pit, coverage)
    axes.fill_between(
        levels,
        low,
        high,
        step=None,
        color=GREY,
        alpha=0.25,
        lw=0,
        label=f"{coverage:.0%} by chance",
    )
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=1.0)
    axes.plot(levels, shares, color=BLUE, linewidth=1.4, label="observed")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    _named(axes, "predicted probability of less", "share of rows")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return axes


def plot_evidence(
    seconds: np.ndarray,
    log_evidence: np.ndarray,
    *,
    name: str = "seconds",
    axes: Axes | None = None,
) -> Axes:
    """The log evidence of what was visited: flat at the end where the search has settled."""
    axes = new_axes() if axes is None else axes
    axes.plot(seconds, log_evidence, color=BLUE, linewidth=1.4, marker="o", markersize=3.5)
    _named(axes, name, "log evidence of what was visited")
    return axes


def plot_front(
    complexity: np.ndarray,
    loss: np.ndarray,
    probability: np.ndarray | None = None,
    *,
    axes: Axes | None = None,
) -> Axes:
    """Accuracy against complexity; points with more of the posterior are larger."""
    axes = new_axes() if axes is None else axes
    axes.plot(complexity, loss, color=GREY, linewidth=1.0, drawstyle="steps-post")
    sizes = 20.0 if probability is None else 20.0 + 180.0 * np.asarray(probability)
    axes.scatter(complexity, loss, s=sizes, color=BLUE, zorder=3)
    if len(loss) and np.min(loss) > 0.0:
        axes.set_yscale("log")
    _named(axes, "complexity, in tokens", "mean squared residual")
    return axes


def _points(axes: Axes, x: np.ndarray, y: np.ndarray, y_err: np.ndarray | None, label: str) -> None:
    style: dict[str, Any] = {"color": ORANGE, "markersize": 4.0, "linestyle": "none"}
    if y_err is None:
        axes.plot(x, y, marker="o", zorder=3, label=label, **style)
    else:
        axes.errorbar(x, y, yerr=y_err, fmt="o", elinewidth=1.0, zorder=3, label=label, **style)


def _named(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, parse_math=False)
    axes.set_ylabel(y, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)

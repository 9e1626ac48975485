"""ELBO and KL over training, the density of a constant, KL by size: ours beside the exact and the
published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dvisr.plots.style import BLUE, GREY, ORANGE

_MAGNIFIED = 0.4  # the inset shows this last share of the steps
_IQR_LABEL = "median and IQR"


def plot_elbo(axes: Axes, elbo: np.ndarray, log_evidence: float) -> None:
    """elbo: (runs, steps)."""
    _plot_with_inset(axes, elbo, log_evidence, "log evidence", place=(0.42, 0.2, 0.54, 0.45))
    axes.set_ylabel("ELBO")
    axes.legend(loc="lower right", frameon=False, ncols=2)


def plot_kl(axes: Axes, kl: np.ndarray) -> None:
    """kl: (runs, steps), log evidence - ELBO, each step's own batch."""
    _plot_with_inset(axes, kl, 0.0, "zero", place=(0.42, 0.35, 0.54, 0.45))
    axes.set_ylabel("KL divergence")
    axes.legend(loc="upper right", frameon=False, ncols=2)


def _plot_with_inset(
    axes: Axes,
    values: np.ndarray,
    reference: float,
    reference_label: str,
    place: tuple[float, float, float, float],
) -> None:
    steps = np.arange(1, values.shape[1] + 1)
    _curves(axes, steps, values, reference, reference_label)
    axes.set_xlabel("epoch")
    axes.set_xlim(1, max(2, values.shape[1]))
    axes.spines[["top", "right"]].set_visible(False)
    first = int(values.shape[1] * (1.0 - _MAGNIFIED))
    if len(steps) - first < 2:
        return
    inset = axes.inset_axes(place)
    # Relative to the line, so that the ticks show how near it the end comes.
    _curves(inset, steps[first:], values[:, first:] - reference, 0.0, reference_label)
    inset.set_xlim(steps[first], steps[-1])
    inset.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
    inset.tick_params(labelsize=7)
    inset.yaxis.offsetText.set_fontsize(7)
    name = "ELBO - log evidence" if reference else "KL"
    inset.set_title(f"{name}, last {_MAGNIFIED:.0%} of epochs", fontsize=7)


def _curves(
    axes: Axes, steps: np.ndarray, values: np.ndarray, reference: float, reference_label: str
) -> None:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    axes.fill_between(steps, low, high, color=BLUE, alpha=0.3, linewidth=0)
    axes.plot(steps, middle, color=BLUE, linewidth=1.2, label=_IQR_LABEL)
    axes.axhline(reference, color=ORANGE, linewidth=1.2, label=reference_label)


def plot_density(axes: Axes, values: np.ndarray, exact: np.ndarray, q: np.ndarray) -> None:
    """values (points,), exact (points,), q (runs, points)."""
    low, middle, high = np.quantile(q, [0.0, 0.5, 1.0], axis=0)
    axes.fill_between(values, 0.0, exact, color=ORANGE, alpha=0.35, linewidth=0, label="exact")
    axes.fill_between(values, low, high, color=BLUE, alpha=0.3, linewidth=0)
    axes.plot(values, middle, color=BLUE, linewidth=1.2, linestyle="--", label="q, all runs")
    axes.set_xlabel("c")
    axes.set_xlim(values[0], values[-1])
    axes.set_ylim(bottom=0.0)
    axes.spines[["top", "right"]].set_visible(False)


_WIDTH = 0.4
_LEAST = 1e-16  # rounding: on a log axis nothing below is shown


def plot_kl_by_size(
    linear: Axes,
    logarithmic: Axes,
    sizes: Sequence[int],
    kl: Sequence[float],
    published: Sequence[float | None],
) -> None:
    """The same bars twice: as in the paper, and with an axis that shows the small ones."""
    places = np.arange(len(sizes))
    others = np.array([np.nan if value is None else value for value in published])
    for axes in (linear, logarithmic):
        is_log = axes is logarithmic
        for values, shift, colour, label in [
            (np.asarray(kl), -_WIDTH / 2, BLUE, "dvisr"),
            (others, _WIDTH / 2, GREY, "published"),
        ]:
            shown = np.where(values > _LEAST, values, np.nan) if is_log else values
            axes.bar(places + shift, shown, _WIDTH, color=colour, label=label)
        axes.set_xticks(places, [str(size) for size in sizes])
        axes.set_ylabel("KL divergence")
        axes.spines[["top", "right"]].set_visible(False)
        if is_log and max([*kl, *np.nan_to_num(others)]) > _LEAST:
            axes.set_yscale("log")
    logarithmic.set_xlabel("maximum number of tokens")
    linear.legend(frameon=False, loc="upper left")

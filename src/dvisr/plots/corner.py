"""Draws of several constants, each by itself and in pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dvisr.diagnostics import bulk
from dvisr.plots.style import BLUE, ORANGE, new_figure

_BINS = 40
_TAIL = (
    0.005  # of the draws on either side that a histogram leaves out: one far draw hides the rest
)


def plot_constants(
    draws: np.ndarray,
    names: Sequence[str],
    *,
    at: Sequence[float] | None = None,
    figure: Figure | None = None,
) -> np.ndarray:
    """A corner of (constants, constants) axes: equally likely draws (draws, constants) of each
    constant on the diagonal, of pairs below it, nothing above. `at` marks a value of each, the
    mode, say. The axes that are not used are None."""
    count = draws.shape[1]
    if count == 0 or count != len(names):
        raise ValueError(f"{count} columns of draws need as many names, at least 1: got {names!r}")
    figure = new_figure(2.0 * count + 1.0, 2.0 * count + 0.6) if figure is None else figure
    made = np.full((count, count), None, dtype=object)
    grid = figure.add_gridspec(count, count)
    reach = [bulk(column) for column in draws.T]
    for row in range(count):
        for column in range(row + 1):
            axes = made[row, column] = figure.add_subplot(grid[row, column])
            axes.set_xlim(*reach[column])
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            if row == column:
                _one(axes, draws[:, column], reach[column], None if at is None else at[column])
            else:
                axes.plot(
                    draws[:, column], draws[:, row], linestyle="none", marker="o", markersize=1.5,
                    color=BLUE, alpha=0.25, markeredgewidth=0.0,
                )  # fmt: skip
                axes.set_ylim(*reach[row])
            if row == count - 1:
                axes.set_xlabel(names[column], parse_math=False)
            if column == 0 and row > 0:
                axes.set_ylabel(names[row], parse_math=False)
    return made


def _one(axes: Axes, values: np.ndarray, reach: tuple[float, float], at: float | None) -> None:
    axes.hist(values, bins=_BINS, range=reach, color=BLUE, alpha=0.6, density=True)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if at is not None:
        axes.axvline(at, color=ORANGE, linewidth=1.2)

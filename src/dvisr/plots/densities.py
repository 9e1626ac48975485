"""q(constant | tree) over the exact posterior of the constant."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from dvisr.plots.style import BLUE, ORANGE


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

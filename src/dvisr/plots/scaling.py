"""KL against the maximum size of expressions, ours beside the published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dvisr.plots.style import BLUE, GREY

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

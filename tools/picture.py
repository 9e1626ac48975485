"""The picture of the README: Kepler's third law from eight planets.

    python -m tools.picture            writes docs/planets.png

The fit is the README's own; run it from the root of the repository.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dvisr import DVISRRegressor, FitWarning

TABLE = Path("examples/planets.csv")
PICTURE = Path("docs/planets.png")
BLUE, GREY = "#2b6cb0", "#4a5568"


def main() -> None:
    table = pd.read_csv(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the README tells of it
        model = DVISRRegressor(random_state=0, noise="relative").fit(table[["a"]], table["period"])
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), width_ratios=(1, 1.1, 1.2))
    grid = pd.DataFrame({"a": np.geomspace(0.3, 40.0, 200)})
    draw_data(axes[0], table, grid, model)
    draw_band(axes[1], table, grid, model)
    draw_functions(axes[2], model)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=140)


def draw_data(axes: Axes, table: pd.DataFrame, grid: pd.DataFrame, model: DVISRRegressor) -> None:
    axes.loglog(grid["a"], model.predict(grid), color=BLUE)
    axes.loglog(table["a"], table["period"], "o", color=GREY)
    axes.set(xlabel="distance from the Sun, a", ylabel="year of the planet")
    axes.set_title("the table, and what is predicted", loc="left", fontsize=10)


def draw_band(axes: Axes, table: pd.DataFrame, grid: pd.DataFrame, model: DVISRRegressor) -> None:
    """Rows and intervals as percentages of the mean: the band is a thousandth wide."""
    mean = model.predict(grid)
    band = 100.0 * (model.predict_interval(grid, coverage=0.9) / mean[:, None] - 1.0)
    rows = 100.0 * (table["period"] / model.predict(table[["a"]]) - 1.0)
    axes.fill_between(grid["a"], band[:, 0], band[:, 1], color=BLUE, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color=BLUE)
    axes.semilogx(table["a"], rows, "o", color=GREY)
    axes.set(xlabel="distance from the Sun, a", ylabel="off the mean, %")
    axes.set_title("close up: 90 % of new observations", loc="left", fontsize=10)


def draw_functions(axes: Axes, model: DVISRRegressor) -> None:
    first = model.functions_.head(4)
    axes.barh(range(len(first)), first["probability"], color=BLUE)
    shares = zip(first["expression"], first["probability"], strict=True)
    for place, (name, share) in enumerate(shares):
        inside = share > 0.5
        axes.text(
            0.02 if inside else share + 0.02, place, f"{name}   {share:.3f}",
            va="center", color="white" if inside else "black",
        )  # fmt: skip
    axes.set(xlim=(0, 1), yticks=[], xlabel="probability")
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.set_title("the functions", loc="left", fontsize=10)


if __name__ == "__main__":
    main()

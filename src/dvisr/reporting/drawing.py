"""A fit as one Matplotlib figure: data and band, functions, residuals."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dvisr import plots
from dvisr.expression import infix
from dvisr.reporting.numbers import curve_over, residuals_of_mean, rows_of
from dvisr.reporting.subject import Subject
from dvisr.text import printable

_BARS = 6


def draw_fit(subject: Subject, figure: Figure | None = None) -> Figure:
    figure = plots.new_figure(10.0, 6.4) if figure is None else figure
    grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
    _data(subject, figure.add_subplot(grid[:, 0]))
    first = subject.posterior.functions[:_BARS]
    plots.plot_functions(
        [printable(infix(function.expression)) for function in first],
        [function.probability for function in first],
        axes=figure.add_subplot(grid[0, 1]),
    )
    at, residuals = residuals_of_mean(subject)
    plots.plot_residuals(
        at, residuals, name=f"{printable(subject.target)}, predicted",
        axes=figure.add_subplot(grid[1, 1]),
    )  # fmt: skip
    word = subject.outcome.verdict.word
    figure.suptitle(f"{printable(subject.target)}: verdict {word}", parse_math=False)
    return figure


def _data(subject: Subject, axes: Axes) -> None:
    data, target = subject.problem.data, printable(subject.target)
    if len(subject.columns) == 1:
        over = curve_over(subject)
        plots.plot_band(
            over.at, over.middle, over.low, over.high,
            x=data.X[:, 0], y=data.y, y_err=data.y_err,
            names=(printable(subject.columns[0]), target), axes=axes,
        )  # fmt: skip
        return
    rows = rows_of(subject)
    plots.plot_agreement(
        rows.middle, data.y[rows.places], rows.low, rows.high, name=target, axes=axes
    )

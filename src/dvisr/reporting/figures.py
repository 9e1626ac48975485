"""The report's figures as Bokeh models. Their colours can be read on white and on black, on screen
and on paper. Names of columns are plain text to Bokeh, never TeX."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, PlainText, Span
from bokeh.plotting import figure

from dvisr.checks import Replication
from dvisr.diagnostics import calibration_curve
from dvisr.reporting.numbers import Band, Rows
from dvisr.text import printable

BLUE, ORANGE, GREY, TEXT = "#3d85c6", "#e07b1a", "#8a8a8a", "#78838e"
_FONT = "system-ui, sans-serif"
_DOT = 7
_HEIGHT = 320


def _new(x: str, y: str, height: int = _HEIGHT, **options: Any) -> Any:
    made = figure(
        height=height, sizing_mode="stretch_width", tools="pan,box_zoom,wheel_zoom,reset,save",
        toolbar_location="above", background_fill_color=None, border_fill_color=None,
        outline_line_color=None, min_border_right=12, **options,
    )  # fmt: skip
    made.toolbar.logo = None
    made.x_range.only_visible = True  # what is not shown takes no room
    for axis, name in ((made.xaxis[0], x), (made.yaxis[0], y)):
        axis.axis_label = PlainText(text=printable(name)) if name else None
        axis.axis_label_text_font = axis.major_label_text_font = _FONT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = TEXT
        axis.axis_line_color = axis.major_tick_line_color = GREY
        axis.minor_tick_line_color = None
    made.grid.grid_line_color, made.grid.grid_line_alpha = GREY, 0.22
    return made


def _word(name: str, other: str) -> str:
    """A label for what is shown on hovering: the name, where it is a word."""
    return name if re.fullmatch(r"\w{1,30}", name, re.ASCII) else other


def _hover(made: Any, renderer: Any, *pairs: tuple[str, str]) -> None:
    fields = re.findall(r"@\w+(?=\{%)", " ".join(field for _, field in pairs))
    made.add_tools(
        HoverTool(
            renderers=[renderer],
            tooltips=list(pairs),
            formatters=dict.fromkeys(fields, "printf"),
        )
    )


def _level(made: Any, at: float, dash: str = "solid") -> None:
    line = Span(location=at, dimension="width", line_color=GREY, line_dash=dash, line_width=1)
    made.add_layout(line)


def _small(values: np.ndarray) -> np.ndarray:
    """Half the bytes, unless the numbers need the range of float64."""
    with np.errstate(over="ignore", under="ignore"):
        small = np.asarray(values, dtype=np.float32)
    fits = np.isfinite(small) == np.isfinite(values)
    is_kept = fits.all() and not ((small == 0.0) & (np.asarray(values) != 0.0)).any()
    return small if is_kept else np.asarray(values, dtype=np.float64)


def _source(**columns: Any) -> ColumnDataSource:
    shown = {
        name: _small(values) if np.asarray(values).dtype.kind == "f" else np.asarray(values)
        for name, values in columns.items()
    }
    return ColumnDataSource(shown, name="rows")


def band_figure(
    band: Band,
    x: np.ndarray,
    y: np.ndarray,
    numbers: np.ndarray,
    *,
    y_err: np.ndarray | None,
    names: tuple[str, str],
    height: int = _HEIGHT,
) -> Any:
    """Data over the curve, with the interval of new observations and that of the curve."""
    made = _new(*names, height=height)
    made.varea(_small(band.at), _small(band.low), _small(band.high), color=BLUE, alpha=0.2)
    made.varea(
        _small(band.at), _small(band.curve_low), _small(band.curve_high), color=BLUE, alpha=0.35
    )
    made.line(_small(band.at), _small(band.middle), color=BLUE, width=2)
    predicted = np.interp(x, band.at, band.middle)
    rows = _source(x=x, y=y, row=numbers, predicted=predicted)
    if y_err is not None:
        made.segment(x, y - y_err, x, y + y_err, color=ORANGE, width=1.2)
    points = made.scatter("x", "y", source=rows, size=_DOT, color=ORANGE, line_color=None)
    _hover(
        made, points, ("row", "@row"), (_word(names[0], "x"), "@x{%.4g}"),
        (_word(names[1], "y"), "@y{%.4g}"), ("predicted", "@predicted{%.4g}"),
    )  # fmt: skip
    return made


def rows_figure(
    rows: Rows, y: np.ndarray, numbers: np.ndarray, *, name: str, height: int = _HEIGHT
) -> Any:
    """Observed against what the reader chooses, at first against predicted: each row with its
    interval."""
    made = _new("", name, height=height)
    reach = _small(np.array([rows.middle.min(), rows.middle.max()]))
    made.line(reach, reach, color=GREY, width=1, name="diagonal")
    source = _source(
        x=rows.middle, y=y, low=rows.low, high=rows.high, predicted=rows.middle, row=numbers
    )
    made.segment("x", "low", "x", "high", source=source, color=BLUE, width=2, alpha=0.45)
    made.scatter("x", "predicted", source=source, size=8, marker="dash", color=BLUE)
    points = made.scatter("x", "y", source=source, size=_DOT, color=ORANGE, line_color=None)
    _hover(
        made, points, ("row", "@row"), (_word(name, "y"), "@y{%.4g}"),
        ("predicted", "@predicted{%.4g}"), ("90 %", "@low{%.4g} to @high{%.4g}"),
    )  # fmt: skip
    return made


def residual_figure(
    x: np.ndarray, residuals: np.ndarray, numbers: np.ndarray, *, x_name: str
) -> Any:
    known = np.abs(residuals[np.isfinite(residuals)])
    reach = max(2.6, 1.12 * float(known.max(initial=0.0)))
    made = _new(x_name, "residual / noise", y_range=(-reach, reach))
    for level, dash in ((0.0, "solid"), (-1.96, "dotted"), (1.96, "dotted")):
        _level(made, level, dash)
    rows = _source(x=x, y=residuals, row=numbers)
    points = made.scatter("x", "y", source=rows, size=_DOT, color=ORANGE, line_color=None)
    _hover(made, points, ("row", "@row"), ("residual / noise", "@y{%.4g}"))
    return made


def pair_figure(one: np.ndarray, two: np.ndarray, names: tuple[str, str]) -> Any:
    """Draws of two constants."""
    made = _new(*names, height=260)
    made.scatter(_small(one), _small(two), size=3, color=BLUE, alpha=0.3, line_color=None)
    return made


def calibration_figure(pit: np.ndarray) -> Any:
    levels, shares, low, high = calibration_curve(pit)
    made = _new("predicted probability of less", "share of rows", height=300)
    made.varea(levels, low, high, color=GREY, alpha=0.25)
    made.line([0, 1], [0, 1], color=GREY, width=1)
    made.line(levels, shares, color=BLUE, width=2)
    return made


def quantile_figure(rep: Replication) -> Any:
    """Sorted residuals against those of replicated data, with where 90 % of these lie."""
    replicates = np.sort(rep.refit.replicates, axis=1)
    low, middle, high = np.quantile(replicates, (0.05, 0.5, 0.95), axis=0)
    places = np.unique(np.linspace(0, len(middle) - 1, min(len(middle), 400)).astype(int))
    low, middle, high = low[places], middle[places], high[places]
    made = _new("residual / noise, replicated", "residual / noise, observed", height=300)
    made.varea(middle, low, high, color=GREY, alpha=0.25)
    made.line(middle, middle, color=GREY, width=1)
    own = np.sort(rep.refit.residuals)[places]
    made.scatter(middle, own, size=_DOT, color=ORANGE, line_color=None)
    return made


def history_figure(at: np.ndarray, values: np.ndarray, x_name: str, y_name: str) -> Any:
    low, high = float(values.min()), float(values.max())
    spare = max(0.05 * (high - low), 0.5 * (1.0 - (high - low)))  # less than a nat is nothing
    made = _new(x_name, y_name, height=260, y_range=(low - spare, high + spare))
    source = _source(x=at, y=values, step=np.arange(1, len(at) + 1))
    made.line("x", "y", source=source, color=BLUE, width=2)
    if len(at) <= 200:
        points = made.scatter("x", "y", source=source, size=6, color=BLUE)
        _hover(made, points, ("step", "@step"), (y_name, "@y{%.4g}"))
    return made


def front_figure(complexity: np.ndarray, loss: np.ndarray, probability: np.ndarray) -> Any:
    kind = "log" if len(loss) and loss.min() > 0.0 else "linear"
    made = _new("complexity, in tokens", "mean squared residual", height=260, y_axis_type=kind)
    made.step(complexity, loss, color=GREY, width=1, mode="after")
    size = 6.0 + 16.0 * np.sqrt(np.clip(probability, 0.0, 1.0))
    source = _source(x=complexity, y=loss, size=size, share=probability)
    points = made.scatter("x", "y", size="size", source=source, color=BLUE, line_color=None)
    _hover(
        made, points, ("tokens", "@x"), ("mean squared residual", "@y{%.4g}"),
        ("probability", "@share{%.4g}"),
    )  # fmt: skip
    return made

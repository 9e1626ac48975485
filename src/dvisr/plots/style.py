"""Figures without pyplot: no global state, no window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

BLUE, ORANGE, GREY, GREEN = "#2a6fb0", "#e07b1a", "#8a8a8a", "#3c8d5a"
# Text in an SVG stays text, and the same arrays give the same bytes.
_SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "dvisr"}


def new_figure(width: float = 6.4, height: float = 4.2) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes() -> Axes:
    return new_figure().add_subplot()


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """As PNG and as SVG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    figure.savefig(png, dpi=150, metadata={"Software": None})
    with rc_context(_SVG):
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]

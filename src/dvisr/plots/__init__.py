"""Figures: arrays in, axes out."""

from dvisr.plots.curves import plot_density, plot_elbo, plot_kl, plot_kl_by_size
from dvisr.plots.style import new_figure, save_figure
from dvisr.plots.trace import TraceStep, draw_trace

__all__ = [
    "TraceStep",
    "draw_trace",
    "new_figure",
    "plot_density",
    "plot_elbo",
    "plot_kl",
    "plot_kl_by_size",
    "save_figure",
]

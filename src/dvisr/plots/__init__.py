"""Figures: arrays in, axes out."""

from dvisr.plots.answers import (
    plot_agreement,
    plot_band,
    plot_calibration,
    plot_evidence,
    plot_front,
    plot_functions,
    plot_residuals,
)
from dvisr.plots.corner import plot_constants
from dvisr.plots.curves import plot_density, plot_elbo, plot_kl, plot_kl_by_size
from dvisr.plots.style import new_figure, save_figure
from dvisr.plots.trace import TraceStep, draw_trace

__all__ = [
    "TraceStep",
    "draw_trace",
    "new_figure",
    "plot_agreement",
    "plot_band",
    "plot_calibration",
    "plot_constants",
    "plot_density",
    "plot_elbo",
    "plot_evidence",
    "plot_front",
    "plot_functions",
    "plot_kl",
    "plot_kl_by_size",
    "plot_residuals",
    "save_figure",
]

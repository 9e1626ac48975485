"""log p(y | tree): constants and noise integrated out."""

from dvisr.marginal.affine import AffineForm, affine_form, nonlinear_constants, ridge
from dvisr.marginal.engine import Engine, Fits, Modes
from dvisr.marginal.mixtures import inverse
from dvisr.marginal.weighed import Weighed
from dvisr.marginal.weighing import log_joint_of, noise_draws, residuals_of, weigh

__all__ = [
    "AffineForm",
    "Engine",
    "Fits",
    "Modes",
    "Weighed",
    "affine_form",
    "inverse",
    "log_joint_of",
    "noise_draws",
    "nonlinear_constants",
    "residuals_of",
    "ridge",
    "weigh",
]

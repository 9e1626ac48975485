"""log p(y | tree): constants integrated out."""

from dvisr.marginal.affine import AffineForm, affine_form, nonlinear_constants
from dvisr.marginal.gaussian import ridge

__all__ = ["AffineForm", "affine_form", "nonlinear_constants", "ridge"]

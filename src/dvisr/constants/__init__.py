"""Distributions over a constant."""

from dvisr.constants.base import AbstractConstantPrior
from dvisr.constants.normal import Normal

__all__ = ["AbstractConstantPrior", "Normal"]

"""Distributions over a constant: as a prior, and as the head of a policy."""

from dvisr.constants.base import AbstractConstantPrior
from dvisr.constants.head import AbstractConstantHead, NormalHead
from dvisr.constants.normal import Normal

__all__ = ["AbstractConstantHead", "AbstractConstantPrior", "Normal", "NormalHead"]

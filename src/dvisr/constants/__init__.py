"""Distributions over a constant: as a prior, and as the head of a policy."""

from dvisr.constants.base import AbstractConstantPrior
from dvisr.constants.head import AbstractConstantHead, AffineHead, MixtureHead, NormalHead
from dvisr.constants.normal import Normal

__all__ = [
    "AbstractConstantHead",
    "AbstractConstantPrior",
    "AffineHead",
    "MixtureHead",
    "Normal",
    "NormalHead",
]

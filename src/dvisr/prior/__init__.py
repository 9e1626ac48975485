"""Priors over trees: by size and token alone, or by how formulas are written."""

from dvisr.prior.base import Surroundings, TreePrior
from dvisr.prior.named import (
    NAMED,
    ChosenPrior,
    allowed,
    size_balanced,
    token_weights,
    tree_prior,
    uniform,
)
from dvisr.prior.science import science

__all__ = [
    "NAMED",
    "ChosenPrior",
    "Surroundings",
    "TreePrior",
    "allowed",
    "science",
    "size_balanced",
    "token_weights",
    "tree_prior",
    "uniform",
]

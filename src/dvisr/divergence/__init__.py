"""q against the truth: exact q(tree), exact KL, the sample estimators, q(constants | tree)."""

from dvisr.divergence.conditional import ConstantDensity, constant_density
from dvisr.divergence.integrals import (
    MAX_DIMENSIONS,
    TreeIntegrals,
    integrate_trees,
    tree_log_q,
)
from dvisr.divergence.samples import sample_elbo_terms

__all__ = [
    "MAX_DIMENSIONS",
    "ConstantDensity",
    "TreeIntegrals",
    "constant_density",
    "integrate_trees",
    "sample_elbo_terms",
    "tree_log_q",
]

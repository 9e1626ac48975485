"""The answer of a fit: tables, predictive draws, leave-one-out prediction, draws for ArviZ."""

from dvisr.posterior.posterior import Function, Posterior, Tree, inclusion_of
from dvisr.posterior.predictive import Draws

__all__ = ["Draws", "Function", "Posterior", "Tree", "inclusion_of"]

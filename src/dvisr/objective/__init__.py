"""What training maximises: the evidence lower bound, by REINFORCE."""

from dvisr.objective.baselines import (
    EWMA,
    AbstractBaseline,
    BatchMean,
    LeaveOneOut,
    NoBaseline,
)
from dvisr.objective.reinforce import Reinforce, ReinforceInfo, elbo_terms

__all__ = [
    "EWMA",
    "AbstractBaseline",
    "BatchMean",
    "LeaveOneOut",
    "NoBaseline",
    "Reinforce",
    "ReinforceInfo",
    "elbo_terms",
]

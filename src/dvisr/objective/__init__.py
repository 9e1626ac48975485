"""What training maximises: the evidence lower bound in several ways, and, for comparison, the
single best expression."""

from dvisr.objective.base import (
    AbstractObjective,
    AbstractRepeatedObjective,
    StepInfo,
    elbo_terms,
)
from dvisr.objective.baselines import (
    EWMA,
    AbstractBaseline,
    BatchMean,
    LeaveOneOut,
    NoBaseline,
)
from dvisr.objective.clipped import PPO, grpo
from dvisr.objective.refilled import Refilled
from dvisr.objective.reinforce import Reinforce
from dvisr.objective.replay import ReinforceWithReplay, TrajectoryBalance
from dvisr.objective.risk import RiskSeeking

__all__ = [
    "EWMA",
    "PPO",
    "AbstractBaseline",
    "AbstractObjective",
    "AbstractRepeatedObjective",
    "BatchMean",
    "LeaveOneOut",
    "NoBaseline",
    "Refilled",
    "Reinforce",
    "ReinforceWithReplay",
    "RiskSeeking",
    "StepInfo",
    "TrajectoryBalance",
    "elbo_terms",
    "grpo",
]

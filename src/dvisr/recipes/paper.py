"""The paper's own recipes."""

from __future__ import annotations

import dataclasses
from typing import Any

from dvisr.objective import EWMA, AbstractBaseline, BatchMean, Reinforce
from dvisr.optim import ReduceOnPlateau, RMSprop
from dvisr.recipes.recipe import Recipe
from dvisr.recipes.specs import GRUSpec
from dvisr.sampling import AbstractDraws, ExploringDraws, IndependentDraws, StratifiedDraws


def _published(
    *,
    num_steps: int,
    num_samples: int,
    hidden_size: int,
    learning_rate: float,
    patience: int,
    min_learning_rate: float,
    baseline: AbstractBaseline,
    draws: AbstractDraws,
) -> Recipe:
    """A table of the paper's; `experiments.hyperparameters` has its words for the numbers."""
    return Recipe(
        num_steps=num_steps,
        policy=GRUSpec(hidden_size),
        objective=Reinforce(num_samples, baseline, draws),
        optimiser=RMSprop(decay=0.9, epsilon=1e-6),
        schedule=ReduceOnPlateau(
            first_rate=learning_rate,
            factor=0.5,
            patience=patience,
            min_learning_rate=min_learning_rate,
        ),
    )


# The paper's three tables of hyperparameters. They leave three things to say (docs/method.md):
# - They name a moving average as the baseline of the experiments without constants; what the
#   authors' code ran was the batch mean.
# - They do not say how a batch is drawn. The authors' code draws one sample at a time from q, and
#   then about one linear run with constants in a hundred loses a token for good and ends at KL
#   0.036 (one of the authors' ten did). With draws that explore none of 3,600 did.
# - Without constants, what the scaling experiments end at is half luck: at size 8, over 20 seeds,
#   KL 0.0015 to 0.0097 (published, from one run: 0.0030). Stratified draws halve it at equal cost.
PAPER = {
    "simple": _published(
        num_steps=250,
        num_samples=100,
        hidden_size=32,
        learning_rate=1e-2,
        patience=15,
        min_learning_rate=1e-6,
        baseline=BatchMean(),
        draws=IndependentDraws(),
    ),
    "scaling": _published(
        num_steps=2000,
        num_samples=1000,
        hidden_size=64,
        learning_rate=5e-3,
        patience=50,
        min_learning_rate=5e-6,
        baseline=BatchMean(),
        draws=StratifiedDraws(),
    ),
    "constants": _published(
        num_steps=1000,
        num_samples=500,
        hidden_size=64,
        learning_rate=5e-3,
        patience=25,
        min_learning_rate=1e-6,
        baseline=BatchMean(),
        draws=ExploringDraws(0.05),
    ),
}


def _with_objective(recipe: Recipe, **changes: Any) -> Recipe:
    objective = dataclasses.replace(recipe.objective, **changes)
    return dataclasses.replace(recipe, objective=objective)


PAPER_EWMA = {
    kind: recipe if kind == "constants" else _with_objective(recipe, baseline=EWMA(0.25))
    for kind, recipe in PAPER.items()
}
# What the authors' code ran.
PAPER_LITERAL = {
    kind: _with_objective(recipe, draws=IndependentDraws()) for kind, recipe in PAPER.items()
}

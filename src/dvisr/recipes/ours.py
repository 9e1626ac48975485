"""Ours: `network`, which depends on the budget, and variants of it with one thing changed.

What each part buys is measured by benchmarks/beyond.py and told in docs/beyond.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from dvisr.constants import MixtureHead, NormalHead
from dvisr.objective import (
    PPO,
    AbstractObjective,
    LeaveOneOut,
    Refilled,
    Reinforce,
    ReinforceWithReplay,
    RiskSeeking,
    TrajectoryBalance,
    grpo,
)
from dvisr.optim import Adam, CosineDecay
from dvisr.policy import PlaceInputs, TreeInputs
from dvisr.recipes.paper import PAPER
from dvisr.recipes.recipe import Recipe
from dvisr.recipes.specs import GRUSpec, PolicySpec, TransformerSpec
from dvisr.sampling import ExploringDraws, StratifiedDraws

# Trees that are drawn in all: below this a smaller network gets further.
_LARGE = 200_000
_REMEMBERED = 16.384  # trees for each fresh one of a batch
_RATE, _RATE_OF_ONE_LAYER = 1e-2, 2e-2


def network(kind: str, num_steps: int, num_samples: int) -> Recipe:
    """The best found for a budget of so many steps of so many samples."""
    if kind == "constants":
        return _with_constants(num_steps, num_samples)
    is_large = num_steps * num_samples >= _LARGE
    return Recipe(
        num_steps=num_steps,
        policy=GRUSpec(128, 2, PlaceInputs) if is_large else GRUSpec(64, 1, PlaceInputs),
        objective=TrajectoryBalance(
            num_samples,
            num_replayed=num_samples,
            memory=round(_REMEMBERED * num_samples),
            draws=StratifiedDraws(),
        ),
        optimiser=Adam(),
        schedule=CosineDecay(_RATE if is_large else _RATE_OF_ONE_LAYER, num_steps),
    )


def _with_constants(num_steps: int, num_samples: int) -> Recipe:
    """Trees with constants are points of a continuum, and are not met twice: none is replayed."""
    return Recipe(
        num_steps=num_steps,
        policy=GRUSpec(64, 1, PlaceInputs, skeleton_first=True, head=MixtureHead(48, 1.0)),
        objective=Refilled(num_samples, num_steps),
        optimiser=Adam(),
        schedule=CosineDecay(_RATE, num_steps),
    )


def _with_the_papers_budget(kind: str) -> Recipe:
    paper = PAPER[kind]
    return network(kind, paper.num_steps, paper.objective.num_samples)


NETWORK = {kind: _with_the_papers_budget(kind) for kind in PAPER}


def _varied(
    *,
    policy: Callable[[GRUSpec], PolicySpec] = lambda spec: spec,
    objective: Callable[[int], AbstractObjective] | None = None,
    from_prior: bool = False,
    learning_rate: float | None = None,
) -> dict[str, Recipe]:
    """The shallow recipe with something else in its place: of the number of samples, an objective;
    of its policy, another."""
    found = {}
    for kind, recipe in SHALLOW.items():
        num_samples = recipe.objective.num_samples
        assert isinstance(recipe.policy, GRUSpec)
        found[kind] = dataclasses.replace(
            recipe,
            policy=policy(recipe.policy),
            objective=recipe.objective if objective is None else objective(num_samples),
            from_prior=from_prior,
            schedule=recipe.schedule
            if learning_rate is None
            else CosineDecay(learning_rate, recipe.num_steps),
        )
    return found


def _one_layer(recipe: Recipe) -> Recipe:
    if not (isinstance(recipe.policy, GRUSpec) and recipe.policy.num_layers > 1):
        return recipe
    policy = dataclasses.replace(recipe.policy, num_layers=1)
    return dataclasses.replace(
        recipe, policy=policy, schedule=CosineDecay(_RATE_OF_ONE_LAYER, recipe.num_steps)
    )


# The network with one layer, which is soon trained: variants are made and compared here.
SHALLOW = {kind: _one_layer(recipe) for kind, recipe in NETWORK.items()}
VARIANTS = {
    "shallow": SHALLOW,
    "transformer": _varied(
        policy=lambda spec: TransformerSpec(64, skeleton_first=spec.skeleton_first, head=spec.head),
        learning_rate=3e-3,
    ),
    "in-order": _varied(  # constants are drawn as the paper draws them
        policy=lambda spec: dataclasses.replace(spec, skeleton_first=False, head=NormalHead()),
        objective=lambda n: Reinforce(n, LeaveOneOut(), ExploringDraws(0.05)),
    ),
    "tree-inputs": _varied(policy=lambda spec: dataclasses.replace(spec, inputs=TreeInputs)),
    "from-prior": _varied(from_prior=True),
    "reinforce": _varied(objective=lambda n: Reinforce(n, LeaveOneOut(), StratifiedDraws())),
    "ppo": _varied(objective=lambda n: PPO(n, draws=StratifiedDraws())),
    "grpo": _varied(objective=lambda n: grpo(n, draws=StratifiedDraws())),
    "replay": _varied(objective=lambda n: ReinforceWithReplay(n, n // 4, draws=StratifiedDraws())),
    "risk-seeking": _varied(objective=RiskSeeking),
}

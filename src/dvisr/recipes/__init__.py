"""Policy, objective, optimiser and schedule under one name."""

from __future__ import annotations

import difflib

from dvisr.recipes.ours import NETWORK, VARIANTS, network
from dvisr.recipes.paper import PAPER, PAPER_EWMA, PAPER_LITERAL
from dvisr.recipes.recipe import Recipe
from dvisr.recipes.specs import GRUSpec, PolicySpec, TransformerSpec

RECIPES = {
    "paper": PAPER,
    "network": NETWORK,
    "paper-ewma": PAPER_EWMA,
    "paper-literal": PAPER_LITERAL,
    **VARIANTS,
}

# In a fit "default" is the search; of trainings it was once the name of ours.
OLDER_NAMES = {"default": "network"}

__all__ = [
    "NETWORK",
    "OLDER_NAMES",
    "PAPER",
    "PAPER_EWMA",
    "PAPER_LITERAL",
    "RECIPES",
    "VARIANTS",
    "GRUSpec",
    "PolicySpec",
    "Recipe",
    "TransformerSpec",
    "find_recipe",
    "network",
]


def find_recipe(
    name: str | Recipe, kind: str, num_steps: int | None = None, num_samples: int | None = None
) -> Recipe:
    """By its name and the kind of experiment: simple, scaling or constants. With the paper's budget
    of steps and samples a step where no other is given; what `network` is depends on it. A recipe
    that is given as such is for every kind, and has a budget of its own."""
    recipe = name if isinstance(name, Recipe) else _named(name)[kind]
    if num_steps is None and num_samples is None:
        return recipe
    budget = (
        recipe.num_steps if num_steps is None else num_steps,
        recipe.objective.num_samples if num_samples is None else num_samples,
    )
    is_network = isinstance(name, str) and OLDER_NAMES.get(name, name) == "network"
    return network(kind, *budget) if is_network else recipe.with_budget(*budget)


def _named(name: str) -> dict[str, Recipe]:
    name = OLDER_NAMES.get(name, name)
    if name not in RECIPES:
        close = difflib.get_close_matches(name, RECIPES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(RECIPES)}"
        raise ValueError(f"there is no recipe {name!r}: {hint}")
    return RECIPES[name]

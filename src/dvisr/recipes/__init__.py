"""Policy, objective, optimiser and schedule under one name."""

from __future__ import annotations

import difflib

from dvisr.recipes.ours import DEFAULT, VARIANTS, default
from dvisr.recipes.paper import PAPER, PAPER_EWMA, PAPER_LITERAL
from dvisr.recipes.recipe import Recipe
from dvisr.recipes.specs import GRUSpec, PolicySpec, TransformerSpec

RECIPES = {
    "paper": PAPER,
    "default": DEFAULT,
    "paper-ewma": PAPER_EWMA,
    "paper-literal": PAPER_LITERAL,
    **VARIANTS,
}

__all__ = [
    "DEFAULT",
    "PAPER",
    "PAPER_EWMA",
    "PAPER_LITERAL",
    "RECIPES",
    "VARIANTS",
    "GRUSpec",
    "PolicySpec",
    "Recipe",
    "TransformerSpec",
    "default",
    "find_recipe",
]


def find_recipe(
    name: str, kind: str, num_steps: int | None = None, num_samples: int | None = None
) -> Recipe:
    """By its name and the kind of experiment: simple, scaling or constants. With the paper's budget
    of steps and samples a step where no other is given; what the default is depends on it."""
    if name not in RECIPES:
        close = difflib.get_close_matches(name, RECIPES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(RECIPES)}"
        raise ValueError(f"there is no recipe {name!r}: {hint}")
    recipe = RECIPES[name][kind]
    if num_steps is None and num_samples is None:
        return recipe
    budget = (
        recipe.num_steps if num_steps is None else num_steps,
        recipe.objective.num_samples if num_samples is None else num_samples,
    )
    return default(kind, *budget) if name == "default" else recipe.with_budget(*budget)

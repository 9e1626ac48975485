"""Recipes by name, kind and budget."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr import training
from dvisr.counting import count_trees
from dvisr.experiments.paper import scaling, tabled
from dvisr.objective import Refilled, Reinforce, ReinforceWithReplay, TrajectoryBalance
from dvisr.optim import CosineDecay, ReduceOnPlateau
from dvisr.recipes import PAPER, RECIPES, GRUSpec, Recipe, TransformerSpec, find_recipe
from dvisr.target import make_target


def made(recipe: Recipe, experiment: object) -> training.Training:
    problem = experiment.problem  # type: ignore[attr-defined]
    target = make_target(problem, np.float32)
    return recipe.training(problem.grammar, target)


@pytest.mark.parametrize("kind", PAPER)
@pytest.mark.parametrize("name", RECIPES)
def test_all_have_the_papers_budget(name: str, kind: str) -> None:
    recipe, paper = find_recipe(name, kind), PAPER[kind]
    assert recipe.num_steps == paper.num_steps
    assert recipe.objective.num_samples == paper.objective.num_samples
    if isinstance(recipe.schedule, CosineDecay):
        assert recipe.schedule.num_steps == recipe.num_steps


@pytest.mark.parametrize("kind", PAPER)
@pytest.mark.parametrize("name", RECIPES)
def test_all_take_another_budget(name: str, kind: str) -> None:
    recipe = find_recipe(name, kind, 70, 200)
    assert recipe.num_steps == 70
    assert recipe.objective.num_samples == 200
    if isinstance(recipe.schedule, CosineDecay):
        assert recipe.schedule.num_steps == 70
    if isinstance(recipe.objective, Refilled):
        assert recipe.objective.num_steps == 70


def test_one_part_of_the_budget_may_be_left_to_the_paper() -> None:
    assert find_recipe("default", "scaling", 70).objective.num_samples == 1000
    assert find_recipe("paper", "scaling", None, 30).num_steps == 2000
    assert isinstance(find_recipe("paper", "scaling", 70).schedule, ReduceOnPlateau)


def test_the_default_grows_with_the_budget() -> None:
    small, large = (find_recipe("default", "scaling", *b) for b in [(300, 150), (2000, 1000)])
    assert isinstance(small.policy, GRUSpec)
    assert isinstance(large.policy, GRUSpec)
    assert (small.policy.num_layers, small.policy.hidden_size) == (1, 64)
    assert (large.policy.num_layers, large.policy.hidden_size) == (2, 128)
    assert isinstance(small.objective, TrajectoryBalance)
    assert isinstance(large.objective, TrajectoryBalance)
    assert small.objective.memory < large.objective.memory
    shallow = find_recipe("shallow", "scaling")
    assert shallow.objective == large.objective
    assert shallow.policy == dataclasses.replace(large.policy, num_layers=1)


@pytest.mark.parametrize(
    "objective",
    [TrajectoryBalance(100, 50, memory=1000), ReinforceWithReplay(100, 50, memory=1000)],
)
def test_replay_follows_the_number_of_samples(
    objective: TrajectoryBalance | ReinforceWithReplay,
) -> None:
    changed = objective.with_budget(7, 30)
    assert changed == dataclasses.replace(objective, num_samples=30, num_replayed=15, memory=300)


def test_no_more_is_remembered_than_there_is() -> None:
    experiment = scaling(5)
    num_trees = count_trees(experiment.problem.grammar)
    objective = made(find_recipe("default", "scaling"), experiment).objective
    assert isinstance(objective, TrajectoryBalance)
    assert objective.memory == num_trees < 16384
    endless = made(find_recipe("transformer", "constants"), tabled("constants", "linear"))
    assert endless.objective == find_recipe("transformer", "constants").objective


def test_variants_keep_what_they_do_not_change() -> None:
    in_order = find_recipe("in-order", "constants")
    assert isinstance(in_order.policy, GRUSpec)
    assert not in_order.policy.skeleton_first
    assert isinstance(in_order.objective, Reinforce)
    transformer = find_recipe("transformer", "constants").policy
    default = find_recipe("default", "constants").policy
    assert isinstance(transformer, TransformerSpec)
    assert isinstance(default, GRUSpec)
    assert (transformer.head, transformer.skeleton_first) == (default.head, True)


@pytest.mark.slow
def test_the_default_with_constants_trains_in_single_precision() -> None:
    recipe = find_recipe("default", "constants", 3, 64)
    experiment = tabled("constants", "quadratic")
    setup = made(recipe, experiment)
    grammar = experiment.problem.grammar
    states = recipe.start(setup, grammar, np.float32, seed=0, num_runs=2)
    *_, chunk = training.train(setup, states, 3)
    assert chunk.num_done == 3
    assert chunk.states.objective.tolist() == [3, 3]
    floats = [a for a in jax.tree.leaves(chunk.states) if jnp.issubdtype(a.dtype, jnp.floating)]
    assert all(leaf.dtype == np.float32 for leaf in floats)
    assert all(np.isfinite(leaf).all() for leaf in floats)

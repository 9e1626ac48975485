"""What is past the paper's wall: recipes, objectives and policies against the exact posterior.

    python -m benchmarks.beyond scaling --recipes default,ppo --sizes 8,12 --seeds 5
    python -m benchmarks.beyond ladder --sizes 12,20
    python -m benchmarks.beyond constants --sizes 3,5,7
    python -m benchmarks.beyond variables
    python -m benchmarks.beyond largest
    python -m benchmarks.beyond seconds
    python -m benchmarks.beyond quick
    python -m benchmarks.beyond show

All but the last measure, and put what they find into docs/beyond.json, one row a measurement, in
the place of an earlier row of the same; the last makes docs/scaling.png, docs/seconds.png and the
tables in docs/beyond.md of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import beyond_shown
from benchmarks.pages import with_tables
from benchmarks.study import (
    constants_problem,
    kl_of,
    measure,
    policy_of,
    scaling_problem,
    started,
    truth_of,
    variables_problem,
)
from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.objective import LeaveOneOut, Reinforce
from dvisr.optim import Adam, CosineDecay
from dvisr.policy import PaperInputs, PlaceInputs
from dvisr.problem import Problem
from dvisr.recipes import PAPER, RECIPES, GRUSpec, Recipe, find_recipe
from dvisr.sampling import ExploringDraws, StratifiedDraws
from dvisr.training import train

SCALING_RECIPES = [name for name in RECIPES if not name.startswith("paper-") and name != "in-order"]
LARGEST = 25
LARGEST_BUDGET = (6000, 4000)  # steps, samples
CONSTANTS_BUDGET = (3000, 1000)
QUICK_BUDGET = (200, 150)


def ladder() -> dict[str, Recipe]:
    """From the published recipe to the default, one change at a time."""
    paper = PAPER["scaling"]
    num_steps, num_samples = paper.num_steps, paper.objective.num_samples
    plain = Reinforce(num_samples, LeaveOneOut(), StratifiedDraws())

    def rung(policy: GRUSpec, optimiser: Adam, learning_rate: float) -> Recipe:
        schedule = CosineDecay(learning_rate, num_steps)
        return Recipe(num_steps, policy, plain, optimiser, schedule)

    usual = Adam(0.9, 0.999)
    return {
        "paper": paper,
        "+ Adam, cosine decay, rate 0.01": rung(GRUSpec(64, inputs=PaperInputs), usual, 1e-2),
        "+ sees its place": rung(GRUSpec(64, inputs=PlaceInputs), usual, 1e-2),
        "+ 128 hidden units": rung(GRUSpec(128, inputs=PlaceInputs), usual, 1e-2),
        "+ decays 0.95, 0.95": rung(GRUSpec(128, inputs=PlaceInputs), Adam(), 1e-2),
        "+ rate 0.02 (reinforce)": rung(GRUSpec(128, inputs=PlaceInputs), Adam(), 2e-2),
        "+ replay (shallow)": find_recipe("shallow", "scaling"),
        "+ a second layer, rate 0.01 (default)": find_recipe("default", "scaling"),
    }


def constants_recipes() -> dict[str, Recipe]:
    """All with the same budget of samples and steps; the objective is the default's where a tree
    can be filled anew."""
    default = find_recipe("default", "constants", *CONSTANTS_BUDGET)
    assert isinstance(default.policy, GRUSpec)
    spec, num_samples = default.policy, default.objective.num_samples
    mixture = spec.head

    def in_order(head: AbstractConstantHead) -> Recipe:
        policy = dataclasses.replace(spec, skeleton_first=False, head=head)
        objective = Reinforce(num_samples, LeaveOneOut(), ExploringDraws(0.05))
        return dataclasses.replace(default, policy=policy, objective=objective)

    def skeleton_first(head: AbstractConstantHead, refilled: bool) -> Recipe:
        policy = dataclasses.replace(spec, head=head)
        plain = Reinforce(num_samples, LeaveOneOut(), StratifiedDraws(0.05))
        objective = default.objective if refilled else plain
        return dataclasses.replace(default, policy=policy, objective=objective)

    return {
        "paper": PAPER["constants"].with_budget(*CONSTANTS_BUDGET),
        "in-order": in_order(NormalHead()),
        "in-order-mixture": in_order(mixture),
        "skeleton-first": skeleton_first(NormalHead(), False),
        "skeleton-first-mixture": skeleton_first(mixture, False),
        "refilled": skeleton_first(NormalHead(), True),
        "default": default,  # refilled, mixture
    }


def record(path: Path, group: str, name: str, x: float, found: dict[str, Any]) -> None:
    rows = json.loads(path.read_text()) if path.exists() else []
    key = {"group": group, "name": name, "x": x}
    rows = [row for row in rows if {k: row[k] for k in key} != key]
    rows.append({**key, **found, "device": jax.devices()[0].device_kind})
    rows.sort(key=lambda row: (row["group"], row["name"], row["x"]))
    path.write_text("[\n" + ",\n".join(json.dumps(_plain(row)) for row in rows) + "\n]\n")


def _plain(value: Any) -> Any:
    """Infinity, which JSON has no word for, as a string that `float` reads."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def run_all(
    path: Path,
    group: str,
    recipes: dict[str, Recipe],
    sizes: Iterable[int],
    problem: Callable[[int], Problem],
    num_seeds: int,
) -> None:
    for size in sizes:
        truth = truth_of(problem(size))
        for name, recipe in recipes.items():
            found = measure(truth, recipe, num_seeds)
            budget = {"steps": recipe.num_steps, "samples": recipe.objective.num_samples}
            row = {**dataclasses.asdict(found), **budget}
            record(path, group, name, size, row)
            print(
                f"{group} {size} {name}: median {found.median:.3g}, worst {found.worst:.3g} "
                f"({found.method}), {found.seconds:.0f} s",
                flush=True,
            )


def seconds(path: Path, size: int, limit: float) -> None:
    """KL after so many seconds of training, compiling included; looking does not count. Each curve
    is left after `limit` seconds."""
    truth = truth_of(scaling_problem(size))
    for name, recipe in {
        "paper": find_recipe("paper", "scaling"),
        "default": find_recipe("default", "scaling"),
        "shallow": find_recipe("shallow", "scaling"),
        "reinforce": find_recipe("reinforce", "scaling"),
        "default (200 x 150)": find_recipe("default", "scaling", *QUICK_BUDGET),
        "default (1000 x 300)": find_recipe("default", "scaling", 1000, 300),
    }.items():
        jax.clear_caches()
        began, aside = time.perf_counter(), 0.0
        made, states = started(truth.problem, recipe, 1, np.float32)
        curve, due = [], 0.0
        for chunk in train(made, states, recipe.num_steps, chunk_seconds=0.5):
            now = time.perf_counter() - began - aside
            is_over = now > limit or chunk.num_done == recipe.num_steps
            if now >= due or is_over:
                kl = kl_of(truth, recipe, policy_of(chunk.states, 0)).value
                curve.append([round(now, 2), chunk.num_done, kl])
                due = 1.3 * now
                aside = time.perf_counter() - began - now
            if is_over:
                break
        record(path, "seconds", name, size, {"curve": curve})
        print(name, curve[-1], flush=True)


def show(path: Path) -> None:
    rows = json.loads(path.read_text())
    sweep = path.parent / "sweep.json"
    found = beyond_shown.tables(rows, json.loads(sweep.read_text()) if sweep.exists() else None)
    page = path.parent / "beyond.md"
    page.write_text(with_tables(page.read_text(), found))
    beyond_shown.figures(rows, path.parent)


def quick(path: Path, size: int, num_seeds: int) -> None:
    """How soon a training of few steps is below the authors' last KL, compiling included; the
    seeds one after the other, each as if it were the first."""
    recipe = find_recipe("default", "scaling", *QUICK_BUDGET)
    truth = truth_of(scaling_problem(size))
    kls, times = [], []
    for seed in range(num_seeds):
        jax.clear_caches()
        found = measure(truth, recipe, 1, first_seed=seed)
        kls.append(found.median)
        times.append(round(found.seconds, 2))
        print(f"KL {found.median:.3g} after {found.seconds:.1f} s", flush=True)
    budget = {"steps": recipe.num_steps, "samples": recipe.objective.num_samples}
    record(path, "quick", "default", size, {"kl": kls, "times": times, **budget})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choices = [
        "scaling", "ladder", "constants", "variables", "largest", "seconds", "quick", "show",
    ]  # fmt: skip
    parser.add_argument("what", choices=choices)
    parser.add_argument("--recipes", default=None, help="names with commas between; else all")
    parser.add_argument("--sizes", default=None, help="numbers with commas between")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=100.0, help="seconds a curve of `seconds`")
    parser.add_argument("--results", type=Path, default=Path("docs/beyond.json"))
    arguments = parser.parse_args()
    path, seeds = arguments.results, arguments.seeds
    names = arguments.recipes.split(",") if arguments.recipes else None
    sizes = [int(size) for size in arguments.sizes.split(",")] if arguments.sizes else None

    def chosen(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
        return {name: recipes[name] for name in names} if names else recipes

    match arguments.what:
        case "scaling":
            recipes = chosen({name: find_recipe(name, "scaling") for name in SCALING_RECIPES})
            run_all(path, "scaling", recipes, sizes or [8, 12, 16, 20], scaling_problem, seeds)
        case "ladder":
            run_all(path, "ladder", chosen(ladder()), sizes or [12, 20], scaling_problem, seeds)
        case "constants":
            recipes = chosen(constants_recipes())
            run_all(path, "constants", recipes, sizes or [3, 5, 7], constants_problem, seeds)
        case "variables":
            recipes = chosen({name: find_recipe(name, "scaling") for name in ("paper", "default")})
            run_all(path, "variables", recipes, sizes or [1, 2, 5, 10], variables_problem, seeds)
        case "largest":
            recipe = find_recipe("default", "scaling", *LARGEST_BUDGET)
            run_all(path, "largest", {"default": recipe}, [LARGEST], scaling_problem, 1)
        case "seconds":
            seconds(path, sizes[0] if sizes else 12, arguments.limit)
        case "quick":
            quick(path, sizes[0] if sizes else 12, seeds)
        case "show":
            show(path)


if __name__ == "__main__":
    main()

"""Small problems for the tests of fits, and settings that make a search of them quick."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dvisr.marginal import Weighed
from dvisr.problem import Problem, make_problem
from dvisr.settings import FitSettings, SearchSettings, WeighingSettings
from dvisr.types import Dataset

X = np.linspace(-1.0, 2.0, 14)
LINE = 1.5 * X + 0.7 + np.random.default_rng(0).normal(0.0, 0.1, 14)


def problem_of(y: np.ndarray = LINE, x: np.ndarray = X, **changes: Any) -> Problem:
    """Without changes 38 trees of one column, all of them legal."""
    words: dict[str, Any] = {
        "operators": ("+", "*"), "constants": True, "max_tokens": 5, "max_constants": 2,
        "constraints": "default", "tree_prior": "size-balanced", "constant_prior": "normal:0,10",
        "noise": "infer", **changes,
    }  # fmt: skip
    return make_problem(Dataset.create(x if x.ndim == 2 else x[:, None], y), **words)


def searching(**changes: Any) -> FitSettings:
    """Nothing is enumerated, the network is small and is soon done."""
    quick = SearchSettings(
        num_steps=5, extra_steps=32, num_samples=16, max_enumerated=0, likeliest_trees=3,
        network="plain", hidden_size=8,
        final_updates=10, num_fresh=64, fresh_rounds=1, table_functions=200, table_contexts=50,
        matched_at_start=50, matched_trees=4, matched_a_step=20,
        power_pairs=500, power_pairs_a_step=100, powers_at_start=20, powers_a_step=10,
        inner_functions=10, inner_at_start=20, inner_a_step=5,
    )  # fmt: skip
    return FitSettings(
        search=dataclasses.replace(quick, **changes),
        weighing=WeighingSettings(rounds=(500, 2000), num_starts=8, num_draws=300),
    )


def weighed(
    mode: tuple[float, ...] = (1.0,), error: float = 0.0, log_weights: Any = None
) -> Weighed:
    """What is known of a tree, made up: draws about the mode."""
    count = 1 if not mode else 2000 if log_weights is None else len(log_weights)
    if log_weights is None:
        log_weights = np.full(count, -np.log(count))
    rng = np.random.default_rng(0)
    k = len(mode)
    spread = rng.normal(0.0, 0.1, (k, k))
    constants = np.array(mode) + rng.normal(0.0, 0.1, (count, k))
    return Weighed(
        log_marginal=-1.0,
        error=error,
        method="by hand",
        mode=np.array(mode),
        curvature=spread @ spread.T,
        constants=constants,
        log_weights=np.asarray(log_weights),
        log_q=np.zeros(count),
    )

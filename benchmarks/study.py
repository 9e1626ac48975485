"""Training a recipe on a problem several times, and its KL against the oracle, for `beyond.py`."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.diagnostics import Estimate, best_kl_estimate, exact_kl
from dvisr.divergence import sample_elbo_terms, tree_log_q
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate_batch
from dvisr.exact import solve
from dvisr.experiments.paper import CONSTANT_PRIOR, LIKELIHOOD_STD, scaling, tabled
from dvisr.policy import AbstractPolicy
from dvisr.problem import Problem, make_problem
from dvisr.recipes import Recipe
from dvisr.target import Target, make_target
from dvisr.training import TrainState, train
from dvisr.types import Dataset

MAX_ENUMERATED = 3_000_000
NUM_SAMPLES = 200_000  # where trees can't be enumerated, or have constants


def scaling_problem(size: int) -> Problem:
    return scaling(size).problem


def constants_problem(size: int) -> Problem:
    """The paper's library with constants, y = x0 squared, at another size."""
    return dataclasses.replace(tabled("constants", "quadratic"), max_tokens=size).problem


def variables_problem(num_variables: int, size: int = 7) -> Problem:
    """The scaling experiment with more variables, of which the first is the one that counts; the
    others are a fixed scatter on [0, 1]."""
    x = np.arange(11) / 10.0
    others = np.random.default_rng(0).random((11, num_variables - 1))
    return make_problem(
        Dataset.create(np.concatenate([x[:, None], others], axis=1), x**2),
        operators=("+", "*", "sin"),
        constants=False,
        max_tokens=size,
        max_constants=None,
        constraints="paper",
        tree_prior="uniform",
        constant_prior=CONSTANT_PRIOR,
        noise=LIKELIHOOD_STD,
    )


@dataclasses.dataclass(frozen=True)
class Measured:
    kl: list[float]  # one a seed
    stderr: float  # the largest; 0 where the sum is exact
    method: str
    seconds: float  # of training, all seeds together, compiling included
    num_trees: int  # that the rules allow

    @property
    def median(self) -> float:
        return statistics.median(self.kl)

    @property
    def worst(self) -> float:
        return max(self.kl)


def _or_infinite(kl: float) -> float:
    """A training that came to nothing counts as infinitely far; NaN would slip through a median."""
    return math.inf if math.isnan(kl) else kl


@dataclasses.dataclass(frozen=True)
class Truth:
    """What q is held against; trees and their log posterior only where they can be listed."""

    problem: Problem
    log_evidence: float
    num_allowed: int
    trees: np.ndarray | None
    log_posterior: np.ndarray | None


def truth_of(problem: Problem) -> Truth:
    exact = solve(problem)
    has_constants = problem.grammar.library.has_constants
    if has_constants or exact.num_allowed > MAX_ENUMERATED:
        return Truth(problem, exact.log_evidence, exact.num_allowed, None, None)
    trees = enumerate_trees(problem.grammar)
    values, is_valid = evaluate_batch(problem.grammar.library, trees, problem.X)
    log_likelihood = np.where(is_valid, problem.likelihood.log_prob(np, values), -np.inf)
    log_joint = log_likelihood + problem.tree_prior.log_prob(np, trees)
    log_posterior = log_joint - exact.log_evidence
    return Truth(problem, exact.log_evidence, exact.num_allowed, trees, log_posterior)


def measure(
    truth: Truth, recipe: Recipe, num_seeds: int, dtype: Any = np.float32, first_seed: int = 0
) -> Measured:
    """Seeds run side by side."""
    began = time.perf_counter()
    with jax.enable_x64(dtype == np.float64):
        states = jax.block_until_ready(trained(truth.problem, recipe, num_seeds, dtype, first_seed))
    seconds = time.perf_counter() - began
    found = [kl_of(truth, recipe, policy_of(states, run)) for run in range(num_seeds)]
    return Measured(
        kl=[_or_infinite(one.value) for one in found],
        stderr=max(one.stderr for one in found),
        method=found[0].method,
        seconds=seconds,
        num_trees=truth.num_allowed,
    )


def started(
    problem: Problem, recipe: Recipe, num_runs: int, dtype: Any, seed: int = 0
) -> tuple[Any, TrainState]:
    made = recipe.training(problem.grammar, target_of(problem, dtype))
    return made, recipe.start(made, problem.grammar, dtype, seed=seed, num_runs=num_runs)


def trained(
    problem: Problem, recipe: Recipe, num_runs: int, dtype: Any, seed: int = 0
) -> TrainState:
    made, states = started(problem, recipe, num_runs, dtype, seed)
    for chunk in train(made, states, recipe.num_steps):
        states = chunk.states
    return states


def target_of(problem: Problem, dtype: Any) -> Target:
    return make_target(problem, dtype)


def policy_of(states: TrainState, run: int) -> AbstractPolicy:
    """One run's policy, in float64: training may be rough, the verdict is not."""
    with jax.enable_x64(True):
        policy: AbstractPolicy = jax.tree.map(
            lambda a: jnp.asarray(np.asarray(a[run]), dtype=jnp.float64), states.policy
        )
    return policy


def kl_of(truth: Truth, recipe: Recipe, policy: AbstractPolicy) -> Estimate:
    """The exact sum where trees have no constants and can be enumerated, else by samples."""
    with jax.enable_x64(True):
        grammar = truth.problem.grammar
        target = target_of(truth.problem, np.float64)
        writer = recipe.training(grammar, target).writer
        if truth.trees is None or truth.log_posterior is None:
            terms = sample_elbo_terms(policy, writer, target, NUM_SAMPLES, key=jax.random.key(0))
            return best_kl_estimate(terms, truth.log_evidence)
        log_q = tree_log_q(policy, writer, truth.trees)
        return Estimate(exact_kl(log_q, truth.log_posterior), 0.0, "exact")

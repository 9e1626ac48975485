"""Running one experiment: train, then hold q against the oracle."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dvisr import runs
from dvisr.diagnostics import Estimate, best_kl_estimate, exact_kl, kl_from_elbo
from dvisr.divergence import (
    ConstantDensity,
    constant_density,
    integrate_trees,
    sample_elbo_terms,
    tree_log_q,
)
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate_batch
from dvisr.exact import ExactPosterior, log_marginal, solve
from dvisr.experiments.paper import Experiment
from dvisr.experiments.results import Result, Row
from dvisr.expression import Expression
from dvisr.policy import AbstractPolicy
from dvisr.problem import Problem
from dvisr.recipes import Recipe
from dvisr.runs import pytrees
from dvisr.sampling import Writer
from dvisr.target import Target, make_target
from dvisr.training import TrainInfo, Training, TrainState, train

MAX_ENUMERATED = 3_000_000  # trees; beyond that KL is estimated from samples
NUM_SAMPLES = 50_000  # for the paper's estimator of KL
_CHECKPOINT_SECONDS = 5.0

Progress = Callable[[float], None]  # the fraction of the experiment that is done


def run(
    experiment: Experiment,
    recipe: Recipe,
    settings: dict[str, Any],
    *,
    checkpoint: Path | None = None,
    progress: Progress = lambda fraction: None,
) -> Result:
    """Train every run and measure it. With a checkpoint, what is there is continued, and what was
    done when an interrupt came is kept; the caller removes it once the result is safe."""
    problem = experiment.problem
    exact = solve(problem)
    trained = _train(experiment, recipe, settings, checkpoint, progress)
    with jax.enable_x64(True):
        return _measured(experiment, recipe, settings, problem, exact, trained)


@dataclasses.dataclass(frozen=True)
class _Trained:
    states: TrainState
    info: TrainInfo  # (runs, steps)
    seconds: float


def _train(
    experiment: Experiment,
    recipe: Recipe,
    settings: dict[str, Any],
    checkpoint: Path | None,
    progress: Progress,
) -> _Trained:
    dtype = np.dtype(experiment.precision)
    with jax.enable_x64(dtype == np.float64):
        made, states = make_training(experiment, recipe, dtype, seed=settings["seed"])
        so_far = _Trained(states, _empty_info(experiment.num_runs, dtype), 0.0)
        if checkpoint is not None:
            so_far = _continued(checkpoint, so_far, settings)
        began = time.perf_counter() - so_far.seconds
        saved = time.perf_counter()
        try:
            for chunk in train(made, so_far.states, recipe.num_steps):
                info = jax.tree.map(
                    lambda old, new: np.concatenate([old, new], axis=1), so_far.info, chunk.info
                )
                so_far = _Trained(chunk.states, info, time.perf_counter() - began)
                progress(chunk.num_done / recipe.num_steps)
                if checkpoint is not None and time.perf_counter() - saved > _CHECKPOINT_SECONDS:
                    _save(checkpoint, so_far, settings)
                    saved = time.perf_counter()
        finally:  # at the end too: measuring may be interrupted
            if checkpoint is not None and so_far.info.elbo.size:
                _save(checkpoint, so_far, settings)
    return so_far


def make_training(
    experiment: Experiment, recipe: Recipe, dtype: Any, *, seed: int
) -> tuple[Training, TrainState]:
    """What is trained, and its runs before the first step."""
    problem = experiment.problem
    made = recipe.training(problem.grammar, make_target(problem, dtype))
    num_runs = experiment.num_runs
    return made, recipe.start(made, problem.grammar, dtype, seed=seed, num_runs=num_runs)


def _empty_info(num_runs: int, dtype: Any) -> TrainInfo:
    return TrainInfo(*[np.zeros((num_runs, 0), dtype=dtype)] * 4)  # type: ignore[arg-type]


def _save(path: Path, trained: _Trained, settings: dict[str, Any]) -> None:
    arrays = pytrees.flatten(trained.states, "state") | pytrees.flatten(trained.info, "info")
    runs.save(path, arrays, {"settings": settings, "seconds": trained.seconds})


def _continued(path: Path, fresh: _Trained, settings: dict[str, Any]) -> _Trained:
    """What an interrupted run left, if it was this run; otherwise the fresh start."""
    if not path.exists():
        return fresh
    with contextlib.suppress(runs.BrokenFile, KeyError, TypeError, ValueError):
        arrays, meta = runs.load(path)
        if meta["settings"] == settings:
            states = pytrees.restore(fresh.states, arrays, "state")
            done = int(states.step[0])
            blank = jax.tree.map(lambda a: np.zeros((len(a), done), a.dtype), fresh.info)
            info = jax.tree.map(np.asarray, pytrees.restore(blank, arrays, "info"))
            return _Trained(states, info, float(meta["seconds"]))
    return fresh


def _measured(
    experiment: Experiment,
    recipe: Recipe,
    settings: dict[str, Any],
    problem: Problem,
    exact: ExactPosterior,
    trained: _Trained,
) -> Result:
    began = time.perf_counter()
    policies = [_as_double(trained.states.policy, i) for i in range(experiment.num_runs)]
    target = make_target(problem, np.float64)
    writer = recipe.training(problem.grammar, target).writer
    elbo_terms = [
        sample_elbo_terms(policy, writer, target, NUM_SAMPLES, key=jax.random.key(i))
        for i, policy in enumerate(policies)
    ]
    rows: tuple[Row, ...] = ()
    densities: tuple[ConstantDensity, ...] = ()
    if experiment.kind == "scaling":
        found = _scaling_kl(problem, exact, policies, writer, elbo_terms)
    else:
        rows, found = _table(experiment, problem, exact, policies, writer, target)
        densities = tuple(_densities(problem, policies, writer))
    return Result(
        name=experiment.name,
        settings=settings,
        log_evidence=exact.log_evidence,
        rows=rows,
        kl=tuple(estimate.value for estimate in found),
        kl_stderr=max(estimate.stderr for estimate in found),
        kl_method=found[0].method,
        kl_elbo=tuple(kl_from_elbo(terms, exact.log_evidence).value for terms in elbo_terms),
        seconds=trained.seconds + time.perf_counter() - began,
        elbo=np.asarray(trained.info.elbo, dtype=np.float64),
        learning_rate=np.asarray(trained.info.learning_rate, dtype=np.float64),
        densities=densities,
        policy=pytrees.flatten(trained.states.policy, "policy"),
    )


def _as_double(policies: AbstractPolicy, run: int) -> AbstractPolicy:
    """One run's policy in float64: training may be rough, the verdict is not."""
    found: AbstractPolicy = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a[run]), dtype=jnp.float64), policies
    )
    return found


def _scaling_kl(
    problem: Problem,
    exact: ExactPosterior,
    policies: list[AbstractPolicy],
    writer: Writer,
    elbo_terms: list[np.ndarray],
) -> list[Estimate]:
    if exact.num_allowed > MAX_ENUMERATED:
        found = [best_kl_estimate(terms, exact.log_evidence) for terms in elbo_terms]
        if len({estimate.method for estimate in found}) == 1:
            return found
        return [kl_from_elbo(terms, exact.log_evidence) for terms in elbo_terms]
    trees = enumerate_trees(problem.grammar)
    values, is_valid = evaluate_batch(problem.grammar.library, trees, problem.X)
    log_likelihood = np.where(is_valid, problem.likelihood.log_prob(np, values), -np.inf)
    log_joint = log_likelihood + problem.tree_prior.log_prob(np, trees)
    log_posterior = log_joint - exact.log_evidence
    return [
        Estimate(exact_kl(tree_log_q(policy, writer, trees), log_posterior), 0.0, "exact")
        for policy in policies
    ]


def _table(
    experiment: Experiment,
    problem: Problem,
    exact: ExactPosterior,
    policies: list[AbstractPolicy],
    writer: Writer,
    target: Target,
) -> tuple[tuple[Row, ...], list[Estimate]]:
    """One row an expression, likeliest first, and the joint KL of each run."""
    trees = enumerate_trees(problem.grammar)
    expressions = [_expression(problem, tree) for tree in trees]
    log_joint = problem.tree_prior.log_prob(np, trees) + np.array(
        [
            log_marginal(e, problem.X, problem.likelihood, problem.constant_prior).value
            for e in expressions
        ]
    )
    found = [integrate_trees(policy, writer, target, trees) for policy in policies]
    of_constants = np.stack([integrals.kl_of_constants(log_joint) for integrals in found])
    paper = experiment.probabilities or {}
    rows = [
        Row(
            expression=str(expressions[i]),
            paper=paper.get(str(expressions[i])),
            exact=math.exp(log_joint[i] - exact.log_evidence),
            q=tuple(math.exp(integrals.log_q[i]) for integrals in found),
            kl_of_constants=tuple(of_constants[:, i].tolist())
            if expressions[i].num_constants
            else None,
        )
        for i in np.argsort(-log_joint, kind="stable")
    ]
    kl = [Estimate(i.kl(exact.log_evidence), i.error, "exact") for i in found]
    return tuple(rows), kl


def _densities(
    problem: Problem, policies: list[AbstractPolicy], writer: Writer
) -> Iterator[ConstantDensity]:
    for tree in enumerate_trees(problem.grammar):
        if _expression(problem, tree).num_constants == 1:
            yield constant_density(policies, writer, problem, tree)


def _expression(problem: Problem, tree: np.ndarray) -> Expression:
    return Expression(problem.grammar.library, tuple(int(token) for token in tree[tree >= 0]))

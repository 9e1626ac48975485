"""Chunks change no bit, nor does the process; runs do not depend on how many there are; a second
run compiles nothing; and training arrives where it should."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr import runs, training
from dvisr.divergence import tree_log_q
from dvisr.enumeration import enumerate_trees
from dvisr.experiments.paper import Experiment, tabled
from dvisr.optim import ReduceOnPlateau
from dvisr.recipes import GRUSpec, Recipe, find_recipe
from dvisr.runs import pytrees
from dvisr.target import make_target
from dvisr.training import Training, TrainState
from tests.compiled import compilations

SHORT = dataclasses.replace(
    find_recipe("paper", "constants").with_budget(1000, 20), policy=GRUSpec(8)
)


def made(
    experiment: Experiment, recipe: Recipe = SHORT, num_runs: int = 2, seed: int = 0
) -> tuple[Training, TrainState]:
    problem = experiment.problem
    target = make_target(problem, np.float64)
    found = recipe.training(problem.grammar, target)
    return found, recipe.start(found, problem.grammar, np.float64, seed=seed, num_runs=num_runs)


def bits(tree: object) -> list[bytes]:
    return [array.tobytes() for array in pytrees.flatten(tree, "").values()]


def advanced(made_: tuple[Training, TrainState], lengths: list[int]) -> TrainState:
    setup, states = made_
    for length in lengths:
        states, _ = training.advance(setup, states, jnp.asarray(length, jnp.int32))
    return states


def test_chunking_changes_no_bit() -> None:
    start = made(tabled("constants", "linear"))
    whole = bits(advanced(start, [60]))
    assert bits(advanced(start, [1] * 60)) == whole
    assert bits(advanced(start, [7, 1, 30, 22])) == whole
    assert bits(start[1]) != whole


def test_train_reports_every_step_once() -> None:
    setup, states = made(tabled("constants", "linear"))
    chunks = list(training.train(setup, states, 37, chunk_seconds=0.02))
    assert len(chunks) > 1
    assert chunks[-1].num_done == 37
    assert bits(chunks[-1].states) == bits(advanced((setup, states), [37]))
    elbo = np.concatenate([chunk.info.elbo for chunk in chunks], axis=1)
    assert elbo.shape == (2, 37)
    assert len(np.unique(elbo)) == elbo.size
    _, reports = training.advance(setup, states, jnp.asarray(37, jnp.int32))
    np.testing.assert_array_equal(elbo, np.asarray(reports.elbo[:37]).T)


def test_going_on_from_a_file_changes_no_bit(tmp_path: Path) -> None:
    setup, states = made(tabled("constants", "linear"))
    halfway = advanced((setup, states), [25])
    runs.save(tmp_path / "state.safetensors", pytrees.flatten(halfway, "state"), {"a": 1})
    arrays, meta = runs.load(tmp_path / "state.safetensors")
    again = pytrees.restore(states, arrays, "state")
    assert meta == {"a": 1}
    assert bits(advanced((setup, again), [35])) == bits(advanced((setup, states), [60]))


IN_A_PROCESS = """
import jax
jax.config.update("jax_enable_x64", True)
import hashlib
from tests.test_training import advanced, bits, made
from dvisr.experiments.paper import scaling, tabled
from dvisr.optim import ReduceOnPlateau
from dvisr.recipes import find_recipe

small = bits(advanced(made(tabled("constants", "linear")), [40]))
large = bits(advanced(made(scaling(8), find_recipe("paper", "scaling")), [3]))  # many threads
print(hashlib.sha256(b"".join(small + large)).hexdigest())
"""


@pytest.mark.slow
def test_the_same_bits_in_any_process() -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, "-c", IN_A_PROCESS]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)
    ]
    hashes = {process.communicate()[0] for process in processes}
    assert len(hashes) == 1
    assert len(hashes.pop().strip()) == 64


def final_q(states: TrainState, experiment: Experiment, setup: Training) -> np.ndarray:
    trees = enumerate_trees(experiment.problem.grammar)
    num_runs = states.step.shape[0]
    return np.exp(
        [
            tree_log_q(jax.tree.map(lambda a: a[run], states.policy), setup.writer, trees)  # noqa: B023
            for run in range(num_runs)
        ]
    )


@pytest.mark.slow
def test_a_run_does_not_depend_on_how_many_there_are() -> None:
    """Long before convergence, where different runs still differ in the third digit."""
    experiment, recipe = tabled("simple", "quadratic"), find_recipe("paper", "simple")
    found = []
    for num_runs in (1, 3):
        setup, states = made(experiment, recipe, num_runs)
        found.append(final_q(advanced((setup, states), [12]), experiment, setup))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0.0, atol=1e-8)
    assert np.abs(found[1][0] - found[1][1]).max() > 1e-3


def test_a_second_run_of_the_same_shape_compiles_nothing() -> None:
    """Another seed, other data, chunks of another length: all are arguments."""
    advanced(made(tabled("constants", "linear")), [3])
    before = compilations(training.advance._cached)  # type: ignore[attr-defined]
    assert before >= 1
    advanced(made(tabled("constants", "quadratic"), seed=5), [2, 9])
    assert compilations(training.advance._cached) == before  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "paper-ewma", "paper-literal"])
@pytest.mark.parametrize("law", ["quadratic", "linear", "constant"])
def test_thirty_further_seeds_converge(law: str, name: str) -> None:
    """Every one of them, with each recipe. Seeds that the experiments themselves do not use."""
    experiment, recipe = tabled("simple", law), find_recipe(name, "simple")
    if name == "paper-literal":  # here the same as "paper"
        assert recipe == find_recipe("paper", "simple")
        return
    setup, states = made(experiment, recipe, num_runs=30, seed=1000)
    q = final_q(advanced((setup, states), [recipe.num_steps]), experiment, setup)
    posterior = np.array(sorted((experiment.probabilities or {}).values()))
    assert q.shape == (30, 4)
    np.testing.assert_allclose(np.sort(q, axis=1), np.tile(posterior, (30, 1)), atol=6e-9)


@pytest.mark.slow
def test_single_precision_stays_single() -> None:
    experiment = tabled("constants", "linear")
    problem = experiment.problem
    target = make_target(problem, np.float32)
    setup = SHORT.training(problem.grammar, target)
    states = SHORT.start(setup, problem.grammar, np.float32, seed=0, num_runs=1)
    after = advanced((setup, states), [3])
    floats = [a for a in jax.tree.leaves(after) if jnp.issubdtype(a.dtype, jnp.floating)]
    assert floats
    assert all(leaf.dtype == jnp.float32 for leaf in floats)
    _, reports = training.advance(setup, states, jnp.asarray(3, jnp.int32))
    assert reports.elbo.dtype == jnp.float32
    assert np.isfinite(np.asarray(reports.elbo[:3])).all()


@pytest.mark.slow
def test_the_learning_rate_falls_and_a_step_uses_the_one_before_it() -> None:
    recipe = find_recipe("paper", "simple")
    schedule = ReduceOnPlateau(1e-2, 0.5, patience=0, min_learning_rate=1e-6)
    recipe = dataclasses.replace(recipe, schedule=schedule)
    setup, states = made(tabled("simple", "linear"), recipe, num_runs=1)
    chunks = list(training.train(setup, states, 30))
    elbo = np.concatenate([chunk.info.elbo for chunk in chunks], axis=1)[0]
    rates = np.concatenate([chunk.info.learning_rate for chunk in chunks], axis=1)[0]
    best, rate = np.inf, 1e-2
    for step in range(30):
        assert rates[step] == pytest.approx(rate, rel=1e-12)
        if -elbo[step] < best * (1 - 1e-4):
            best = -elbo[step]
        elif rate - max(rate * 0.5, 1e-6) > 1e-8:
            rate = max(rate * 0.5, 1e-6)


def test_an_unknown_recipe_is_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        find_recipe("papper", "simple")

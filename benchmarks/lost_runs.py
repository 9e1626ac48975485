"""How many runs of the linear experiment with constants lose a token for good, by how they draw.

The counts in docs/method.md ("Draws that explore") are those of seeds 0, 1 and 2 with 300 runs
each, on a GPU; on two cores that takes an hour or two. A run counts as lost if its last twenty
epochs stay more than 1e-6 below the log evidence.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from dvisr.exact import solve
from dvisr.experiments.paper import tabled
from dvisr.experiments.running import make_training
from dvisr.objective import BatchMean, Reinforce
from dvisr.recipes import PAPER
from dvisr.sampling import AbstractDraws, ExploringDraws, IndependentDraws
from dvisr.training import train


def lost(draws: AbstractDraws, num_runs: int, seed: int) -> int:
    experiment = tabled("constants", "linear", num_runs)
    paper = PAPER["constants"]
    recipe = dataclasses.replace(
        paper, objective=Reinforce(paper.objective.num_samples, BatchMean(), draws)
    )
    log_evidence = solve(experiment.problem).log_evidence
    made, states = make_training(experiment, recipe, np.dtype("float64"), seed=seed)
    chunks = [chunk.info.elbo for chunk in train(made, states, recipe.num_steps)]
    gap = log_evidence - np.concatenate(chunks, axis=1)[:, -20:].mean(axis=1)
    return int((~(gap < 1e-6)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    choices: list[AbstractDraws] = [IndependentDraws()]
    choices += [ExploringDraws(share) for share in (0.02, 0.05, 0.1, 0.2)]
    with jax.enable_x64(True):
        for draws in choices:
            counts = [lost(draws, arguments.runs, seed) for seed in range(arguments.seeds)]
            print(f"{draws}: lost {sum(counts)} of {arguments.runs * arguments.seeds}", flush=True)


if __name__ == "__main__":
    main()

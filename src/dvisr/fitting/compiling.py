"""Compile the host's kernels once; they are kept for later processes. `make install` does."""

from __future__ import annotations

import numpy as np

from dvisr.fitting.loop import Search
from dvisr.fitting.problem import Problem
from dvisr.marginal import weigh
from dvisr.types import Dataset


def compile_kernels() -> None:
    x = np.linspace(0.1, 1.0, 6)
    problem = Problem.create(
        Dataset.create(x[:, None], x),
        operators=("+", "*", "exp"),
        constants=True,
        max_tokens=9,
        max_constants=2,
        constraints="default",
        tree_prior="size-balanced",
        constant_prior="decades",
        noise="infer",
    )
    search = Search(problem, num_samples=4, seed=0)
    trees = search.sampler.draw(4, search.rng)
    search.ledger.visit(trees)
    search.neighbours.propose(trees, trees, search.rng)
    search.neighbours.rewritings(trees[0])
    weigh(search.engine, search.ledger.trees[0], search.rng)


if __name__ == "__main__":
    compile_kernels()

"""Compile the host's kernels once; they are kept for later processes. `make install` does."""

from __future__ import annotations

import numpy as np

from dvisr.fitting.search import Search
from dvisr.marginal import Engine, weigh
from dvisr.problem import make_problem
from dvisr.settings import FitSettings
from dvisr.types import Dataset


def compile_kernels() -> None:
    x = np.linspace(0.1, 1.0, 6)
    for noise in ("infer", "student"):
        problem = make_problem(
            Dataset.create(np.stack([x, np.sqrt(x)], axis=1), x),
            operators=("+", "*", "exp"),
            constants=True,
            max_tokens=9,
            max_constants=2,
            constraints="default",
            tree_prior="science",
            constant_prior="decades",
            noise=noise,
        )
        search = Search(problem, FitSettings(), num_samples=4, seed=0)
        trees = search.sampler.draw(4, search.rng)
        search.visited.visit(trees)
        search.neighbours.propose(trees, trees, search.rng)
        search.neighbours.all_rewritings(trees[0], 4)
        search.refiner.refinements(trees[0], search.rng)
        contexts = search.matching.likely_contexts()
        search.matching.filled(contexts, 4)
        search.powers.filled(contexts, 4, 100)
        search.powers.pairs(4, 1)
        search.inner.filled(contexts, 4)
        weigh(Engine.of(problem), search.visited.trees[0], search.rng)


if __name__ == "__main__":
    compile_kernels()

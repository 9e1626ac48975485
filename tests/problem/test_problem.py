"""A problem of some of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.problem import make_problem
from dvisr.types import Dataset

X = np.random.default_rng(0).normal(size=(20, 2))
BARS = np.random.default_rng(1).uniform(0.1, 1.0, 20)


@pytest.mark.parametrize("bars", [None, BARS])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 21.0)])
def test_some_rows(bars: np.ndarray | None, weights: np.ndarray | None) -> None:
    """The log likelihood of some rows and that of the others make that of all."""
    problem = make_problem(
        Dataset.create(X, X[:, 0], bars), operators=("+", "*"), constants=True, max_tokens=5,
        max_constants=1, constraints="default", tree_prior="size-balanced",
        constant_prior="decades", noise=0.5, sample_weight=weights,
    )  # fmt: skip
    rows = np.array([1, 4, 5, 19])
    others = np.setdiff1d(np.arange(20), rows)
    curve = problem.X.sum(axis=1)
    parts = [problem.some(chosen) for chosen in (rows, others)]
    likelihoods = [float(p.likelihood.log_prob(np, p.X.sum(axis=1))) for p in parts]
    assert sum(likelihoods) == pytest.approx(float(problem.likelihood.log_prob(np, curve)))
    assert problem.position is not None
    assert parts[0].position is not None
    np.testing.assert_array_equal(parts[0].position, problem.position[rows])
    np.testing.assert_array_equal(parts[0].data.y, problem.data.y[rows])
    assert parts[0].grammar is problem.grammar

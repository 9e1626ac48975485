"""Races on parts of the rows against fits on all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from dvisr.enumeration import enumerate_trees
from dvisr.marginal import Engine
from dvisr.problem import Problem, make_problem
from dvisr.search.racing import _POINTS_AT_ONCE, Looks, Race
from dvisr.settings import SearchSettings, WeighingSettings
from dvisr.types import Dataset

ROWS = 2000
OWN, WEIGHING = SearchSettings(), WeighingSettings()
RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (ROWS, 2))
CURVE = 1.5 * X[:, 0] + X[:, 1]
BARS = 10.0 ** RNG.uniform(-1.5, 0.5, ROWS)
COUNTS = RNG.integers(1, 30, ROWS).astype(float)
NORMAL = RNG.normal(size=ROWS)


def problem_of(y: np.ndarray, bars: Any = None, weights: Any = None, **changes: Any) -> Problem:
    words: dict[str, Any] = {
        "operators": ("+", "*", "exp"), "constants": True, "max_tokens": 5, "max_constants": 2,
        "constraints": "default", "tree_prior": "size-balanced", "constant_prior": "decades",
        "noise": "infer", **changes,
    }  # fmt: skip
    return make_problem(Dataset.create(X, y, bars), sample_weight=weights, **words)


PROBLEMS = {
    "gaussian": problem_of(CURVE + 0.3 * NORMAL),
    "much noise": problem_of(CURVE + 5.0 * NORMAL),
    "no noise": problem_of(X[:, 0] + X[:, 1]),
    "nothing to find": problem_of(NORMAL),
    "another law": problem_of(np.log(X[:, 0]) / X[:, 1] + 0.1 * NORMAL),
    "error bars": problem_of(CURVE + BARS * NORMAL, BARS, noise=1.0),
    "weights": problem_of(CURVE + NORMAL, weights=COUNTS),
    "student": problem_of(CURVE + 0.3 * RNG.standard_t(4, ROWS), noise="student"),
    "relative": problem_of(CURVE * np.exp(0.2 * NORMAL), noise="relative"),
}


def raced(problem: Problem, seed: int = 0, rows: int = 100) -> tuple[np.ndarray, Looks, Race]:
    """All trees in three batches; their log joints by a race, and the race."""
    trees = enumerate_trees(problem.grammar)
    log_prior = np.asarray(problem.tree_prior.log_prob(np, trees))
    engine = Engine.in_parts(problem, rows, np.random.default_rng(seed), 1)
    race = Race(engine, OWN.num_starts, OWN.hopeless, OWN.hopeless_a_row)
    order = np.random.default_rng(seed).permutation(len(trees))
    marginal, estimate = np.empty(len(trees)), np.empty(len(trees))
    for places in np.array_split(order, 3):
        looks = race.look(trees[places], log_prior[places])
        marginal[places], estimate[places] = looks.log_marginal, looks.estimate
    return log_prior, Looks(marginal, estimate), race


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_posterior_is_that_of_all_rows(name: str) -> None:
    problem = PROBLEMS[name]
    trees = enumerate_trees(problem.grammar)
    assert len(trees) > 200
    log_prior, looks, race = raced(problem)
    whole = Engine.of(problem, num_threads=1).fit(trees, WEIGHING.num_starts).log_marginal
    shares = [softmax(found + log_prior) for found in (looks.log_marginal, whole)]
    # First looks differ by their starts; what is likelier than this is weighed again in a fit.
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() < WEIGHING.above
    # What was weighed was weighed on all rows; what was not has no part in the posterior.
    is_whole = np.isfinite(looks.log_marginal)
    near = is_whole & (whole + log_prior > (whole + log_prior).max() - OWN.hopeless)
    likely = near & (shares[1] > WEIGHING.above)
    np.testing.assert_allclose(looks.log_marginal[likely], whole[likely], atol=0.05)
    np.testing.assert_array_equal(looks.estimate[is_whole], looks.log_marginal[is_whole])
    if name not in ("much noise", "nothing to find"):
        assert race.num_fitted[-1] < race.num_fitted[0] / 2


@pytest.mark.parametrize("seed", range(5))
def test_what_shows_on_few_rows_alone_is_found(seed: int) -> None:
    """On four rows in two thousand a second column matters, much: most parts have none of them."""
    second = np.zeros(ROWS)
    second[[3, 500, 1100, 1999]] = [3.0, 5.0, 4.0, 6.0]
    y = 1.5 * X[:, 0] + second + 0.1 * NORMAL
    problem = make_problem(
        Dataset.create(np.stack([X[:, 0], second], axis=1), y), operators=("+", "*"),
        constants=True, max_tokens=5, max_constants=1, constraints="default",
        tree_prior="size-balanced", constant_prior="decades", noise="infer",
    )  # fmt: skip
    trees = enumerate_trees(problem.grammar)
    log_prior, looks, _ = raced(problem, seed)
    whole = Engine.of(problem, num_threads=1).fit(trees, OWN.num_starts).log_marginal
    best = trees[np.argmax(looks.log_marginal + log_prior)]
    column = problem.grammar.library.find("x1")
    assert (best == column).sum() == 1
    np.testing.assert_allclose(
        softmax(looks.log_marginal + log_prior), softmax(whole + log_prior), atol=1e-3
    )


def test_estimates_are_on_the_scale_of_all_rows() -> None:
    """Of trees that were left, the estimate is nearer to the truth than to the likeliest tree."""
    problem = PROBLEMS["gaussian"]
    trees = enumerate_trees(problem.grammar)
    _, looks, _ = raced(problem)
    whole = Engine.of(problem, num_threads=1).fit(trees, 48).log_marginal
    left = np.isfinite(looks.estimate) & ~np.isfinite(looks.log_marginal)
    assert left.sum() > 100
    behind = whole.max() - whole[left]
    off = np.abs(looks.estimate[left] - whole[left])
    assert np.median(off / behind) < 0.3


def test_undefined_on_a_row_is_undefined() -> None:
    """log of a column that is negative on one row, which hardly any part has."""
    x = X[:, 0].copy()
    x[1234] = -1.0
    y = np.log(np.abs(x)) + 0.01 * NORMAL
    problem = make_problem(
        Dataset.create(x[:, None], y), operators=("+", "*", "log"), constants=True, max_tokens=4,
        max_constants=1, constraints="default", tree_prior="size-balanced",
        constant_prior="decades", noise="infer",
    )  # fmt: skip
    trees = enumerate_trees(problem.grammar)
    _, looks, race = raced(problem)
    whole = Engine.of(problem, num_threads=1).fit(trees, OWN.num_starts).log_marginal
    library = problem.grammar.library
    log_x = [library.find("log"), library.find("x0")]
    number = next(n for n, t in enumerate(trees) if [int(v) for v in t if v >= 0] == log_x)
    assert whole[number] == looks.log_marginal[number] == -np.inf
    assert race.num_fitted[-1] > 0


def test_once_it_is_late_trees_stay_where_they_are() -> None:
    """One is weighed on all rows all the same, to make an answer of; the others are estimated."""
    problem = PROBLEMS["much noise"]
    trees = enumerate_trees(problem.grammar)
    log_prior = np.asarray(problem.tree_prior.log_prob(np, trees))
    engine = Engine.in_parts(problem, 100, np.random.default_rng(0), 1)
    race = Race(engine, OWN.num_starts, OWN.hopeless, OWN.hopeless_a_row, lambda: True)
    looks = race.look(trees, log_prior)
    assert np.isfinite(looks.log_marginal).sum() == 1
    assert race.num_fitted[-1] == 1
    assert np.isfinite(looks.estimate).mean() > 0.5


@pytest.mark.parametrize("late_after", [0, 1, 9])
def test_where_a_close_look_finds_less_others_come_near(late_after: int) -> None:
    """The first was reckoned to be ten nats ahead, and is eight behind: the second is looked at,
    too. What there is no time for is told."""
    reckoned, found = np.array([0.0, -10.0, -50.0]), np.array([-20.0, -12.0, -60.0])
    looked: list[int] = []

    class Whole:
        X = np.zeros((_POINTS_AT_ONCE, 1))  # one at a time

        def fit(self, trees: np.ndarray, *_: Any, **__: Any) -> SimpleNamespace:
            looked.extend(trees[:, 0].tolist())
            return SimpleNamespace(log_marginal=found[trees[:, 0]])

    race = object.__new__(Race)
    race._levels, race._num_starts = [Whole()], 1  # type: ignore[list-item]
    race.reference = np.array([-30.0])
    race._is_late = lambda: len(looked) >= 2 * late_after
    joint = reckoned.copy()
    trees = np.arange(3, dtype=np.int8)[:, None]
    has_time = race._look_closely(trees, np.zeros(3), joint, np.zeros((3, 1, 1)))
    count = min(late_after, 2)
    assert looked == [0, 0, 1, 1][: 2 * count]
    assert joint.tolist() == [*found[:count], *reckoned[count:]]
    near = [True, False, False] if late_after == 0 else [False, True, False]
    assert has_time.tolist() == [not (late_after < 2 and one) for one in near]

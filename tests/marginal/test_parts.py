"""Parts of the rows: how many, nested, and fair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dvisr.constants import Decades, Normal
from dvisr.evaluation import evaluate
from dvisr.expression import parse
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine, weigh
from dvisr.marginal.parts import nested_parts, part_sizes, standing_for
from tests.fitting.problems import problem_of

ROWS = 600
Y = np.random.default_rng(1).normal(size=ROWS)
BARS = 10.0 ** np.random.default_rng(2).uniform(-2.0, 1.0, ROWS)
COUNTS = np.random.default_rng(3).integers(1, 40, ROWS).astype(float)


@pytest.mark.parametrize("fewest", [1, 7, 100])
@pytest.mark.parametrize("rows", [1, 7, 8, 100, 101, 799, 800, 12_345])
def test_sizes(rows: int, fewest: int) -> None:
    sizes = part_sizes(rows, fewest)
    if rows < 2 * fewest:
        assert sizes == []
        return
    assert sizes[0] == fewest
    assert all(later == 4 * earlier for earlier, later in itertools.pairwise(sizes))
    assert 2 * sizes[-1] <= rows
    assert 8 * sizes[-1] > rows  # no part more would do


@pytest.mark.parametrize("weights", [None, COUNTS])
@pytest.mark.parametrize("bars", [None, BARS])
def test_a_part_stands_for_all_rows(weights: Any, bars: Any) -> None:
    likelihood = make_likelihood(Y, "infer", bars, weights)
    parts = nested_parts(likelihood, 10, np.random.default_rng(0))
    assert [len(rows) for rows, _ in parts] == [10, 40, 160]
    for rows, part in parts:
        assert (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(part.y, Y[rows])
        np.testing.assert_array_equal(part.scale, likelihood.scale[rows])
        assert part.count == pytest.approx(likelihood.count * len(rows) / ROWS)
        assert standing_for(part, likelihood.count).count == pytest.approx(likelihood.count)
        assert part.prior == likelihood.prior
    for (small, _), (large, _) in itertools.pairwise(parts):
        assert set(small) <= set(large)


@pytest.mark.parametrize("weights", [None, COUNTS])
@pytest.mark.parametrize("bars", [None, BARS])
def test_sums_over_a_part_are_right_on_average(weights: Any, bars: Any) -> None:
    """The log likelihood of one curve, relative to that of another: within four standard errors
    over 400 draws of the part, which takes its ratio's bias to be small."""
    likelihood = make_likelihood(Y, 1.0, bars, weights)
    curves = np.stack([np.zeros(ROWS), np.full(ROWS, 0.3)])

    def gain(of: Any, rows: np.ndarray) -> float:
        one, two = of.log_prob(np, curves[:, rows])
        return float(two - one)

    found = []
    for seed in range(400):
        rows, part = nested_parts(likelihood, 60, np.random.default_rng(seed))[0]
        found.append(gain(standing_for(part, likelihood.count), rows))
    truth = gain(likelihood, np.arange(ROWS))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 4.0 * error + 0.02 * abs(truth)


def test_few_precise_rows_are_in_every_part() -> None:
    bars = np.full(ROWS, 10.0)
    bars[[5, 77, 300]] = 0.01
    likelihood = make_likelihood(Y, 1.0, bars)
    for seed in range(20):
        rows, _ = nested_parts(likelihood, 30, np.random.default_rng(seed))[0]
        assert {5, 77, 300} <= set(rows)


LIBRARY = Library.create(["+", "*", "exp", "sin"], ["x"], constants=True)
LAWS = ["x * c + c", "exp(x * c) * c + c", "sin(x * c) * c", "x * x"]


@pytest.mark.parametrize("prior", [Normal(0.0, 10.0), Decades()], ids=["normal", "decades"])
@pytest.mark.parametrize("law", LAWS)
def test_starts_from_a_part_lead_where_starts_on_all_rows_do(law: str, prior: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 2.0, 1000)
    y = 1.3 * np.exp(0.7 * x) + 0.4 + rng.normal(0.0, 0.3, len(x))
    problem = problem_of(y, x, operators=("+", "*", "exp", "sin"), max_tokens=7, max_constants=3)
    plain = Engine(LIBRARY, problem.X, problem.likelihood, prior, num_threads=1)
    coarse = None
    for rows, part in nested_parts(problem.likelihood, 60, np.random.default_rng(0)):
        coarse = Engine(LIBRARY, problem.X[rows], part, prior, num_threads=1, coarse=coarse)
    both = Engine(LIBRARY, problem.X, problem.likelihood, prior, num_threads=1, coarse=coarse)
    assert [len(engine.X) for engine in both.levels] == [60, 240, 1000]
    tree = np.array(parse(law, LIBRARY).tokens, dtype=np.int8)
    one, two = (e.fit(tree[None], 48).log_marginal[0] for e in (plain, both))
    assert two == pytest.approx(one, abs=0.02)
    one, two = (weigh(e, tree, np.random.default_rng(0)).log_marginal for e in (plain, both))
    assert two == pytest.approx(one, abs=0.05)
    expression = parse(law, LIBRARY)
    k = expression.num_constants
    curves = [evaluate(expression, x[:, None], list(e.polish(tree)[:k]))[0] for e in (plain, both)]
    np.testing.assert_allclose(curves[1], curves[0], atol=1e-4)


@pytest.mark.parametrize("prior", [Normal(0.0, 10.0), Decades()], ids=["normal", "decades"])
@pytest.mark.parametrize("law", LAWS)
def test_modes_of_a_part_are_followed_to_all_rows(law: str, prior: Any) -> None:
    """From the best constants on 60 rows to those on 1,000: the likelihood there is as high as that
    of the mode that the engine of all rows finds by itself, to a hundredth of a nat or so."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 2.0, 1000)
    k = parse(law, LIBRARY).num_constants
    y = evaluate(parse(law, LIBRARY), x[:, None], [1.3, 0.7, 0.4][:k])[0]
    y = y + rng.normal(0.0, 0.3, len(x))
    problem = problem_of(y, x, operators=("+", "*", "exp", "sin"), max_tokens=7, max_constants=3)
    engine = Engine(LIBRARY, problem.X, problem.likelihood, prior, num_threads=1)
    rows, part = nested_parts(problem.likelihood, 60, np.random.default_rng(0))[0]
    stands = standing_for(part, problem.likelihood.count)
    coarse = Engine(LIBRARY, problem.X[rows], stands, prior, num_threads=1)
    tree = np.array(parse(law, LIBRARY).tokens, dtype=np.int8)[None]
    followed = engine.follow(tree, coarse.fit(tree, 48).modes)

    def log_likelihood(constants: np.ndarray) -> float:
        values, is_valid = evaluate(parse(law, LIBRARY), problem.X, list(constants[:k]))
        assert is_valid.all()
        return float(problem.likelihood.log_prob(np, values))

    best = log_likelihood(engine.fit(tree, 48).constants[0])
    assert followed.log_likelihood[0] == pytest.approx(best, abs=0.05)
    there = [log_likelihood(m) for m in followed.modes[0] if k and np.isfinite(m[0])]
    assert followed.log_likelihood[0] == pytest.approx(max(there, default=best), abs=1e-6)

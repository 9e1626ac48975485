"""Spaces whose trees are all listed: what is said of them is as exact as it is called.

The oracle is quadrature, tree by tree. `python -m benchmarks.exactness` prints the same as a table.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.exactness import Measured, make_space, measure, shown, truths_of

from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.exact import log_marginal
from dvisr.expression import Expression, parse
from dvisr.fitting.fitters import Budget, SearchFitter
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine, weigh
from dvisr.problem import make_problem
from dvisr.settings import FitSettings, WeighingSettings
from dvisr.types import Dataset

X = np.linspace(0.1, 4.0, 20)[:, None]
LINE = 2.2 * X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=20)
LIBRARY = Library.create(["+", "-", "*", "/", "sin"], ["x0"], constants=True)
NOISES: list[float | str] = [0.1, "infer", "student", "student:4,0.1", "relative"]
PRIORS: list[AbstractConstantPrior] = [Normal(0.0, 10.0), Normal(5.0, 3.0), Decades()]
FEW_TREES = 60
QUICK = (102, 104, 108, 110, 111, 114, 115, 121, 124, 126)  # quadrature takes little time for these


def engine_of(y: np.ndarray, noise: float | str, prior: AbstractConstantPrior) -> Engine:
    return Engine(LIBRARY, X, make_likelihood(y, noise), prior, num_threads=1)


def first_look(engine: Engine, tree: Expression) -> float:
    return float(engine.fit(np.array([tree.tokens], dtype=np.int8)).log_marginal[0])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS, ids=["wide", "aside", "decades"])
@pytest.mark.parametrize("text", ["x0 / c * c", "x0 * c * c"])
def test_first_looks_at_ridges(text: str, prior: AbstractConstantPrior, noise: float | str) -> None:
    """Of two constants the data know the quotient or the product alone."""
    engine, tree = engine_of(LINE, noise, prior), parse(text, LIBRARY)
    weighed = weigh(engine, np.array(tree.tokens), np.random.default_rng(0))
    assert weighed.error < 0.05
    assert first_look(engine, tree) == pytest.approx(weighed.log_marginal, abs=0.7)


@pytest.mark.parametrize("text", ["x0 / c * c", "x0 * c * c"])
def test_ridges_by_quadrature(text: str) -> None:
    """What ridges are compared with above is itself right."""
    tree, prior = parse(text, LIBRARY), Normal(0.0, 10.0)
    engine = engine_of(LINE, 0.1, prior)
    weighed = weigh(engine, np.array(tree.tokens), np.random.default_rng(0))
    truth = log_marginal(tree, X, engine.likelihood, prior).value
    assert weighed.log_marginal == pytest.approx(truth, abs=3.0 * weighed.error + 1e-3)


@pytest.mark.parametrize("shift", [0.0, -20.0])
@pytest.mark.parametrize("scale", [1e2, 1e3, 1e6])
def test_first_looks_at_data_at_odds_with_the_prior(scale: float, shift: float) -> None:
    """Constants that would fit are many standard deviations away: the noise explains the data."""
    tree, prior = parse("(x0 - c) * c", LIBRARY), Normal(0.0, 10.0)
    engine = engine_of(scale * (LINE + shift), "infer", prior)
    truth = log_marginal(tree, X, engine.likelihood, prior).value
    assert first_look(engine, tree) == pytest.approx(truth, abs=1.0)


def test_a_bent_ridge_is_weighed() -> None:
    """A line by the beginning of a sine: a product is known until the sine bends."""
    tree, prior = parse("sin(x0 * c) * c", LIBRARY), Normal(0.0, 10.0)
    engine = engine_of(LINE, "infer", prior)
    weighed = weigh(engine, np.array(tree.tokens), np.random.default_rng(0))
    truth = log_marginal(tree, X, engine.likelihood, prior).value
    assert weighed.log_marginal == pytest.approx(truth, abs=3.0 * weighed.error + 1e-3)
    assert first_look(engine, tree) == pytest.approx(truth, abs=2.0)


@pytest.mark.parametrize("frequency", [1.3, 4.0, 7.5, 12.0])
@pytest.mark.parametrize("size", [0.1, 0.4])
def test_a_frequency_is_found(frequency: float, size: float) -> None:
    rng = np.random.default_rng(int(10 * frequency))
    x = np.linspace(0.0, 4.0, 20)
    y = 2.0 * np.sin(frequency * x) + size * rng.normal(size=20)
    problem = make_problem(
        Dataset.create(x[:, None], y),
        operators=("+", "*", "sin"),
        constants=True,
        max_tokens=6,
        max_constants=2,
        constraints="paper",
        tree_prior="uniform",
        constant_prior="normal:0,10",
        noise="infer",
    )
    outcome = SearchFitter().fit(problem, Budget(), seed=0)
    best = outcome.posterior.functions[0]
    assert sorted(str(best.expression)) == sorted("sin(x0 * c) * c")
    assert outcome.posterior.is_exact


def test_what_is_not_sure_is_not_called_exact() -> None:
    space = make_space(114, FEW_TREES)
    weighing = WeighingSettings(exact_error=1e-9)
    fitter = SearchFitter(FitSettings(weighing=weighing))
    outcome = fitter.fit(space.problem, Budget(), seed=0)
    assert not outcome.posterior.is_exact
    assert any(check.name == "unsure" and check.grade for check in outcome.verdict.checks)


def judged(rows: list[Measured]) -> None:
    """The stated error holds for 19 of 20, and first looks are near enough to be led by."""
    sure = [row for row in rows if row.is_promised and row.is_exact]
    table = shown(rows)
    assert len(sure) >= 0.7 * len(rows), table
    assert sum(row.holds for row in sure) >= 0.95 * len(sure), table
    assert sum(row.worst_look < 1.0 for row in rows) >= 0.8 * len(rows), table
    assert all(row.worst_look < 3.0 for row in sure), table
    assert all(abs(row.off) < 4.0 * row.stderr + 0.01 for row in sure), table


def test_generated_spaces() -> None:
    spaces = [make_space(seed, FEW_TREES) for seed in QUICK]
    judged([measure(space, truths_of(space.problem)) for space in spaces])


@pytest.mark.slow
def test_many_generated_spaces() -> None:
    spaces = [make_space(seed, FEW_TREES) for seed in range(60)]
    judged([measure(space, truths_of(space.problem)) for space in spaces])

"""The paper's experiments as data, and quick versions of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from dvisr.diagnostics import kl_from_elbo
from dvisr.exact import solve
from dvisr.experiments import experiments, failures
from dvisr.experiments.hyperparameters import HYPERPARAMETERS
from dvisr.experiments.paper import scaling, tabled
from dvisr.experiments.results import Result, load_result, save_result
from dvisr.experiments.running import run
from dvisr.experiments.writing import _hyperparameters
from dvisr.objective import EWMA, BatchMean, Reinforce
from dvisr.optim import ReduceOnPlateau, RMSprop
from dvisr.recipes import PAPER, PAPER_EWMA, PAPER_LITERAL, GRUSpec, Recipe
from dvisr.runs import BrokenFile
from dvisr.sampling import ExploringDraws, IndependentDraws, StratifiedDraws
from tests.exact.test_paper import LOG_EVIDENCE, SCALING, TABLES

pytestmark = pytest.mark.slow

# The three tables of hyperparameters, retyped from the paper: those that are numbers.
NUMBERS = {
    "simple": (250, 100, 10, 32, 1e-2, 0.9, 1e-6, 0.5, 15, 1e-6),
    "scaling": (2000, 1000, 1, 64, 5e-3, 0.9, 1e-6, 0.5, 50, 5e-6),
    "constants": (1000, 500, 10, 64, 5e-3, 0.9, 1e-6, 0.5, 25, 1e-6),
}
ROWS = (
    "Epochs",
    "Samples per epoch",
    "Runs",
    "Hidden layer size",
    "RMSprop learning rate",
    "RMSprop α",
    "RMSprop ε",
    "LRA factor",
    "LRA patience",
    "LRA min_lr",
)


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_tables_of_hyperparameters(kind: str) -> None:
    table = HYPERPARAMETERS[kind]
    assert tuple(table[row] for row in ROWS) == NUMBERS[kind]
    assert table["RNN type"] == "Gated Recurrent Unit"
    assert table["Number of hidden layers"] == 1
    assert table["Optimiser"] == "RMSprop"
    assert table["Learning rate annealer (LRA)"] == "ReduceLROnPlateau"
    assert (table["LRA metric"], table["LRA mode"]) == ("-ELBO", "min")
    assert table["Likelihood standard deviation"] == 1.0
    if kind == "constants":
        assert table["Baseline"] == "Mean"
        assert (table["c prior mean"], table["c prior standard deviation"]) == (0.0, 10.0)
    else:
        assert table["Baseline"] == "Exponential weighted moving average"
        assert table["Baseline (EWMA) α"] == 0.25
    assert ("Max number of tokens per expression" in table) == (kind != "scaling")


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_recipe_is_the_table(kind: str) -> None:
    recipe, (num_steps, num_samples, runs, hidden_size, *numbers) = PAPER[kind], NUMBERS[kind]
    assert {one.num_runs for one in experiments(kind)} == {runs}
    learning_rate, decay, epsilon, factor, patience, min_learning_rate = numbers
    draws = {"scaling": StratifiedDraws(), "constants": ExploringDraws(0.05)}
    objective = Reinforce(num_samples, BatchMean(), draws.get(kind, IndependentDraws()))
    assert recipe == Recipe(
        num_steps=num_steps,
        policy=GRUSpec(hidden_size),
        objective=objective,
        optimiser=RMSprop(decay, epsilon),
        schedule=ReduceOnPlateau(learning_rate, factor, int(patience), min_learning_rate),
    )
    by_text = BatchMean() if kind == "constants" else EWMA(0.25)
    as_told = dataclasses.replace(objective, baseline=by_text)
    assert PAPER_EWMA[kind] == dataclasses.replace(recipe, objective=as_told)
    one_by_one = dataclasses.replace(objective, draws=IndependentDraws())
    assert PAPER_LITERAL[kind] == dataclasses.replace(recipe, objective=one_by_one)


def test_eighteen_experiments() -> None:
    names = [one.name for one in experiments("all")]
    laws = ["quadratic", "linear", "constant"]
    assert names == [
        *(f"simple/{law}" for law in laws),
        *(f"scaling/{size}" for size in range(1, 13)),
        *(f"constants/{law}" for law in laws),
    ]
    with pytest.raises(ValueError, match="no group"):
        experiments("everything")


@pytest.mark.parametrize("key", TABLES, ids="/".join)
def test_the_six_tables(key: tuple[str, str]) -> None:
    experiment = tabled(*key)
    assert experiment.probabilities == TABLES[key]
    assert list(experiment.probabilities) == list(TABLES[key])
    exact = solve(experiment.problem)
    assert abs(exact.log_evidence - LOG_EVIDENCE[key]) < 1e-10
    assert experiment.precision == "float64"


def test_the_published_scaling() -> None:
    published = [0.0, 0.0, 3e-8, 7e-8, 5.124e-5, 3.924e-5, 3.6046e-4, 3.01668e-3, 1.210149e-2,
                 1.973471e-2, 2.543961e-2, 8.141437e-2]  # fmt: skip
    assert [scaling(size).published_kl for size in range(1, 13)] == published
    seconds = sum(scaling(size).published_seconds or 0.0 for size in range(1, 13))
    tables = sum(
        10 * (tabled(kind, law).published_seconds or 0.0)
        for kind in ("simple", "constants")
        for law in ("quadratic", "linear", "constant")
    )
    assert round((seconds + tables) / 3600) == 74  # hours
    assert scaling(13).published_kl is None
    exact = {size: evidence for size, _, _, evidence in SCALING}
    for size in (1, 6, 12):
        assert abs(solve(scaling(size).problem).log_evidence - exact[size]) < 1e-10


def found(kind: str, law: str, num_runs: int) -> Result:
    return run(tabled(kind, law, num_runs), PAPER[kind], {"seed": 0, "recipe": "paper"})


@pytest.mark.parametrize("law", ["quadratic", "linear", "constant"])
def test_simple_experiments(law: str) -> None:
    """The published ones in full: ten runs, all converged, eight decimals."""
    result = found("simple", law, 10)
    assert failures(tabled("simple", law), result) == []
    assert len(result.kl) == 10
    assert max(abs(kl) for kl in result.kl) < 1e-9
    assert result.elbo.shape == (10, 250)


@pytest.mark.parametrize("law", ["quadratic", "linear", "constant"])
def test_experiments_with_constants(law: str) -> None:
    """Two of the ten runs, in full. q(c | tree) is the exact posterior of the constant too."""
    result = found("constants", law, 2)
    assert failures(tabled("constants", law, 2), result) == []
    for row in result.rows:
        has_constant = "c" in row.expression.replace("cos", "")
        assert (row.kl_of_constants is not None) == has_constant
        if row.kl_of_constants is not None:
            assert max(map(abs, row.kl_of_constants)) < 1e-9
    assert [density.expression for density in result.densities] == ["c", "x0 + c", "x0 * c"]
    for density in result.densities:
        np.testing.assert_allclose(density.q, np.tile(density.exact, (2, 1)), atol=1e-6)
        mean, std = density.moments(density.exact)
        y, x = {"quadratic": np.arange(11) ** 2 / 100, "linear": np.arange(11) / 10,
                "constant": np.full(11, 0.5)}[law], np.arange(11) / 10  # fmt: skip
        # Closed forms: a Normal prior of variance 100, and one observation a point.
        if density.expression == "x0 * c":
            precision, total = 0.01 + (x * x).sum(), (x * y).sum()
        else:
            shift = x if density.expression == "x0 + c" else 0.0
            precision, total = 0.01 + 11.0, (y - shift).sum()
        assert mean == pytest.approx(total / precision, abs=1e-5)
        assert std == pytest.approx(precision**-0.5, abs=1e-5)


def test_scaling_quickly() -> None:
    """A short training at size 6: the exact KL and the paper's estimator of it agree."""
    recipe = dataclasses.replace(PAPER["scaling"].with_budget(150, 200), policy=GRUSpec(16))
    result = run(scaling(6, 2), recipe, {"seed": 3, "recipe": "paper"})
    assert result.kl_method == "exact"
    assert len(result.kl) == len(result.kl_elbo) == 2
    for exact, estimated in zip(result.kl, result.kl_elbo, strict=True):
        assert 1e-6 < exact < 1.0
        # The terms' deviation is about sqrt(2 KL), and there are 50,000 of them.
        assert abs(exact - estimated) < 5 * np.sqrt(2 * exact / 50_000)
    # It has learnt: the last epochs are far nearer the evidence than the first.
    gap = result.log_evidence - result.elbo.mean(axis=0)
    assert gap[-20:].mean() < 0.2 * gap[0]


def test_estimators_take_over_where_trees_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from dvisr.experiments import running

    recipe = dataclasses.replace(PAPER["scaling"].with_budget(60, 200), policy=GRUSpec(16))
    exact = run(scaling(6), recipe, {"seed": 3, "recipe": "paper"})
    monkeypatch.setattr(running, "MAX_ENUMERATED", 10)
    estimated = run(scaling(6), recipe, {"seed": 3, "recipe": "paper"})
    assert estimated.kl_method in ("elbo", "weights")
    assert estimated.kl_stderr > 0.0 == exact.kl_stderr
    assert abs(estimated.kl[0] - exact.kl[0]) < 5 * estimated.kl_stderr


def test_failures_are_found() -> None:
    experiment, result = tabled("simple", "linear", 2), found("simple", "linear", 2)
    row = dataclasses.replace(result.rows[0], q=(result.rows[0].q[0] + 2e-8,) * 2)
    worse = dataclasses.replace(result, rows=(row, *result.rows[1:]))
    assert any("q_median of x0 is" in text for text in failures(experiment, worse))
    lost = dataclasses.replace(result, kl=(0.0, 0.036))
    assert failures(experiment, lost) == ["run 1 did not converge: KL 0.036 is not below 1e-09"]
    nan = dataclasses.replace(result, kl=(0.0, float("nan")))
    assert len(failures(experiment, nan)) == 1
    assert failures(experiment, dataclasses.replace(result, rows=result.rows[:3]))
    for size, kl, fails in [
        (12, 0.1017, False),
        (12, 0.1019, True),
        (5, 1.24e-3, False),
        (5, 1.26e-3, True),
        (13, 9.0, False),
        (13, float("nan"), True),
        (12, float("nan"), True),
        (3, 0.9e-6, False),
        (3, 1.1e-6, True),
    ]:
        scaled = dataclasses.replace(result, rows=(), kl=(kl,))
        assert bool(failures(scaling(size), scaled)) == fails


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    result = found("simple", "linear", 2)
    path = tmp_path / "result.safetensors"
    save_result(path, result)
    again = load_result(path)
    for field in dataclasses.fields(Result):
        before, after = getattr(result, field.name), getattr(again, field.name)
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, after)
        elif field.name == "policy":
            assert before.keys() == after.keys()
            assert all((before[name] == after[name]).all() for name in before)
        else:
            assert before == after
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1  # one bit of the weights
    for broken in (whole[:100], whole[: len(whole) // 2], b"", b"nonsense" * 100, bytes(flipped)):
        path.write_bytes(broken)
        with pytest.raises(BrokenFile, match="run again"):
            load_result(path)


def test_kl_from_elbo_is_the_figure_of_the_paper() -> None:
    terms = np.array([-10.0, -11.0, -12.0])
    assert kl_from_elbo(terms, -10.5).value == pytest.approx(0.5)


def test_the_page_shows_the_paper_s_table_only_for_the_paper_s_recipes() -> None:
    its_budget = {"budget": [None, None]}
    ours = {"recipe": "default", "num_steps": "2000", "optimiser": "Adam(<0.95>)", **its_budget}
    page = _hyperparameters("scaling", ours)
    assert "Adam(&lt;0.95&gt;)" in page
    assert "RMSprop" not in page
    assert "Samples per epoch" in _hyperparameters("scaling", {"recipe": "paper", **its_budget})
    shorter = {"recipe": "paper", "budget": [30, None], "num_steps": "30"}
    assert "Samples per epoch" not in _hyperparameters("scaling", shorter)

"""The search: that settings reach it, that it can miss, and that it then says so."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dvisr
from dvisr.checks import SEARCH
from dvisr.counting import count_by_size
from dvisr.diagnostics import log_total
from dvisr.expression import Expression
from dvisr.fitting import checks
from dvisr.fitting.fitters import Budget, Outcome, SearchFitter
from dvisr.fitting.progress import StepReport, is_still
from dvisr.fitting.search import Search
from dvisr.marginal import Engine, weigh
from dvisr.settings import CheckSettings, FitSettings, SearchSettings, WeighingSettings
from tests.fitting.problems import LINE, X, problem_of, searching

PROBLEM = problem_of()


def run(settings: FitSettings | None = None, num_steps: int = 2, **options: Any) -> Search:
    settings = searching() if settings is None else settings
    search = Search(PROBLEM, settings, num_samples=16, seed=0, num_threads=1, **options)
    search.prepare()
    search.run(num_steps)
    return search


def attributes_read() -> set[str]:
    found: set[str] = set()
    for path in Path(dvisr.__file__).parent.rglob("*.py"):
        if path.name != "settings.py":
            tree = ast.parse(path.read_text())
            found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found


@pytest.mark.parametrize("part", [SearchSettings, WeighingSettings, CheckSettings])
def test_every_setting_is_read_somewhere(part: Any) -> None:
    names = {field.name for field in dataclasses.fields(part)}
    assert names <= attributes_read()
    documented = str(part.__doc__)
    for name in names:
        assert name in documented


def test_what_is_small_enough_is_enumerated() -> None:
    count = sum(int(number) for number in count_by_size(PROBLEM.grammar))
    for most, points, expected in (
        (count, 10**9, True),
        (count - 1, 10**9, False),
        (count, count * len(X), True),
        (count, count * len(X) - 1, False),
    ):
        settings = searching(max_enumerated=most, max_enumerated_points=points)
        search = Search(PROBLEM, settings, num_samples=4, seed=0)
        assert search.is_enumerated is expected
        assert search.num_allowed == count


def test_the_likeliest_trees_are_all_weighed() -> None:
    sizes = np.cumsum([float(number) for number in count_by_size(PROBLEM.grammar)])
    for size in (1, 3):
        search = Search(PROBLEM, searching(likeliest_trees=int(sizes[size])), num_samples=4, seed=0)
        search._start()
        assert search.num_listed == int(sizes[size])
        listed = np.exp(PROBLEM.tree_prior.log_size[: size + 1]) * np.diff(
            sizes[: size + 1], prepend=0
        )
        assert search.listed_share == pytest.approx(listed.sum())
    search = Search(PROBLEM, searching(likeliest_trees=0), num_samples=4, seed=0)
    search._start()
    assert (search.num_listed, search.listed_share) == (0, 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"neighbours": 0},
        {"refined": 0},
        {"matched_trees": 0},
        {"matched_at_start": 0},
        {"inner_at_start": 0},
        {"inner_a_step": 0},
        {"inner_functions": 1},
        {"paired_at_start": 50},
        {"from_prior": 0.0},
        {"parent_levels": (1.0,)},
        {"of_best_sizes": 1.0},
        {"small_tokens": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_part_of_the_search_can_be_changed(changes: dict[str, Any]) -> None:
    """A problem large enough that a step does not see all of it."""
    problem = problem_of(operators=("+", "-", "*", "exp", "sin"), max_tokens=9)

    def visited(settings: FitSettings) -> np.ndarray:
        search = Search(problem, settings, num_samples=64, seed=0, num_threads=1)
        search._start()
        if not next(iter(changes)).endswith("_at_start"):
            search._explore(0)
        return search.visited.trees

    # Few from the start, so that the step's are others; pairs and matches are often the same trees.
    table = {"table_functions": 2_000, "matched_at_start": 5, "matched_a_step": 200}
    table |= {"paired_at_start": 0, "inner_a_step": 100}
    usual, changed = visited(searching(**table)), visited(searching(**{**table, **changes}))
    assert len(usual) != len(changed) or (usual != changed).any()
    if 0 in changes.values():
        assert len(changed) < len(usual)


def test_each_step_tells_how_much_it_moved() -> None:
    """The total variation between the posteriors before and after it, form by form."""
    search = run()
    before = search.visited.posterior(0.0)
    search.run(1)
    after = search.visited.posterior(0.0)
    joint = search.visited.form_log_joint
    np.testing.assert_allclose(list(after.values()), np.exp(joint - log_total(joint)), rtol=1e-9)
    gained = sum(max(0.0, share - before.get(key, 0.0)) for key, share in after.items())
    assert search.history[-1].moved == pytest.approx(gained, abs=1e-4)
    assert search.history[0].moved > 0.0


@pytest.mark.parametrize(("noise", "num_steps"), [(10.0, 3), (0.3, 3), (1e-3, 7), ("infer", 3)])
def test_far_from_the_data_a_search_has_not_settled(noise: Any, num_steps: int) -> None:
    """No formula of these is near; where the noise is known that says so."""
    problem = problem_of(np.sin(9.0 * X), noise=noise)
    own = searching(num_steps=3, fewest_steps=3, extra_steps=4, steps_at_once=2)
    outcome = SearchFitter(own).fit(problem, Budget(num_samples=64), seed=0)
    assert len(outcome.history) == num_steps


@pytest.mark.parametrize(
    ("moved", "expected"),
    [((0.3, 0.005, 0.01), True), ((0.0, 0.02, 0.0), False), ((0.0, 0.0), False), ((), False)],
)
def test_when_a_search_is_still(moved: tuple[float, ...], expected: bool) -> None:
    own = searching(fewest_steps=3, still=0.01).search
    history = [StepReport(n, 0.0, 1, 1, 0.0, 0.0, 0.0, m) for n, m in enumerate(moved, 1)]
    assert is_still(history, own) is expected


@pytest.mark.parametrize(
    ("changes", "num_steps", "expected"),
    [
        ({"network": "pretrained", "still": 1.0}, None, 2),
        ({"network": "pretrained", "still": 1.0}, 3, 3),
        ({"network": "pretrained", "still": -1.0}, None, 4),
        ({"network": "plain", "still": 1.0}, None, 4),
    ],
)
def test_steps_until_it_has_settled(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], num_steps: int | None, expected: int
) -> None:
    for name in ("agreement_check", "settled_check"):
        monkeypatch.setattr(checks, name, lambda *_: SimpleNamespace(grade=False))
    settings = searching(fewest_steps=2, num_steps=4, **changes)
    fitter = SearchFitter(settings)
    fitter.fit(problem_of(), Budget(num_steps=num_steps, num_threads=1), seed=0)
    assert fitter.search is not None
    assert len(fitter.search.history) == expected


def test_forms_beyond_a_number_are_dropped() -> None:
    assert run().visited.num_forms > 12
    assert run(searching(max_forms=10)).visited.num_forms <= 10


def test_a_search_goes_on_for_the_same_problem_and_settings_alone() -> None:
    search = Search(PROBLEM, searching(), num_samples=16, seed=0)
    assert search.continues(problem_of(), searching(), 16)
    assert not search.continues(problem_of(), searching(), 8)
    assert not search.continues(problem_of(), searching(matched_trees=1), 16)
    assert not search.continues(problem_of(-LINE), searching(), 16)
    for changes in (
        {"noise": "student"}, {"noise": 0.1}, {"constant_prior": "decades"}, {"max_tokens": 4},
        {"tree_prior": "allowed"}, {"constraints": "none"}, {"operators": ("+", "-")},
        {"sample_weight": np.arange(1.0, 15.0)},
    ):  # fmt: skip
        assert not search.continues(problem_of(**changes), searching(), 16)


def outcome_of(settings: FitSettings, **problem: Any) -> Outcome:
    return SearchFitter(settings).fit(problem_of(**problem), Budget(num_threads=1), seed=0)


def test_settings_of_weighing_and_of_the_end_reach_the_outcome() -> None:
    settings = dataclasses.replace(
        searching(num_fresh=100),
        weighing=WeighingSettings(num_draws=37, most_trees=5, rounds=(500, 2000)),
    )
    found = outcome_of(settings)
    assert len(found.posterior.draws) == 37
    assert len(found.posterior.trees) == 5
    # Draws come in batches of the network's number of samples, which is 16.
    assert found.diagnostics["num_fresh"] == 112
    none = outcome_of(searching(fresh_rounds=0))
    assert "num_fresh" not in none.diagnostics
    assert not {"missed", "moved"} & {check.name for check in none.verdict.checks}
    strict = dataclasses.replace(searching(still=-1.0), checks=CheckSettings(few_steps=6))
    steps = {check.name: check for check in outcome_of(strict).verdict.checks}["steps"]
    assert "a search of 5 steps is short" in steps.sentence


BLIND = {
    "neighbours": 0, "refined": 0, "likeliest_trees": 0, "from_prior": 0.01,
    "matched_at_start": 0, "matched_trees": 0, "paired_at_start": 0,
    "powers_at_start": 0, "powers_a_step": 0, "inner_at_start": 0, "inner_a_step": 0,
    "of_network": 0.0, "fresh_rounds": 0, "final_updates": 0,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_search_that_misses_is_not_called_ok(seed: int) -> None:
    """All that it does is to draw a few trees from the prior. The law has 9 tokens, of which
    there are millions, so it can't be found; that must show in the checks of the search."""
    x = np.linspace(0.2, 3.0, 20)
    y = 3.0 * np.sin(2.1 * x) * np.exp(-x) + np.random.default_rng(seed).normal(0.0, 0.01, 20)
    problem = problem_of(y, x, operators=("+", "-", "*", "/", "sin", "exp"), max_tokens=11)
    settings = dataclasses.replace(searching(**BLIND), checks=CheckSettings())
    found = SearchFitter(settings).fit(problem, Budget(num_threads=1), seed=seed)
    assert found.verdict.group_word(SEARCH) != "ok"
    assert found.verdict.reasons


def test_the_same_search_finds_what_it_is_not_blind_to() -> None:
    found = outcome_of(searching(likeliest_trees=20))
    assert str(found.posterior.functions[0].expression) == "x0 * c + c"
    assert found.verdict.group_word(SEARCH) == "ok", found.verdict.reasons


def test_a_search_may_be_alone() -> None:
    """Without `prepare` it has no network, and finds the line all the same."""
    search = Search(PROBLEM, searching(), num_samples=16, seed=0, num_threads=1)
    assert search.run(2)
    assert search.network is None
    assert [np.isnan(report.elbo) for report in search.history] == [True, True]
    best = search.visited.form_tree[int(np.argmax(search.visited.form_log_joint))]
    tokens = tuple(int(token) for token in best if token >= 0)
    assert str(Expression(PROBLEM.grammar.library, tokens)) == "x0 * c + c"


MANY = np.random.default_rng(3).uniform(-1.0, 2.0, 900)
MANY_Y = 1.5 * MANY + 0.7 + np.random.default_rng(4).normal(0.0, 0.3, 900)


def raced_outcome(raced_rows: int, num_rows: int = 900) -> Outcome:
    problem = problem_of(MANY_Y[:num_rows], MANY[:num_rows])
    fitter = SearchFitter(searching(raced_rows=raced_rows))
    return fitter.fit(problem, Budget(num_steps=2, num_threads=1), seed=0)


def test_a_race_comes_to_the_answer_of_all_rows() -> None:
    """By probabilities and log evidence; what is listed was weighed on all rows."""
    raced, plain = raced_outcome(100), raced_outcome(10**9)
    assert raced.diagnostics["num_raced_rows"] == 100
    assert plain.diagnostics["num_raced_rows"] == 900
    assert raced.diagnostics["num_forms_on_all_rows"] < raced.diagnostics["num_forms_visited"]
    one, two = (
        {str(f.expression): f for f in outcome.posterior.functions} for outcome in (raced, plain)
    )
    assert raced.posterior.log_evidence == pytest.approx(plain.posterior.log_evidence, abs=0.05)
    for text, function in two.items():
        if function.probability > 0.01:
            assert one[text].probability == pytest.approx(function.probability, abs=0.02)
    problem = problem_of(MANY_Y, MANY)
    engine = Engine.of(problem, num_threads=1)
    for function in raced.posterior.functions[:5]:
        tree = np.array(function.expression.tokens, dtype=np.int8)
        found = weigh(engine, tree, np.random.default_rng(5))
        assert function.weighed.log_marginal == pytest.approx(found.log_marginal, abs=0.05)


def test_few_rows_are_not_raced() -> None:
    """Fewer than twice as many rows as trees would race on: the same bits as with no race."""
    one, two = raced_outcome(300, 599), raced_outcome(10**9, 599)
    assert one.diagnostics["num_raced_rows"] == 599
    assert raced_outcome(300, 600).diagnostics["num_raced_rows"] == 300
    assert one.posterior.log_evidence == two.posterior.log_evidence
    assert [f.log_joint for f in one.posterior.functions] == [
        f.log_joint for f in two.posterior.functions
    ]

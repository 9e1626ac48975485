"""Holes filled with functions: against least squares by NumPy, and laws of two halves found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dvisr.evaluation import evaluate_batch
from dvisr.expression import parse
from dvisr.marginal import Engine
from dvisr.problem import Problem, make_problem
from dvisr.search.forms import Algebra, make_algebra
from dvisr.search.legality import Legality
from dvisr.search.matching import Contexts, Matching
from dvisr.search.table import _Asked, _distinct
from dvisr.settings import SearchSettings
from dvisr.types import Dataset

OPERATORS = [*"+-*/", "square", "sqrt", "exp", "log", "1", "2"]
RNG = np.random.default_rng(5)
X = RNG.uniform(1.0, 4.0, (14, 4))
NAMES = ["a", "b", "u", "v"]
SETTINGS = SearchSettings(table_functions=4_000, table_contexts=400, step_functions=4_000)


def problem_of(y: np.ndarray, **options: object) -> Problem:
    words: dict[str, object] = {
        "operators": OPERATORS, "constants": True, "max_tokens": 15, "max_constants": 4,
        "constraints": "default", "tree_prior": "science", "constant_prior": "decades",
        "noise": "infer", **options,
    }  # fmt: skip
    return make_problem(Dataset.create(X, y, feature_names=NAMES), **words)  # type: ignore[arg-type]


def matching_of(problem: Problem, settings: SearchSettings = SETTINGS) -> Matching:
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    return Matching(problem, Engine.of(problem, num_threads=2), algebra, settings)


def as_row(problem: Problem, text: str) -> np.ndarray:
    tokens = parse(text, problem.grammar.library).tokens
    row = np.full(problem.grammar.max_tokens, -1, dtype=np.int8)
    row[: len(tokens)] = tokens
    return row


def values_of(problem: Problem, trees: np.ndarray) -> np.ndarray:
    return evaluate_batch(problem.grammar.library, trees, problem.X)[0]


def test_the_table_has_every_function_once_and_the_likeliest_first() -> None:
    problem = problem_of(X[:, 0])
    matching = matching_of(problem)
    values = values_of(problem, matching.trees)
    assert len(values) == SETTINGS.table_functions
    assert np.isfinite(values).all()
    assert not (matching.trees == problem.grammar.library.constant_id).any()
    some = values[:800]
    sizes = 1e-30 + np.maximum(np.abs(some[:, None]), np.abs(some[None]))
    same = (np.abs(some[:, None] - some[None]) < 1e-9 * sizes).all(axis=2)
    assert same.sum() == 800  # each is itself alone
    log_prior = np.asarray(problem.tree_prior.log_prob(np, matching.trees))
    assert (np.diff(log_prior) <= 1e-9).all()


def test_the_table_is_the_same_however_many_trees_it_is_first_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few trees that are looked at again, or too many at once."""
    problem, tables = problem_of(X[:, 0]), []
    for times in ((1.2, 5.0), (2.7, 5.0), (6.0,)):
        monkeypatch.setattr("dvisr.search.table._TREES_A_FUNCTION", times)
        tables.append(matching_of(problem).trees)
    assert len(tables[0]) == SETTINGS.table_functions
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])


def test_likely_trees_are_listed_once_for_a_language() -> None:
    """Other names and other data have the same; another prior, or other rules, have not."""
    first = _Asked.of(*asked_of(problem_of(X[:, 0])), 100)
    again = dataclasses.replace(problem_of(X[:, 1]), data=Dataset.create(2.0 * X, X[:, 1]))
    named = make_problem(
        Dataset.create(X, X[:, 1], feature_names=["p", "q", "r", "s"]),
        operators=OPERATORS, constants=True, max_tokens=15, max_constants=4,
        constraints="default", tree_prior="science", constant_prior="decades", noise="infer",
    )  # fmt: skip
    for problem in (again, named):
        other = _Asked.of(*asked_of(problem), 100)
        assert other == first
        assert _distinct(other) is _distinct(first)
    swapped = make_problem(
        Dataset.create(X, X[:, 1], feature_names=["b", "a", "u", "v"]),
        operators=OPERATORS, constants=True, max_tokens=15, max_constants=4,
        constraints="default,max-repeats:a=1", tree_prior="science", constant_prior="decades",
        noise="infer",
    )  # fmt: skip
    ruled = problem_of(X[:, 0], constraints="default,max-repeats:a=1")
    assert _Asked.of(*asked_of(ruled), 100) != _Asked.of(*asked_of(swapped), 100)
    for options in ({"tree_prior": "size-balanced"}, {"max_tokens": 13}, {"constraints": "none"}):
        assert _Asked.of(*asked_of(problem_of(X[:, 0], **options)), 100) != first
    assert _Asked.of(*asked_of(problem_of(X[:, 0])), 101) != first


def asked_of(problem: Problem) -> tuple[Problem, Algebra]:
    return problem, make_algebra(problem.grammar.library, symmetric_constants=True)


def test_contexts_are_the_likeliest_that_can_be_undone() -> None:
    problem = problem_of(X[:, 0] * X[:, 1] + 1.0)
    matching = matching_of(problem)
    trees = matching.trees[:60]
    nothing = np.zeros((len(trees), 0))
    whole = matching._contexts(trees, nothing, 0, None, lambda: False)
    some = matching._contexts(trees, nothing, 0, 20, lambda: False)
    assert len(some.tokens) == 20 < len(whole.tokens)
    assert (np.diff(whole.log_prior) <= 0.0).all()
    assert np.array_equal(some.targets, whole.targets[:20])
    for (before, after), target, weight in zip(
        some.tokens, some.targets, some.weights, strict=True
    ):
        known = weight > 0.0
        filled = [*before, matching.column, *after]
        row = np.full((1, problem.grammar.max_tokens), -1, dtype=np.int8)
        row[0, : len(filled)] = filled
        changed = problem.X.copy()
        column = problem.grammar.library[matching.column].column
        if sum(token == matching.column for token in filled) > 1:
            continue  # the column stands elsewhere, too
        changed[:, column] = target
        values = evaluate_batch(problem.grammar.library, row, changed)[0][0]
        assert np.allclose(values[known], problem.data.y[known], rtol=1e-8)


def test_scores_are_those_of_least_squares() -> None:
    """The best functions and kinds of random contexts against NumPy's least squares."""
    problem = problem_of(X[:, 0])
    matching = matching_of(problem, dataclasses.replace(SETTINGS, table_functions=300))
    table = values_of(problem, matching.trees)
    targets = np.stack([2.0 * table[40] + 0.3 * RNG.standard_normal(14), table[7] + 1.0])
    weights = RNG.uniform(0.5, 2.0, targets.shape)
    column = as_row(problem, "a")[:0]
    contexts = Contexts([(column, column)] * 2, np.array([-3.0, -8.0]), targets, weights)
    functions, kinds, scores = matching._matches(contexts, None)
    half, floor, costs = matching.half, matching.floor, (0.0, -5.0, -5.0, -10.0)
    for number, (target, weight) in enumerate(zip(targets, weights, strict=True)):
        root, one = np.sqrt(weight), np.ones(len(target))
        expected = []
        for place, g in enumerate(table):
            free: tuple[list[np.ndarray], ...] = ([], [g], [one], [g, one])
            for kind in range(4):
                if (matching.trees[place] >= 0).sum() + 2 * (kind > 0) + 2 * (kind > 2) > 15:
                    continue
                rest = target - (g if kind in (0, 2) else 0.0)
                if free[kind]:
                    design = np.stack(free[kind], axis=1) * root[:, None]
                    solved, *_ = np.linalg.lstsq(design, rest * root, rcond=None)
                    rest = rest - np.stack(free[kind], axis=1) @ solved
                squares = float((weight * rest**2).sum())
                prior = contexts.log_prior[number] + matching.log_prior[place] + costs[kind]
                expected.append((prior - half * np.log(squares + floor), place, kind))
        expected.sort(reverse=True)
        best = [score for score, _, _ in expected[: len(scores[number])]]
        np.testing.assert_allclose(scores[number], best, rtol=1e-6)
        by_match = {(place, kind): score for score, place, kind in expected}
        for match in zip(functions[number], kinds[number], scores[number], strict=True):
            assert by_match[int(match[0]), int(match[1])] == pytest.approx(match[2], rel=1e-6)


@pytest.mark.parametrize(
    ("law", "noise"),
    [
        ("a * b / square(u - v)", "infer"),
        ("(a * u + b * v) / (a + b)", "infer"),
        ("sqrt(square(a) + square(b)) * u", 0.01),
        ("exp(a - b) / (u + v)", "relative"),
    ],
)
def test_a_law_of_two_likely_halves_is_found_at_once(law: str, noise: float | str) -> None:
    library = problem_of(X[:, 0]).grammar.library
    expression = parse(law, library)
    row = np.array([expression.tokens], dtype=np.int8)
    clean = evaluate_batch(library, row, X)[0][0]
    rng = np.random.default_rng(0)
    y = clean * np.exp(0.003 * rng.standard_normal(len(clean)))
    problem = problem_of(y, noise=noise)
    settings = dataclasses.replace(SETTINGS, table_functions=20_000, table_contexts=2_000)
    matching = matching_of(problem, settings)
    found = matching.filled(matching.likely_contexts(), 200)
    assert Legality(problem.grammar)(found).all()
    values = evaluate_batch(problem.grammar.library, found, X)[0]
    gaps = np.abs(values / clean - 1.0).max(axis=1)
    assert np.nanmin(gaps) < 1e-9


def test_a_subtree_that_is_wrong_is_replaced() -> None:
    """From a tree that has all of the law but one subtree, with a constant in the rest."""
    y = 3.7 * X[:, 2] * np.log(X[:, 0] / X[:, 3]) / X[:, 1]
    problem = problem_of(y)
    wrong = as_row(problem, "u * (a - v) / b * c")
    matching = matching_of(problem)
    found = matching.filled(matching.contexts_of(wrong[None]), 50)
    engine = Engine.of(problem)
    law, before = engine.fit(
        np.stack([as_row(problem, "u * log(a / v) / b * c"), wrong])
    ).log_marginal
    assert engine.fit(found).log_marginal.max() > law - 5.0 > before + 20.0


def test_no_trees_and_no_constants() -> None:
    problem = problem_of(X[:, 0] * X[:, 1] / X[:, 2], constants=False)
    matching = matching_of(problem)
    assert len(matching.filled(matching.likely_contexts(), 50)) > 0
    assert len(matching.filled(matching.contexts_of(matching.trees[:0]), 50)) == 0
    leaf = problem_of(X[:, 0], operators=[], max_tokens=1)
    matching = matching_of(leaf)
    assert matching.filled(matching.likely_contexts(), 10).shape[1] == 1


def test_rows_that_say_nothing_weigh_nothing() -> None:
    """Values and weights of many holes at once, against one by one."""
    matching = matching_of(problem_of(X[:, 0]))
    rng = np.random.default_rng(5)
    values = rng.standard_normal((40, 14)) * 10.0 ** rng.integers(-3, 120, (40, 14))
    slopes = np.where(rng.random((40, 14)) < 0.2, np.nan, 10.0 ** rng.uniform(-6, 6, (40, 14)))
    slopes[0] = np.nan
    targets, weights, is_enough = matching.weighed(values, slopes)
    for hole in range(40):
        own = slopes[hole] ** 2 * matching._row_weights
        known = [r for r in range(14) if np.isfinite(own[r]) and abs(values[hole, r]) < 1e100]
        assert is_enough[hole] == (len(known) >= 0.75 * 14)
        for row in range(14):
            expected = min(own[row], 1e3 * np.median(own[known])) if row in known else 0.0
            assert weights[hole, row] == pytest.approx(expected, rel=1e-12)
            assert targets[hole, row] == (values[hole, row] if row in known else 0.0)

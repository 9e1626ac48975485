"""Functions with a constant inside: what is tried comes near every one of them, and laws of two of
them are found in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

from dvisr.expression import parse
from dvisr.library import Library
from dvisr.problem import Problem, make_problem
from dvisr.search.forms import forms, make_algebra
from dvisr.search.inner import InnerConstants, _left
from dvisr.search.inner_functions import Known
from dvisr.search.inner_functions import thinned as thinned_of
from dvisr.search.inverting import Tree
from dvisr.search.legality import Legality
from dvisr.search.matching import FACTOR, OFFSET, Contexts, Matching
from dvisr.types import Dataset
from tests.search.test_matching import OPERATORS, X, as_row, matching_of, problem_of

WORDS = [*OPERATORS, "sin", "cos", "^"]
A, B = X[:, 0], X[:, 1]
LIBRARY = Library.create(WORDS, ["a", "b"], constants=True)
NO_ROWS = np.zeros((0, len(X)))


def inner_of(problem: Problem, most: int = 100) -> tuple[InnerConstants, Matching]:
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    matching = matching_of(problem)
    return InnerConstants(problem, matching, algebra, most), matching


def tokens_of(text: str) -> np.ndarray:
    return np.array(parse(text, LIBRARY).tokens, dtype=np.int8)


def thinned(text: str) -> tuple[np.ndarray, np.ndarray]:
    return thinned_of(LIBRARY, tokens_of(text), X[:, :2])


@pytest.mark.parametrize("text", ["a * c", "a + c", "a / c", "sin(a) - c", "1 / (c * a)", "c"])
def test_what_a_factor_and_an_offset_are_enough_for_is_left_out(text: str) -> None:
    values, slopes = thinned(text)
    assert values.shape == slopes.shape == NO_ROWS.shape


@pytest.mark.parametrize("text", ["exp(a * c)", "sin(a * c)", "1 / (a + c)", "a ^ c", "a + b * c"])
@pytest.mark.parametrize("size", [0.03, 0.4, 1.1, 3.3])
def test_no_constant_falls_between_those_that_are_tried(text: str, size: float) -> None:
    """A step along the slope leaves less than a hundredth of the variance."""
    values, slopes = thinned(text)
    target = 3.0 * Tree(LIBRARY, tokens_of(text), X[:, :2], [size]).values[0] - 2.0
    weights = np.ones_like(target)
    left = _left(FACTOR | OFFSET, target, weights, values, slopes).min()
    assert left < 1e-2 * len(target) * target.var()


def test_a_step_is_that_of_gauss_and_newton() -> None:
    """Near a constant, what it leaves is what the best constant leaves."""
    values, slopes = thinned("exp(a * c)")
    rng = np.random.default_rng(0)
    exponents = np.array([np.polyfit(A, np.log(row), 1)[0] for row in values])
    place = int(np.abs(exponents - 0.4).argmin())
    target = 2.0 * (values[place] + 0.01 * slopes[place]) + 0.02 * rng.standard_normal(len(X))
    weights = rng.uniform(0.5, 2.0, len(X))
    root = np.sqrt(weights)

    def gaps(words: Any) -> np.ndarray:
        return np.asarray(root * (target - words[0] * np.exp(words[1] * A)))

    best = 2.0 * least_squares(gaps, [2.0, exponents[place]], xtol=1e-14, ftol=1e-14).cost
    own = values[place][None], slopes[place][None]
    left, fixed = (float(_left(kind, target, weights, *own)[0]) for kind in (FACTOR, 0))
    assert left == pytest.approx(best, rel=1e-2)
    assert fixed > 2.0 * best


def test_a_function_that_is_another_one_is_known() -> None:
    known = Known(len(X))
    exponential = thinned("exp(a * c)")
    assert not known.has(exponential[0])
    known.add(*exponential)
    assert known.has(thinned("exp(a / c)")[0])
    assert known.has(2.0 - 3.0 * exponential[0])
    assert not known.has(thinned("sin(a * c)")[0])
    assert not known.has(thinned("exp(b * c)")[0])


def test_values_that_are_tried_are_near_each_other() -> None:
    values, _ = thinned("sin(a * c)")
    centred = values - values.mean(axis=1, keepdims=True)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = np.abs((unit[1:] * unit[:-1]).sum(axis=1))
    assert np.arccos(cosines.clip(max=1.0)).max() < 0.7  # a step is believed as far as that


@pytest.mark.parametrize(
    ("law", "constants"),
    [
        ("sin(a * c) * c + cos(b * c) * c", [1.5, 1.4, 2.2, 0.9]),
        ("exp(a * c) * c + sin(b * c) * c", [-0.7, 3.0, 1.3, 0.4]),
        ("a ^ c * c + sin(b * c) * c", [1.7, 0.3, 1.3, 2.0]),
    ],
)
def test_a_law_of_two_is_written_from_one_of_them(law: str, constants: list[float]) -> None:
    """Which no function without a constant inside is near to."""
    rows = np.random.default_rng(3).uniform(0.3, 5.0, (40, 2))
    y = np.asarray(Tree(LIBRARY, tokens_of(law), rows, constants).values[0])
    problem = make_problem(
        Dataset.create(rows, y, feature_names=["a", "b"]),
        operators=WORDS, constants=True, max_tokens=15, max_constants=4, constraints="default",
        tree_prior="science", constant_prior="decades", noise="infer",
    )  # fmt: skip
    inner, matching = inner_of(problem)
    places = matching.contexts_of(inner.alone(matching.likely_contexts(), 48))
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    written = forms(inner.filled(places, 40, 2), algebra)
    assert forms(as_row(problem, law)[None], algebra)[0] in written


def test_what_is_written_is_legal_and_has_its_constant() -> None:
    problem = problem_of(np.exp(-0.7 * A) + B, operators=WORDS, max_tokens=7, max_constants=2)
    inner, matching = inner_of(problem)
    trees = inner.filled(matching.likely_contexts(), 200, 2)
    assert len(trees) > 20
    assert Legality(problem.grammar)(trees).all()
    assert (trees == problem.grammar.library.constant_id).any(axis=1).all()
    assert len(inner.filled(matching.likely_contexts(), 9)) <= 9


def test_the_threads_change_nothing_and_once_it_is_late_nothing_is_done() -> None:
    problem = problem_of(np.sin(1.7 * A), operators=WORDS)
    inner, matching = inner_of(problem)
    contexts = matching.likely_contexts()
    one, two = (inner.filled(contexts, 50, count) for count in (1, 2))
    assert (one == two).all()
    assert len(inner.filled(contexts, 50, 2, lambda: True)) == 0


@pytest.mark.parametrize("options", [{"constants": False}, {"operators": ["sin", "exp"]}])
def test_languages_without_a_place_for_it(options: dict[str, Any]) -> None:
    problem = problem_of(np.sin(1.7 * A), **options)
    inner, matching = inner_of(problem)
    contexts = matching.likely_contexts()
    assert inner.filled(contexts, 50).shape == (0, 15)
    assert inner.alone(contexts, 50).shape == (0, 15)
    nothing = Contexts([], np.zeros(0), np.zeros((0, len(X))), np.zeros((0, len(X))))
    assert len(inner.filled(nothing, 5)) == 0


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("1 / (a + c)", 280.0, 400.0),
        ("log(a + c)", 1e3, 1e4),
        ("sin(a * c)", 0.0, 0.02),
        ("exp(a * c)", 0.0, 1e-3),
    ],
)
def test_a_column_may_have_any_unit(text: str, low: float, high: float) -> None:
    rows = np.linspace(low, high, 20)[:, None] * np.ones(2)
    values, _ = thinned_of(LIBRARY, tokens_of(text), rows)
    assert len(values) > 2


@pytest.mark.parametrize("function", ["1 / (a + c)", "exp(b * c)"])
def test_what_is_there_exactly_is_among_the_first(function: str) -> None:
    """Whatever is as near before the step along the slope; with a factor and an offset or not."""
    y = np.asarray(Tree(LIBRARY, tokens_of(function), X[:, :2], [1.3]).values[0])
    problem = problem_of(y, operators=WORDS)
    inner, matching = inner_of(problem)
    best = inner.filled(matching.likely_contexts().of_nothing(), 3)
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    ways = (function, f"({function}) * c", f"{function} + c", f"({function}) * c + c")
    same = forms(np.array([as_row(problem, way) for way in ways]), algebra)
    assert np.isin(forms(best, algebra), same).any()


def test_large_weights_are_no_overflow() -> None:
    problem = problem_of(1e-60 * np.exp(-1.3 * A), operators=WORDS)
    inner, matching = inner_of(problem)
    assert len(inner.filled(matching.likely_contexts(), 20)) == 20

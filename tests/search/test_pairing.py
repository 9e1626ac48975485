"""Pairs of functions: against least squares by NumPy, and laws of two halves found."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.search.forms import forms, make_algebra
from dvisr.search.legality import Legality
from dvisr.search.pair_scoring import (
    BOTH,
    FIRST,
    FROM,
    MINUS,
    PLUS,
    SCALED_MINUS,
    SCALED_PLUS,
    SECOND,
    best_partners,
    squares_left,
)
from dvisr.search.pairing import _COSTS, Pairing
from tests.search.test_matching import X, as_row, matching_of, problem_of

A, B, U, V = X.T
RNG = np.random.default_rng(2)


@pytest.mark.parametrize("kind", range(8))
def test_what_a_pair_leaves(kind: int) -> None:
    """By sums over rows as NumPy's least squares find it."""
    f, g, target = RNG.standard_normal((3, 14)) + 0.5
    weights = RNG.uniform(0.5, 2.0, 14)
    fixed = {PLUS: f + g, MINUS: f - g, FROM: g - f, SECOND: f, FIRST: g}.get(kind, 0.0 * f)
    free = {
        SCALED_PLUS: [f + g], SCALED_MINUS: [f - g], SECOND: [g], FIRST: [f], BOTH: [f, g],
    }.get(kind, [])  # fmt: skip
    rest = (target - fixed) * np.sqrt(weights)
    if free:
        design = np.stack(free, axis=1) * np.sqrt(weights)[:, None]
        solved, *_ = np.linalg.lstsq(design, rest, rcond=None)
        rest = rest - design @ solved

    def dot(a: np.ndarray, b: np.ndarray) -> float:
        return float((weights * a * b).sum())

    sums = (dot(target, target), dot(f, f), dot(g, g), dot(f, g), dot(target, f), dot(target, g))
    assert squares_left(kind, *sums) == pytest.approx(float((rest**2).sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("law", "y"),
    [
        ("sqrt(square(a - b) + square(u - v))", np.sqrt((A - B) ** 2 + (U - V) ** 2)),
        ("a * b + u / v", A * B + U / V),
        ("square(a) - sqrt(b) * u", A**2 - np.sqrt(B) * U),
        ("1 / (a * b + u)", 1.0 / (A * B + U)),
        ("exp(square(a - b) - u)", np.exp((A - B) ** 2 - U)),
        ("log(a * u + square(b))", np.log(A * U + B**2)),
        ("a * sqrt(square(b - u) + v)", A * np.sqrt((B - U) ** 2 + V)),
        ("(square(b - u) + sqrt(v)) / a", ((B - U) ** 2 + np.sqrt(V)) / A),
        ("(a + b) * (u + v)", (A + B) * (U + V)),
        ("(a + b) / (u + square(v))", (A + B) / (U + V**2)),
        ("(a + b) / (u + square(v)) * c", 3.7 * (A + B) / (U + V**2)),
        ("(a * b + square(u)) * c", 0.31 * (A * B + U**2)),
        ("a * b + square(u) * c", A * B - 2.6 * U**2),
        ("a * b * c + square(u) * c", 1.7 * A * B - 2.6 * U**2),
    ],
)
def test_laws_of_two_halves(law: str, y: np.ndarray) -> None:
    noisy = y + 1e-3 * y.std() * np.random.default_rng(0).standard_normal(len(y))
    problem = problem_of(noisy)
    matching = matching_of(problem)
    trees = Pairing(problem, matching, 4_000).likeliest(600, 2)
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    own = forms(np.stack([as_row(problem, law)]), algebra)[0]
    assert own in set(forms(trees, algebra).tolist())


def test_trees_are_legal_and_within_the_size() -> None:
    problem = problem_of(A * B + np.sin(U), max_tokens=7)
    trees = Pairing(problem, matching_of(problem), 2_000).likeliest(200, 1)
    assert 0 < len(trees) <= 200
    assert Legality(problem.grammar)(trees).all()


def test_threads_do_not_change_the_answer() -> None:
    problem = problem_of(A * B + U)
    matching = matching_of(problem)
    one, two = (Pairing(problem, matching, 1_000).likeliest(200, n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("operators", [["sin", "cos"], ["+", "sin"], ["*", "exp"], ["-", "/"]])
def test_libraries_of_few_words(operators: list[str]) -> None:
    """What has no word in the library is not proposed."""
    problem = problem_of(A * B, operators=operators)
    trees = Pairing(problem, matching_of(problem), 200).likeliest(50, 1)
    assert Legality(problem.grammar)(trees).all()


def test_the_best_partners_of_each_function() -> None:
    """Of more functions than go through at once, and rows that fours leave over: against all pairs
    one by one."""
    rng = np.random.default_rng(3)
    values, target = rng.standard_normal((300, 6)) + 0.3, 2.0 * rng.standard_normal(6)
    weights, log_prior = rng.uniform(0.5, 2.0, 6), -np.sort(rng.exponential(3.0, 300))
    squares, with_target = (values**2) @ weights, values @ (weights * target)
    whole, half, floor = float(weights @ target**2), 3.5, 1e-6
    rows = slice(10, 14)
    partners = np.full((4, 3), -1, dtype=np.int64)
    kinds, scores = np.zeros_like(partners), np.full(partners.shape, -np.inf)
    best_partners(
        values[rows] * weights, np.ascontiguousarray(values.T), 10, squares, with_target, whole,
        log_prior, _COSTS, 8, half, floor, partners, kinds, scores,
    )  # fmt: skip
    for place, first in enumerate(range(10, 14)):
        expected = []
        for second in range(first + 1, 300):
            fg = float(weights @ (values[first] * values[second]))
            sums = squares[first], squares[second], fg, with_target[first], with_target[second]
            for kind in range(8):
                left = max(squares_left(kind, whole, *sums), 0.0) + floor
                score = log_prior[first] + log_prior[second] + _COSTS[kind] - half * np.log(left)
                expected.append((score, second, kind))
        expected = sorted(expected, reverse=True)[:3]
        np.testing.assert_allclose(scores[place], [score for score, *_ in expected], rtol=1e-6)
        assert [(s, k) for _, s, k in expected] == list(
            zip(partners[place].tolist(), kinds[place].tolist(), strict=True)
        )

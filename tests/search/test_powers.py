"""Products of powers: against all exponents gone through, every way to write them against their
values, and laws found that no table lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.evaluation import evaluate
from dvisr.expression import Expression, parse
from dvisr.library import Library
from dvisr.marginal import Engine
from dvisr.problem import make_problem
from dvisr.search.forms import forms, make_algebra
from dvisr.search.inverting import Tree
from dvisr.search.legality import Legality
from dvisr.search.matching import Contexts
from dvisr.search.power_others import Others, likeliest_pairs, small_products
from dvisr.search.power_scoring import MOST_HALVES, nearest_powers, nearest_with_another
from dvisr.search.power_writing import Product, Writer
from dvisr.search.powers import _SHAPES, PowerProducts, _cost
from dvisr.types import Dataset
from tests.search.test_matching import OPERATORS, X, as_row, matching_of, problem_of

A, B, U, V = X.T
HALVES = range(-MOST_HALVES, MOST_HALVES + 1)
COSTS = np.array([_cost(halves) for halves in HALVES])
HALF, FLOOR = 6.0, 1e-9
RNG = np.random.default_rng(11)


def product_of(columns: np.ndarray, halves: Any) -> np.ndarray:
    """(rows, columns) to powers, the sign of each column to its whole power."""
    exponents = 0.5 * np.asarray(halves, dtype=float)
    signs = np.where((columns < 0.0) & (exponents % 2.0 == 1.0), -1.0, 1.0)
    found: np.ndarray = (signs * np.abs(columns) ** exponents).prod(axis=1)
    return found


def nearest(
    columns: np.ndarray, target: np.ndarray, weights: np.ndarray, has_factor: bool
) -> tuple[np.ndarray, float]:
    exponents = np.zeros((1, 2, columns.shape[1]), dtype=np.int8)
    scores = np.full((1, 2), -np.inf)
    is_negative = np.ascontiguousarray(columns.T < 0.0)
    steps = np.where(is_negative.any(axis=1), 2, 1).astype(np.int64)
    logs = np.ascontiguousarray(np.log(np.abs(columns)).T)
    nearest_powers(
        target[None].copy(), weights[None].copy(), logs, is_negative, steps, COSTS, has_factor,
        HALF, FLOOR, exponents, scores,
    )  # fmt: skip
    return exponents[0, 0], float(scores[0, 0])


def score_of(
    values: np.ndarray, target: np.ndarray, weights: np.ndarray, has_factor: bool, costs: float
) -> float:
    factor = 1.0
    if has_factor:
        root = np.sqrt(weights)
        factor = float(np.linalg.lstsq((root * values)[:, None], root * target, rcond=None)[0][0])
    squares = float((weights * (target - factor * values) ** 2).sum())
    return -HALF * float(np.log(squares + FLOOR)) - costs


@pytest.mark.parametrize("has_factor", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_exponents_are_better(seed: int, has_factor: bool) -> None:
    """Of two columns, by going through all: with noise of one part in a hundred."""
    rng = np.random.default_rng(seed)
    columns = rng.uniform(0.5, 4.0, (12, 2))
    planted = rng.choice([-4, -2, -1, 0, 1, 2, 4], 2)
    target = product_of(columns, planted) * (3.7 if has_factor else 1.0)
    target = target * (1.0 + 0.01 * rng.standard_normal(12))
    weights = rng.uniform(0.5, 2.0, 12)
    found, score = nearest(columns, target, weights, has_factor)
    every = {
        pair: score_of(
            product_of(columns, pair), target, weights, has_factor,
            _cost(pair[0]) + _cost(pair[1]),
        )
        for pair in itertools.product(HALVES, HALVES)
    }  # fmt: skip
    best = max(every, key=lambda pair: every[pair])
    assert tuple(found.tolist()) == best
    assert score == pytest.approx(every[best], abs=1e-6)


@pytest.mark.parametrize("has_factor", [False, True])
def test_eight_columns_and_ten_rows(has_factor: bool) -> None:
    """All but as many exponents as rows: what is planted is found for most."""
    rng = np.random.default_rng(3)
    columns, hits = rng.uniform(1.0, 5.0, (10, 8)), 0
    for _ in range(200):
        planted = rng.choice([0, 0, 2, -2, 4, -4], 8)
        target = product_of(columns, planted) * (1.0 + 0.005 * rng.standard_normal(10))
        found, _ = nearest(columns, target, np.ones(10), has_factor)
        hits += bool((found == planted).all())
    assert hits > 160


def test_columns_that_change_their_sign() -> None:
    """Whole exponents alone, and the sign of the product."""
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((15, 3)) + 0.3
    columns[:, 2] = np.abs(columns[:, 2]) + 0.2
    for planted in ([2, -4, 1], [6, 2, -2], [-2, 0, 3]):
        target = product_of(columns, planted)
        weights = 1.0 / target**2
        assert nearest(columns, target, weights, False)[0].tolist() == planted
        assert nearest(columns, -2.5 * target, weights, True)[0].tolist() == planted


def test_rows_without_a_value_do_not_count() -> None:
    rng = np.random.default_rng(2)
    columns = rng.uniform(1.0, 5.0, (9, 2))
    target, weights = product_of(columns, [2, -2]), np.ones(9)
    target[[1, 5]], weights[[1, 5]] = 1e9, 0.0
    assert nearest(columns, target, weights, False)[0].tolist() == [2, -2]
    nothing = nearest(columns, target, np.zeros(9), False)
    assert not np.isfinite(nothing[1])


def test_another_function_is_one_more_column() -> None:
    """To the power that it was planted with, whichever of two functions it is."""
    rng = np.random.default_rng(4)
    columns, others = rng.uniform(1.0, 5.0, (12, 3)), rng.standard_normal((2, 12))
    logs = np.ascontiguousarray(np.log(columns).T)
    targets = np.stack(
        [
            product_of(columns, [2, 0, -4]) / others[1],
            2.5 * product_of(columns, [0, 2, 0]) * np.sqrt(np.abs(others[0])),
        ]
    )
    pairs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    exponents = np.zeros((4, 1, 4), dtype=np.int8)
    scores = np.full((4, 1), -np.inf)
    is_negative = others < 0.0
    is_negative[0] = False  # its logarithm is that of its size
    for has_factor in (False, True):
        scores[:] = -np.inf
        nearest_with_another(
            targets, np.ones((2, 12)), logs, np.zeros((3, 12), dtype=bool),
            np.ones(3, dtype=np.int64), np.log(np.abs(others)), is_negative, pairs, True, COSTS,
            has_factor, HALF, FLOOR, exponents, scores,
        )  # fmt: skip
        found = int(np.argmax(scores[:2])), int(np.argmax(scores[2:]))
        assert found[0] == 1
        assert exponents[1, 0].tolist() == [2, 0, -4, -2]
    assert found[1] == 0
    assert exponents[2, 0].tolist() == [0, 2, 0, 1]
    assert (
        exponents[np.isfinite(scores[:, 0]), 0, 3] != 0
    ).all()  # without it, it is another product's business


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 200), st.integers(0, 9))
def test_the_pairs_of_the_largest_sums(ones: int, others: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=ones), np.sort(rng.normal(size=others))[::-1]
    pairs = likeliest_pairs(one, two, most)
    sums = np.sort((one[:, None] + two).ravel())[::-1]
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs) == min(most, ones * others)
    np.testing.assert_allclose(np.sort(one[pairs[:, 0]] + two[pairs[:, 1]])[::-1], sums[:most])


def test_pairs_of_equal_sums_and_of_none() -> None:
    assert len(likeliest_pairs(np.zeros(100), np.zeros(200), 50)) == 50
    assert len(likeliest_pairs(np.full(100, -np.inf), np.zeros(200), 50)) == 0
    assert len(likeliest_pairs(np.zeros(3), np.zeros(0), 50)) == 0
    some = likeliest_pairs(np.array([-np.inf, -1.0]), np.array([0.0, -2.0]), 50)
    assert some.tolist() == [[1, 0], [1, 1]]


def test_values_that_overflow_find_nothing() -> None:
    columns = np.full((6, 2), 1e300) * RNG.uniform(0.5, 1.0, (6, 2))
    for weight in (1e300, np.inf):
        exponents, score = nearest(columns, np.full(6, 1e150), np.full(6, weight), True)
        assert not np.isfinite(score)
        assert exponents.tolist() == [0, 0]


# Writing ---------------------------------------------------------------------------------------


WORDS = [*"+-*/^", "square", "sqrt", "exp", "log", "sin", "cos", "1", "2", "3"]
EXPONENTS = st.lists(st.integers(-MOST_HALVES, MOST_HALVES), min_size=4, max_size=4)


def library_of(words: list[str]) -> Library:
    return Library.create(words, ["a", "b", "u", "v"], constants=True)


def values_of(library: Library, tokens: list[int]) -> np.ndarray:
    expression = Expression(library, tuple(tokens))
    values, defined = evaluate(expression, X, [3.0] * expression.num_constants)
    assert defined.all()
    return np.asarray(values)


def writer_of(library: Library) -> Writer:
    return Writer(library, [library.find(name) or 0 for name in "abuv"])


@given(EXPONENTS, st.booleans())
@settings(deadline=None, max_examples=150)
def test_every_way_to_write_a_product_has_its_values(
    exponents: list[int], has_factor: bool
) -> None:
    library = library_of(WORDS)
    ways = list(writer_of(library).product(Product(exponents, has_factor)))
    assert ways
    for tokens in ways:
        parsed = Expression(library, tuple(tokens))
        assert parsed.num_constants == has_factor
        ratio = values_of(library, tokens) / product_of(X, exponents)
        # A constant of 3 is a factor of 3, or of a third, wherever it stands outside of powers.
        assert ratio == pytest.approx(np.full(len(X), 3.0 if has_factor else 1.0))


@given(EXPONENTS, st.sampled_from([-4, -2, -1, 1, 2, 4]), st.booleans())
@settings(deadline=None, max_examples=80)
def test_every_way_to_write_a_product_with_another_function(
    exponents: list[int], halves: int, has_factor: bool
) -> None:
    library = library_of(WORDS)
    other = parse("a + b", library).tokens
    expected = product_of(X, exponents) * (A + B) ** (0.5 * halves)
    ways = list(writer_of(library).product(Product(exponents, has_factor, other, halves)))
    assert ways
    for tokens in ways:
        ratio = values_of(library, tokens) / expected
        assert ratio == pytest.approx(np.full(len(X), 3.0 if has_factor else 1.0))


@given(st.sampled_from(_SHAPES), EXPONENTS, EXPONENTS, st.booleans())
@settings(deadline=None, max_examples=200)
def test_every_way_to_write_a_shape_has_its_values(
    shape: str, head: list[int], other: list[int], has_factor: bool
) -> None:
    """Whole exponents of one or two; the products stand in new columns, and the shape is worked
    out of these."""
    library = library_of(WORDS)
    head, other = ([2 * (e % 3) - 2 for e in part] for part in (head, other))
    one, two = product_of(X, head), product_of(X, other) * (3.0 if has_factor else 1.0)
    words = shape.split()
    names = ["a" if word == "h" else "b" if word == "?" else word for word in words]
    plain = Expression(library, tuple(library.find(name) or 0 for name in names))
    pair = np.column_stack([one, two, one, two])
    expected, defined = evaluate(plain, pair, [])
    if not defined.all():
        return
    ways = list(writer_of(library).shape(words, Product(head), Product(other, has_factor)))
    assert ways
    for tokens in ways:
        found, is_defined = evaluate(Expression(library, tuple(tokens)), X, [3.0] * has_factor)
        assert is_defined.all()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(pair).max())


@pytest.mark.parametrize("words", [["*"], ["/"], ["+", "sin"], ["*", "/"], ["square", "*"]])
def test_what_has_no_word_is_not_written(words: list[str]) -> None:
    library = library_of(words)
    for exponents in ([2, 0, 0, 0], [2, -2, 0, 0], [4, 2, -2, 0], [-2, 0, 0, 0], [0, 0, 0, 0]):
        for has_factor in (False, True):
            for tokens in writer_of(library).product(Product(exponents, has_factor)):
                ratio = values_of(library, tokens) / product_of(X, exponents)
                assert ratio == pytest.approx(np.full(len(X), 3.0 if has_factor else 1.0))


# In a search -----------------------------------------------------------------------------------


def powers_of(y: np.ndarray, num_pairs: int = 20_000, **options: Any) -> tuple[Any, Any, Any]:
    problem = problem_of(y, **options)
    matching = matching_of(problem)
    return problem, matching, PowerProducts(problem, matching, num_pairs)


def has_function(problem: Any, trees: np.ndarray, law: str) -> bool:
    """Whether one of the trees is the law, up to its canonical form."""
    algebra = make_algebra(problem.grammar.library, symmetric_constants=True)
    own = forms(np.stack([as_row(problem, law)]), algebra)[0]
    return own in set(forms(trees, algebra).tolist())


def test_small_products_are_the_cheapest_of_all() -> None:
    found, costs = small_products(np.ones(4, dtype=np.int64), COSTS, 300)
    every = sorted(sum(map(_cost, exponents)) for exponents in itertools.product(HALVES, repeat=4))
    np.testing.assert_allclose(costs, [sum(map(_cost, row)) for row in found.tolist()])
    np.testing.assert_allclose(costs, every[:300])
    assert len({tuple(row) for row in found.tolist()}) == 300


@pytest.mark.parametrize(
    ("law", "y"),
    [
        ("square(a) * sqrt(b) * u / v", A**2 * np.sqrt(B) * U / V),
        ("square(square(a) / (b * u)) * v * c", 0.37 * A**4 * V / (B * U) ** 2),
        ("log(square(a) * u / (b * v))", np.log(A**2 * U / (B * V))),
        ("1 / (1 + square(a) * b / u)", 1.0 / (1.0 + A**2 * B / U)),
    ],
)
def test_a_product_in_a_likely_context(law: str, y: np.ndarray) -> None:
    noisy = y + 1e-3 * y.std() * np.random.default_rng(0).standard_normal(len(y))
    problem, matching, powers = powers_of(noisy)
    trees = powers.filled(matching.likely_contexts(), 300)
    assert has_function(problem, trees, law)


@pytest.mark.parametrize(
    ("law", "y"),
    [
        ("a * (b + square(u) * v) / sqrt(v)", A * (B + U**2 * V) / np.sqrt(V)),
        ("sqrt(square(a / b) + square(u / v))", np.sqrt((A / B) ** 2 + (U / V) ** 2)),
        ("a * b / (exp(u * v * c) - 1)", A * B / (np.exp(U * V / 4.0) - 1.0)),
        ("a * b / sqrt(1 + square(u / v))", A * B / np.sqrt(1.0 + (U / V) ** 2)),
        ("square(a) * exp(u / v * c) / b", A**2 * np.exp(-1.3 * U / V) / B),
    ],
)
def test_two_products_in_a_shape(law: str, y: np.ndarray) -> None:
    """The best tree is as likely given the data as the law is: it is the law, written so or
    otherwise."""
    noisy = y + 1e-3 * y.std() * np.random.default_rng(0).standard_normal(len(y))
    operators = [*OPERATORS, "3"]
    problem, _, powers = powers_of(noisy, 120_000, max_tokens=20, operators=operators)
    trees = powers.pairs(600, 2)
    engine = Engine.of(problem, num_threads=2)
    own = engine.fit(np.stack([as_row(problem, law)])).log_marginal[0]
    assert engine.fit(trees).log_marginal.max() > own - 1.0


@pytest.mark.parametrize(
    ("law", "y"),
    [
        ("a * b / (u + square(v))", A * B / (U + V**2)),
        ("square(a * b / (u + v))", (A * B / (U + V)) ** 2),
        ("a * b / sqrt(u + v) * c", 0.21 * A * B / np.sqrt(U + V)),
        ("log(u * (a + v))", np.log(U * (A + V))),
    ],
)
def test_a_product_with_another_function(law: str, y: np.ndarray) -> None:
    noisy = y + 1e-3 * y.std() * np.random.default_rng(0).standard_normal(len(y))
    problem, matching, powers = powers_of(noisy)
    trees = powers.filled(matching.likely_contexts(), 300, 20_000, 2)
    assert has_function(problem, trees, law)


def test_trees_are_legal_and_threads_do_not_matter() -> None:
    problem, matching, powers = powers_of(A * B + np.sqrt(U) / V, 5_000)
    contexts = matching.likely_contexts()
    one, two = (powers.filled(contexts, 100, 5_000, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert Legality(problem.grammar)(one).all()
    one, two = (powers.pairs(200, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert 0 < len(one) <= 200
    assert Legality(problem.grammar)(one).all()


@pytest.mark.parametrize("operators", [["sin", "cos"], ["+", "sin"], ["*", "exp"], ["-", "/"]])
def test_libraries_of_few_words(operators: list[str]) -> None:
    problem, matching, powers = powers_of(A * B, 500, operators=operators)
    for trees in (powers.pairs(50, 1), powers.filled(matching.likely_contexts(), 50)):
        assert Legality(problem.grammar)(trees).all()


@pytest.mark.parametrize("max_tokens", [1, 3, 5, 6])
def test_formulas_that_are_smaller_than_a_shape(max_tokens: int) -> None:
    problem, matching, powers = powers_of(A * B, 2_000, max_tokens=max_tokens)
    for trees in (powers.pairs(50, 1), powers.filled(matching.likely_contexts(), 50, 2_000)):
        assert trees.shape[1] == max_tokens
        assert Legality(problem.grammar)(trees).all()


def test_formulas_that_must_be_large() -> None:
    """Shapes are smaller than what is required of a whole formula, what fills them is not."""
    y = A * (B + U**2 * V) / np.sqrt(V)
    _, _, powers = powers_of(y, 50_000, constraints="default,min-tokens=10")
    trees = powers.pairs(200, 1)
    assert len(trees) > 0
    assert (trees >= 0).sum(axis=1).min() >= 10


def test_other_functions_are_in_order_though_columns_are_many() -> None:
    rng = np.random.default_rng(7)
    many = rng.uniform(1.0, 3.0, (40, 13))
    problem = make_problem(
        Dataset.create(many, many[:, 3] / many[:, 11]),
        operators=OPERATORS, constants=True, max_tokens=15, max_constants=4,
        constraints="default", tree_prior="science", constant_prior="decades", noise="infer",
    )  # fmt: skip
    others = Others.of(problem.grammar.library, matching_of(problem))
    assert len(others.trees) > 100
    assert (np.diff(others.log_prior) <= 0.0).all()


def test_signs_of_rows_that_are_not_compared_count() -> None:
    """Of 400 rows 20 are compared: a column that is negative or zero at one of the others."""
    rng = np.random.default_rng(0)
    many = rng.uniform(1.0, 3.0, (400, 3))
    many[7, 0], many[9, 1] = -1.0, 0.0
    problem = make_problem(
        Dataset.create(many, many[:, 2] ** 2),
        operators=OPERATORS, constants=True, max_tokens=9, max_constants=2,
        constraints="default", tree_prior="science", constant_prior="decades", noise="infer",
    )  # fmt: skip
    powers = PowerProducts(problem, matching_of(problem), 100)
    assert powers._columns == [0, 2]
    assert powers._steps.tolist() == [2, 1]


def test_of_one_column_the_table_has_all() -> None:
    data = Dataset.create(X[:, :1], A**1.5)
    problem = make_problem(
        data, operators=OPERATORS, constants=True, max_tokens=15, max_constants=4,
        constraints="default", tree_prior="science", constant_prior="decades", noise="infer",
    )  # fmt: skip
    matching = matching_of(problem)
    powers = PowerProducts(problem, matching, 1_000)
    assert len(powers.pairs(50, 1)) == len(powers.filled(matching.likely_contexts(), 50, 100)) == 0


def test_no_contexts_and_no_time() -> None:
    problem, matching, powers = powers_of(A * B, 500)
    nothing = Contexts([], np.zeros(0), np.zeros((0, len(A))), np.zeros((0, len(A))))
    assert powers.filled(nothing, 10).shape == (0, problem.grammar.max_tokens)
    assert len(powers.filled(matching.likely_contexts(), 10, 100, 1, lambda: True)) == 0
    assert len(powers.pairs(10, 1, lambda: True)) == 0


def test_many_tables_are_undone_side_by_side() -> None:
    """Values of a column that differ from table to table, against one after the other."""
    library = library_of(WORDS)
    tokens = parse("sqrt(a + b) / exp(a)", library).tokens
    rng = np.random.default_rng(0)
    tables, y = rng.uniform(0.5, 2.0, (5, 9, 4)), rng.uniform(1.0, 2.0, (5, 9))
    hole = next(n for n, token in enumerate(tokens) if library[token].name == "b")
    together = Tree(library, tokens, tables, []).required(hole, y)
    assert together is not None
    for number in range(5):
        alone = Tree(library, tokens, tables[number], []).required(hole, y[number])
        assert alone is not None
        for whole, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[number], one)

"""Trees that are one function, and one's constants as another's."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.constants import Normal
from dvisr.evaluation import evaluate
from dvisr.expression import parse
from dvisr.fitting.merging import matched, merged, probe_rows
from dvisr.library import Library, Token, new_operator
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine
from tests.fitting.problems import weighed

RNG = np.random.default_rng(3)
X = np.column_stack([RNG.uniform(1.0, 2.0, 25), RNG.uniform(0.2, 1.0, 25)])
CURVED = 1.4 * X[:, 0] - 0.6 + 0.3 * np.sin(4.0 * X[:, 0]) + RNG.normal(0.0, 0.1, 25)
OPERATORS: tuple[str | Token, ...] = ("+", "-", "*", "/", "sin", "sqrt", "log", "exp")


def groups(
    *texts: str,
    y: np.ndarray = CURVED,
    operators: tuple[str | Token, ...] = OPERATORS,
    probes: np.ndarray | None = None,
) -> list[list[int]]:
    library = Library.create(list(operators), ["x", "z"], constants=True)
    engine = Engine(library, X, make_likelihood(y, "infer"), Normal(0.0, 10.0), num_threads=1)
    trees = np.full((len(texts), 15), -1, dtype=np.int8)
    for row, text in enumerate(texts):
        tokens = parse(text, library).tokens
        trees[row, : len(tokens)] = tokens
    return merged(engine, trees, probe_rows(X) if probes is None else probes)


@pytest.mark.parametrize(
    "y", [CURVED, 1e200 * CURVED, 1.4 * X[:, 0] - 0.6], ids=["noisy", "huge", "exact"]
)
def test_a_line_in_any_form_is_one_function(y: np.ndarray) -> None:
    assert groups("x * c + c", "(x + c) * c", "x / c + c", "c - x * c", y=y) == [[0, 1, 2, 3]]


def test_more_constants_than_a_line_has_change_nothing() -> None:
    """Constants that do the same work may be of any size, millions too."""
    y = 470.0 * X[:, 0] + 3.0 + CURVED
    assert groups("x * c + c", "(x * c + c) * c", "x * c * c + c", y=y) == [[0, 1, 2]]


def test_what_can_do_more_or_less_is_another_function() -> None:
    assert groups("sin(x * c)", "x * c") == [[0], [1]]
    assert groups("x * c + c", "x * c") == [[0], [1]]
    assert groups("x * c", "z * c") == [[0], [1]]
    assert groups("x", "x * c", "x + c", "c") == [[0], [1], [2], [3]]


def test_without_constants_values_decide() -> None:
    assert groups("x + x", "x * z", "x * (z + z) / z") == [[0, 2], [1]]


def test_groups_keep_the_order_of_the_trees() -> None:
    found = groups("z * c", "x * c + c", "c * z", "(x + c) * c", "z / c")
    assert found == [[0, 2, 4], [1, 3]]


def test_what_agrees_on_the_data_alone_is_two_functions() -> None:
    """On every row of the data x is 10 z; the probes have rows where it is not."""
    rows = np.column_stack([X[:, 0], 0.1 * X[:, 0]])
    library = Library.create(["*", "10"], ["x", "z"], constants=True)
    engine = Engine(library, rows, make_likelihood(CURVED, 0.1), Normal(0.0, 10.0), num_threads=1)
    trees = np.full((2, 3), -1, dtype=np.int8)
    for row, text in enumerate(("x", "z * 10")):
        tokens = parse(text, library).tokens
        trees[row, : len(tokens)] = tokens
    assert merged(engine, trees, rows[:0]) == [[0, 1]]
    assert merged(engine, trees, probe_rows(rows)) == [[0], [1]]


def test_small_values_count_as_much_as_their_noise_is_small() -> None:
    """Of noise in proportion to y, or of error bars over decades: one more is nothing at a million
    and several standard deviations at 1."""
    rng = np.random.default_rng(0)
    x = np.geomspace(1.0, 100.0, 30)
    y = x**3 * np.exp(rng.normal(0.0, 0.1, 30))
    library = Library.create(["+", "*", "1"], ["x"], constants=True)
    trees = np.full((3, 7), -1, dtype=np.int8)
    for row, text in enumerate(("x * x * x", "x * x * x + 1", "x * (x * x)")):
        tokens = parse(text, library).tokens
        trees[row, : len(tokens)] = tokens
    for likelihood in (make_likelihood(y, "relative"), make_likelihood(y, "infer", y_err=0.1 * y)):
        engine = Engine(library, x[:, None], likelihood, Normal(0.0, 10.0), num_threads=1)
        assert merged(engine, trees, probe_rows(x[:, None])) == [[0, 2], [1]]


def test_undefined_at_different_rows_is_two_functions() -> None:
    probes = np.array([[1.5, 0.5], [1.5, 3.0]])  # at the second, x < z
    texts = ("x * c", "x * c + (sqrt(x - z) - sqrt(x - z))", "x * c + (log(x) - log(x))")
    assert groups(*texts, probes=probes[:1]) == [[0, 1, 2]]
    assert groups(*texts, probes=probes) == [[0, 2], [1]]
    both = ("sqrt(x - z)", "exp(log(x - z)) / sqrt(x - z)")
    assert groups(*both, probes=probes) == [[0, 1]]


@pytest.mark.slow
def test_operators_of_ones_own() -> None:
    twice = new_operator("twice", 1, lambda np, x: 2.0 * x)
    found = groups(
        "twice(x * c)", "x * c", "twice(x)", "x + x", "x", operators=("+", "*", twice)
    )  # fmt: skip
    assert found == [[0, 1], [2, 3], [4]]


def test_probes_mix_the_columns() -> None:
    probes = probe_rows(X)
    assert probes.shape == (16, 2)
    for column in range(2):
        assert np.isin(probes[:, column], X[:, column]).all()
    together = {tuple(row) for row in X.tolist()}
    assert sum(tuple(row) not in together for row in probes.tolist()) > 8
    np.testing.assert_array_equal(probe_rows(X), probes)


LIBRARY = Library.create(["+", "-", "*", "/", "exp"], ["x", "z"], constants=True)


@pytest.mark.parametrize(
    ("one", "two", "mode", "expected"),
    [
        ("x * c + c", "x * c + c", (2.0, 3.0), (2.0, 3.0)),
        ("x * c + c", "c + x * c", (2.0, 3.0), (3.0, 2.0)),
        ("x * c + c", "x * c - c", (2.0, 3.0), (2.0, -3.0)),
        ("x * c + c", "c - x * c", (2.0, 3.0), (3.0, -2.0)),
        ("x * c + z * c + c", "c - (z * c + x * c)", (2.0, 3.0, 5.0), (5.0, -3.0, -2.0)),
        ("exp(x * c)", "exp(c * x)", (0.5,), (0.5,)),
        ("x", "x + z - z", (), ()),
    ],
)
def test_constants_in_another_order_and_with_other_signs(
    one: str, two: str, mode: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    known, other = weighed(mode), parse(two, LIBRARY)
    found = matched(parse(one, LIBRARY), known, other, X)
    assert found is not None
    assert tuple(found.mode) == expected
    # Each draw makes the same curve, and the curvature goes along.
    before, _ = evaluate(parse(one, LIBRARY), X, [c[:, None] for c in known.constants.T])
    after, _ = evaluate(other, X, [c[:, None] for c in found.constants.T])
    np.testing.assert_allclose(after, before, rtol=1e-9)
    sizes = np.abs(np.array(mode))
    if mode:
        order = [int(np.flatnonzero(sizes == abs(value))[0]) for value in expected]
        signs = np.sign(np.array(expected) / np.array(mode)[order])
        np.testing.assert_allclose(
            found.curvature, np.outer(signs, signs) * known.curvature[np.ix_(order, order)]
        )
    assert (found.log_marginal, found.error) == (known.log_marginal, known.error)


@pytest.mark.parametrize(
    ("one", "two", "mode"),
    [
        ("x * c + c", "(x + c) * c", (2.0, 3.0)),  # one function, but other constants
        ("x * c", "z * c", (2.0,)),
        ("x + c", "exp(x) * c", (2.0,)),
    ],
)
def test_constants_that_are_no_rearrangement(one: str, two: str, mode: tuple[float, ...]) -> None:
    assert matched(parse(one, LIBRARY), weighed(mode), parse(two, LIBRARY), X) is None


def test_too_many_constants_to_try() -> None:
    text = "x * c + c + (c + c) + (c + c)"
    expression = parse(text, LIBRARY)
    mode = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert matched(expression, weighed(mode), expression, X) is None

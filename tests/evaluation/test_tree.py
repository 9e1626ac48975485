"""The kernel of fits against NumPy and JAX: values, slopes, domains, linearity."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.evaluation import apply_operator, evaluate, leaf_values
from dvisr.evaluation.device import Evaluator
from dvisr.evaluation.operations import make_apply
from dvisr.evaluation.tree import (
    Shape,
    evaluate_tree,
    make_language,
    make_work,
    own_operators,
    prepare,
)
from dvisr.expression import Expression, fold, parse
from dvisr.library import OPERATORS, Kind, Library, Token, new_operator
from dvisr.marginal import nonlinear_constants
from tests import strategies

LENGTH, POINTS, BATCH = 12, 3, 20
LIBRARY = Library.create([*OPERATORS, "1", "2", "pi", "-1"], ["x", "y"], constants=True)

# Of a user's own: without derivatives, with them, of two operands, affine, affine with a domain.
BELL = new_operator("bell", 1, lambda np, x: np.exp(-x * x))
LOGISTIC = new_operator(
    "logistic",
    1,
    lambda np, x: 1.0 / (1.0 + np.exp(-x)),
    derivatives=lambda np, x: np.exp(-x) / (1.0 + np.exp(-x)) / (1.0 + np.exp(-x)),
)
BLEND = new_operator("blend", 2, lambda np, a, b: a * np.tanh(b))
SHIFT = new_operator("shift", 1, lambda np, x: 2.0 * x + 1.0, linearity="joint")
HALF = new_operator(
    "half", 1, lambda np, x: 0.5 * x, is_defined=lambda np, x: x > 0.0, linearity="joint"
)
OWN_LIBRARY = Library.create(
    ["+", "-", "*", "/", "sin", BELL, LOGISTIC, BLEND, SHIFT, HALF, "2"], ["x", "y"], constants=True
)


class Answer(NamedTuple):
    shape: Shape
    is_defined: bool
    values: np.ndarray  # (points,)
    slopes: np.ndarray  # (constants, points)


def by_kernel(expression: Expression, X: np.ndarray, constants: list[float]) -> Answer:
    library, k = expression.library, expression.num_constants
    tokens = np.full(max(LENGTH, len(expression.tokens)), -1, dtype=np.int8)
    tokens[: len(expression.tokens)] = expression.tokens
    work = make_work(len(tokens), k, len(X))
    # What an earlier tree left behind must not matter.
    for room in (work.values, work.slopes):
        room.fill(np.nan)
    apply = make_apply(own_operators(library))
    shape = prepare(apply, tokens, make_language(library), leaf_values(library, X), work)
    given = np.array([*constants, 0.0])
    is_defined = shape.is_defined and evaluate_tree(apply, shape, given, True, work)
    return Answer(shape, bool(is_defined), work.values[0].copy(), work.slopes[0, :k].copy())


def every_node(
    expression: Expression, X: np.ndarray, constants: list[float], jolt: float
) -> tuple[np.ndarray, bool]:
    """Values of all nodes, each off by about `jolt`, and whether all of them are defined."""
    signs = itertools.cycle((1, -1, -1))
    found: list[np.ndarray] = []
    all_defined = True

    def combine(token: Token, index: int, operands: list[np.ndarray]) -> np.ndarray:
        nonlocal all_defined
        if token.kind is Kind.CONSTANT:
            values = np.full(len(X), constants[index])
        elif token.kind is Kind.LITERAL:
            values = np.full(len(X), token.value)
        elif token.kind is Kind.VARIABLE:
            values = X[:, token.column]
        else:
            values, is_defined = apply_operator(token, operands)
            all_defined = all_defined and bool(is_defined.all())
        with np.errstate(over="ignore", invalid="ignore"):
            values = values * (1.0 + jolt * next(signs))
        found.append(values)
        return values

    fold(expression, combine)
    return np.stack(found), all_defined


def is_steady(expression: Expression, X: np.ndarray, constants: list[float]) -> bool:
    """Whether rounding can't matter: neither to a value nor to whether it is defined."""
    runs = [every_node(expression, X, constants, jolt) for jolt in (0.0, 1e-12, -1e-12)]
    if len({is_defined for _, is_defined in runs}) > 1:
        return False
    plain = runs[0][0]
    return not runs[0][1] or all(
        bool(np.all(np.abs(values - plain) <= 1e-9 * np.abs(plain))) for values, _ in runs
    )


def is_moderate(expression: Expression, X: np.ndarray, constants: list[float], most: float) -> bool:
    return bool(np.all(np.abs(every_node(expression, X, constants, 0.0)[0]) < most))


def by_jax(library: Library) -> Any:
    """(batch, points, length): slopes by what stands at each position, as the device has them."""
    evaluator = Evaluator(library)

    @jax.jit
    def slopes(tokens: jax.Array, constants: jax.Array, X: jax.Array) -> jax.Array:
        def one(tokens: jax.Array, constants: jax.Array) -> jax.Array:
            found: jax.Array = jax.jacfwd(lambda c: evaluator(tokens, c, X)[0])(constants)
            return found

        return jax.vmap(one)(tokens, constants)

    return slopes


def check(
    trees: list[Expression],
    given_constants: list[list[float]],
    X: np.ndarray,
    slopes_by_jax: Any,
    most: float,
    tolerance: float,
) -> None:
    library = trees[0].library
    tokens = np.full((BATCH, LENGTH), -1, dtype=np.int32)
    filled = np.zeros((BATCH, LENGTH))
    places = []
    for row, (tree, constants) in enumerate(zip(trees, given_constants, strict=True)):
        tokens[row, : len(tree.tokens)] = tree.tokens
        places.append([i for i, t in enumerate(tree.tokens) if t == library.constant_id])
        filled[row, places[-1]] = constants
    expected = np.asarray(slopes_by_jax(jnp.asarray(tokens), jnp.asarray(filled), jnp.asarray(X)))
    for row, (tree, constants) in enumerate(zip(trees, given_constants, strict=True)):
        if not is_steady(tree, X, constants):
            continue  # rounding decides: each evaluator is right in its own way
        found = by_kernel(tree, X, constants)
        by_numpy, numpy_defined = evaluate(tree, X, constants)
        note = f"{tree} {constants} {X.tolist()}"
        assert found.is_defined == bool(numpy_defined.all()), note
        if not found.is_defined:
            continue
        np.testing.assert_allclose(
            found.values, np.broadcast_to(by_numpy, POINTS), rtol=1e-8, err_msg=note
        )
        if is_moderate(tree, X, constants, most):
            np.testing.assert_allclose(
                found.slopes, expected[row][:, places[row]].T, rtol=tolerance, atol=tolerance,
                err_msg=note,
            )  # fmt: skip


def with_constants_at(tree: Expression, remainder: int) -> Expression:
    """The same with a constant in place of about a third of the leaves."""
    library = tree.library
    tokens = tuple(
        library.constant_id if library[token].is_leaf and place % 3 == remainder else token
        for place, token in enumerate(tree.tokens)
    )
    return Expression(library, tokens)


def draw_batch(
    data: st.DataObject, library: Library
) -> tuple[list[Expression], list[list[float]], np.ndarray]:
    trees = data.draw(
        st.lists(strategies.expressions(library, LENGTH), min_size=BATCH, max_size=BATCH)
    )
    trees = [with_constants_at(tree, row % 3) for row, tree in enumerate(trees)]
    drawn = data.draw(st.lists(strategies.finite, min_size=2 * LENGTH, max_size=2 * LENGTH))
    constants = [
        drawn[row % LENGTH : row % LENGTH + tree.num_constants] for row, tree in enumerate(trees)
    ]
    size = 2 * POINTS
    X = np.array(data.draw(st.lists(strategies.finite, min_size=size, max_size=size)))
    return trees, constants, X.reshape(POINTS, 2)


SLOPES = by_jax(LIBRARY)
OWN_SLOPES = by_jax(OWN_LIBRARY)


@settings(max_examples=60)
@given(data=st.data())
def test_values_and_slopes_of_built_in_operators(data: st.DataObject) -> None:
    trees, constants, X = draw_batch(data, LIBRARY)
    check(trees, constants, X, SLOPES, most=1e4, tolerance=1e-7)


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_values_and_slopes_of_operators_of_the_users_own(data: st.DataObject) -> None:
    """Slopes that the user did not write are central differences, good to about ten digits."""
    trees, constants, X = draw_batch(data, OWN_LIBRARY)
    check(trees, constants, X, OWN_SLOPES, most=30.0, tolerance=1e-6)


BY_HAND = [
    ("c", [2.5], [1.0]),
    ("x", [], []),
    ("sqrt(c * x)", [4.0], [0.5 * np.sqrt(2.0 / 4.0)]),
    ("c * x ^ c", [2.0, 3.0], [8.0, 16.0 * np.log(2.0)]),
    ("abs(c) / x", [-3.0], [-0.5]),
    ("c / (x + c)", [1.0, 1.0], [1.0 / 3.0, -1.0 / 9.0]),
    ("tan(c) - inv(c) * x", [0.7, 2.0], [1.0 / np.cos(0.7) ** 2, 0.5]),
    ("cube(x - c) + square(c) * tanh(c)", [0.5, 3.0, 0.2],
     [-3.0 * 1.5**2, 6.0 * np.tanh(0.2), 9.0 / np.cosh(0.2) ** 2]),
    ("log(exp(c * x)) - cos(c)", [0.3, 1.1], [2.0, np.sin(1.1)]),
    ("-(sin(c) * (c - (x - c)))", [0.4, 5.0, 1.0],
     [-np.cos(0.4) * 4.0, -np.sin(0.4), -np.sin(0.4)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "constants", "slopes"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_slopes_by_hand_at_two(text: str, constants: list[float], slopes: list[float]) -> None:
    found = by_kernel(parse(text, LIBRARY), np.full((POINTS, 2), 2.0), constants)
    assert found.is_defined
    assert found.shape.num_constants == len(constants)
    for row, slope in zip(found.slopes, slopes, strict=True):
        np.testing.assert_allclose(row, slope, rtol=1e-13)


@pytest.mark.parametrize(
    ("text", "constants", "x", "slopes"),
    [
        ("sqrt(c * x)", [1.0], 0.0, [0.0]),  # infinite times zero
        ("sqrt(c)", [0.0], 1.0, [0.0]),
        ("abs(c)", [0.0], 1.0, [0.0]),
        ("x ^ c", [2.0], 0.0, [0.0]),
        ("x ^ c", [2.0], -3.0, [0.0]),  # by the exponent, a negative base has no slope
    ],
)
def test_a_slope_that_is_not_finite_counts_as_none(
    text: str, constants: list[float], x: float, slopes: list[float]
) -> None:
    found = by_kernel(parse(text, LIBRARY), np.full((POINTS, 2), x), constants)
    assert found.is_defined
    for row, slope in zip(found.slopes, slopes, strict=True):
        np.testing.assert_array_equal(row, slope)


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("x / (x - x)", []),
        ("inv(inv(x - x))", []),
        ("exp(-exp(exp(exp(exp(exp(2))))))", []),  # 1/infinity is zero, but infinity is undefined
        ("inv(x ^ (exp(exp(2)) * exp(exp(2))) * exp(exp(2 * 2)))", []),
        ("sqrt(-1) ^ (x - x)", []),
        ("c + log(-1) * (x - x)", [1.0]),
        ("c / (x - x)", [0.0]),
        ("x / c", [0.0]),
        ("log(c)", [0.0]),
        ("sqrt(x - c)", [2.5]),  # defined at x = 3, not at x = 2
        ("tanh(exp(c))", [1000.0]),
        ("(x - 2 - c) ^ (-1)", [0.0]),
        ("(-1) ^ c", [0.5]),
    ],
)
def test_undefined_trees_are_told(text: str, constants: list[float]) -> None:
    X = np.array([[2.0, 1.0], [3.0, 1.0], [4.0, 1.0]])
    expression = parse(text, LIBRARY)
    assert not evaluate(expression, X, constants)[1].all()
    found = by_kernel(expression, X, constants)
    assert not found.is_defined
    if not constants:
        assert not found.shape.is_defined


@pytest.mark.parametrize(("c", "is_defined"), [(-1.9, True), (-2.0, False), (-3.0, False)])
def test_a_domain_of_the_users_own(c: float, is_defined: bool) -> None:
    X = np.array([[2.0, 1.0], [3.0, 1.0], [4.0, 1.0]])
    found = by_kernel(parse("half(x + c)", OWN_LIBRARY), X, [c])
    assert found.is_defined == is_defined
    if is_defined:
        np.testing.assert_allclose(found.values, 0.5 * (X[:, 0] + c), rtol=1e-15)


@settings(max_examples=300)
@given(data=st.data())
def test_linearity_is_that_of_the_oracle(data: st.DataObject) -> None:
    library = data.draw(st.sampled_from([LIBRARY, OWN_LIBRARY]))
    tree = data.draw(strategies.expressions(library, LENGTH))
    shape = by_kernel(tree, np.ones((POINTS, 2)), [1.0] * tree.num_constants).shape
    assert shape.num_nodes == len(tree.tokens)
    assert shape.num_constants == tree.num_constants
    assert shape.is_affine == (nonlinear_constants(tree) == ())


@pytest.mark.parametrize(
    ("text", "is_affine", "is_periodic"),
    [
        ("x + y", True, False),
        ("c * sin(x) + (c - x) / y - -c", True, False),
        ("c * (c + x)", False, False),
        ("x / (c + 1)", False, False),
        ("(x + c) / c", False, False),
        ("sin(x * c)", False, True),
        ("sin(x) * exp(c)", False, False),
        ("exp(cos(c))", False, True),
        ("tan(2) + square(c)", False, False),
    ],
)
def test_shapes_by_hand(text: str, is_affine: bool, is_periodic: bool) -> None:
    tree = parse(text, LIBRARY)
    shape = by_kernel(tree, np.ones((POINTS, 2)), [1.0] * tree.num_constants).shape
    assert shape.is_affine == is_affine
    assert shape.is_periodic == is_periodic


@pytest.mark.parametrize(
    ("text", "is_affine"),
    [("shift(x * c)", True), ("half(x * c)", False), ("half(x) * c", True), ("bell(c)", False)],
)
def test_linearity_of_the_users_own(text: str, is_affine: bool) -> None:
    tree = parse(text, OWN_LIBRARY)
    shape = by_kernel(tree, np.ones((POINTS, 2)), [1.0] * tree.num_constants).shape
    assert shape.is_affine == is_affine

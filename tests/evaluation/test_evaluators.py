"""The jitted evaluator, the compiled kernel and NumPy against recursion in 40 digits."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.evaluation import evaluate, evaluate_batch
from dvisr.evaluation.device import Evaluator
from dvisr.expression import Expression, parse
from dvisr.library import OPERATORS, Library, new_operator
from tests import reference, strategies
from tests.compiled import compilations

LIBRARY = Library.create([*OPERATORS, "1", "2", "pi", "-1"], ["x", "y"], constants=True)
LENGTH = 12
EVALUATOR = Evaluator(LIBRARY)


@jax.jit
def on_device(
    tokens: jax.Array, constants: jax.Array, X: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def one(tokens: jax.Array, constants: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        values, is_valid = EVALUATOR(tokens, constants, X)
        slopes = jax.jacobian(lambda c: EVALUATOR(tokens, c, X)[0])(constants)
        return values, is_valid, slopes

    return jax.vmap(one)(tokens, constants)


def arrays(
    expressions: list[Expression], constants: list[list[float]], length: int = LENGTH
) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.full((len(expressions), length), -1, dtype=np.int32)
    values = np.full((len(expressions), length), np.nan)
    for row, (expression, given_values) in enumerate(zip(expressions, constants, strict=True)):
        tokens[row, : len(expression.tokens)] = expression.tokens
        places = [i for i, t in enumerate(expression.tokens) if t == expression.library.constant_id]
        values[row, places] = given_values
    return tokens, np.where(np.isnan(values), 0.0, values)


@settings(max_examples=40)
@given(data=st.data())
def test_all_evaluators_agree_with_recursion(data: st.DataObject) -> None:
    trees = data.draw(st.lists(strategies.expressions(LIBRARY, LENGTH), min_size=1, max_size=20))
    trees = (trees * 20)[:20]
    constants = [data.draw(st.lists(strategies.finite, min_size=12, max_size=12)) for _ in range(2)]
    constants = [(constants * 10)[i][: tree.num_constants] for i, tree in enumerate(trees)]
    X = np.array(data.draw(st.lists(strategies.finite, min_size=6, max_size=6))).reshape(3, 2)
    tokens, filled = arrays(trees, constants)
    by_kernel, kernel_valid = evaluate_batch(LIBRARY, tokens, X, filled)
    by_jax, jax_valid, _ = on_device(jnp.asarray(tokens), jnp.asarray(filled), jnp.asarray(X))
    for row, (tree, values) in enumerate(zip(trees, constants, strict=True)):
        by_numpy, numpy_defined = evaluate(tree, X, values)
        nested = reference.nested(LIBRARY, tree.tokens)
        expected = [
            reference.well_conditioned(LIBRARY, nested, list(x), values) for x in X.tolist()
        ]
        if None in expected:
            continue  # rounding decides: every evaluator is right in its own way
        truth = np.array(expected, dtype=float)
        for found in (by_kernel[row], np.asarray(by_jax)[row], np.broadcast_to(by_numpy, 3)):
            np.testing.assert_allclose(found, truth, rtol=1e-8, err_msg=f"{tree} {values} {X}")
        is_valid = not np.isnan(truth).any()
        assert bool(kernel_valid[row]) == bool(jax_valid[row]) == is_valid
        assert bool(np.all(numpy_defined)) == is_valid


@settings(max_examples=40)
@given(data=st.data())
def test_gradients_are_finite_wherever_the_value_is(data: st.DataObject) -> None:
    trees = data.draw(st.lists(strategies.expressions(LIBRARY, LENGTH), min_size=20, max_size=20))
    special = st.sampled_from([0.0, 1.0, -1.0, 1e-200, 1e200, -1e-308, 2.0, 0.5, 700.0])
    constants = [data.draw(st.lists(special, min_size=12, max_size=12))] * 20
    constants = [
        values[: tree.num_constants] for tree, values in zip(trees, constants, strict=True)
    ]
    X = np.array(data.draw(st.lists(special, min_size=6, max_size=6))).reshape(3, 2)
    tokens, filled = arrays(trees, constants)
    values, _, slopes = on_device(jnp.asarray(tokens), jnp.asarray(filled), jnp.asarray(X))
    is_defined = np.isfinite(np.asarray(values))
    assert np.isfinite(np.asarray(slopes)[is_defined]).all()


@pytest.mark.parametrize(
    ("text", "constants", "x", "slopes"),
    [
        ("sqrt(c * x)", [1.0], 0.0, [0.0]),
        ("sqrt(c * x)", [4.0], 1.0, [0.25]),
        ("c * x ^ c", [2.0, 3.0], 2.0, [8.0, 16.0 * math.log(2.0)]),
        ("abs(c)", [-2.0], 1.0, [-1.0]),
        ("c / (x + c)", [1.0, 1.0], 1.0, [0.5, -0.25]),
        ("log(c) * (x - 1)", [2.0], 3.0, [1.0]),
    ],
)
def test_gradients_by_hand(
    text: str, constants: list[float], x: float, slopes: list[float]
) -> None:
    library = Library.create("+,-,*,/,^,abs,log,sqrt,1", ["x"], constants=True)
    expression, evaluator = parse(text, library), Evaluator(library)
    tokens, filled = arrays([expression], [constants])
    X = jnp.array([[x]])
    for differentiate in (jax.jacrev, jax.jacfwd):
        jacobian = differentiate(lambda c: evaluator(jnp.asarray(tokens[0]), c, X)[0])(
            jnp.asarray(filled[0])
        )
        places = [i for i, t in enumerate(expression.tokens) if t == library.constant_id]
        np.testing.assert_allclose(np.asarray(jacobian)[0, places], slopes, rtol=1e-14)


@pytest.mark.parametrize(
    "text",
    [
        "x / (x - x)",
        "inv(inv(x - x))",
        "log(x - x) * 0.0".replace("0.0", "(x - x)"),
        "exp(-exp(exp(exp(exp(exp(2))))))",  # 1/infinity is zero, but infinity is undefined
        "inv(tan(x) / (x - x))",
        "tanh(exp(square(square(square(square(2)))) * 2))",
        "sqrt(-1) ^ (x - x)",
        "(x - x) * log(-1)",
        "abs(sqrt(-1))",
        "square(log(x - x))",
        "inv(x ^ (exp(exp(2)) * exp(exp(2))) * exp(exp(2 * 2)))",
    ],
)
def test_undefined_arithmetic_never_becomes_finite(text: str) -> None:
    X = np.array([[2.0, 1.0], [3.0, 1.0]])
    expression = parse(text, LIBRARY)
    by_numpy, is_defined = evaluate(expression, X)
    assert not is_defined.any()
    assert np.isnan(by_numpy).all()
    tokens, filled = arrays([expression], [[]], length=24)
    by_kernel, valid = evaluate_batch(LIBRARY, tokens, X, filled)
    assert np.isnan(by_kernel).all()
    assert not valid.any()
    by_jax, is_valid = EVALUATOR(jnp.asarray(tokens[0]), jnp.asarray(filled[0]), jnp.asarray(X))
    assert np.isnan(np.asarray(by_jax)).all()
    assert not bool(is_valid)


def test_one_bad_row_makes_a_tree_invalid_and_others_keep_their_values() -> None:
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [4.0, 0.0]])
    tokens, filled = arrays([parse("sqrt(x)", LIBRARY), parse("x", LIBRARY)], [[], []])
    values, valid = evaluate_batch(LIBRARY, tokens, X, filled)
    assert valid.tolist() == [False, True]
    np.testing.assert_array_equal(values[0], [1.0, np.nan, 2.0])


def test_a_point_once_undefined_stays_so_and_others_keep_their_values() -> None:
    """log(-1) to the power of 0 is 1 to NumPy, a constant function of it is finite as well."""
    always = new_operator("always", 1, lambda np, x: 5.0 + 0.0 * np.sign(np.where(x > 0, x, 1.0)))
    library = Library.create([*OPERATORS, always], ["x"])
    texts = ["log(x) ^ (x - x)", "always(log(x))", "inv(inv(x + abs(x)))", "log(x) + x / x"]
    tokens, _ = arrays([parse(text, library) for text in texts], [[]] * 4)
    values, valid = evaluate_batch(library, tokens, np.array([[-1.0], [1.0], [np.e]]))
    expected = [[1.0, 1.0], [5.0, 5.0], [2.0, 2.0 * np.e], [1.0, 2.0]]
    assert not valid.any()
    np.testing.assert_array_equal(values[:, 0], [np.nan] * 4)
    np.testing.assert_allclose(values[:, 1:], expected, rtol=1e-14)


def test_constants_that_are_not_finite_are_undefined() -> None:
    tokens, _ = arrays([parse("c", LIBRARY), parse("x ^ (c * 1)", LIBRARY)], [[0.0], [0.0]])
    for bad in (np.nan, np.inf):
        constants = np.where(tokens == LIBRARY.constant_id, bad, 0.0)
        values, valid = evaluate_batch(LIBRARY, tokens, np.ones((2, 2)), constants)
        assert not valid.any()
        assert np.isnan(values).all()


def test_rows_that_are_no_complete_tree_are_undefined() -> None:
    x, add, sin = (next(i for i, t in enumerate(LIBRARY) if t.name == n) for n in ("x", "+", "sin"))
    rows = [[x, -1, -1], [-1, -1, -1], [add, x, -1], [x, x, -1], [sin, add, sin], [x, -1, x]]
    values, valid = evaluate_batch(LIBRARY, np.array(rows), np.ones((2, 2)))
    assert valid.tolist() == [True] + 5 * [False]
    assert np.isnan(values[1:]).all()
    assert evaluate_batch(LIBRARY, np.empty((0, 3)), np.ones((2, 2)))[0].shape == (0, 2)


def test_a_users_operator_works_everywhere() -> None:
    """In a few lines, outside the package: evaluation, gradient, kernel and domain."""
    bump = new_operator(
        "bump",
        1,
        lambda np, x: np.exp(-1.0 / (1.0 - x * x)),
        is_defined=lambda np, x: np.abs(x) < 1.0,
        safe_operands=(0.0,),
        parity="even",
    )
    library = Library.create(["*", bump], ["x"], constants=True)
    expression = parse("bump(x * c)", library)
    X = np.array([[0.5], [0.9], [-0.2]])
    tokens, filled = arrays([expression] * 2, [[0.7], [2.0]], length=5)
    expected = np.exp(-1.0 / (1.0 - (0.7 * X[:, 0]) ** 2))
    values, valid = evaluate_batch(library, tokens, X, filled)
    np.testing.assert_allclose(values[0], expected, rtol=1e-14)
    assert valid.tolist() == [True, False]
    assert np.isnan(values[1]).tolist() == [True, True, False]
    evaluator = Evaluator(library)
    by_jax, is_valid = evaluator(jnp.asarray(tokens[0]), jnp.asarray(filled[0]), jnp.asarray(X))
    np.testing.assert_allclose(np.asarray(by_jax), expected, rtol=1e-14)
    assert bool(is_valid)
    slopes = jax.jacobian(lambda c: evaluator(jnp.asarray(tokens[0]), c, jnp.asarray(X))[0])(
        jnp.asarray(filled[0])
    )
    z = 0.7 * X[:, 0]
    by_hand = expected * (-2.0 * z / (1.0 - z * z) ** 2) * X[:, 0]
    place = expression.tokens.index(library.constant_id)
    np.testing.assert_allclose(np.asarray(slopes)[:, place], by_hand, rtol=1e-12)


def test_float32_stays_float32() -> None:
    tokens, filled = arrays([parse("sin(x) * c + 1", LIBRARY)], [[2.0]])
    values, _ = EVALUATOR(
        jnp.asarray(tokens[0]),
        jnp.asarray(filled[0], dtype=jnp.float32),
        jnp.ones((4, 2), dtype=jnp.float32),
    )
    assert values.dtype == jnp.float32


def test_a_second_batch_of_the_same_shape_compiles_nothing() -> None:
    tokens, filled = arrays([parse("x + y", LIBRARY)] * 20, [[]] * 20)
    X = jnp.ones((3, 2))
    on_device(jnp.asarray(tokens), jnp.asarray(filled), X)
    before = compilations(on_device)
    tokens, filled = arrays([parse("sin(x) * c", LIBRARY)] * 20, [[1.0]] * 20)
    on_device(jnp.asarray(tokens), jnp.asarray(filled), X)
    assert compilations(on_device) == before


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens must be"):
        evaluate_batch(LIBRARY, np.zeros(3, dtype=np.int8), np.ones((2, 2)))
    with pytest.raises(ValueError, match="constants must have the shape"):
        evaluate_batch(LIBRARY, np.zeros((2, 3), dtype=np.int8), np.ones((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="no values for them"):
        evaluate(parse("c", LIBRARY), np.ones((2, 2)))


def test_gradients_by_the_data() -> None:
    library = Library.create("+,*,sin", ["x", "y"], constants=True)
    expression, evaluator = parse("sin(x * c) * y", library), Evaluator(library)
    tokens, filled = arrays([expression], [[1.5]])
    X = jnp.array([[0.3, 2.0], [-0.7, 0.5]])
    slopes = jax.grad(
        lambda X: evaluator(jnp.asarray(tokens[0]), jnp.asarray(filled[0]), X)[0].sum()
    )(X)
    x, y = np.asarray(X).T
    expected = np.stack([1.5 * np.cos(1.5 * x) * y, np.sin(1.5 * x)], axis=1)
    np.testing.assert_allclose(np.asarray(slopes), expected, rtol=1e-12)


def test_sums_of_enormous_gradients_are_finite() -> None:
    library = Library.create("*,exp", ["x"], constants=True)
    evaluator = Evaluator(library)
    tokens, filled = arrays([parse("exp(x * c)", library)], [[3e-8]])
    X = jnp.array([[2.3e10], [2.3e10]])
    total = jax.grad(lambda c: evaluator(jnp.asarray(tokens[0]), c, X)[0].sum())
    assert np.isfinite(np.asarray(total(jnp.asarray(filled[0])))).all()


def test_a_function_that_returns_a_plain_number() -> None:
    one = new_operator("one", 1, lambda np, x: 1.0)
    library = Library.create([one, "+"], ["x"])
    values, is_defined = evaluate(parse("one(x) + x", library), np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(values, [2.0, 3.0])
    assert is_defined.all()

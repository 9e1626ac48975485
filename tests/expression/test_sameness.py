"""The canonical form merges trees that denote one function, and no others; the simplified form is
for reading."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dvisr.evaluation import evaluate
from dvisr.expression import Expression, canonical_form, parse, simplified
from dvisr.library import OPERATORS, Library, new_operator
from tests import reference

LIBRARY = Library.create([*OPERATORS, "1", "2", "3", "-1"], ["x", "y"], constants=True)


def form(text: str, symmetric: bool = True) -> str:
    return canonical_form(parse(text, LIBRARY), symmetric_constants=symmetric)


SAME = [
    ("x + y", "y + x"),
    ("(x + y) + 1", "x + (1 + y)"),
    ("x * (y * 2)", "(2 * x) * y"),
    ("x - y", "-(y - x)"),
    ("x - y", "x + -y"),
    ("x - (y - 1)", "1 + x - y"),
    ("-(-x)", "x"),
    ("x / (y * 2)", "x / y / 2"),
    ("x * inv(y)", "x / y"),
    ("sin(-x)", "-sin(x)"),
    ("cos(x - y)", "cos(y - x)"),
    ("abs(-x)", "abs(x)"),
    ("square(x)", "x * x"),
    ("x ^ 2", "x * x"),
    ("cube(x)", "x * square(x)"),
    ("x + -1", "x - 1"),
    ("(x - y) * (y - x)", "-((x - y) * (x - y))"),
    ("tanh(-(x * y))", "-tanh(y * x)"),
]
SAME_IF_SYMMETRIC = [
    ("x - c", "x + c"),
    ("x * -c", "c * x"),
    ("(x - y) * c", "c * (y - x)"),
    ("exp(-(c * x))", "exp(x * c)"),
    ("c - x * c", "x * c + c"),
    ("sin(c * x) - y", "-(y + sin(x * c))"),
    ("square(x - c)", "square(c + x)"),
]
DIFFERENT = [
    ("x * c * c", "x * c"),
    ("x + c + c", "x + c"),
    ("square(x + c)", "(x + c) * (x + c)"),
    ("inv(inv(x))", "x"),
    ("x / (1 / y)", "x * y"),
    ("x / c", "x * c"),
    ("x - y", "y - x"),
    ("exp(-x)", "exp(x)"),
    ("x ^ y", "y ^ x"),
    ("x / y", "y / x"),
    ("square(x - 1)", "square(x + 1)"),
    ("log(x * x)", "2 * log(x)"),
    ("x - c * y", "x * c - y"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_same_function_same_form(one: str, two: str) -> None:
    assert form(one) == form(two)
    assert form(one, False) == form(two, False)


@pytest.mark.parametrize(("one", "two"), SAME_IF_SYMMETRIC)
def test_signs_of_constants_are_absorbed_only_under_a_symmetric_prior(one: str, two: str) -> None:
    assert form(one) == form(two)
    assert form(one, False) != form(two, False)


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different_things_stay_apart(one: str, two: str) -> None:
    assert form(one) != form(two)


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[Expression, Expression]:
    """A tree, and one made from it by steps that keep the function: swapped operands of + and *,
    regrouped sums and products, double negations, subtraction turned into addition."""
    names = ["+", "-", "*", "/", "sin", "cos", "exp", "neg", "square", "tanh", "2"]
    library = Library.create(names, ["x", "y"], constants=True)
    from tests.strategies import expressions

    expression = draw(expressions(library, 11))
    ids = {token.name: i for i, token in enumerate(library)}
    plus, minus, times, negate = ids["+"], ids["-"], ids["*"], ids["neg"]

    def rewrite(tree: reference.Tree) -> reference.Tree:
        operands = [rewrite(operand) for operand in tree[1:]]
        node = (tree[0], *operands)
        if node[0] in (plus, times):
            if draw(st.booleans()):
                node = (node[0], node[2], node[1])
            if node[1][0] == node[0] and draw(st.booleans()):
                node = (node[0], node[1][1], (node[0], node[1][2], node[2]))
        if node[0] == minus and draw(st.booleans()):
            node = (plus, node[1], (negate, node[2]))
        if draw(st.integers(0, 9)) == 0:
            node = (negate, (negate, node))
        return node

    tokens = reference.prefix(rewrite(reference.nested(library, expression.tokens)))
    return expression, Expression(library, tokens)


@settings(max_examples=300)
@given(pair=rewritten())
def test_rewriting_does_not_change_the_form(pair: tuple[Expression, Expression]) -> None:
    one, two = pair
    for symmetric in (True, False):
        assert canonical_form(one, symmetric_constants=symmetric) == canonical_form(
            two, symmetric_constants=symmetric
        ), (str(one), str(two))


def test_equal_forms_have_equal_values() -> None:
    """Every tree of a small library without constants: one form, one function. Values are
    compared to 1e-12 of the largest intermediate size, so rounding can't decide."""
    from dvisr.constraints import Grammar
    from dvisr.counting import count_trees
    from dvisr.enumeration import enumerate_trees

    library = Library.create(["+", "-", "*", "/", "sin", "neg", "square"], ["x", "y"])
    X = np.random.default_rng(3).uniform(0.4, 2.0, size=(5, 2))
    by_form: dict[str, np.ndarray] = {}
    grammar = Grammar(library, 5)
    for row in enumerate_trees(grammar):
        expression = Expression(library, tuple(int(t) for t in row[row >= 0]))
        values, is_defined = evaluate(expression, X)
        values = np.where(is_defined, np.broadcast_to(values, 5), 0.0)
        known = by_form.setdefault(canonical_form(expression), values)
        np.testing.assert_allclose(values, known, rtol=1e-10, atol=1e-13, err_msg=str(expression))
    assert 100 < len(by_form) < count_trees(grammar) / 2


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_marginals_equal_a_brute_force_grid(data: st.DataObject) -> None:
    """Any tree of + - * with one or two constants, in closed form or by quadrature."""
    from dvisr.constants import Normal
    from dvisr.exact import log_marginal
    from dvisr.likelihood import make_likelihood
    from tests.strategies import expressions

    library = Library.create(["+", "-", "*", "neg"], ["x"], constants=True)
    one = data.draw(expressions(library, 7))
    assume(1 <= one.num_constants <= 2)
    X = np.linspace(0.1, 1.0, 6)[:, None]
    likelihood = make_likelihood(X[:, 0] ** 2, 0.5)
    found = log_marginal(one, X, likelihood, Normal(0.0, 3.0))
    by_hand = _by_brute_force(one, X, likelihood)
    assert found.value == pytest.approx(by_hand, abs=2e-6)


def _by_brute_force(expression: Expression, X: np.ndarray, likelihood: object) -> float:
    """A fine grid over the prior: slow, but no shared code beyond evaluation."""
    points = np.linspace(-27.0, 27.0, 4001 if expression.num_constants == 1 else 1601)
    step = points[1] - points[0]
    log_prior = -0.5 * (points / 3.0) ** 2 - np.log(3.0 * np.sqrt(2 * np.pi)) + np.log(step)
    grids = np.meshgrid(*[points] * expression.num_constants, indexing="ij")
    priors = np.meshgrid(*[log_prior] * expression.num_constants, indexing="ij")
    constants = [grid.reshape(-1, 1) for grid in grids]
    values, _ = evaluate(expression, X, constants)
    residuals = (X[:, 0] ** 2 - values) / 0.5
    log_likelihood = -0.5 * (residuals**2).sum(axis=-1) - 6 * np.log(0.5 * np.sqrt(2 * np.pi))
    total = log_likelihood + np.sum(priors, axis=0).reshape(-1)
    return float(np.logaddexp.reduce(total))


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("(x * c) * c", "c0*x"),
        ("x + c + c", "c0 + x"),
        ("sin(c) * x", "c0*x"),
        ("x + x", "2*x"),
        ("c * (x + c) / c", "c0*(c1 + x)"),
        ("x - x", "0"),
        ("exp(c * x + c)", "exp(c0*x + c1)"),
    ],
)
def test_simplified_form_folds_constants_for_reading(text: str, simple: str) -> None:
    found = str(simplified(parse(text, LIBRARY)))
    swapped = found.replace("c0", "k").replace("c1", "c0").replace("k", "c1")
    assert simple in (found, swapped)


def test_huge_powers_of_numbers_do_not_hang_sympy() -> None:
    library = Library.create(["^", "square", "9"], ["x"])
    assert simplified(parse("x + 9 ^ 9".replace("+", "^"), library)) is not None
    deep = "square(" * 40 + "9" + ")" * 40
    assert str(simplified(parse(deep, library))) == "nan"  # not finite in floating point either


def test_a_users_commutative_operator_is_merged() -> None:
    largest = new_operator(
        "largest", 2, lambda np, a, b: np.maximum(a, b), is_commutative=True, is_associative=True
    )
    library = Library.create([largest], ["x", "y", "z"])
    forms = {
        canonical_form(parse(text, library))
        for text in ("largest(x, largest(y, z))", "largest(largest(z, x), y)")
    }
    assert len(forms) == 1


@pytest.mark.parametrize(
    "text",
    [
        "cube(" * 30 + "2 * x" + ")" * 30,
        "square(" * 60 + "x + x" + ")" * 60,
        "(2 * x) ^ 1e15",
        "sqrt(9 * x) ^ 1e15",
        "abs(x * 9) ^ 1e15",
        "(x + x) ^ 9 ^ 9 ^ 9",
    ],
)
def test_high_powers_hang_nothing(text: str) -> None:
    library = Library.create([*OPERATORS, "2", "9", "1e15"], ["x"])
    expression = parse(text, library)
    assert canonical_form(expression)
    assert simplified(expression) is not None

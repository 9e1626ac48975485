"""Roles of operators: what they say is what the functions compute, and they alone decide."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.expression import Expression, canonical_form, latex, parse, to_sympy
from dvisr.library import INFIX, OPERATORS, Library, Precedence, Role, Token
from dvisr.search.forms import forms, make_algebra
from tests.strategies import expressions

COMPUTED: dict[Role, Callable[..., np.ndarray]] = {
    Role.SUM: lambda a, b: a + b,
    Role.DIFFERENCE: lambda a, b: a - b,
    Role.PRODUCT: lambda a, b: a * b,
    Role.QUOTIENT: lambda a, b: a / b,
    Role.POWER: lambda a, b: a**b,
    Role.NEGATIVE: lambda a: -a,
    Role.RECIPROCAL: lambda a: 1.0 / a,
}
VALUES = np.array([-2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 2.0, 3.0])


def computed(token: Token) -> Callable[..., np.ndarray]:
    assert token.role is not None
    if token.role is Role.WHOLE_POWER:
        exponent = token.exponent
        assert exponent is not None
        return lambda a: a**exponent
    return COMPUTED[token.role]


@pytest.mark.parametrize("name", [name for name, token in OPERATORS.items() if token.role])
def test_a_role_says_what_the_function_computes(name: str) -> None:
    """Also where it is defined: at zero and at negative numbers."""
    token = OPERATORS[name]
    operands = [grid.ravel() for grid in np.meshgrid(*[VALUES] * token.arity)]
    assert token.function is not None
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            token.function(np, *operands), computed(token)(*operands), rtol=1e-14
        )


def test_every_role_belongs_to_an_operator() -> None:
    assert {token.role for token in OPERATORS.values()} - {None} == set(Role)
    for token in OPERATORS.values():
        assert (token.exponent is not None) == (token.role is Role.WHOLE_POWER)


def test_what_follows_from_a_role_is_declared_too() -> None:
    for token in OPERATORS.values():
        is_symmetric = token.role in (Role.SUM, Role.PRODUCT)
        assert token.is_commutative == token.is_associative == is_symmetric
        assert token.inverts_second == (token.name in ("-", "/"))
        if token.exponent is not None:
            assert token.parity == ("even" if token.exponent % 2 == 0 else "odd")
        if token.role in (Role.NEGATIVE, Role.RECIPROCAL):
            assert token.parity == "odd"
            assert token.inverse == token.name


def test_what_is_written_without_a_call() -> None:
    assert set("+-*/^") == INFIX
    assert {name for name, token in OPERATORS.items() if token.precedence} == {*"+-*/^", "neg"}
    ordered = [OPERATORS[name].precedence for name in ("+", "-", "*", "/", "neg", "^")]
    P = Precedence
    assert ordered == [P.SUM, P.SUM, P.PRODUCT, P.PRODUCT, P.SIGN, P.POWER]


def libraries(names: list[str]) -> tuple[Library, Library]:
    """One with these operators, one with the same operators under other names."""
    ours = [OPERATORS[name] for name in names]
    others = [dataclasses.replace(token, name=f"op{i}") for i, token in enumerate(ours)]
    literals = ["2", "3", "-1", "-2"]
    first, second = (
        Library.create([*operators, *literals], ["x", "y"], constants=True)
        for operators in (ours, others)
    )
    return first, second


OURS, OTHERS = libraries(list(OPERATORS))
ARITHMETIC, ARITHMETIC_RENAMED = libraries(
    [name for name, token in OPERATORS.items() if token.role not in (None, Role.POWER)]
)


@settings(max_examples=200)
@given(tree=expressions(OURS, 11), symmetric=st.booleans())
def test_numbers_of_forms_do_not_go_by_names(tree: Expression, symmetric: bool) -> None:
    row = np.array([tree.tokens], dtype=np.int8)
    one, two = (
        forms(row, make_algebra(library, symmetric_constants=symmetric))
        for library in (OURS, OTHERS)
    )
    assert one == two


@settings(max_examples=200)
@given(tree=expressions(ARITHMETIC, 11), symmetric=st.booleans())
def test_texts_of_forms_do_not_go_by_names(tree: Expression, symmetric: bool) -> None:
    """Of arithmetic alone, since a function's name is part of the text."""
    renamed = Expression(ARITHMETIC_RENAMED, tree.tokens)
    one, two = (canonical_form(t, symmetric_constants=symmetric) for t in (tree, renamed))
    assert one == two


SAME = [
    ("x - y", "-(y - x)"),
    ("x / (y * 2)", "x / y / 2"),
    ("x * inv(y)", "x / y"),
    ("square(x)", "x * x"),
    ("x ^ 3", "x * square(x)"),
    ("cube(-x)", "-(x ^ 3)"),
    ("sin(x - y)", "-sin(y - x)"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_renamed_operators_are_the_same_where_ours_are(one: str, two: str) -> None:
    renamed = [Expression(OTHERS, parse(text, OURS).tokens) for text in (one, two)]
    assert canonical_form(renamed[0]) == canonical_form(renamed[1])


@given(tree=expressions(OURS, 9))
def test_output_does_not_go_by_names(tree: Expression) -> None:
    """LaTeX and SymPy are declared on the token; with the name changed they are the same."""
    renamed = Expression(OTHERS, tree.tokens)
    assert latex(renamed) == latex(tree)
    assert to_sympy(renamed) == to_sympy(tree)


def test_infix_goes_by_precedence_not_by_name() -> None:
    plus = dataclasses.replace(OPERATORS["+"], name="plus")
    called = dataclasses.replace(OPERATORS["*"], name="times", precedence=None)
    library = Library.create([plus, called], ["x", "y"])
    assert str(Expression(library, (0, 1, 2, 3, 0, 2, 3))) == "times(x, y) plus (x plus y)"

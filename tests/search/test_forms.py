"""Forms as numbers against forms as texts: equal numbers exactly where there are equal texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.expression import Expression, canonical_form, parse
from dvisr.library import OPERATORS, Library, Token, new_operator
from dvisr.search.forms import forms, make_algebra
from tests import reference
from tests.strategies import expressions

MEAN = new_operator("mean", 2, lambda np, a, b: 0.5 * (a + b), is_commutative=True)
LARGER = new_operator(
    "larger", 2, lambda np, a, b: np.maximum(a, b), is_commutative=True, is_associative=True
)
LATTER = new_operator("latter", 2, lambda np, a, b: b + 0.0 * a, is_associative=True)
BEND = new_operator("bend", 1, lambda np, x: x / (1.0 + np.abs(x)), parity="odd")
BELL = new_operator("bell", 1, lambda np, x: np.exp(-x * x), parity="even")
SHIFT = new_operator("shift", 1, lambda np, x: x + 1.0)
SKEW = new_operator("skew", 2, lambda np, a, b: a + 2.0 * b)
OWN: list[str | Token] = [MEAN, LARGER, LATTER, BEND, BELL, SHIFT, SKEW]
LITERALS = ["2", "3", "-1", "0.5", "-2"]
WHOLE = Library.create([*OPERATORS, *OWN, *LITERALS], ["x", "y"], constants=True)


def rows(trees: list[tuple[int, ...]]) -> np.ndarray:
    length = max(map(len, trees))
    return np.array([[*tree, *[-1] * (length - len(tree))] for tree in trees], dtype=np.int8)


def check_agreement(library: Library, trees: np.ndarray, symmetric: bool) -> int:
    """That numbers and texts put the same trees together; how many forms there are."""
    algebra = make_algebra(library, symmetric_constants=symmetric)
    numbers = forms(trees, algebra)
    assert numbers.shape == (len(trees),)
    first_of_number: dict[int, tuple[str, str]] = {}
    first_of_text: dict[str, tuple[int, str]] = {}
    for row, number in zip(trees, numbers.tolist(), strict=True):
        expression = Expression(library, tuple(int(token) for token in row if token >= 0))
        text = canonical_form(expression, symmetric_constants=symmetric)
        shown = str(expression)
        other_text, other = first_of_number.setdefault(number, (text, shown))
        assert other_text == text, f"one number for {shown} and {other}"
        other_number, other = first_of_text.setdefault(text, (number, shown))
        assert other_number == number, f"two numbers for {shown} and {other}"
    return len(first_of_number)


@pytest.mark.parametrize("symmetric", [True, False])
def test_all_small_trees_of_the_whole_library(symmetric: bool) -> None:
    trees = enumerate_trees(Grammar(WHOLE, 3))
    num_forms = check_agreement(WHOLE, trees, symmetric)
    assert 100 < num_forms < len(trees)  # some are the same, and most are not


@st.composite
def small_libraries(draw: st.DrawFn) -> Library:
    operators = draw(
        st.lists(st.sampled_from([*OPERATORS, *OWN]), min_size=1, max_size=4, unique_by=str)
    )
    literals = draw(st.lists(st.sampled_from(LITERALS), max_size=2, unique=True))
    variables = draw(st.sampled_from([["x"], ["x", "y"]]))
    return Library.create([*operators, *literals], variables, constants=draw(st.booleans()))


@settings(max_examples=60)
@given(library=small_libraries(), symmetric=st.booleans())
def test_all_trees_of_small_libraries(library: Library, symmetric: bool) -> None:
    # Powers of powers that are very long as texts need more tokens than this.
    size = max(size for size in range(1, 7) if count_trees(Grammar(library, size)) <= 4000)
    check_agreement(library, enumerate_trees(Grammar(library, size)), symmetric)


def rewritten(draw: st.DrawFn, tree: reference.Tree, library: Library) -> reference.Tree:
    """Steps that may or may not keep the form, here and there: swapped and regrouped operands,
    signs moved about, powers written out, another token of the same arity."""
    ids = {token.name: token_id for token_id, token in enumerate(library)}
    operands = [rewritten(draw, operand, library) for operand in tree[1:]]
    node: reference.Tree = (tree[0], *operands)
    name = library[node[0]].name
    step = draw(st.integers(0, 11))
    if len(node) == 3:
        left, right = node[1], node[2]
        if step in (0, 1, 2):
            return (node[0], right, left)
        if step in (3, 4) and len(left) == 3:
            return (left[0], left[1], (node[0], left[2], right))
        if step in (5, 6) and len(right) == 3:
            return (right[0], (node[0], left, right[1]), right[2])
        if step == 7:
            return (ids["-"] if name == "+" else ids["+"], left, (ids["neg"], right))
        if step == 8:
            return (ids["*"] if name == "/" else ids["/"], left, (ids["inv"], right))
    if step == 9:
        return (ids["neg"], node)
    if step == 10 and name in ("square", "cube"):
        product = (ids["*"], node[1], node[1])
        return product if name == "square" else (ids["*"], node[1], product)
    if step == 11:
        alike = [i for i, token in enumerate(library) if token.arity == len(node) - 1]
        return (draw(st.sampled_from(alike)), *node[1:])
    return node


@st.composite
def relatives(draw: st.DrawFn) -> list[tuple[int, ...]]:
    expression = draw(expressions(WHOLE, 11))
    tree = reference.nested(WHOLE, expression.tokens)
    found = [tree]
    for _ in range(8):
        found.append(rewritten(draw, draw(st.sampled_from(found)), WHOLE))
    return [reference.prefix(other) for other in found]


@settings(max_examples=600)
@given(trees=relatives(), symmetric=st.booleans())
def test_larger_trees_and_their_relatives(trees: list[tuple[int, ...]], symmetric: bool) -> None:
    check_agreement(WHOLE, rows(trees), symmetric)


PAIRS = [
    ("x ^ 2", "square(x)", True),
    ("x ^ neg(-2)", "x * x", True),
    ("x ^ neg(2)", "x * x", False),
    ("x ^ -2", "square(x)", False),
    ("larger(x, larger(y, c))", "larger(larger(c, x), y)", True),
    ("larger(x, neg(larger(y, c)))", "larger(neg(larger(y, x)), c)", False),
    ("latter(x, latter(y, c))", "latter(latter(x, y), c)", True),
    ("latter(x, latter(y, c))", "latter(latter(y, x), c)", False),
    ("mean(x, mean(y, c))", "mean(mean(x, y), c)", False),
    ("mean(x, y)", "mean(y, x)", True),
    ("bell(x - y)", "bell(y - x)", True),
    ("bend(x - y)", "neg(bend(y - x))", True),
    ("shift(x - y)", "shift(y - x)", False),
    ("inv(inv(x))", "x", False),
    ("inv(inv(inv(x)))", "inv(x)", False),
    ("x - x", "y - y", False),
]


@pytest.mark.parametrize(("one", "two", "same"), PAIRS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_by_hand(one: str, two: str, same: bool, symmetric: bool) -> None:
    trees = rows([parse(text, WHOLE).tokens for text in (one, two)])
    first, second = forms(trees, make_algebra(WHOLE, symmetric_constants=symmetric))
    assert (first == second) == same
    assert check_agreement(WHOLE, trees, symmetric) == (1 if same else 2)


def test_a_constant_takes_a_sign_only_where_its_prior_is_symmetric() -> None:
    trees = rows([parse(text, WHOLE).tokens for text in ("x + c", "x - c", "x * c", "neg(x) * c")])
    symmetric = forms(trees, make_algebra(WHOLE, symmetric_constants=True))
    assert symmetric[0] == symmetric[1]
    assert symmetric[2] == symmetric[3]
    assert len(set(forms(trees, make_algebra(WHOLE, symmetric_constants=False)).tolist())) == 4


def test_padding_and_company_change_nothing() -> None:
    trees = enumerate_trees(Grammar(Library.create(["+", "sin"], ["x", "y"]), 4))
    algebra = make_algebra(Library.create(["+", "sin"], ["x", "y"]), symmetric_constants=True)
    together = forms(trees, algebra)
    padded = np.pad(trees, ((0, 0), (0, 5)), constant_values=-1)
    np.testing.assert_array_equal(forms(padded, algebra), together)
    alone = np.concatenate([forms(trees[row : row + 1], algebra) for row in range(len(trees))])
    np.testing.assert_array_equal(alone, together)
    assert forms(trees[:0], algebra).shape == (0,)

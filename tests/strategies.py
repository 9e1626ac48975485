"""Hypothesis strategies: libraries, rules and trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from hypothesis import strategies as st

from dvisr.constraints import (
    ForbidAllConstantChildren,
    ForbidAllNumberChildren,
    ForbidChild,
    ForbidDescendant,
    MaxDepth,
    Rule,
    max_constants,
    max_repeats,
    min_tokens,
)
from dvisr.constraints.rules import Side
from dvisr.expression import Expression
from dvisr.library import OPERATORS, Library
from tests import reference

BINARY = ["+", "-", "*", "/", "^"]
UNARY = [name for name in OPERATORS if name not in BINARY]


@st.composite
def libraries(draw: st.DrawFn, max_operators: int = 17) -> Library:
    operators = draw(
        st.lists(st.sampled_from(list(OPERATORS)), min_size=1, max_size=max_operators, unique=True)
    )
    literals = draw(st.lists(st.sampled_from(["1", "2", "pi", "-1", "0.5", "1e-3"]), unique=True))
    variables = draw(
        st.lists(
            st.sampled_from(["x0", "x1", "I", "x y", "c", "sin", "ünï", "a`b", "<b>", "lambda"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    return Library.create([*operators, *literals], variables, constants=draw(st.booleans()))


@st.composite
def expressions(draw: st.DrawFn, library: Library, max_tokens: int = 15) -> Expression:
    """Any tree of the library, its shape drawn token by token."""
    leaves = [i for i, token in enumerate(library) if token.is_leaf]
    tokens: list[int] = []
    unfinished = 1
    while unfinished:
        room = max_tokens - len(tokens) - unfinished
        choices = [i for i, token in enumerate(library) if token.arity <= max(room, 0)] or leaves
        tokens.append(draw(st.sampled_from(choices)))
        unfinished += library[tokens[-1]].arity - 1
    return Expression(library, tuple(tokens))


@dataclasses.dataclass(frozen=True)
class CheckedRule:
    """A rule, and the same rule as a plain predicate on finished trees."""

    rule: Rule
    holds: Callable[[reference.Tree], bool]


@st.composite
def small_libraries(draw: st.DrawFn) -> Library:
    """Few enough tokens that all trees of a few tokens can be listed by brute force."""
    binary = draw(st.lists(st.sampled_from(["+", "-", "*"]), max_size=2, unique=True))
    unary = draw(st.lists(st.sampled_from(["sin", "cos", "exp", "log"]), max_size=2, unique=True))
    literals = draw(st.sampled_from([[], ["1"]]))
    variables = draw(st.sampled_from([["x0"], ["x0", "x1"]]))
    constants = draw(st.booleans())
    return Library.create([*binary, *unary, *literals], variables, constants=constants)


@st.composite
def checked_rules(draw: st.DrawFn, library: Library) -> CheckedRule:
    names = [token.name for token in library]
    operators = [token.name for token in library if not token.is_leaf] or names
    some = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    some_operators = st.lists(st.sampled_from(operators), min_size=1, max_size=2, unique=True)
    kinds = ["child", "descendant", "constant", "number", "depth", "count", "least"]
    kind = draw(st.sampled_from(kinds))
    if kind == "child":
        parents, children = frozenset(draw(some_operators)), frozenset(draw(some))
        sides: list[Side] = ["any", "left", "right"]
        side = draw(st.sampled_from(sides))
        return CheckedRule(
            ForbidChild(parents, children, side),
            reference.forbids_child(library, parents, children, side),
        )
    if kind == "descendant":
        above, below = frozenset(draw(some_operators)), frozenset(draw(some))
        return CheckedRule(
            ForbidDescendant(above, below), reference.forbids_descendant(library, above, below)
        )
    if kind == "number":
        named = frozenset(draw(some_operators))
        return CheckedRule(
            ForbidAllNumberChildren(named), reference.forbids_all_number(library, named)
        )
    if kind == "constant":
        return CheckedRule(ForbidAllConstantChildren(), reference.forbids_all_constant(library))
    if kind == "depth":
        most = draw(st.integers(0, 4))
        return CheckedRule(MaxDepth(most), lambda tree: reference.depth(tree) <= most)
    if kind == "least":
        least = draw(st.integers(1, 5))
        return CheckedRule(min_tokens(least), lambda tree: reference.size(tree) >= least)
    limit = draw(st.integers(0, 3))
    if draw(st.booleans()):
        return CheckedRule(max_constants(limit), reference.has_count(library, ("c",), 0, limit))
    counted = tuple(draw(some))
    return CheckedRule(max_repeats(counted, limit), reference.has_count(library, counted, 0, limit))


# Nothing so small that a product of a few is subnormal: compiled code may flush those to zero.
finite = st.floats(-3.0, 3.0, allow_nan=False).map(lambda v: 0.0 if abs(v) < 1e-20 else v)

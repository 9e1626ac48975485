"""Second opinions, written from the definitions and sharing no code with the package: trees as
nested tuples, all trees by brute force, rules checked on finished trees, values by recursion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath

from dvisr.library import Kind, Library

Tree = tuple[Any, ...]  # (token id, operand, ...)


def nested(library: Library, tokens: tuple[int, ...]) -> Tree:
    """Prefix ids to a nested tuple."""

    def read(position: int) -> tuple[Tree, int]:
        token = tokens[position]
        position += 1
        operands = []
        for _ in range(library[token].arity):
            operand, position = read(position)
            operands.append(operand)
        return (token, *operands), position

    tree, end = read(0)
    assert end == len(tokens)
    return tree


def prefix(tree: Tree) -> tuple[int, ...]:
    return (tree[0], *itertools.chain.from_iterable(prefix(operand) for operand in tree[1:]))


def size(tree: Tree) -> int:
    return 1 + sum(size(operand) for operand in tree[1:])


def depth(tree: Tree) -> int:
    return 1 + max((depth(operand) for operand in tree[1:]), default=-1)


def nodes(tree: Tree) -> Iterator[Tree]:
    yield tree
    for operand in tree[1:]:
        yield from nodes(operand)


def all_trees(library: Library, max_tokens: int) -> list[Tree]:
    """Every tree of the library, rules or not."""
    by_size: dict[int, list[Tree]] = {}
    for n in range(1, max_tokens + 1):
        found: list[Tree] = []
        for token_id, token in enumerate(library):
            if token.arity == 0 and n == 1:
                found.append((token_id,))
            elif token.arity == 1 and n > 1:
                found += [(token_id, operand) for operand in by_size[n - 1]]
            elif token.arity == 2:
                for left in range(1, n - 1):
                    found += [
                        (token_id, a, b) for a in by_size[left] for b in by_size[n - 1 - left]
                    ]
        by_size[n] = found
    return [tree for n in by_size for tree in by_size[n]]


# Rules, each as a plain predicate on a finished tree.


def forbids_child(
    library: Library, parents: frozenset[str], children: frozenset[str], side: str
) -> Callable[[Tree], bool]:
    def check(tree: Tree) -> bool:
        for node in nodes(tree):
            if library[node[0]].name not in parents:
                continue
            operands = node[1:]
            if side != "any":
                if len(operands) != 2:
                    continue
                operands = operands[:1] if side == "left" else operands[1:]
            if any(library[operand[0]].name in children for operand in operands):
                return False
        return True

    return check


def forbids_descendant(
    library: Library, ancestors: frozenset[str], descendants: frozenset[str]
) -> Callable[[Tree], bool]:
    def check(tree: Tree) -> bool:
        return not any(
            library[below[0]].name in descendants
            for node in nodes(tree)
            if library[node[0]].name in ancestors
            for operand in node[1:]
            for below in nodes(operand)
        )

    return check


def forbids_all_constant(library: Library) -> Callable[[Tree], bool]:
    def check(tree: Tree) -> bool:
        for node in nodes(tree):
            kinds = [library[operand[0]].kind for operand in node[1:]]
            if Kind.CONSTANT in kinds and set(kinds) <= {Kind.CONSTANT, Kind.LITERAL}:
                return False
        return True

    return check


def forbids_all_number(library: Library, parents: frozenset[str]) -> Callable[[Tree], bool]:
    def check(tree: Tree) -> bool:
        for node in nodes(tree):
            kinds = {library[operand[0]].kind for operand in node[1:]}
            if library[node[0]].name in parents and kinds == {Kind.LITERAL}:
                return False
        return True

    return check


def has_count(
    library: Library, names: tuple[str, ...] | None, minimum: int, maximum: float
) -> Callable[[Tree], bool]:
    def check(tree: Tree) -> bool:
        count = sum(names is None or library[node[0]].name in names for node in nodes(tree))
        return minimum <= count <= maximum

    return check


# Values, in arbitrary precision, with an optional jolt at every node to see how well conditioned
# the tree is.

_MP: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": lambda a, b: mpmath.power(a, b),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sqrt": mpmath.sqrt,
    "square": lambda a: a * a,
    "cube": lambda a: a * a * a,
    "neg": lambda a: -a,
    "inv": lambda a: 1 / a,
    "abs": abs,
    "tanh": mpmath.tanh,
}
_LARGEST = mpmath.mpf(1.7976931348623157e308)


class Undefined(Exception):
    pass


def value(
    library: Library, tree: Tree, x: list[float], constants: list[float], jolt: float = 0.0
) -> Any:
    """The value at one point in 40 digits, or `Undefined`."""
    remaining = iter(constants)
    signs = itertools.cycle((1, -1, -1))

    def read(node: Tree) -> Any:
        token = library[node[0]]
        if token.kind is Kind.CONSTANT:
            return mpmath.mpf(next(remaining))
        if token.kind is Kind.VARIABLE:
            return mpmath.mpf(x[token.column])
        if token.kind is Kind.LITERAL:
            return mpmath.mpf(token.value)
        operands = [read(operand) for operand in node[1:]]
        try:
            if token.name == "exp" and operands[0] > 1000:
                raise Undefined
            if (
                token.name == "^"
                and operands[0] != 0
                and abs(operands[1] * mpmath.log(abs(operands[0]))) > 2000
            ):
                raise Undefined
            result = _MP[token.name](*operands)
        except (ZeroDivisionError, ValueError, OverflowError):
            raise Undefined from None
        if isinstance(result, mpmath.mpc):
            if result.imag != 0:
                raise Undefined
            result = result.real
        if not mpmath.isfinite(result) or abs(result) > _LARGEST:
            raise Undefined
        return result * (1 + jolt * next(signs))

    with mpmath.workdps(40):
        return read(tree)


def well_conditioned(
    library: Library, tree: Tree, x: list[float], constants: list[float]
) -> float | None:
    """The value where rounding can't matter, else None; NaN where it is undefined."""
    results = []
    for jolt in (0.0, 1e-12, -1e-12):
        try:
            results.append(float(value(library, tree, x, constants, jolt)))
        except Undefined:
            results.append(math.nan)
    if all(math.isnan(result) for result in results):
        return math.nan
    if any(math.isnan(result) for result in results):
        return None
    if any(abs(r - results[0]) > 1e-9 * abs(results[0]) for r in results):
        return None
    return results[0]

"""One tree at all points, by compiled code: its values, and their slopes by its constants.

A tree is evaluated in one of two ways. A fit evaluates one tree for many vectors of constants:
`prepare` lays the tree out and evaluates the nodes without constants, once; `evaluate_tree`
evaluates the others, with slopes or without, and stops at the first undefined node.
`evaluate_pointwise` evaluates a tree once, and tells at which points it is defined.

The constants of a subtree are consecutive in prefix order, so the slopes of a node are a range of
rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dvisr.evaluation.operations import BUILT_IN, BY_FIRST, BY_SECOND
from dvisr.library import Kind, Library
from dvisr.library.compiling import compiled, typed_once

LEAF, CONSTANT = -1, -2  # in place of an operator's code
NO_LINEARITY, JOINT, EACH, FIRST = 0, 1, 2, 3
_LINEARITY = {None: NO_LINEARITY, "joint": JOINT, "each": EACH, "first": FIRST}
_FREE, _AFFINE, _CURVED = 0, 1, 2  # how a node depends on the constants


@typed_once
class Language(NamedTuple):
    """A library as arrays for compiled code, one entry a token."""

    codes: np.ndarray  # int64: an operator's code, LEAF or CONSTANT
    arities: np.ndarray  # int64
    linearity: np.ndarray  # int64: NO_LINEARITY, JOINT, EACH or FIRST
    is_trig: np.ndarray  # bool


@typed_once
class Work(NamedTuple):
    """Arrays that hold one tree at a time; each thread has its own. A node is at the position of
    its token."""

    code: np.ndarray  # (length,): an operator's code, LEAF or CONSTANT
    token: np.ndarray  # (length,)
    right: np.ndarray  # (length,): the position of the second operand; of the only one
    low: np.ndarray  # (length,): the node's subtree has the constants low..high - 1
    high: np.ndarray  # (length,)
    end: np.ndarray  # (length,): the position after the node's subtree
    state: np.ndarray  # (length,): _FREE, _AFFINE or _CURVED
    values: np.ndarray  # (length + 2, points): of the nodes; the last two rows are the next two
    by_first: np.ndarray  # (points,): slopes of one operator by its operands
    by_second: np.ndarray  # (points,)
    slopes: np.ndarray  # (length, constants, points): of the nodes by the constants


class Shape(NamedTuple):
    """What `prepare` tells of a tree."""

    num_nodes: int
    num_constants: int
    is_affine: bool  # in its constants
    is_defined: bool  # as far as its nodes without constants tell
    is_periodic: bool  # a constant stands inside a trigonometric function


def own_operators(library: Library) -> tuple[Any, ...]:
    """List the library's operators that are not built in, in the order of their tokens."""
    known = {id(token) for token in BUILT_IN}
    return tuple(t for t in library if t.kind is Kind.OPERATOR and id(t) not in known)


def make_language(library: Library) -> Language:
    """Describe a library to compiled code; operators have the codes of
    `make_apply(own_operators(library))`."""
    operators = [*BUILT_IN, *own_operators(library)]
    places = {id(token): code for code, token in enumerate(operators)}
    codes = [
        places[id(token)]
        if token.kind is Kind.OPERATOR
        else (CONSTANT if token.kind is Kind.CONSTANT else LEAF)
        for token in library
    ]
    # Where an operator has a domain of its own, whether it is defined depends on its operand.
    linearity = [_LINEARITY[None if t.is_defined is not None else t.linearity] for t in library]
    return Language(
        np.array(codes, dtype=np.int64),
        library.arities.astype(np.int64),
        np.array(linearity, dtype=np.int64),
        np.array([token.is_trig for token in library]),
    )


def leaf_values(library: Library, X: np.ndarray) -> np.ndarray:
    """Make the values of all leaves.

    Returns
    -------
    numpy.ndarray, (tokens, points)
        A variable's column of `X`, or a literal's value; zeros for other tokens.
    """
    leaves = np.zeros((len(library), len(X)))
    for token_id, token in enumerate(library):
        if token.kind is Kind.VARIABLE:
            leaves[token_id] = X[:, token.column]
        elif token.kind is Kind.LITERAL:
            leaves[token_id] = token.value
    return leaves


def make_work(length: int, num_constants: int, points: int) -> Work:
    """Allocate the arrays for trees of up to `length` tokens and `num_constants` constants. For
    `evaluate_pointwise` alone, which needs no slopes, `num_constants` may be 0."""
    code, token, right, low, high, end, state = np.zeros((7, length), dtype=np.int64)
    values = np.zeros((length + 2, points))
    slopes = np.zeros((length, max(1, num_constants), points))
    return Work(
        code,
        token,
        right,
        low,
        high,
        end,
        state,
        values,
        values[BY_FIRST],
        values[BY_SECOND],
        slopes,
    )


@compiled
def _fill(row, value):
    for point in range(len(row)):
        row[point] = value


@compiled
def _copy(source, row):
    for point in range(len(row)):  # an assignment of slices takes Numba seconds to compile
        row[point] = source[point]


@compiled
def is_complete(tokens, language):
    """Whether a row of tokens is one complete tree, followed by nothing but padding."""
    num_open = 1
    for token in tokens:
        if (token < 0) != (num_open == 0):
            return False
        if token >= 0:
            num_open += language.arities[token] - 1
    return num_open == 0


@compiled
def lay_out(tokens, language, work):
    """Find each node's operands, constants and how it depends on them.

    Returns the number of nodes, the number of constants, and whether a constant stands inside a
    trigonometric function.
    """
    num_nodes, num_constants = 0, 0
    while num_nodes < len(tokens) and tokens[num_nodes] >= 0:
        if language.codes[tokens[num_nodes]] == CONSTANT:
            num_constants += 1
        num_nodes += 1
    seen = num_constants
    is_periodic = False
    for position in range(num_nodes - 1, -1, -1):
        token = tokens[position]
        work.token[position] = token
        work.code[position] = language.codes[token]
        arity = language.arities[token]
        if arity == 0:
            is_constant = language.codes[token] == CONSTANT
            work.high[position] = seen
            if is_constant:
                seen -= 1
            work.low[position] = seen
            work.end[position] = position + 1
            work.state[position] = _AFFINE if is_constant else _FREE
            continue
        second = work.end[position + 1] if arity == 2 else position + 1
        work.right[position] = second
        work.low[position] = work.low[position + 1]
        work.high[position] = work.high[second]
        work.end[position] = work.end[second]
        first_state = work.state[position + 1]
        second_state = work.state[second] if arity == 2 else _FREE
        work.state[position] = _joined(language.linearity[token], first_state, second_state)
        if language.is_trig[token] and work.state[position] != _FREE:
            is_periodic = True
    return num_nodes, num_constants, is_periodic


@compiled
def prepare(apply, tokens, language, leaves, work):
    """Lay the tree out, and evaluate the nodes without constants. Returns its `Shape`."""
    num_nodes, num_constants, is_periodic = lay_out(tokens, language, work)
    is_affine = work.state[0] != _CURVED
    for position in range(num_nodes - 1, -1, -1):
        code = work.code[position]
        if code == CONSTANT:
            _fill(work.slopes[position, work.low[position]], 1.0)
        elif code == LEAF:
            _copy(leaves[work.token[position]], work.values[position])
        elif work.state[position] == _FREE and not _apply_at(apply, position, False, work):
            return Shape(num_nodes, num_constants, is_affine, False, is_periodic)
    return Shape(num_nodes, num_constants, is_affine, True, is_periodic)


@compiled
def _joined(linearity, first, second):
    """How an operator's value depends on the constants, from how its operands do."""
    if first == _FREE and second == _FREE:
        return _FREE
    if first == _CURVED or second == _CURVED:
        return _CURVED
    if linearity == JOINT:
        return _AFFINE
    if linearity == EACH and (first == _FREE or second == _FREE):
        return _AFFINE
    if linearity == FIRST and second == _FREE:
        return _AFFINE
    return _CURVED


@compiled
def _apply_at(apply, position, with_slopes, work):
    """Evaluate one operator, with slopes if asked for; whether it is defined at all points."""
    first, second = position + 1, work.right[position]
    is_binary = second > first
    by_first = with_slopes and work.high[first] > work.low[first]
    by_second = with_slopes and is_binary and work.high[second] > work.low[second]
    rows = work.values
    if not apply(work.code[position], by_first, by_second, rows, first, second, position):
        return False
    slopes = work.slopes
    if by_first:
        for j in range(work.low[first], work.high[first]):
            for point in range(rows.shape[1]):
                slopes[position, j, point] = rows[BY_FIRST, point] * slopes[first, j, point]
    if by_second:
        for j in range(work.low[second], work.high[second]):
            for point in range(rows.shape[1]):
                slopes[position, j, point] = rows[BY_SECOND, point] * slopes[second, j, point]
    return True


@compiled
def evaluate_tree(apply, shape, constants, with_slopes, work):
    """Evaluate a prepared tree for a vector of constants, in the order of their tokens.

    Returns whether the tree is defined at all points. If so, `work.values[0]` has its values, and
    `work.slopes[0]` their slopes if those were asked for.
    """
    for position in range(shape.num_nodes - 1, -1, -1):
        if work.state[position] == _FREE:
            continue
        if work.code[position] == CONSTANT:
            _fill(work.values[position], constants[work.low[position]])
        elif not _apply_at(apply, position, with_slopes, work):
            return False
    return True


@compiled
def evaluate_pointwise(apply, num_nodes, constants, leaves, work, defined):
    """Evaluate a tree that is laid out; `constants` has a value at the position of each constant.

    `defined` tells afterwards at which points all nodes are defined, and `work.values[0]` has the
    values there. Once undefined, a point stays so, whatever the nodes above make of it.
    """
    for point in range(len(defined)):
        defined[point] = True
    for position in range(num_nodes - 1, -1, -1):
        row = work.values[position]
        code = work.code[position]
        if code == LEAF:
            _copy(leaves[work.token[position]], row)
            continue
        if code == CONSTANT:
            _fill(row, constants[position])
            is_defined = np.isfinite(constants[position])
        else:
            is_defined = _apply_at(apply, position, False, work)
        if not is_defined:
            for point in range(len(defined)):
                defined[point] &= np.isfinite(row[point])

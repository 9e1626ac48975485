"""Values of one tree at all points and their slopes by its constants, by compiled code.

Only the operators that are in the tree are worked out, and what holds no constant only once. The
constants of a subtree are neighbours in prefix order, so a node's slopes are a range of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dvisr.library import Kind, Library
from dvisr.library.compiling import compiled
from dvisr.marginal.operations import BUILT_IN

LEAF, CONSTANT = -1, -2
NO_LINEARITY, JOINT, EACH, FIRST = 0, 1, 2, 3
_LINEARITY = {None: NO_LINEARITY, "joint": JOINT, "each": EACH, "first": FIRST}
_FREE, _AFFINE, _CURVED = 0, 1, 2


class Language(NamedTuple):
    """What the kernel must know of a library, by token."""

    codes: np.ndarray  # int64: an operator's code, LEAF or CONSTANT
    arities: np.ndarray  # int64
    linearity: np.ndarray  # int64
    is_trig: np.ndarray  # bool


class Work(NamedTuple):
    """Room for one tree at a time; a thread has its own."""

    code: np.ndarray  # (length,) of each node
    token: np.ndarray
    right: np.ndarray  # the position of the second operand
    low: np.ndarray  # constants low..high - 1 are below the node
    high: np.ndarray
    end: np.ndarray  # the position after the node's subtree
    state: np.ndarray  # free of constants, affine in them, or neither
    values: np.ndarray  # (length, points)
    slopes: np.ndarray  # (length, constants, points)
    by_first: np.ndarray  # (points,)
    by_second: np.ndarray


class Shape(NamedTuple):
    """What a tree looks like."""

    num_nodes: int
    num_constants: int
    is_affine: bool
    is_defined: bool  # of what holds no constant
    is_periodic: bool  # a constant stands inside a trigonometric function


def own_operators(library: Library) -> tuple[Any, ...]:
    """The operators that are not built in."""
    known = {id(token) for token in BUILT_IN}
    return tuple(t for t in library if t.kind is Kind.OPERATOR and id(t) not in known)


def make_language(library: Library) -> Language:
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


def make_work(length: int, num_constants: int, points: int) -> Work:
    def numbers() -> np.ndarray:
        return np.zeros(length, dtype=np.int64)

    return Work(
        numbers(),
        numbers(),
        numbers(),
        numbers(),
        numbers(),
        numbers(),
        numbers(),
        np.zeros((length, points)),
        np.zeros((length, max(1, num_constants), points)),
        np.zeros(points),
        np.zeros(points),
    )


@compiled
def _fill(row, value):
    for point in range(len(row)):
        row[point] = value


@compiled
def prepare(apply, tokens, language, leaves, work):
    """Lay the tree out, and work out what holds no constant."""
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
                _fill(work.slopes[position, seen], 1.0)
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
    is_affine = work.state[0] != _CURVED
    for position in range(num_nodes - 1, -1, -1):
        if work.state[position] != _FREE:
            continue
        if work.code[position] == LEAF:
            row = leaves[work.token[position]]
            for point in range(len(row)):  # a copy by slices would compile for seconds
                work.values[position, point] = row[point]
        elif not _work_out(apply, position, position < 0, work):
            return Shape(num_nodes, num_constants, is_affine, False, is_periodic)
    return Shape(num_nodes, num_constants, is_affine, True, is_periodic)


@compiled
def _joined(linearity, first, second):
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
def _work_out(apply, position, with_slopes, work):
    first, second = position + 1, work.right[position]
    is_binary = second > first
    by_first = with_slopes and work.high[first] > work.low[first]
    by_second = with_slopes and is_binary and work.high[second] > work.low[second]
    good = apply(
        work.code[position],
        by_first,
        by_second,
        work.values[first],
        work.values[second],
        work.values[position],
        work.by_first,
        work.by_second,
    )
    if not good:
        return False
    if by_first:
        for j in range(work.low[first], work.high[first]):
            for point in range(work.values.shape[1]):
                work.slopes[position, j, point] = (
                    work.by_first[point] * work.slopes[first, j, point]
                )
    if by_second:
        for j in range(work.low[second], work.high[second]):
            for point in range(work.values.shape[1]):
                work.slopes[position, j, point] = (
                    work.by_second[point] * work.slopes[second, j, point]
                )
    return True


@compiled
def evaluate_tree(apply, shape, constants, with_slopes, work):
    """Values at the root's row, slopes too if asked for; whether the tree is defined."""
    for position in range(shape.num_nodes - 1, -1, -1):
        if work.state[position] == _FREE:
            continue
        if work.code[position] == CONSTANT:
            _fill(work.values[position], constants[work.low[position]])
        elif not _work_out(apply, position, with_slopes, work):
            return False
    return True

"""Rows of tokens in compiled code: trees in prefix order, int8 ids padded with -1.

A new tree is written from left to right. Functions that write take the place to write at and return
the place after what they wrote; where the row is too short, that is one past its end, and stays so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.library.compiling import compiled


class Workspace(NamedTuple):
    """Arrays to work in, for rows of one length, allocated once."""

    made: np.ndarray  # int8 (length,): the new tree
    leaf: np.ndarray  # int8 (length,): a subtree of one token, made up
    sizes: np.ndarray  # int32 (length,): of the subtree that starts at each place of the tree
    donor_sizes: np.ndarray  # int32 (length,): the same of another tree
    waiting_kind: np.ndarray  # int32 (length,): for `legality.is_legal`
    waiting_rest: np.ndarray  # int32 (length,): for `legality.is_legal`


def new_workspace(length: int) -> Workspace:
    tokens, numbers = np.full((2, length), -1, dtype=np.int8), np.zeros((4, length), dtype=np.int32)
    return Workspace(*tokens, *numbers)


def checked_rows(tokens: np.ndarray, name: str) -> np.ndarray:
    """Rows as compiled functions take them. Another type is refused: its ids could wrap around,
    and it would be compiled for again."""
    if tokens.ndim != 2 or tokens.dtype != np.int8:
        raise ValueError(
            f"{name} must be int8 of shape (trees, length), not {tokens.dtype} of {tokens.shape}"
        )
    return np.require(tokens, np.int8, ["C", "W"])


@compiled
def measured(row, arities, sizes):
    """The length of the tree in a row, 0 if it holds no complete one; `sizes` is filled."""
    length = 0
    while length < len(row) and row[length] >= 0:
        length += 1
    for place in range(length - 1, -1, -1):
        if row[place] >= len(arities):
            return 0
        end = place + 1
        for _ in range(arities[row[place]]):
            if end >= length:
                return 0
            end += sizes[end]
        sizes[place] = end - place
    return length if length > 0 and sizes[0] == length else 0


@compiled
def written(out, place, token):
    """Write one token."""
    if place >= len(out):
        return len(out) + 1
    out[place] = token
    return place + 1


@compiled
def copied(out, place, row, start, stop):
    """Write a part of a row."""
    if place + stop - start > len(out):
        return len(out) + 1
    for step in range(stop - start):
        out[place + step] = row[start + step]
    return place + stop - start


@compiled
def replaced(out, row, length, node, end, part):
    """Write the tree with a part in place of node ... end; a part is (row, start, stop)."""
    place = copied(out, 0, row, 0, node)
    place = copied(out, place, part[0], part[1], part[2])
    return copied(out, place, row, end, length)


@compiled
def joined(out, row, length, node, end, token, first, second):
    """Write the tree with `token` over two parts in place of node ... end."""
    place = written(out, copied(out, 0, row, 0, node), token)
    place = copied(out, place, first[0], first[1], first[2])
    place = copied(out, place, second[0], second[1], second[2])
    return copied(out, place, row, end, length)


@compiled
def swapped(row, length, node, workspace):
    """Write the tree with the operands of a binary node exchanged."""
    middle, end = node + 1 + workspace.sizes[node + 1], node + workspace.sizes[node]
    left, right = (row, node + 1, middle), (row, middle, end)
    return joined(workspace.made, row, length, node, end, row[node], right, left)


@compiled
def regrouped(row, length, node, workspace, from_left, to_left, tokens, order):
    """Write the tree with the operands of two binary operators grouped otherwise.

    The operators are those at `node` and at its left or right operand; their three operands are
    written in the given order, with the operators `tokens` (outer, inner) and the inner one on the
    left or right."""
    made, sizes = workspace.made, workspace.sizes
    inner = node + 1 if from_left else node + 1 + sizes[node + 1]
    first = inner + 1 if from_left else node + 1
    second = first + sizes[first] + (0 if from_left else 1)
    starts = (first, second, second + sizes[second])
    place = written(made, copied(made, 0, row, 0, node), tokens[0])
    for turn in range(3):
        if turn == (0 if to_left else 1):
            place = written(made, place, tokens[1])
        start = starts[order[turn]]
        place = copied(made, place, row, start, start + sizes[start])
    return copied(made, place, row, node + sizes[node], length)

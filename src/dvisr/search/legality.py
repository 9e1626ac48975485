"""Whether trees are legal, on the host: `constraints.masking.is_allowed` for millions of them.

The same walk along the same tables. What waits is a stack of right-hand slots; the token at the
root of a left operand settles the slot on top of it.

Below are the few things that else is done with rows of tokens in compiled code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled


class WalkTables(NamedTuple):
    """`MaskTables` as compiled functions take them: all grammars have the same types, so what is
    compiled for one serves all."""

    feasible: np.ndarray  # bool (rest, question, spent)
    question: np.ndarray  # int32 (kind, token)
    operand_kind: np.ndarray  # int32 (kind, token)
    right_kind: np.ndarray  # int32 (kind, token)
    rest_with: np.ndarray  # int32 (rest, kind)
    spent_by: np.ndarray  # int32 (token,)
    arities: np.ndarray  # int32 (token,)


def walk_tables(grammar: Grammar) -> WalkTables:
    tables = grammar.tables

    def whole(table: np.ndarray) -> np.ndarray:
        return np.require(table, np.int32, ["C", "W"])

    return WalkTables(
        feasible=np.require(tables.feasible, np.bool_, ["C", "W"]),
        question=whole(tables.question),
        operand_kind=whole(tables.operand_kind),
        right_kind=whole(tables.right_kind),
        rest_with=whole(tables.rest_with),
        spent_by=whole(tables.spent_by),
        arities=whole(grammar.library.arities),
    )


class Legality:
    """Says of rows of tokens which are complete legal trees of the grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._tables = walk_tables(grammar)

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """bool (trees,) for int8 (trees, length), ids padded with -1."""
        return _are_legal(checked_rows(tokens, "tokens"), self._tables)


def checked_rows(tokens: np.ndarray, name: str) -> np.ndarray:
    """As compiled functions take them. Another type would wrap ids around, and compile anew."""
    if tokens.ndim != 2 or tokens.dtype != np.int8:
        raise ValueError(
            f"{name} must be int8 of shape (trees, length), not {tokens.dtype} of {tokens.shape}"
        )
    return np.require(tokens, np.int8, ["C", "W"])


@compiled
def is_legal(row, tables, waiting_kind, waiting_rest):
    """Of one row. The last two are scratch, as long as the row."""
    kind = rest = spent = num_waiting = 0
    is_left = False
    for position in range(len(row)):
        token = row[position]
        if token < 0 or token >= len(tables.arities):
            return False
        if not tables.feasible[rest, tables.question[kind, token], spent]:
            return False
        if is_left:
            beside = tables.right_kind[kind, token]
            waiting_kind[num_waiting - 1] = beside
            waiting_rest[num_waiting - 1] = rest
            rest = tables.rest_with[rest, beside]
        spent += tables.spent_by[token]
        arity = tables.arities[token]
        is_left = arity == 2
        num_waiting += is_left
        if arity > 0:
            kind = tables.operand_kind[kind, token]
        elif num_waiting > 0:
            num_waiting -= 1
            kind, rest = waiting_kind[num_waiting], waiting_rest[num_waiting]
        else:
            after = position + 1
            while after < len(row) and row[after] == -1:
                after += 1
            return after == len(row)
    return False


@compiled
def _are_legal(rows, tables):
    num_rows, length = rows.shape
    legal = np.empty(num_rows, dtype=np.bool_)
    waiting_kind = np.empty(length, dtype=np.int32)
    waiting_rest = np.empty(length, dtype=np.int32)
    for row in range(num_rows):
        legal[row] = is_legal(rows[row], tables, waiting_kind, waiting_rest)
    return legal


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
    """Where to write on. Beyond the row's end that is one past it, for good: the tree is too
    long."""
    if place >= len(out):
        return len(out) + 1
    out[place] = token
    return place + 1


@compiled
def copied(out, place, row, start, stop):
    if place + stop - start > len(out):
        return len(out) + 1
    for step in range(stop - start):
        out[place + step] = row[start + step]
    return place + stop - start


@compiled
def joined(out, row, length, node, end, token, first, second):
    """The tree with `token` over two pieces in place of node ... end; a piece is (row, start,
    stop)."""
    place = written(out, copied(out, 0, row, 0, node), token)
    place = copied(out, place, first[0], first[1], first[2])
    place = copied(out, place, second[0], second[1], second[2])
    return copied(out, place, row, end, length)

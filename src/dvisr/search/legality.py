"""Whether trees are legal, on the host: `constraints.masking.is_allowed` for millions of them.

The same walk along the same tables. The slots of right operands wait on a stack; the token at the
root of a left operand decides the state of the slot on top of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.search.rows import checked_rows


class WalkTables(NamedTuple):
    """`MaskTables` as compiled functions take them: with the same types for all grammars, so that
    they are compiled once."""

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


@compiled
def is_legal(row, tables, waiting_kind, waiting_rest):
    """Of one row. The last two are arrays to work in, as long as the row."""
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
def is_another_legal_tree(row, length, tables, workspace):
    """Whether the tree in `workspace.made`, of that length, is legal and not the one in the row.
    Its padding is written; a length that no tree in a row has is that of no tree."""
    if length < 1 or length > len(row):
        return False
    workspace.made[length:] = -1
    if (workspace.made == row).all():
        return False
    return is_legal(workspace.made, tables, workspace.waiting_kind, workspace.waiting_rest)


@compiled
def _are_legal(rows, tables):
    num_rows, length = rows.shape
    legal = np.empty(num_rows, dtype=np.bool_)
    waiting_kind = np.empty(length, dtype=np.int32)
    waiting_rest = np.empty(length, dtype=np.int32)
    for row in range(num_rows):
        legal[row] = is_legal(rows[row], tables, waiting_kind, waiting_rest)
    return legal

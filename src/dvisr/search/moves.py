"""Moves of the search: each makes one random change to a tree.

A move is a compiled function of the tree (`row`, `length`), of other trees whose subtrees may be
used (`donors`), of the tables of tokens, of a workspace that has the sizes of the tree's subtrees,
and of a stream of random numbers. It writes a tree, legal or not, to `workspace.made` and returns
its length: 0 if the move does not apply, more than a row holds if the tree is too long.

A new move is added to `MOVES`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from dvisr.library import Library
from dvisr.library.compiling import compiled
from dvisr.search.rows import copied, joined, measured, regrouped, replaced, swapped
from dvisr.search.streams import index_by_weight, integer_below, uniform

_TO_ROOT = 0.2  # the share of insertions that are above the whole tree, whatever its size
_TO_CONSTANT = 0.15  # the least share of changed leaves that become a constant


class TokenTables(NamedTuple):
    """The library, as moves need it."""

    arities: np.ndarray  # int32 (token,)
    of_arity: np.ndarray  # int8 (arity, place): the tokens of each arity, padded with -1
    num_of_arity: np.ndarray  # int32 (arity,)
    cumulative: np.ndarray  # float (arity, place): their shares when one is drawn, added up
    constant: np.ndarray  # int8 (1,): the constant's id, or -1


def token_tables(library: Library, shares: np.ndarray | None = None) -> TokenTables:
    """Tokens of an arity are drawn half evenly and half by their shares, if these are given."""
    arities = np.require(library.arities, np.int32, ["C", "W"])
    of_arity = np.full((3, len(library)), -1, dtype=np.int8)
    cumulative = np.zeros((3, len(library)))
    for arity in range(3):
        tokens = np.flatnonzero(arities == arity)
        of_arity[arity, : len(tokens)] = tokens
        if len(tokens):
            even = np.full(len(tokens), 1.0 / len(tokens))
            own = even if shares is None else shares[tokens]
            own = even if not own.sum() > 0.0 else own / own.sum()
            cumulative[arity, : len(tokens)] = np.cumsum(0.5 * even + 0.5 * own)
            cumulative[arity, len(tokens) :] = 1.0
    return TokenTables(
        arities=arities,
        of_arity=of_arity,
        num_of_arity=np.bincount(arities, minlength=3).astype(np.int32),
        cumulative=cumulative,
        constant=np.array([library.constant_id], dtype=np.int8),
    )


@compiled
def _random_token(arity, tables, stream):
    place = index_by_weight(tables.cumulative[arity, : tables.num_of_arity[arity]], stream)
    return tables.of_arity[arity, place]


@compiled
def _random_node(row, length, arities, least, stream):
    """A place with a token of at least that arity, or -1."""
    number = 0
    for place in range(length):
        number += arities[row[place]] >= least
    chosen = integer_below(number, stream)
    for place in range(length):
        if arities[row[place]] >= least:
            if chosen == 0:
                return place
            chosen -= 1
    return -1


@compiled
def _donated(donors, tables, workspace, tries, stream):
    """A subtree of a donor as (row, start, stop): the smallest of as many as there are tries, or a
    leaf where there is no donor."""
    workspace.leaf[0] = _random_token(0, tables, stream)
    if len(donors) == 0:
        return workspace.leaf, 0, 1
    donor = donors[integer_below(len(donors), stream)]
    length = measured(donor, tables.arities, workspace.donor_sizes)
    if length == 0:
        return workspace.leaf, 0, 1
    node = 0
    for _ in range(tries):
        other = integer_below(length, stream)
        if workspace.donor_sizes[other] < workspace.donor_sizes[node]:
            node = other
    return donor, node, node + workspace.donor_sizes[node]


@compiled
def _place_to_insert(length, stream):
    return 0 if uniform(stream) < _TO_ROOT else integer_below(length, stream)


@compiled
def replace_subtree(row, length, donors, tables, workspace, stream):
    """A subtree is replaced by one of a donor."""
    node = integer_below(length, stream)
    part = _donated(donors, tables, workspace, 1, stream)
    return replaced(workspace.made, row, length, node, node + workspace.sizes[node], part)


@compiled
def change_token(row, length, donors, tables, workspace, stream):
    """One token becomes another of its arity."""
    node = integer_below(length, stream)
    arity = tables.arities[row[node]]
    token = _random_token(arity, tables, stream)
    if arity == 0 and tables.constant[0] >= 0 and uniform(stream) < _TO_CONSTANT:
        token = tables.constant[0]
    copied(workspace.made, 0, row, 0, length)
    workspace.made[node] = token
    return length


@compiled
def insert_unary(row, length, donors, tables, workspace, stream):
    """A unary operator is put above a node."""
    if tables.num_of_arity[1] == 0:
        return 0
    node = _place_to_insert(length, stream)
    end = node + workspace.sizes[node]
    token = _random_token(1, tables, stream)
    own, nothing = (row, node, end), (row, 0, 0)
    return joined(workspace.made, row, length, node, end, token, own, nothing)


@compiled
def insert_binary(row, length, donors, tables, workspace, stream):
    """A binary operator is put above a node, with a subtree of a donor on its other side."""
    if tables.num_of_arity[2] == 0:
        return 0
    node = _place_to_insert(length, stream)
    end = node + workspace.sizes[node]
    token = _random_token(2, tables, stream)
    own, other = (row, node, end), _donated(donors, tables, workspace, 2, stream)
    if uniform(stream) < 0.5:
        return joined(workspace.made, row, length, node, end, token, own, other)
    return joined(workspace.made, row, length, node, end, token, other, own)


@compiled
def insert_constant(row, length, donors, tables, workspace, stream):
    """A binary operator is put above a node, with a constant on its right: most rules allow it
    there only. c / x and c - x come of other moves."""
    if tables.num_of_arity[2] == 0 or tables.constant[0] < 0:
        return 0
    node = _place_to_insert(length, stream)
    end = node + workspace.sizes[node]
    token = _random_token(2, tables, stream)
    workspace.leaf[0] = tables.constant[0]
    own, constant = (row, node, end), (workspace.leaf, 0, 1)
    return joined(workspace.made, row, length, node, end, token, own, constant)


@compiled
def delete_operator(row, length, donors, tables, workspace, stream):
    """An operator is removed, and one of its operands takes its place."""
    node = _random_node(row, length, tables.arities, 1, stream)
    if node < 0:
        return 0
    kept = node + 1
    if tables.arities[row[node]] == 2 and uniform(stream) < 0.5:
        kept += workspace.sizes[kept]
    part = (row, kept, kept + workspace.sizes[kept])
    return replaced(workspace.made, row, length, node, node + workspace.sizes[node], part)


@compiled
def swap_operands(row, length, donors, tables, workspace, stream):
    """The operands of a binary operator are exchanged."""
    node = _random_node(row, length, tables.arities, 2, stream)
    return 0 if node < 0 else swapped(row, length, node, workspace)


@compiled
def rotate(row, length, donors, tables, workspace, stream):
    """(a q b) p c becomes a q (b p c), or the other way round, whatever the operators."""
    node = _random_node(row, length, tables.arities, 2, stream)
    if node < 0:
        return 0
    from_left = uniform(stream) < 0.5
    inner = node + 1 if from_left else node + 1 + workspace.sizes[node + 1]
    if tables.arities[row[inner]] != 2:
        return 0
    tokens = (row[inner], row[node])
    return regrouped(row, length, node, workspace, from_left, not from_left, tokens, (0, 1, 2))


@compiled
def _no_move(row, length, donors, tables, workspace, stream):
    return 0


# Each move with its weight: it is tried with a probability in proportion to that.
MOVES: tuple[tuple[float, Any], ...] = (
    (24, replace_subtree),
    (26, change_token),
    (8, insert_unary),
    (12, insert_binary),
    (8, insert_constant),
    (12, delete_operator),
    (4, swap_operands),
    (6, rotate),
)


def _one_of(moves: Sequence[tuple[float, Any]]) -> Any:
    """A compiled function that makes one of the moves, chosen by weight. It has a branch for each,
    and none inside others: every level of those would compile again all that is below it."""
    slots = 12
    if len(moves) > slots:
        raise ValueError(f"there are {len(moves)} moves and room for {slots}: add branches here")
    cumulative = np.cumsum([weight for weight, _ in moves], dtype=np.float64)
    padding = [_no_move] * (slots - len(moves))
    m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11 = [*(move for _, move in moves), *padding]

    @numba.njit(error_model="numpy", nogil=True)
    def random_move(row, length, donors, tables, workspace, stream):
        number = index_by_weight(cumulative, stream)
        if number == 0:
            return m0(row, length, donors, tables, workspace, stream)
        if number == 1:
            return m1(row, length, donors, tables, workspace, stream)
        if number == 2:
            return m2(row, length, donors, tables, workspace, stream)
        if number == 3:
            return m3(row, length, donors, tables, workspace, stream)
        if number == 4:
            return m4(row, length, donors, tables, workspace, stream)
        if number == 5:
            return m5(row, length, donors, tables, workspace, stream)
        if number == 6:
            return m6(row, length, donors, tables, workspace, stream)
        if number == 7:
            return m7(row, length, donors, tables, workspace, stream)
        if number == 8:
            return m8(row, length, donors, tables, workspace, stream)
        if number == 9:
            return m9(row, length, donors, tables, workspace, stream)
        if number == 10:
            return m10(row, length, donors, tables, workspace, stream)
        return m11(row, length, donors, tables, workspace, stream)

    return random_move


random_move = _one_of(MOVES)

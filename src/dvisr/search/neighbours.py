"""Neighbours of trees: what a search looks at next.

A neighbour is made by one move: a subtree is replaced by one of another tree, a token by another
of its arity, an operator is put in or taken out, operands change places or are grouped otherwise.
Moves are tried until one gives a legal tree that is not the tree itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.library.compiling import compiled
from dvisr.search.from_prior import new_chance, uniform
from dvisr.search.legality import (
    checked_rows,
    copied,
    is_legal,
    joined,
    measured,
    walk_tables,
    written,
)

MAX_TRIES = 12

# How often a move is tried, added up.
_REPLACE = 0.24
_CHANGE = _REPLACE + 0.26
_INSERT_UNARY = _CHANGE + 0.08
_INSERT_BINARY = _INSERT_UNARY + 0.12
_INSERT_CONSTANT = _INSERT_BINARY + 0.08
_DELETE = _INSERT_CONSTANT + 0.12
_SWAP = _DELETE + 0.04  # and what is left of 1 regroups

_TO_ROOT = 0.2  # how often an operator is inserted above the whole tree, whatever its size
_TO_CONSTANT = 0.15  # how often a leaf that changes becomes a constant, at the least


class _Pieces(NamedTuple):
    """What moves need to know of the library."""

    arities: np.ndarray  # int32 (token,)
    alike: np.ndarray  # int8 (arity, place): the tokens of an arity
    num_alike: np.ndarray  # int32 (arity,)
    constant: np.ndarray  # int8 (1,): the constant's id, or -1
    commutes: np.ndarray  # bool (token,)
    # Where (a q b) p c = a r (b s c): inward[p, q] is (r, s) and outward[r, s] is (p, q); else -1.
    inward: np.ndarray  # int8 (token, token, 2)
    outward: np.ndarray  # int8 (token, token, 2)
    # Where (a q b) p c = (a p c) q b, and a p (b q c) = b p (a q c) if p commutes.
    exchanges: np.ndarray  # bool (token, token)


class _Desk(NamedTuple):
    """Room to work in, for rows of one length."""

    made: np.ndarray  # int8 (length,): the neighbour
    leaf: np.ndarray  # int8 (length,): for a subtree that no donor gave
    sizes: np.ndarray  # int32 (length,): of the subtrees at each place of a tree
    donor_sizes: np.ndarray  # int32 (length,)
    waiting_kind: np.ndarray  # int32 (length,)
    waiting_rest: np.ndarray  # int32 (length,)


def _desk(length: int) -> _Desk:
    tokens, numbers = np.full((2, length), -1, dtype=np.int8), np.zeros((4, length), dtype=np.int32)
    return _Desk(*tokens, *numbers)


class Neighbours:
    def __init__(self, grammar: Grammar) -> None:
        self._tables = walk_tables(grammar)
        self._pieces = _pieces(grammar.library)

    def propose(
        self, parents: np.ndarray, donors: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """A neighbour of each parent, int8 (trees, length): a legal tree other than the parent, or
        -1 throughout where none was found in `MAX_TRIES` moves. Donors are trees whose subtrees may
        be used; without any, a leaf is used in their place."""
        parents, donors = checked_rows(parents, "parents"), checked_rows(donors, "donors")
        if parents.shape[1] != donors.shape[1]:
            lengths = f"{parents.shape[1]} and {donors.shape[1]}"
            raise ValueError(f"parents and donors must have the same length, not {lengths}")
        desk, chance = _desk(parents.shape[1]), new_chance(rng)
        return _propose(parents, donors, self._pieces, self._tables, desk, chance)

    def rewritings(self, tree: np.ndarray) -> np.ndarray:
        """Other legal trees that are certain to have the canonical form of this one, each one step
        away from it: operands swapped, or grouped otherwise. int8 (trees, length)."""
        row = checked_rows(tree[None], "a tree as a row")[0]
        return _rewritings(row, self._pieces, self._tables, _desk(len(row)))


def _pieces(library: Library) -> _Pieces:
    size = len(library)
    arities = np.require(library.arities, np.int32, ["C", "W"])
    alike = np.full((3, size), -1, dtype=np.int8)
    for arity in range(3):
        alike[arity, : (arities == arity).sum()] = np.flatnonzero(arities == arity)
    inward, outward = np.full((2, size, size, 2), -1, dtype=np.int8)
    exchanges = np.zeros((size, size), dtype=np.bool_)
    for token_id, token in enumerate(library):
        if token.is_associative:
            inward[token_id, token_id] = outward[token_id, token_id] = token_id
            exchanges[token_id, token_id] = token.is_commutative
    # p, q, r, s by name: these are the language's own. (a / b) * c is not a / (b / c), which is
    # undefined where c is zero; the canonical form tells them apart.
    for names in ("-++-", "+---", "---+", "/**/", "///*"):
        if len(ids := _known(library, names)) == 4:
            inward[ids[0], ids[1]] = ids[2:]
            outward[ids[2], ids[3]] = ids[:2]
    for names in ("+-", "*/"):
        exchanges[np.ix_(_known(library, names), _known(library, names))] = True
    return _Pieces(
        arities=arities,
        alike=alike,
        num_alike=np.bincount(arities, minlength=3).astype(np.int32),
        constant=np.array([library.constant_id], dtype=np.int8),
        commutes=np.array([token.is_commutative for token in library]),
        inward=inward,
        outward=outward,
        exchanges=exchanges,
    )


def _known(library: Library, names: str) -> list[int]:
    found = [library.find(name) for name in names]
    return [token_id for token_id in found if token_id is not None]


@compiled
def _one_of(number, chance):
    return int(uniform(chance) * number)


@compiled
def _random_node(row, length, arities, least, chance):
    """Of at least that arity, or -1."""
    number = 0
    for place in range(length):
        number += arities[row[place]] >= least
    chosen = _one_of(number, chance)
    for place in range(length):
        if arities[row[place]] >= least:
            if chosen == 0:
                return place
            chosen -= 1
    return -1


@compiled
def _borrowed(donors, pieces, desk, tries, chance):
    """A subtree of a donor, the smallest of as many as are looked at: (row, start, stop)."""
    desk.leaf[0] = pieces.alike[0, _one_of(pieces.num_alike[0], chance)]
    if len(donors) == 0:
        return desk.leaf, 0, 1
    donor = donors[_one_of(len(donors), chance)]
    length = measured(donor, pieces.arities, desk.donor_sizes)
    if length == 0:
        return desk.leaf, 0, 1
    node = 0
    for _ in range(tries):
        other = _one_of(length, chance)
        if desk.donor_sizes[other] < desk.donor_sizes[node]:
            node = other
    return donor, node, node + desk.donor_sizes[node]


@compiled
def _changed(row, length, pieces, desk, chance):
    """One token becomes another of its arity."""
    node = _one_of(length, chance)
    arity = pieces.arities[row[node]]
    token = pieces.alike[arity, _one_of(pieces.num_alike[arity], chance)]
    if arity == 0 and pieces.constant[0] >= 0 and uniform(chance) < _TO_CONSTANT:
        token = pieces.constant[0]
    copied(desk.made, 0, row, 0, length)
    desk.made[node] = token
    return length


@compiled
def _inserted(row, length, donors, pieces, desk, chance, arity, is_constant):
    """An operator above a node; the other operand of a binary one is borrowed, or a constant."""
    if pieces.num_alike[arity] == 0 or (is_constant and pieces.constant[0] < 0):
        return 0
    node = 0 if uniform(chance) < _TO_ROOT else _one_of(length, chance)
    end = node + desk.sizes[node]
    token = pieces.alike[arity, _one_of(pieces.num_alike[arity], chance)]
    own = (row, node, end)
    if arity == 1:
        return joined(desk.made, row, length, node, end, token, own, (row, 0, 0))
    other = _borrowed(donors, pieces, desk, 2, chance)
    if is_constant:
        desk.leaf[0] = pieces.constant[0]
        other = (desk.leaf, 0, 1)
    # A constant goes to the right, where most rules want it; c / x and c - x come from elsewhere.
    if is_constant or uniform(chance) < 0.5:
        return joined(desk.made, row, length, node, end, token, own, other)
    return joined(desk.made, row, length, node, end, token, other, own)


@compiled
def _deleted(row, length, pieces, desk, chance):
    """An operator goes, and one of its operands takes its place."""
    node = _random_node(row, length, pieces.arities, 1, chance)
    if node < 0:
        return 0
    kept = node + 1
    if pieces.arities[row[node]] == 2 and uniform(chance) < 0.5:
        kept += desk.sizes[kept]
    place = copied(desk.made, 0, row, 0, node)
    place = copied(desk.made, place, row, kept, kept + desk.sizes[kept])
    return copied(desk.made, place, row, node + desk.sizes[node], length)


@compiled
def _swapped(row, length, node, desk):
    """The operands of a binary node, exchanged."""
    middle, end = node + 1 + desk.sizes[node + 1], node + desk.sizes[node]
    left, right = (row, node + 1, middle), (row, middle, end)
    return joined(desk.made, row, length, node, end, row[node], right, left)


@compiled
def _regrouped(row, length, node, desk, from_left, to_left, tokens, order):
    """With the binary operator below a binary node, on the left or right, there are three operands
    a, b, c in that order; they are written in the order given, with `tokens` (outer, inner) and the
    inner operator on the left or right."""
    inner = node + 1 if from_left else node + 1 + desk.sizes[node + 1]
    first = inner + 1 if from_left else node + 1
    second = first + desk.sizes[first] + (0 if from_left else 1)
    starts = (first, second, second + desk.sizes[second])
    place = written(desk.made, copied(desk.made, 0, row, 0, node), tokens[0])
    for turn in range(3):
        if turn == (0 if to_left else 1):
            place = written(desk.made, place, tokens[1])
        start = starts[order[turn]]
        place = copied(desk.made, place, row, start, start + desk.sizes[start])
    return copied(desk.made, place, row, node + desk.sizes[node], length)


@compiled
def _rotated(row, length, pieces, desk, chance):
    """(a q b) p c becomes a q (b p c), or the other way round, whatever the operators."""
    node = _random_node(row, length, pieces.arities, 2, chance)
    if node < 0:
        return 0
    from_left = uniform(chance) < 0.5
    inner = node + 1 if from_left else node + 1 + desk.sizes[node + 1]
    if pieces.arities[row[inner]] != 2:
        return 0
    tokens = (row[inner], row[node])
    return _regrouped(row, length, node, desk, from_left, not from_left, tokens, (0, 1, 2))


@compiled
def _moved(row, length, donors, pieces, desk, chance):
    """Write a neighbour, legal or not, to `desk.made`. Its length, or what is no row's length."""
    move = uniform(chance)
    if move < _REPLACE:
        node = _one_of(length, chance)
        donor, start, stop = _borrowed(donors, pieces, desk, 1, chance)
        place = copied(desk.made, 0, row, 0, node)
        place = copied(desk.made, place, donor, start, stop)
        return copied(desk.made, place, row, node + desk.sizes[node], length)
    if move < _CHANGE:
        return _changed(row, length, pieces, desk, chance)
    if move < _INSERT_CONSTANT:
        arity, is_constant = 1 if move < _INSERT_UNARY else 2, move >= _INSERT_BINARY
        return _inserted(row, length, donors, pieces, desk, chance, arity, is_constant)
    if move < _DELETE:
        return _deleted(row, length, pieces, desk, chance)
    if move < _SWAP:
        node = _random_node(row, length, pieces.arities, 2, chance)
        return 0 if node < 0 else _swapped(row, length, node, desk)
    return _rotated(row, length, pieces, desk, chance)


@compiled
def _is_other_and_legal(row, place, tables, desk):
    if place < 1 or place > len(row):
        return False
    desk.made[place:] = -1
    if (desk.made == row).all():
        return False
    return is_legal(desk.made, tables, desk.waiting_kind, desk.waiting_rest)


@compiled
def _propose(parents, donors, pieces, tables, desk, chance):
    made = np.full(parents.shape, -1, dtype=np.int8)
    for tree in range(len(parents)):
        row = parents[tree]
        length = measured(row, pieces.arities, desk.sizes)
        if length == 0:
            continue
        for _ in range(MAX_TRIES):
            place = _moved(row, length, donors, pieces, desk, chance)
            if _is_other_and_legal(row, place, tables, desk):
                made[tree] = desk.made
                break
    return made


@compiled
def _rewritings(row, pieces, tables, desk):
    made = np.empty((5 * len(row), len(row)), dtype=np.int8)
    number = 0
    length = measured(row, pieces.arities, desk.sizes)
    for node in range(length):
        if pieces.arities[row[node]] < 2:
            continue
        for kind in range(5):
            place = _rewritten(row, length, node, kind, pieces, desk)
            if _is_other_and_legal(row, place, tables, desk):
                made[number] = desk.made
                is_new = True
                for earlier in range(number):
                    is_new &= not (made[earlier] == made[number]).all()
                number += is_new
    return made[:number]


@compiled
def _rewritten(row, length, node, kind, pieces, desk):
    """One of the five ways to write the same at a binary node, or 0 where it does not apply."""
    outer = row[node]
    if kind == 0:
        return _swapped(row, length, node, desk) if pieces.commutes[outer] else 0
    from_left = kind < 3
    inner = row[node + 1] if from_left else row[node + 1 + desk.sizes[node + 1]]
    if pieces.arities[inner] != 2:
        return 0
    if kind == 1 or kind == 3:  # a, b, c grouped otherwise
        new = pieces.inward[outer, inner] if from_left else pieces.outward[outer, inner]
        if new[0] < 0:
            return 0
        tokens = (new[0], new[1])
        return _regrouped(row, length, node, desk, from_left, not from_left, tokens, (0, 1, 2))
    if not pieces.exchanges[outer, inner] or not (from_left or pieces.commutes[outer]):
        return 0
    if from_left:
        return _regrouped(row, length, node, desk, True, True, (inner, outer), (0, 2, 1))
    return _regrouped(row, length, node, desk, False, False, (outer, inner), (1, 0, 2))

"""Trees written otherwise that keep their canonical form: operands swapped, or regrouped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.library import Library, Role
from dvisr.library.compiling import compiled
from dvisr.search.legality import is_another_legal_tree
from dvisr.search.rows import measured, regrouped, swapped

# An operation, and the one that does the same with its second operand inverted.
_GROUPS = ((Role.SUM, Role.DIFFERENCE), (Role.PRODUCT, Role.QUOTIENT))
_NUM_WAYS = 5


class Regroupings(NamedTuple):
    """What may be rewritten, by the ids of tokens."""

    arities: np.ndarray  # int32 (token,)
    commutes: np.ndarray  # bool (token,)
    # Where (a q b) p c = a r (b s c): inward[p, q] is (r, s) and outward[r, s] is (p, q); else -1.
    inward: np.ndarray  # int8 (token, token, 2)
    outward: np.ndarray  # int8 (token, token, 2)
    # Where (a q b) p c = (a p c) q b, and a p (b q c) = b p (a q c) if p commutes.
    exchanges: np.ndarray  # bool (token, token)


def make_regroupings(library: Library) -> Regroupings:
    size = len(library)
    inward, outward = np.full((2, size, size, 2), -1, dtype=np.int8)
    exchanges = np.zeros((size, size), dtype=np.bool_)
    for token_id, token in enumerate(library):
        if token.is_associative:
            inward[token_id, token_id] = outward[token_id, token_id] = token_id
            exchanges[token_id, token_id] = token.is_commutative
    ids = {token.role: token_id for token_id, token in enumerate(library)}
    for plain, inverting in _GROUPS:
        present = [role for role in (plain, inverting) if role in ids]
        present_ids = [ids[role] for role in present]
        exchanges[np.ix_(present_ids, present_ids)] = True
        for p in present:
            for q in present:
                # b is inverted by q alone, and so by r; c is inverted by p, and so by r or s.
                r, s = q, plain if p is q else inverting
                # (a / b) * c is not a / (b / c), which is undefined where c is zero.
                is_double = r is Role.QUOTIENT and s is Role.QUOTIENT
                if s in ids and not is_double:
                    inward[ids[p], ids[q]] = ids[r], ids[s]
                    outward[ids[r], ids[s]] = ids[p], ids[q]
    return Regroupings(
        arities=np.require(library.arities, np.int32, ["C", "W"]),
        commutes=np.array([token.is_commutative for token in library]),
        inward=inward,
        outward=outward,
        exchanges=exchanges,
    )


@compiled
def rewritings(row, regroupings, tables, workspace):
    """Other legal trees with the canonical form of this one, each one step away from it."""
    made = np.empty((_NUM_WAYS * len(row), len(row)), dtype=np.int8)
    number = 0
    length = measured(row, regroupings.arities, workspace.sizes)
    for node in range(length):
        if regroupings.arities[row[node]] < 2:
            continue
        for way in range(_NUM_WAYS):
            new_length = _rewritten(row, length, node, way, regroupings, workspace)
            if is_another_legal_tree(row, new_length, tables, workspace):
                made[number] = workspace.made
                is_new = True
                for earlier in range(number):
                    is_new &= not (made[earlier] == made[number]).all()
                number += is_new
    return made[:number]


@compiled
def all_rewritings(row, most, regroupings, tables, workspace):
    """A tree, what it can be rewritten to, what those can, and so on: all, or so many."""
    made = np.empty((most, len(row)), dtype=np.int8)
    table = np.full(_table_size(most), -1, dtype=np.int32)  # of places in `made`, by hash
    number, place = _added(row, made, 0, table), 0
    while place < number and number < most:
        for other in rewritings(made[place], regroupings, tables, workspace):
            if number < most:
                number = _added(other, made, number, table)
        place += 1
    return made[:number]


@compiled
def _table_size(most):
    size = 16
    while size < 2 * most:
        size *= 2
    return size


@compiled
def _added(row, made, number, table):
    """Put a row after the first `number` of `made` unless it is there; how many there are then."""
    value = np.uint64(1469598103934665603)  # Fowler, Noll and Vo's hash
    for token in row:
        value = (value ^ np.uint64(token + 1)) * np.uint64(1099511628211)
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(len(table) - 1))
    while table[slot] >= 0:
        if (made[table[slot]] == row).all():
            return number
        slot = (slot + 1) % len(table)
    table[slot] = number
    made[number] = row
    return number + 1


@compiled
def _rewritten(row, length, node, way, regroupings, workspace):
    """Write the tree in one of five ways that differ at a binary node; 0 if that is impossible."""
    outer = row[node]
    if way == 0:
        return swapped(row, length, node, workspace) if regroupings.commutes[outer] else 0
    from_left = way < 3
    inner = row[node + 1] if from_left else row[node + 1 + workspace.sizes[node + 1]]
    if regroupings.arities[inner] != 2:
        return 0
    if way == 1 or way == 3:  # a, b, c grouped otherwise
        pairs = regroupings.inward if from_left else regroupings.outward
        new = pairs[outer, inner]
        if new[0] < 0:
            return 0
        tokens = (new[0], new[1])
        return regrouped(row, length, node, workspace, from_left, not from_left, tokens, (0, 1, 2))
    if not regroupings.exchanges[outer, inner] or not (from_left or regroupings.commutes[outer]):
        return 0
    if from_left:
        return regrouped(row, length, node, workspace, True, True, (inner, outer), (0, 2, 1))
    return regrouped(row, length, node, workspace, False, False, (outer, inner), (1, 0, 2))

"""Neighbours of trees: what a search looks at next."""

from __future__ import annotations

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.search.legality import is_another_legal_tree, walk_tables
from dvisr.search.moves import random_move, token_tables
from dvisr.search.rewriting import all_rewritings, make_regroupings, rewritings
from dvisr.search.rows import checked_rows, measured, new_workspace
from dvisr.search.streams import new_stream

MAX_TRIES = 12


class Neighbours:
    """Makes neighbours of the trees of a grammar.

    A neighbour differs by one move, see `search.moves`. Moves are tried until one gives a legal
    tree that is not the tree itself.
    """

    def __init__(self, grammar: Grammar, shares: np.ndarray | None = None) -> None:
        """`shares` are of the tokens that moves draw; see `token_tables`."""
        self._walk_tables = walk_tables(grammar)
        self._token_tables = token_tables(grammar.library, shares)
        self._regroupings = make_regroupings(grammar.library)

    def propose(
        self, parents: np.ndarray, donors: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """A neighbour of each parent, int8 (trees, length): a legal tree other than the parent, or
        -1 throughout if `MAX_TRIES` moves gave none. Donors are trees whose subtrees may be used;
        without any, a leaf is used in their place."""
        parents, donors = checked_rows(parents, "parents"), checked_rows(donors, "donors")
        if parents.shape[1] != donors.shape[1]:
            lengths = f"{parents.shape[1]} and {donors.shape[1]}"
            raise ValueError(f"parents and donors must have the same length, not {lengths}")
        workspace, stream = new_workspace(parents.shape[1]), new_stream(rng)
        tables = (self._token_tables, self._walk_tables)
        return _propose(parents, donors, *tables, workspace, stream)

    def rewritings(self, tree: np.ndarray) -> np.ndarray:
        """Other legal trees that are certain to have the canonical form of this one, each one step
        away from it: operands swapped, or grouped otherwise. int8 (trees, length)."""
        row = checked_rows(tree[None], "a tree as a row")[0]
        return rewritings(row, self._regroupings, self._walk_tables, new_workspace(len(row)))

    def all_rewritings(self, tree: np.ndarray, most: int) -> np.ndarray:
        """The tree itself and rewritings of rewritings of it: all that there are, or so many."""
        row = checked_rows(tree[None], "a tree as a row")[0]
        workspace = new_workspace(len(row))
        return all_rewritings(row, max(1, most), self._regroupings, self._walk_tables, workspace)


@compiled
def _propose(parents, donors, token_tables, walk_tables, workspace, stream):
    neighbours = np.full(parents.shape, -1, dtype=np.int8)
    for tree in range(len(parents)):
        row = parents[tree]
        length = measured(row, token_tables.arities, workspace.sizes)
        if length == 0:
            continue
        for _ in range(MAX_TRIES):
            new_length = random_move(row, length, donors, token_tables, workspace, stream)
            if is_another_legal_tree(row, new_length, walk_tables, workspace):
                neighbours[tree] = workspace.made
                break
    return neighbours

"""All small changes of one tree: what random neighbours come to in the end, without the waiting.

Each subtree in turn is replaced by every small tree, and every operator is put above it, with every
leaf beside it where it takes two. Where that is too many, a random part of them is taken.
Refinements are fewer: only constants are replaced.
"""

from __future__ import annotations

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.search.legality import Legality
from dvisr.settings import SearchSettings


class Sweep:
    def __init__(self, grammar: Grammar, settings: SearchSettings | None = None) -> None:
        own = SearchSettings() if settings is None else settings
        self._most_changes = own.most_changes
        self._legality = Legality(grammar)
        self._length = grammar.max_tokens
        library = grammar.library
        size = min(own.small_tokens, grammar.max_tokens)
        while size > 1 and count_trees(Grammar(library, size)) > own.most_small:
            size -= 1
        small = enumerate_trees(Grammar(library, size))
        self._small = [row[row >= 0] for row in small]
        self._leaves = [row for row in self._small if len(row) == 1]
        ids = np.arange(len(library), dtype=np.int8)
        self._unary, self._binary = (ids[library.arities == arity] for arity in (1, 2))
        self._arities = library.arities
        self._constant = library.constant_id

    def changes(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(changes, length), legal ones only, the tree itself left out."""
        tokens = tree[tree >= 0]
        ends = _ends(tokens, self._arities)
        made: list[np.ndarray] = []
        for start, end in enumerate(ends):
            before, subtree, after = tokens[:start], tokens[start:end], tokens[end:]
            room = self._length - len(before) - len(after)
            made += [
                np.concatenate([before, new, after]) for new in self._small if len(new) <= room
            ]
            if len(subtree) + 1 <= room:
                made += [np.concatenate([before, [op], subtree, after]) for op in self._unary]
            if len(subtree) + 2 <= room:
                for op in self._binary:
                    for leaf in self._leaves:
                        made.append(np.concatenate([before, [op], subtree, leaf, after]))
                        made.append(np.concatenate([before, [op], leaf, subtree, after]))
        return self._legal(tree, made, rng)

    def refinements(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Each constant in turn replaced by every small tree: where a constant does well, it may
        stand for something that is not one."""
        tokens = tree[tree >= 0]
        made: list[np.ndarray] = []
        for place in np.flatnonzero(tokens == self._constant):
            before, after = tokens[:place], tokens[place + 1 :]
            room = self._length - len(before) - len(after)
            made += [
                np.concatenate([before, new, after]) for new in self._small if 1 < len(new) <= room
            ]
        return self._legal(tree, made, rng)

    def _legal(
        self, tree: np.ndarray, made: list[np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        if len(made) > self._most_changes:
            made = [
                made[place] for place in rng.choice(len(made), self._most_changes, replace=False)
            ]
        rows = np.full((len(made), self._length), -1, dtype=np.int8)
        for row, new in enumerate(made):
            rows[row, : len(new)] = new
        is_other = (rows[:, : len(tree)] != tree).any(axis=1)
        legal: np.ndarray = rows[is_other & self._legality(rows)]
        return legal


def _ends(tokens: np.ndarray, arities: np.ndarray) -> list[int]:
    """Where each token's subtree ends."""
    ends = [0] * len(tokens)
    stack: list[int] = []
    for position in range(len(tokens) - 1, -1, -1):
        arity = int(arities[tokens[position]])
        end = position + 1
        for _ in range(arity):
            end = stack.pop()
        ends[position] = end
        stack.append(end)
    return ends

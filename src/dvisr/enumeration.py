"""All legal trees of a grammar, as one array.

Trees are built bottom-up by slot state and size, each list of subtrees once.
"""

from __future__ import annotations

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_trees

MAX_TREES = 20_000_000


def enumerate_trees(grammar: Grammar) -> np.ndarray:
    """List every legal tree once, by size and then by tokens.

    Parameters
    ----------
    grammar : Grammar
        The library, the maximum number of tokens and the rules.

    Returns
    -------
    numpy.ndarray of int8, (trees, max_tokens)
        Token ids in prefix order, padded with -1.

    Raises
    ------
    ValueError
        If there are more than `MAX_TREES` trees.
    """
    total = count_trees(grammar)
    if total > MAX_TREES:
        raise ValueError(
            f"there are {total:,} expressions, and at most {MAX_TREES:,} can be listed: "
            f"lower max_tokens or use fewer operators"
        )
    lists = _Lists(grammar)
    padded = []
    for size in range(1, grammar.max_tokens + 1):
        trees = lists.of_state(0, size)
        trees = trees[lists.reaches_minima(trees, size)]
        trees = trees[np.lexsort(trees.T[::-1])] if len(trees) else trees
        gap = ((0, 0), (0, grammar.max_tokens - size))
        padded.append(np.pad(trees, gap, constant_values=-1))
    return np.concatenate(padded)


class _Lists:
    """The subtrees that fit a slot state, by size; each list is made once."""

    def __init__(self, grammar: Grammar) -> None:
        self._scopes = grammar.scopes
        self._budget = grammar.budget
        self._lists: dict[tuple[int, int], np.ndarray] = {}

    def of_state(self, state: int, size: int) -> np.ndarray:
        if (state, size) not in self._lists:
            parts = [
                part
                for token in np.flatnonzero(self._scopes.allowed[state])
                for part in self._of_root(state, int(token), size)
            ]
            trees = np.concatenate(parts) if parts else np.empty((0, size), dtype=np.int8)
            self._lists[state, size] = trees[self._within_maxima(trees)]
        return self._lists[state, size]

    def _of_root(self, state: int, token: int, size: int) -> list[np.ndarray]:
        below, beside = self._scopes.operand[state, token], self._scopes.right[state, token]
        root = np.full((1, 1), token, dtype=np.int8)
        if below < 0:
            return [root] if size == 1 else []
        if size == 1:
            return []
        if (beside < 0).all():
            return [_each_with_each(root, self.of_state(below, size - 1))]
        parts = []
        for left_size in range(1, size - 1):
            lefts = self.of_state(below, left_size)
            states = beside[lefts[:, 0]]
            for right in np.unique(states):
                rights = self.of_state(int(right), size - 1 - left_size)
                parts.append(_each_with_each(_each_with_each(root, lefts[states == right]), rights))
        return parts

    def _within_maxima(self, trees: np.ndarray) -> np.ndarray:
        """Counts only grow upwards, so a subtree beyond a maximum is in no legal tree."""
        inside = np.ones(len(trees), dtype=bool)
        for place, most in enumerate(self._budget.maximum):
            if place > 0:
                inside &= self._budget.weights[trees, place].sum(axis=1) <= most
        return inside

    def reaches_minima(self, trees: np.ndarray, size: int) -> np.ndarray:
        inside = np.full(len(trees), size >= self._budget.minimum[0])
        for place, least in enumerate(self._budget.minimum):
            if place > 0:
                inside &= self._budget.weights[trees, place].sum(axis=1) >= least
        return inside


def _each_with_each(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Each row of the first followed by each row of the second."""
    repeated = np.repeat(first, len(second), axis=0)
    return np.concatenate([repeated, np.tile(second, (len(first), 1))], axis=1)

"""Refinements of one tree: where a constant does well, it may stand for something that is not one.

Each constant in turn is replaced by every small tree of more than one token that is likely before
the data are seen. Where that is too many, a random part of them is taken, by the prior of the tree
that is made. (Columns and numbers take the place of constants at the end of a fit.)
"""

from __future__ import annotations

import functools

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.prior import TreePrior
from dvisr.search.legality import Legality
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from dvisr.settings import SearchSettings

_TEMPERED = 0.5  # the power of the prior by which refinements are taken, where they are too many


class Refiner:
    def __init__(
        self, grammar: Grammar, prior: TreePrior, settings: SearchSettings | None = None
    ) -> None:
        own = SearchSettings() if settings is None else settings
        self._most = own.most_refinements
        self._prior = prior
        self._legality = Legality(grammar)
        self._small = _small_trees(grammar, prior, own)
        self._constant = grammar.library.constant_id

    def refinements(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(refinements, length), legal ones only, the tree itself left out."""
        tree = np.require(tree, np.int8, ["C", "W"])
        if self._constant < 0:
            return tree[None][:0]
        places = int((tree == self._constant).sum())
        rows = np.full((places * len(self._small), len(tree)), -1, dtype=np.int8)
        count = _replace(tree, self._small, self._constant, rows)
        return self._chosen(tree, rows[:count], rng)

    def with_columns(self, tree: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Each constant in turn replaced by each of these columns."""
        places = np.flatnonzero((tree == self._constant) & (tree >= 0))
        rows = np.repeat(tree[None], len(places) * len(columns), axis=0)
        for number, row in enumerate(rows):
            row[places[number // len(columns)]] = columns[number % len(columns)]
        return rows[self._legality(rows)]

    def _chosen(self, tree: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows = rows[(rows != tree).any(axis=1) & self._legality(rows)]
        if len(rows) > self._most:  # without replacement, by the tempered prior
            logs = _TEMPERED * np.asarray(self._prior.log_prob(np, rows))
            order = np.argsort(-(logs + rng.gumbel(size=len(rows))), kind="stable")
            rows = rows[order[: self._most]]
        return rows


@functools.lru_cache(maxsize=4)
def _small_trees(grammar: Grammar, prior: TreePrior, settings: SearchSettings) -> np.ndarray:
    """The likeliest trees of more than one token, up to a size."""
    size = min(settings.small_tokens, grammar.max_tokens)
    likeliest, _ = likeliest_trees(*of_subtrees(grammar, prior, size), settings.most_small)
    return np.ascontiguousarray(likeliest[(likeliest >= 0).sum(axis=1) > 1], dtype=np.int8)


@compiled
def _replace(tree, small, constant, rows):
    """Every constant replaced by every small tree; the number of rows that were filled."""
    width, length, count = len(tree), 0, 0
    while length < width and tree[length] >= 0:
        length += 1
    for start in range(length):
        if tree[start] != constant:
            continue
        for number in range(len(small)):
            own = 0
            while own < small.shape[1] and small[number, own] >= 0:
                own += 1
            new_length = length - 1 + own
            if new_length > width:
                continue
            row = rows[count]
            row[:start] = tree[:start]
            row[start : start + own] = small[number, :own]
            row[start + own : new_length] = tree[start + 1 : length]
            count += 1
    return count

"""All small changes of one tree: what random neighbours come to in the end, without the waiting.

Each subtree in turn is replaced by every small tree that is likely before the data are seen, and
every operator is put above it, with every leaf beside it where it takes two. Where that is too
many, a random part of them is taken, by the prior of the tree that is made.
Refinements are fewer: only constants are replaced.
"""

from __future__ import annotations

import functools

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.prior import TreePrior
from dvisr.search.legality import Legality
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from dvisr.search.rows import measured
from dvisr.settings import SearchSettings

_TEMPERED = (
    0.5  # the power of the prior by which changes are taken: nothing is passed over for long
)


class Sweep:
    def __init__(
        self, grammar: Grammar, prior: TreePrior, settings: SearchSettings | None = None
    ) -> None:
        own = SearchSettings() if settings is None else settings
        self._most_changes = own.most_changes
        self._prior = prior
        self._legality = Legality(grammar)
        library = grammar.library
        self._arities = np.require(library.arities, np.int32, ["C", "W"])
        ids = np.arange(len(library), dtype=np.int8)
        self._leaves, self._unary, self._binary = (ids[self._arities == n] for n in range(3))
        self._small = _small_trees(grammar, prior, own)
        self._constant = library.constant_id

    def changes(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(changes, length), legal ones only, the tree itself left out."""
        tree = np.require(tree, np.int8, ["C", "W"])
        length = int((tree >= 0).sum())
        grown = len(self._unary) + 2 * len(self._binary) * len(self._leaves)
        rows = np.full((length * (len(self._small) + grown), len(tree)), -1, dtype=np.int8)
        count = _replace(tree, self._arities, self._small, -1, 1, rows, 0)
        added = (self._arities, self._unary, self._binary, self._leaves)
        count = _grow(tree, *added, rows, count)
        return self._chosen(tree, rows[:count], rng)

    def refinements(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Each constant in turn replaced by every small tree: where a constant does well, it may
        stand for something that is not one."""
        tree = np.require(tree, np.int8, ["C", "W"])
        if self._constant < 0:
            return tree[None][:0]
        places = int((tree == self._constant).sum())
        rows = np.full((places * len(self._small), len(tree)), -1, dtype=np.int8)
        count = _replace(tree, self._arities, self._small, self._constant, 2, rows, 0)
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
        if len(rows) > self._most_changes:  # without replacement, by the tempered prior
            logs = _TEMPERED * np.asarray(self._prior.log_prob(np, rows))
            order = np.argsort(-(logs + rng.gumbel(size=len(rows))), kind="stable")
            rows = rows[order[: self._most_changes]]
        return rows


@functools.lru_cache(maxsize=4)
def _small_trees(grammar: Grammar, prior: TreePrior, settings: SearchSettings) -> np.ndarray:
    """All leaves, and the likeliest larger trees up to a size."""
    leaves = np.flatnonzero(grammar.library.arities == 0)
    size = min(settings.small_tokens, grammar.max_tokens)
    likeliest, _ = likeliest_trees(*of_subtrees(grammar, prior, size), settings.most_small)
    larger = likeliest[(likeliest >= 0).sum(axis=1) > 1]
    rows = np.full((len(leaves) + len(larger), size), -1, dtype=np.int8)
    rows[: len(leaves), 0] = leaves
    rows[len(leaves) :] = larger
    return rows


@compiled
def _replace(tree, arities, small, only, least, rows, count):
    """Every subtree (of those that are the token `only`, if it is not -1) replaced by every small
    tree of at least so many tokens; the number of rows after that."""
    width = len(tree)
    sizes = np.zeros(width, dtype=np.int32)
    length = measured(tree, arities, sizes)
    for start in range(length):
        if only >= 0 and tree[start] != only:
            continue
        end = start + sizes[start]
        for number in range(len(small)):
            own = 0
            while own < small.shape[1] and small[number, own] >= 0:
                own += 1
            new_length = length - sizes[start] + own
            if own < least or new_length > width:
                continue
            row = rows[count]
            row[:start] = tree[:start]
            row[start : start + own] = small[number, :own]
            row[start + own : new_length] = tree[end:length]
            count += 1
    return count


@compiled
def _grow(tree, arities, unary, binary, leaves, rows, count):
    """Every operator above every subtree, with every leaf on either side where it takes two."""
    width = len(tree)
    sizes = np.zeros(width, dtype=np.int32)
    length = measured(tree, arities, sizes)
    for start in range(length):
        end = start + sizes[start]
        if length + 1 <= width:
            for operator in unary:
                row = rows[count]
                row[:start] = tree[:start]
                row[start] = operator
                row[start + 1 : length + 1] = tree[start:length]
                count += 1
        if length + 2 > width:
            continue
        for operator in binary:
            for leaf in leaves:
                row, other = rows[count], rows[count + 1]
                row[:start] = tree[:start]
                row[start] = operator
                row[start + 1] = leaf
                row[start + 2 : length + 2] = tree[start:length]
                other[:start] = tree[:start]
                other[start] = operator
                other[start + 1 : end + 1] = tree[start:end]
                other[end + 1] = leaf
                other[end + 2 : length + 2] = tree[end:length]
                count += 2
    return count

"""All small changes of one tree: what random neighbours come to in the end, without the waiting.

Each subtree in turn is replaced by every small tree, and every operator is put above it, with every
leaf beside it where it takes two. Where that is too many, a random part of them is taken, by how
often their tokens occur in the prior.
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
    def __init__(
        self,
        grammar: Grammar,
        settings: SearchSettings | None = None,
        shares: np.ndarray | None = None,
    ) -> None:
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
        # Tempered, so that nothing is passed over for long; of several tokens, their mean.
        shares = np.ones(len(library)) if shares is None else shares
        self._log_share = 0.5 * np.log(shares)
        self._small_log_shares = [float(self._log_share[row].mean()) for row in self._small]

    def changes(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(changes, length), legal ones only, the tree itself left out."""
        tokens = tree[tree >= 0]
        ends = _ends(tokens, self._arities)
        made: list[np.ndarray] = []
        logs: list[float] = []
        for start, end in enumerate(ends):
            before, subtree, after = tokens[:start], tokens[start:end], tokens[end:]
            room = self._length - len(before) - len(after)
            self._replace(before, after, room, 1, made, logs)
            if len(subtree) + 1 <= room:
                made += [np.concatenate([before, [op], subtree, after]) for op in self._unary]
                logs += self._log_share[self._unary].tolist()
            if len(subtree) + 2 <= room:
                for op in self._binary:
                    for leaf in self._leaves:
                        made.append(np.concatenate([before, [op], subtree, leaf, after]))
                        made.append(np.concatenate([before, [op], leaf, subtree, after]))
                        both = 0.5 * float(self._log_share[op] + self._log_share[leaf[0]])
                        logs += [both, both]
        return self._legal(tree, made, logs, rng)

    def refinements(self, tree: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Each constant in turn replaced by every small tree: where a constant does well, it may
        stand for something that is not one."""
        tokens = tree[tree >= 0]
        made: list[np.ndarray] = []
        logs: list[float] = []
        for place in np.flatnonzero(tokens == self._constant):
            before, after = tokens[:place], tokens[place + 1 :]
            room = self._length - len(before) - len(after)
            self._replace(before, after, room, 2, made, logs)
        return self._legal(tree, made, logs, rng)

    def _replace(
        self,
        before: np.ndarray,
        after: np.ndarray,
        room: int,
        least: int,
        made: list[np.ndarray],
        logs: list[float],
    ) -> None:
        """Every small tree of at least so many tokens, between what is before and after."""
        for new, log in zip(self._small, self._small_log_shares, strict=True):
            if least <= len(new) <= room:
                made.append(np.concatenate([before, new, after]))
                logs.append(log)

    def _legal(
        self,
        tree: np.ndarray,
        made: list[np.ndarray],
        logs: list[float],
        rng: np.random.Generator,
    ) -> np.ndarray:
        if len(made) > self._most_changes:  # without replacement, in proportion to exp(logs)
            order = np.argsort(-(np.array(logs) + rng.gumbel(size=len(made))), kind="stable")
            made = [made[place] for place in order[: self._most_changes]]
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

"""The ledger: every tree that was visited, what it is one form of, and what each form weighs.

Trees of one canonical form have one log p(y | tree), which is worked out once. The posterior over
what was visited is computed from here, not sampled: so anything may propose trees.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dvisr.prior import TreePrior
from dvisr.search.forms import Algebra, forms

MAX_FORMS = 400_000
_KEPT = 0.5  # the share that stays when there are too many
ISLANDS = 2
NOBODY = ISLANDS  # visited, but by neither island's own search

# Of trees (n, length): log p(y | tree) of each.
Fit = Callable[[np.ndarray], np.ndarray]


class _Column:
    """An array that grows."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        shape = (1024,) if width is None else (1024, width)
        self._room: np.ndarray = np.zeros(shape, dtype=dtype)
        self._used = 0

    def extend(self, rows: np.ndarray) -> None:
        needed = self._used + len(rows)
        if needed > len(self._room):
            grown = np.zeros((2 * needed, *self._room.shape[1:]), dtype=self._room.dtype)
            grown[: self._used] = self.rows
            self._room = grown
        self._room[self._used : needed] = rows
        self._used = needed

    @property
    def rows(self) -> np.ndarray:
        return self._room[: self._used]

    def keep(self, chosen: np.ndarray) -> None:
        kept = self.rows[chosen].copy()
        self._room[: len(kept)] = kept
        self._used = len(kept)


class Ledger:
    """`visit` trees; read `form_log_joint` and the rest. Rows are numbered as they come."""

    def __init__(self, length: int, prior: TreePrior, algebra: Algebra, fit: Fit) -> None:
        self._prior, self._algebra, self._fit = prior, algebra, fit
        self._tree_numbers: dict[bytes, int] = {}
        self._form_numbers: dict[int, int] = {}
        self._trees = _Column(np.int8, length)
        self._tree_form = _Column(np.int64)
        self._tree_log_prior = _Column(np.float64)
        self._tree_islands = _Column(np.uint8)  # a bit for each island that came by
        self._form_key = _Column(np.int64)
        self._form_tree = _Column(np.int64)  # the likeliest of its trees
        self._form_log_marginal = _Column(np.float64)
        self._form_log_prior = _Column(np.float64)  # of all its visited trees together
        self.num_visits = 0
        self.num_undefined = 0

    @property
    def trees(self) -> np.ndarray:
        return self._trees.rows

    @property
    def tree_form(self) -> np.ndarray:
        return self._tree_form.rows

    @property
    def tree_islands(self) -> np.ndarray:
        return self._tree_islands.rows

    @property
    def tree_log_prior(self) -> np.ndarray:
        return self._tree_log_prior.rows

    @property
    def tree_log_joint(self) -> np.ndarray:
        joint: np.ndarray = self.tree_log_prior + self.form_log_marginal[self.tree_form]
        return joint

    @property
    def form_log_marginal(self) -> np.ndarray:
        return self._form_log_marginal.rows

    @property
    def form_log_joint(self) -> np.ndarray:
        joint: np.ndarray = self._form_log_prior.rows + self.form_log_marginal
        return joint

    @property
    def form_tree(self) -> np.ndarray:
        """(forms, length): the likeliest tree of each form."""
        trees: np.ndarray = self.trees[self._form_tree.rows]
        return trees

    @property
    def num_forms(self) -> int:
        return len(self.form_log_marginal)

    def set_log_marginal(self, form: int, value: float) -> None:
        self.form_log_marginal[form] = value

    def contains(self, trees: np.ndarray) -> np.ndarray:
        return np.array([key in self._tree_numbers for key in _keys(trees)], dtype=bool)

    def visit(self, trees: np.ndarray, island: int | None = None) -> np.ndarray:
        """Note the trees, fit those of a new form, and number them. With no island, all saw
        them; with NOBODY none did."""
        self.num_visits += len(trees)
        bits = np.uint8(2**ISLANDS - 1 if island is None else 1 << island)
        keys = _keys(trees)
        numbers = np.empty(len(trees), dtype=np.int64)
        fresh: list[int] = []
        for row, key in enumerate(keys):
            number = self._tree_numbers.get(key)
            if number is None:
                number = len(self._tree_numbers)
                self._tree_numbers[key] = number
                fresh.append(row)
            numbers[row] = number
        if fresh:
            self._add(trees[np.array(fresh)])
        self.tree_islands[numbers] |= bits
        return numbers

    def _add(self, trees: np.ndarray) -> None:
        first = len(self.trees)
        keys = forms(trees, self._algebra)
        log_prior = np.asarray(self._prior.log_prob(np, trees.astype(np.int64)))
        of_form = np.empty(len(trees), dtype=np.int64)
        fresh: list[int] = []
        for row, key in enumerate(keys.tolist()):
            number = self._form_numbers.get(key)
            if number is None:
                number = len(self._form_numbers)
                self._form_numbers[key] = number
                fresh.append(row)
            of_form[row] = number
        self._trees.extend(trees)
        self._tree_form.extend(of_form)
        self._tree_log_prior.extend(log_prior)
        self._tree_islands.extend(np.zeros(len(trees), dtype=np.uint8))
        if fresh:
            rows = np.array(fresh)
            values = self._fit(trees[rows])
            self.num_undefined += int((values == -np.inf).sum())
            self._form_key.extend(keys[rows])
            self._form_log_marginal.extend(values)
            self._form_log_prior.extend(np.full(len(rows), -np.inf))
            self._form_tree.extend(first + rows)
        total = self._form_log_prior.rows
        np.logaddexp.at(total, of_form, log_prior)
        best = self._form_tree.rows
        for row in map(int, np.flatnonzero(log_prior > self.tree_log_prior[best[of_form]])):
            if log_prior[row] > self.tree_log_prior[best[of_form[row]]]:
                best[of_form[row]] = first + row

    def forget(self, most: int = MAX_FORMS) -> None:
        """Where there are too many forms, let the least likely go. They are visited anew should
        they come up again; what they weigh is nothing beside those that stay."""
        if self.num_forms <= most:
            return
        joint = self.form_log_joint
        order = np.argsort(-joint, kind="stable")[: max(1, int(_KEPT * most))]
        chosen = np.zeros(self.num_forms, dtype=bool)
        chosen[order] = True
        new_form = np.cumsum(chosen) - 1
        stays = chosen[self.tree_form]
        new_tree = np.cumsum(stays) - 1
        old_best = self._form_tree.rows[chosen].copy()
        for column in (self._trees, self._tree_log_prior, self._tree_islands):
            column.keep(stays)
        renumbered = new_form[self.tree_form[stays]]
        self._tree_form.keep(stays)
        self._tree_form.rows[:] = renumbered
        for column in (self._form_key, self._form_log_marginal, self._form_log_prior):
            column.keep(chosen)
        self._form_tree.keep(chosen)
        self._form_tree.rows[:] = new_tree[old_best]
        self._tree_numbers = {key: n for n, key in enumerate(_keys(self.trees))}
        self._form_numbers = {key: n for n, key in enumerate(self._form_key.rows.tolist())}


def _keys(trees: np.ndarray) -> list[bytes]:
    rows = np.ascontiguousarray(trees, dtype=np.int8)
    width = rows.shape[1]
    whole = rows.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)]

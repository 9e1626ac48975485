"""What is sure to be near the likely forms at the end of a search, and which of it the search has
met is chance: their other trees, their constants written out as numbers, and the same functions
with their constants elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import NamedTuple

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.fitting.search import Search
from dvisr.library import Kind
from dvisr.search.completing import Completion
from dvisr.search.visited import VisitedTrees

_ROUNDS = 3  # of likely forms, of those that come of them, and of those that come of these
_MOST_REPLACED = 2_000  # trees with a column for a constant, each time
_SURPRISE = 5.0  # nats that a form may be likelier than one tree, roughly reckoned
_LOW = 5.0  # nats below what was expected: a number may be three standard deviations off
_ROUGHLY = 1e-3  # nats, to which the modes of their constants are found


class _Variants(NamedTuple):
    """Trees, constants to start from, and log p(y | tree) that is expected of them."""

    trees: np.ndarray
    starts: np.ndarray
    expected: np.ndarray


class Varying:
    """Of one search that is over; each form is varied once.

    Parameters
    ----------
    search : Search
    """

    def __init__(self, search: Search) -> None:
        self._search, self._visited = search, search.visited
        self._completion = Completion(search.visited, search.neighbours, search.settings.weighing)
        self._constant = search.problem.grammar.library.constant_id
        self._is_varied: set[int] = set()
        self._is_replaced: set[int] = set()

    def vary(self, is_late: Callable[[], bool], weighed: Container[int]) -> None:
        """Visit all that; what a form that was weighed is worth stays as it is."""
        self._completion.complete(is_late)
        if self._search.is_enumerated or self._constant < 0:
            return
        self._replace_constants(is_late)
        for _ in range(_ROUNDS):
            due, made = self._made(is_late)
            if not due:
                break
            self._completion.complete(is_late, self._visit(_joined(made), is_late, weighed))
            if not is_late():
                self._is_varied.update(due)

    def _replace_constants(self, is_late: Callable[[], bool]) -> None:
        """A constant that does well may stand for a column, though that form does not yet. Columns
        that likely forms have."""
        search, visited = self._search, self._visited
        shares = shares_of(visited)
        likely = np.flatnonzero(shares > search.settings.weighing.completed_above)
        columns = np.unique(visited.form_tree[likely])
        library = search.problem.grammar.library
        columns = np.intersect1d(columns, library.ids_of_kind(Kind.VARIABLE))
        made: dict[int, np.ndarray] = {}
        for form in map(int, likely[np.argsort(-shares[likely], kind="stable")]):
            if sum(map(len, made.values())) >= _MOST_REPLACED:
                break
            if form not in self._is_replaced:
                tree = visited.likeliest_tree(form)
                made[form] = search.refiner.with_columns(tree, columns)
        if not made:
            return
        trees = np.concatenate(list(made.values()))
        with search.teller.phase("trying columns for constants") as tell:
            for part in self._parts(len(trees)):
                if is_late():
                    return
                visited.visit(trees[part], islands=())
                tell(part.stop / len(trees))
        self._is_replaced.update(made)

    def _parts(self, count: int) -> list[slice]:
        """Of so many trees: each takes some tenths of a second at the most."""
        size = self._search.trees_at_once
        return [slice(start, min(start + size, count)) for start in range(0, count, size)]

    def _made(self, is_late: Callable[[], bool]) -> tuple[list[int], list[_Variants]]:
        """Forms that have become likely, the likeliest first, as far as there is time; and what
        comes of them."""
        search, visited = self._search, self._visited
        own, engine = search.settings.search, search.engine.levels[0]
        shares = shares_of(visited)
        # Where few rows stand for many, a constant is known better than these rows know it.
        better = 0.5 * math.log(search.engine.law.observations / engine.law.observations)
        least = log_total(visited.form_log_joint) - _SURPRISE
        least += math.log(search.settings.weighing.completed_above)
        due, made = [], []
        for form in map(int, np.argsort(-shares, kind="stable")):
            if shares[form] <= own.varied_above or is_late():
                break
            tree = visited.likeliest_tree(form)
            if form in self._is_varied or self._constant not in tree:
                continue
            modes = engine.modes(tree, own.num_starts, _ROUGHLY)
            before = float(visited.form_log_marginal[form])
            trees, starts, gains = search.numbering.of_tree(tree, modes)
            made.append(self._promising(trees, starts, before + better + gains, least))
            trees, starts = search.recasting.of_tree(tree, modes.best)
            made.append(self._promising(trees, starts, np.full(len(trees), before), least))
            due.append(form)
        return due, made

    def _promising(
        self, trees: np.ndarray, starts: np.ndarray, expected: np.ndarray, least: float
    ) -> _Variants:
        """Those that may matter, if they are worth what is expected of them."""
        prior = self._search.problem.tree_prior
        chosen = expected + np.asarray(prior.log_prob(np, trees)) > least
        return _Variants(trees[chosen], starts[chosen], expected[chosen])

    def _visit(
        self, variants: _Variants, is_late: Callable[[], bool], weighed: Container[int]
    ) -> np.ndarray:
        """The numbers of their forms. Where a first look finds less than was expected it may have
        missed a mode, the frequency of a wave, say: then the known constants are gone from."""
        visited, trees = self._visited, variants.trees
        with self._search.teller.phase("varying the constants of likely functions") as tell:
            for part in self._parts(len(trees)):
                if is_late():
                    break
                numbers = visited.visit(trees[part], islands=())
                found = visited.form_log_marginal[visited.tree_form[numbers]]
                low = part.start + np.flatnonzero(found < variants.expected[part] - _LOW)
                self._look_again(_Variants(*(array[low] for array in variants)), is_late, weighed)
                tell(part.stop / len(trees))
        trees = trees[visited.contains(trees)]
        numbers = visited.visit(trees, islands=())
        return np.unique(visited.tree_form[numbers])

    def _look_again(
        self, variants: _Variants, is_late: Callable[[], bool], weighed: Container[int]
    ) -> None:
        """On all rows, from given constants; values are raised where that finds more."""
        engine, visited = self._search.engine, self._visited
        size = max(1, self._search.settings.search.points_at_once // len(engine.X))
        numbers = visited.visit(variants.trees, islands=())
        forms = visited.tree_form[numbers]
        for start in range(0, len(forms), size):
            if is_late():
                return
            part = slice(start, start + size)
            found = engine.fit(variants.trees[part], starts=variants.starts[part]).log_marginal
            for form, value in zip(map(int, forms[part]), map(float, found), strict=True):
                if value > visited.form_log_marginal[form] and form not in weighed:
                    visited.set_log_marginal(form, value)


def _joined(made: list[_Variants]) -> _Variants:
    return _Variants(*(np.concatenate(parts) for parts in zip(*made, strict=True)))


def shares_of(visited: VisitedTrees) -> np.ndarray:
    """Of each form: its posterior probability among the visited."""
    joint = visited.form_log_joint
    total = log_total(joint)
    if not math.isfinite(total):
        return np.zeros(len(joint))
    shares: np.ndarray = np.exp(joint - total)
    return shares

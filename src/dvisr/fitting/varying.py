"""What is sure to be near the likely forms at the end of a search, and which of it the search has
met is chance: their other trees, their constants written out as numbers, and the same functions
with their constants elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Container

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.fitting.search import Search
from dvisr.search.completing import Completion
from dvisr.search.visited import VisitedTrees

_ROUNDS = 3  # of likely forms, of those that come of them, and of those that come of these
_TREES_AT_ONCE = 200  # between two looks at the clock
_SURPRISE = 5.0  # nats that a form may be likelier than one tree, roughly reckoned
_ROUGHLY = 1e-3  # nats, to which the modes of their constants are found


class Varying:
    """Of one search that is over; each form is varied once.

    Parameters
    ----------
    search : Search
    """

    def __init__(self, search: Search) -> None:
        self._search, self._visited = search, search.visited
        self._completion = Completion(search.visited, search.neighbours, search.settings.weighing)
        self._is_varied: set[int] = set()
        self._is_replaced: set[int] = set()

    def vary(self, is_late: Callable[[], bool], weighed: Container[int]) -> None:
        """Visit all that; what a form that was weighed is worth stays as it is."""
        self._completion.complete(is_late)
        if self._search.is_enumerated:
            return
        self._replace_constants(is_late)
        for _ in range(_ROUNDS):
            made = self._made(is_late)
            if not made:
                return
            trees, starts = (np.concatenate(parts) for parts in zip(*made, strict=True))
            forms = self._visit(trees, starts, is_late, weighed)
            self._completion.complete(is_late, forms)

    def _replace_constants(self, is_late: Callable[[], bool]) -> None:
        """A constant that does well may stand for a column, though that form does not yet."""
        search, visited = self._search, self._visited
        likely = np.flatnonzero(shares_of(visited) > search.settings.weighing.completed_above)
        due = [form for form in map(int, likely) if form not in self._is_replaced]
        with search.teller.phase("trying columns for constants") as tell:
            for number, form in enumerate(due):
                if is_late():
                    return
                self._is_replaced.add(form)
                trees = search.sweep.with_columns(visited.likeliest_tree(form))
                visited.visit(trees, islands=())
                tell((number + 1) / len(due))

    def _made(self, is_late: Callable[[], bool]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Trees that come of forms that have become likely, and where to start from."""
        search, visited = self._search, self._visited
        own, engine = search.settings.search, search.engine.levels[0]
        constant = search.problem.grammar.library.constant_id
        made = []
        for form in map(int, np.flatnonzero(shares_of(visited) > own.varied_above)):
            if is_late():
                return []
            tree = visited.likeliest_tree(form)
            if form not in self._is_varied and constant >= 0 and constant in tree:
                modes = engine.modes(tree, own.num_starts, _ROUGHLY)
                trees, starts, gains = search.numbering.of_tree(tree, modes)
                made.append(self._promising(form, trees, starts, gains))
                trees, starts = search.recasting.of_tree(tree, modes.best)
                made.append(self._promising(form, trees, starts, np.zeros(len(trees))))
            self._is_varied.add(form)
        return made

    def _promising(
        self, form: int, trees: np.ndarray, starts: np.ndarray, gains: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those whose forms may matter, if they gain so much on the form that they come of."""
        visited, prior = self._visited, self._search.problem.tree_prior
        log_joint = visited.form_log_marginal[form] + gains + np.asarray(prior.log_prob(np, trees))
        least = np.log(self._search.settings.weighing.completed_above) - _SURPRISE
        chosen = log_joint > log_total(visited.form_log_joint) + least
        return trees[chosen], starts[chosen]

    def _visit(
        self,
        trees: np.ndarray,
        starts: np.ndarray,
        is_late: Callable[[], bool],
        weighed: Container[int],
    ) -> np.ndarray:
        """Visit trees, and where there are few rows look at them once more from given constants: a
        first look may have missed the frequency of a wave, say. The numbers of their forms."""
        engine, visited = self._search.engine, self._visited
        with self._search.teller.phase("varying the constants of likely functions") as tell:
            for start in range(0, len(trees), _TREES_AT_ONCE):
                if is_late():
                    break
                part = slice(start, start + _TREES_AT_ONCE)
                numbers = visited.visit(trees[part], islands=())
                if engine.coarse is None:
                    again = engine.fit(trees[part], starts=starts[part]).log_marginal
                    self._raise(visited.tree_form[numbers], again, weighed)
                tell((start + _TREES_AT_ONCE) / len(trees))
        trees = trees[visited.contains(trees)]
        numbers = visited.visit(trees, islands=())
        return np.unique(visited.tree_form[numbers])

    def _raise(self, forms: np.ndarray, values: np.ndarray, weighed: Container[int]) -> None:
        """To the values of another look, where they are higher."""
        for form, value in zip(map(int, forms), map(float, values), strict=True):
            if value > self._visited.form_log_marginal[form] and form not in weighed:
                self._visited.set_log_marginal(form, value)


def shares_of(visited: VisitedTrees) -> np.ndarray:
    """Of each form: its posterior probability among the visited."""
    joint = visited.form_log_joint
    total = log_total(joint)
    if not math.isfinite(total):
        return np.zeros(len(joint))
    shares: np.ndarray = np.exp(joint - total)
    return shares

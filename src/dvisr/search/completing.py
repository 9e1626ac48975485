"""The other trees of forms that matter: operands swapped and regrouped in every way.

A search may have come across unlikely trees of a form alone, x * 2 and not 2 * x, and then a
function has less of the posterior than it should. These trees need no fit: a form's is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dvisr.search.neighbours import Neighbours
from dvisr.search.visited import VisitedTrees
from dvisr.settings import WeighingSettings

_UNLIKELY_TREE = 7.0  # nats that a tree may be less likely than others of its form
_FEW = 60  # trees of a form that may come to matter


class Completion:
    """Of the visited trees of a search that is over: forms keep their numbers.

    Parameters
    ----------
    visited : VisitedTrees
    neighbours : Neighbours
    settings : WeighingSettings
    """

    def __init__(
        self, visited: VisitedTrees, neighbours: Neighbours, settings: WeighingSettings
    ) -> None:
        self._visited, self._neighbours, self._settings = visited, neighbours, settings
        self._is_complete: set[int] = set()

    def complete(self, is_late: Callable[[], bool], others: np.ndarray | None = None) -> None:
        """Visit the trees that are sure to be of a form that may matter, up to a number of each;
        and before that few of the other forms, by number, that may come to matter by them. No
        island has come across them."""
        joint = self._visited.form_log_joint
        total = float(np.logaddexp.reduce(joint, initial=-np.inf))
        if not np.isfinite(total):
            return
        bar = total + np.log(self._settings.completed_above)
        if others is not None:
            self._rewrite(others[joint[others] > bar - _UNLIKELY_TREE], _FEW, is_late)
        likely = np.flatnonzero(self._visited.form_log_joint > bar)
        due = np.array([form for form in map(int, likely) if form not in self._is_complete])
        self._is_complete.update(self._rewrite(due, self._settings.most_rewritings, is_late))

    def _rewrite(self, forms: np.ndarray, most: int, is_late: Callable[[], bool]) -> list[int]:
        """Those that there was time for."""
        done = []
        for form in map(int, forms):
            if is_late():
                break
            tree = self._visited.likeliest_tree(form)
            self._visited.visit(self._neighbours.all_rewritings(tree, most), islands=())
            done.append(form)
        return done

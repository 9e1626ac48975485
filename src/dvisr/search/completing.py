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


def complete(
    visited: VisitedTrees,
    neighbours: Neighbours,
    settings: WeighingSettings,
    is_late: Callable[[], bool],
    others: np.ndarray | None = None,
) -> None:
    """Visit the trees that are sure to be of a form that may matter, up to a number of each; and
    before that few of the other forms, by number, that may come to matter by them. No island has
    come across them."""
    total = float(np.logaddexp.reduce(visited.form_log_joint, initial=-np.inf))
    if not np.isfinite(total):
        return
    bar = total + np.log(settings.completed_above)
    if others is not None:
        others = others[visited.form_log_joint[others] > bar - _UNLIKELY_TREE]
        _complete(visited, neighbours, others, _FEW, is_late)
    likely = np.flatnonzero(visited.form_log_joint > bar)
    _complete(visited, neighbours, likely, settings.most_rewritings, is_late)


def _complete(
    visited: VisitedTrees,
    neighbours: Neighbours,
    forms: np.ndarray,
    most: int,
    is_late: Callable[[], bool],
) -> None:
    for form in map(int, forms):
        if is_late():
            return
        rewritten = neighbours.all_rewritings(visited.likeliest_tree(form), most)
        visited.visit(rewritten, islands=())

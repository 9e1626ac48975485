"""The other trees of forms that matter: operands swapped and regrouped in every way.

A search may have come across unlikely trees of a form alone, x * 2 and not 2 * x, and then a
function has less of the posterior than it should. These trees need no fit: a form's is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.search.neighbours import Neighbours
from dvisr.search.visited import VisitedTrees
from dvisr.settings import WeighingSettings


def complete(
    visited: VisitedTrees,
    neighbours: Neighbours,
    settings: WeighingSettings,
    is_late: Callable[[], bool],
) -> None:
    """Visit the trees that are sure to be of a form that may matter, up to a number of each. No
    island has come across them."""
    total = log_total(visited.form_log_joint)
    if not np.isfinite(total):
        return
    bar = total + np.log(settings.completed_above)
    for form in np.flatnonzero(visited.form_log_joint > bar):
        if is_late():
            return
        tree = visited.likeliest_tree(int(form))
        visited.visit(neighbours.all_rewritings(tree, settings.most_rewritings), islands=())

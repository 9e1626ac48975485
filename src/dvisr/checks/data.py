"""The checks of "do the data look like this model?", in the order in which they are shown.

Together they flag about 3 % of good fits, from 8 rows to 300 and for each kind of noise (1320
sets: 2.9 %; none as do-not-trust); `python -m benchmarks.data_checks` measures it, and what faults
they see.
"""

from __future__ import annotations

from collections.abc import Callable

from dvisr.checks.base import Check
from dvisr.checks.replication import Replication
from dvisr.checks.residuals import columns, order, outliers, spread
from dvisr.checks.support import copies, coverage, influence, noise, rows

CHECKS: tuple[Callable[[Replication], Check], ...] = (
    outliers,
    spread,
    columns,
    order,
    coverage,
    noise,
    copies,
    rows,
    influence,
)


def check_data(rep: Replication) -> list[Check]:
    """Every check; none where no draw is finite on all rows, or where there are no rows."""
    return [check(rep) for check in CHECKS] if rep.is_usable else []


__all__ = ["CHECKS", "Replication", "check_data"]

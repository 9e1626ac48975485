"""Statistics of the residuals against those of replicates.

`compared` scales each statistic by its replicates, takes the worst, and compares that with the
worst of each replicate, so that looking in several places costs no false alarms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dvisr.checks.base import DATA, Check, Grade, graded
from dvisr.checks.replication import Replication

FALSE_ALARMS = 0.005  # of one check
GRAVE = 3.0  # times as far from the middle of the replicates as the limit
FEWEST_ROWS = 8
LEAST_SIZE = 0.01  # of residuals in units of the noise: below, they are something else


@dataclass(frozen=True)
class Compared:
    """Residuals against replicates, in units in which 1 is where 1 % of replicates begin."""

    measured: float
    limit: float
    p: float
    which: int  # the statistic that is worst
    value: float  # of it, in its own units
    usual: float  # its 99 % point over replicates

    def check(self, name: str, is_large: bool = True, is_grave: bool = True) -> Check:
        """With no sentence yet. What is too small to do harm is not doubted, whatever the
        evidence, and what is not large enough to spoil the answer is not grave."""
        limit = self.limit if is_large else math.inf
        grave_limit = GRAVE * self.limit if is_large and is_grave else None
        grade = graded(self.measured, limit, grave_limit)
        return Check(name, DATA, self.measured, limit, grade, "", grave_limit)


def compared(statistics: np.ndarray, false_alarms: float = FALSE_ALARMS) -> Compared:
    """`statistics` is (1 + replicates, kinds), the data first; more is worse."""
    reference = statistics[1:]
    middle = np.median(reference, axis=0)
    far = np.quantile(reference, 0.99, axis=0)
    unit = far - middle
    scaled = np.where(unit > 1e-9, (statistics - middle) / np.maximum(unit, 1e-9), 0.0)
    worst = scaled.max(axis=1)
    which = int(np.argmax(scaled[0]))
    return Compared(
        measured=float(worst[0]),
        limit=max(float(np.quantile(worst[1:], 1.0 - false_alarms)), 1e-6),
        p=float((1 + (worst[1:] >= worst[0]).sum()) / len(worst)),
        which=which,
        value=float(statistics[0, which]),
        usual=float(far[which]),
    )


def p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def rows_text(places: np.ndarray, most: int = 5) -> str:
    """Rows of the user's table, from 1."""
    distinct = list(dict.fromkeys(int(place) + 1 for place in places))
    more = ", ..." if len(distinct) > most else ""
    named = ", ".join(str(place) for place in distinct[:most])
    return f"{'row' if len(distinct) == 1 else 'rows'} {named}{more}"


def not_measured(name: str, why: str) -> Check:
    return Check(name, DATA, math.nan, math.inf, Grade.OK, f"not measured, {why}")


def too_few(rep: Replication, name: str) -> Check | None:
    """Why residuals can't be looked at, if they can't."""
    if not rep.is_usable:
        return not_measured(name, "because no draw of the posterior is finite on all rows")
    if rep.num_rows < FEWEST_ROWS:
        return not_measured(name, f"because {rep.num_rows} distinct rows are too few to tell")
    if rep.num_rows - rep.num_fitted < 2.0:
        return not_measured(name, "because the constants leave nothing of the rows to look at")
    # The mean over draws is known to this only.
    chance = rep.refit.num_fitted / (rep.num_rows * len(rep.draws))
    if (rep.refit.residuals**2).mean() < max(LEAST_SIZE**2, 16.0 * chance):
        return not_measured(name, "because the rows lie on the curve but for rounding")
    return None

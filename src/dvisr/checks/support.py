"""Checks of what the answer rests on: coverage, size of the noise, copies, number of rows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import bdtr, bdtrc

from dvisr.checks.base import DATA, Check, Grade, graded
from dvisr.checks.reference import (
    FALSE_ALARMS,
    compared,
    not_measured,
    p_text,
    rows_text,
    too_few,
)
from dvisr.checks.replication import MOST_COPIES, Replication

OUTSIDE = 0.1  # of rows are expected outside their 90 % interval
LEAST_FACTOR = 1.25  # by which noise must be wrong to matter
GRAVE_FACTOR = 2.5
LEAST_PRIOR = 0.005  # quantile of the noise's prior
GRAVE_COPIES = 4.0
HIGH_K = 0.7
GRAVE_P = 12.0  # minus its logarithm to base 10


def by_chance(outside: int, rows: int) -> tuple[float, float, int]:
    """The probability of so many rows outside or more, that of so many or fewer, and how many there
    are at most without an alarm, by a binomial."""
    limits = np.arange(rows + 1)
    most = int(np.argmax(bdtrc(limits, rows, OUTSIDE) <= FALSE_ALARMS / 2))
    many = float(bdtrc(outside - 1, rows, OUTSIDE))
    return many, float(bdtr(outside, rows, OUTSIDE)), most


def coverage(rep: Replication) -> Check:
    """Rows outside their central 90 % leave-one-out interval, against a binomial."""
    rep = rep.observations
    few = too_few(rep, "coverage")
    if few is not None:
        return few
    n = rep.num_rows
    outside = round(rep.left_out.outside(OUTSIDE))
    many, none, most = by_chance(outside, n)
    p = min(1.0, 2.0 * min(many, none))
    measured = -math.log10(max(p, 1e-300))
    limit = -math.log10(FALSE_ALARMS)
    grave_limit = GRAVE_P if many < none else None  # too wide is not false
    grade = graded(measured, limit, grave_limit)
    what = f"{outside} of {n} rows lie outside their 90 % leave-one-out interval"
    if grade is Grade.OK:
        text = f"{what}, as many as chance allows ({p_text(p)})"
    elif many < none:
        text = (
            f"{what}, where chance leaves {most} at most ({p_text(p)}): predictions are too "
            f"sure; {_cure_of_coverage(rep, True)}"
        )
    else:
        text = (
            f"{what}, where about {OUTSIDE * n:.0f} should ({p_text(p)}): predictions are wider "
            f"than most rows need; {_cure_of_coverage(rep, False)}"
        )
    return Check("coverage", DATA, measured, limit, grade, text, grave_limit)


def _cure_of_coverage(rep: Replication, is_narrow: bool) -> str:
    if not rep.noise_is_inferred:
        return "let the noise be found with noise 'infer'"
    if is_narrow:
        return "give error bars, or allow fewer constants"
    if rep.noise.has_heavy_tails:
        return "look at the rows that are furthest from the curve"
    return "a few far rows widen them: refit with noise 'student'"


def noise(rep: Replication) -> Check:
    """Noise at odds with what was given, or too small for its prior."""
    rep = rep.observations
    if not rep.is_usable:
        return not_measured("noise", "because no draw of the posterior is finite on all rows")
    if rep.num_rows - rep.num_fitted < 1.0:
        return not_measured("noise", "because the constants leave nothing of the rows to look at")
    own, reference = _size(rep.refit.residuals[None], rep), _size(rep.refit.replicates, rep)
    usual = float(np.median(reference))
    factor = float(own[0]) / usual
    low = float(np.quantile(reference, FALSE_ALARMS)) / usual
    high = float(np.quantile(reference, 1.0 - FALSE_ALARMS / 2)) / usual
    if rep.noise_is_inferred:
        return _inferred_noise(rep, factor, low)
    # One scale for both ways: the logarithm of the factor, over where chance ends on its side.
    way = abs(math.log(max(factor, 1e-300)))
    limit = max(math.log(LEAST_FACTOR), math.log(high) if factor > 1.0 else -math.log(low))
    grave_limit = max(math.log(GRAVE_FACTOR), 2.0 * limit) if factor > 1.0 else None
    grade = graded(way, limit, grave_limit)
    if grade is Grade.OK:
        text = f"the data scatter {factor:.2f} times as much as the noise that was given says"
    else:
        than = "more" if factor > 1.0 else "less"
        times = factor if factor > 1.0 else 1.0 / max(factor, 1e-300)
        text = (
            f"the data scatter {_times(times)} times {than} about the curve than the noise that "
            f"was given says: refit with noise 'infer', or give the noise that the instrument has"
        )
    return Check("noise", DATA, way, limit, grade, text, grave_limit)


def _times(times: float) -> str:
    return f"{times:.1f}" if times < 1e3 else f"{times:.0e}"


def _inferred_noise(rep: Replication, factor: float, low: float) -> Check:
    level = 1.0 if rep.scale_prior is None else rep.scale_prior
    measured = max(_surprise(level / LEAST_PRIOR), _surprise(factor / low))
    grade = graded(measured, 0.0)
    if grade is Grade.OK:
        text = "the size of the noise is what the data say, not its prior"
    else:
        text = (
            f"the data lie closer to the curve than the prior of the noise allows (they scatter "
            f"{factor:.1g} times as much as the noise found, which lies at the {level:.1g} "
            f"quantile of its prior): intervals are as wide as the prior makes them; give the noise"
        )
    return Check("noise", DATA, measured, 0.0, grade, text)


def _surprise(ratio: float) -> float:
    return -math.log10(max(ratio, 1e-300))


def _size(residuals: np.ndarray, rep: Replication) -> np.ndarray:
    """The size of each set of residuals; by the median where squares may have no mean."""
    if rep.noise.has_heavy_tails:
        return np.asarray(np.median(np.abs(residuals), axis=1))
    return np.asarray(np.sqrt((residuals**2).mean(axis=1)))


def copies(rep: Replication) -> Check:
    """Exact copies of rows that noise would have made different."""
    seen, n = float(rep.counts.sum()), rep.num_rows
    if not rep.is_usable or seen <= n:
        return Check("copies", DATA, 1.0, MOST_COPIES, Grade.OK, "no row is a copy", GRAVE_COPIES)
    measured = rep.copying
    expected = measured * n
    grade = graded(measured, MOST_COPIES, GRAVE_COPIES)
    what = f"{seen:.0f} observations are {n} distinct rows"
    if grade is Grade.OK:
        text = (
            f"{what}, where {expected:.0f} would be expected with this noise and rounding: copies "
            f"matter little"
        )
    else:
        text = (
            f"{what}, where about {expected:.0f} would be expected with this noise: copies are no "
            f"new measurements, and intervals are about {math.sqrt(measured):.1f} times too "
            f"narrow; give each row once, without weights"
        )
    return Check("copies", DATA, measured, MOST_COPIES, grade, text, GRAVE_COPIES)


def rows(rep: Replication) -> Check:
    """Fewer rows than the constants and the noise lean on."""
    if not rep.is_usable:
        return not_measured("rows", "because no draw of the posterior is finite on all rows")
    n, fitted = rep.num_rows, rep.num_fitted
    needed = fitted + 2.0
    measured = needed / n
    grave_limit = needed / fitted if fitted >= 1.0 else None
    grade = graded(measured, 1.0, grave_limit)
    counted = f"{n} distinct row{'' if n == 1 else 's'}"
    what = f"{counted} for {fitted:.3g} fitted constants and the noise"
    if grade is Grade.OK:
        text = f"there are {what}, which leave {n - fitted:.3g} to check them with"
    else:
        text = (
            f"there {'is' if n == 1 else 'are'} only {what}: nothing is left to tell a right "
            f"formula from one that follows the noise; measure more rows or allow fewer constants"
        )
    return Check("rows", DATA, measured, 1.0, grade, text, grave_limit)


def influence(rep: Replication) -> Check:
    """Single rows on which the answer depends: Pareto's k, where chance does not explain it."""
    rep = rep.observations
    few = too_few(rep, "influence")
    if few is not None:
        return few
    left = np.maximum(1.0 - rep.refit.leverage, 0.01)
    pull = np.log(np.maximum(np.abs(rep.refit.all_scaled) * np.sqrt(rep.refit.leverage), 1e-12))
    pull -= np.log(left)
    found = compared(pull.max(axis=1, keepdims=True))
    k = rep.left_out.k
    is_high = k > HIGH_K
    worst = int(np.argmax(np.where(np.isfinite(k), k, -1.0)))
    check = found.check("influence", is_large=bool(is_high.any()), is_grave=False)
    if check.grade is Grade.OK:
        text = f"no single row carries the answer (largest Pareto k {k[worst]:.2f})"
    else:
        them = "it" if is_high.sum() == 1 else "them"
        check_and_refit = f"check {them}, and fit again without {them}"
        text = (
            f"the answer depends on {rows_text(rep.position[is_high])} of the table (Pareto k "
            f"{k[worst]:.2f}, {p_text(found.p)}): {check_and_refit}"
        )
    return dataclasses.replace(check, sentence=text)

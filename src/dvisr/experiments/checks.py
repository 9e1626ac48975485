"""Pass or fail: what a reproduction must hold to."""

from __future__ import annotations

import math

from dvisr.experiments.paper import Experiment
from dvisr.experiments.results import Result

DECIMALS = 8
WORST_KL = 1e-9
KL_RATIO = 1.25  # to the published one
SMALL_KL = 1e-3  # published values below this are mostly noise: the ratio is taken to this instead
EXACT_KL = 1e-6  # where the published one is below it: sizes up to 4, which are learnt exactly


def failures(experiment: Experiment, result: Result) -> list[str]:
    """One sentence for each thing that falls short; empty if the experiment is reproduced."""
    if experiment.kind == "scaling":
        return _scaling(experiment, result)
    found = []
    for row in result.rows:
        for what, value in [
            ("exact", row.exact),
            ("q25", row.q_iqr[0]),
            ("q_median", row.q_median),
            ("q75", row.q_iqr[1]),
        ]:
            if row.paper is not None and round(value, DECIMALS) != row.paper:
                found.append(f"{what} of {row.expression} is {value:.8f}, not {row.paper:.8f}")
    if {row.expression for row in result.rows} != set(experiment.probabilities or ()):
        found.append("the expressions are not those of the paper's table")
    for run, kl in enumerate(result.kl):
        if not kl < WORST_KL:
            found.append(f"run {run} did not converge: KL {kl:.2g} is not below {WORST_KL:g}")
    return found


def kl_limit(experiment: Experiment) -> float | None:
    """The largest KL that passes at a size; None where nothing is published."""
    if experiment.published_kl is None:
        return None
    if experiment.published_kl < EXACT_KL:
        return EXACT_KL
    return KL_RATIO * max(experiment.published_kl, SMALL_KL)


def _scaling(experiment: Experiment, result: Result) -> list[str]:
    if not all(math.isfinite(kl) for kl in result.kl):
        return ["KL is no finite number: training diverged"]
    limit = kl_limit(experiment)
    if limit is None or result.median_kl <= limit:
        return []
    return [f"KL {result.median_kl:.3g} is above {limit:.3g}"]

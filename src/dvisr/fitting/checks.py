"""The checks of a fit: was everything found, and do the data look like this model?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dvisr.checks import DATA, SEARCH, Check, Grade, Replication, check_data, graded
from dvisr.diagnostics import pareto_k, r_squared
from dvisr.fitting import streams
from dvisr.fitting.other_priors import OtherPrior
from dvisr.marginal import Weighed
from dvisr.posterior import Posterior
from dvisr.posterior.predictive import moments
from dvisr.problem import Problem
from dvisr.settings import CheckSettings

_HEAVY = 0.7  # the Pareto k of weights from which averages over them are unreliable
_ONE_DRAW = 0.01  # the share of a single draw below which a heavy-looking tail does no harm
DRAWS, FEW_DRAWS = 1_000, 200  # of the posterior, that data are replicated from; in a hurry
_MOST_LEFT = 0.5  # of the prior: what may not be listed, and the rest still be worth something
_SURE = 2.0  # standard errors
_ROWS = 2000  # that the data are checked at, at the most
_MOST_VALUES = 20_000_000  # draws times rows that R² is worked out of


def is_heavy(weighed: Weighed) -> bool:
    """Whether a few draws decide an integral. A Pareto k alone is misled by a bounded bump of
    weights, as where the prior of a constant has a peak at zero that the proposal has not."""
    k = weighed.pareto_k_of_all
    k = pareto_k(weighed.log_weights) if k is None else k
    return k > _HEAVY and float(weighed.log_weights.max()) > math.log(_ONE_DRAW)


def integral_check(likely: Sequence[tuple[float, Weighed]], limits: CheckSettings) -> Check:
    """Whether the integrals over the constants of likely formulas are known: by how much of the
    posterior one of them may be off, given their shares of it."""
    with_constants = [(share, one) for share, one in likely if one.constants.shape[1] > 0]
    off = max((share * one.error for share, one in with_constants), default=0.0)
    heavy = any(is_heavy(one) for _, one in with_constants)
    caution, grave = limits.integral_error
    measured = max(off, caution) if heavy and off > 0.4 * caution else off
    grade = graded(measured, caution, grave)
    sentence = f"integrals over constants are known to within {off:.2g} of the posterior"
    if grade:
        sentence = (
            f"an integral over constants is known only to within {off:.2g} of the posterior: give "
            f"a narrower prior of constants, or fewer constants"
        )
    return Check("integrals", SEARCH, measured, caution, grade, sentence, grave)


def weighed_check(left: float, limits: CheckSettings) -> Check:
    """Of what there was no time to weigh: the share of the posterior, as a first look has it."""
    caution, grave = limits.integral_error
    grade = graded(left, caution, grave)
    sentence = f"formulas with {left:.2g} of the posterior were looked at but not weighed"
    sentence += ": give the fit more time" if grade else ""
    return Check("weighed", SEARCH, left, caution, grade, sentence, grave)


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def steps_check(num_steps: int, is_whole: bool, is_still: bool, limits: CheckSettings) -> Check:
    """Whether the search was long enough to say anything: it made enough steps, or the posterior
    had stopped to move."""
    few = limits.few_steps
    short = 0 if is_still else max(0, few - num_steps)
    measured = float(short + (0 if is_whole else few))
    if not is_whole:
        sentence = f"the search was stopped early, after {_steps(num_steps)}: give it more time"
    elif short:
        sentence = f"a search of {_steps(num_steps)} is short: leave out num_steps, or give more"
    elif is_still:
        sentence = (
            f"the search made {_steps(num_steps)}, and the last of them changed next to nothing"
        )
    else:
        sentence = f"the search made all of its {num_steps} steps"
    return Check(
        "steps", SEARCH, measured, 1.0, graded(measured, 1.0, few + 1.0), sentence, few + 1.0
    )


def listed_check(num_weighed: int, num_allowed: int, share: float) -> Check:
    """Where all trees were to be listed, and were not: how much of the prior is left out."""
    measured = max(0.0, 1.0 - share)
    sentence = (
        f"only {num_weighed:,} of {num_allowed:,} trees were weighed, with {share:.0%} of the "
        f"prior, before the fit was stopped: give it more time"
    )
    return Check(
        "listed", SEARCH, measured, 0.0, graded(measured, 0.0, _MOST_LEFT), sentence, _MOST_LEFT
    )


def agreement_check(agreement: float, limits: CheckSettings) -> Check:
    """Whether two independent searches came to the same answer."""
    caution, grave = limits.disagreement
    apart = 1.0 - agreement
    grade = graded(apart, caution, grave)
    sentence = f"two independent searches agree on {agreement:.0%} of the posterior"
    if grade:
        sentence += ", so that one of them missed something and both may have: search for longer"
    return Check("agreement", SEARCH, apart, caution, grade, sentence, grave)


def settled_check(log_evidence: np.ndarray, limits: CheckSettings) -> Check:
    """Whether the search had stopped getting better: what the log evidence gained in the last third
    of the steps."""
    caution, grave = limits.late_gain
    gain = 0.0
    if len(log_evidence) >= 3:
        before = float(log_evidence[(2 * len(log_evidence)) // 3 - 1])
        gain = float(log_evidence[-1]) - before if math.isfinite(before) else math.inf
    grade = graded(gain, caution, grave)
    sentence = f"the log evidence gained {gain:.2g} in the last third of the search"
    if grade:
        sentence += ", so that it was still finding better formulas: search for longer"
    return Check("settled", SEARCH, gain, caution, grade, sentence, grave)


def fresh_draw_checks(found: dict[str, Any], limits: CheckSettings) -> list[Check]:
    """What draws of the trained network say, where they are worth enough to say anything. Of what
    was missed that much is sure which two standard errors leave: it may be all of one draw."""
    effective = found.get("effective_sample_size", 0.0)
    if effective < limits.fewest_effective:
        return []
    missed, error, moved = found["unknown_mass"], found["unknown_mass_stderr"], found["moved"]
    checks = []
    caution, grave = limits.missed
    sure = max(0.0, missed - _SURE * error)
    grade = graded(sure, caution, grave)
    sentence = (
        f"draws of the trained network put {missed:.1%} of the posterior, to within {error:.1%}, "
        f"where the search had not been"
    )
    sentence += ": search for longer" if grade else ""
    checks.append(Check("missed", SEARCH, sure, caution, grade, sentence, grave))
    caution, grave = limits.moved
    grade = graded(moved, caution, grave)
    sentence = (
        f"draws of the trained network moved {moved:.1%} of the probability between functions"
    )
    sentence += ": search for longer" if grade else ""
    checks.append(Check("moved", SEARCH, moved, caution, grade, sentence, grave))
    return checks


def network_check(effective: float, gap: float, num_draws: int) -> Check:
    """Of a network whose distribution is the answer: how far it is from the posterior by its own
    draws."""
    share = effective / num_draws
    measured = max(gap, 0.05 * (1.0 - share) / 0.1)
    if share < 0.05:  # too few to tell the distance by
        measured = max(measured, 3.0)
    grade = graded(measured, 0.05, 3.0)
    sentence = (
        f"the network is {gap:.2g} nats from the posterior by its own draws, of which {share:.1%} "
        f"count"
    )
    sentence += ": train for more steps, or use recipe='default'" if grade else ""
    return Check("network", SEARCH, measured, 0.05, grade, sentence, 3.0)


def unsure_check(num_unsure: int) -> Check:
    """Where all trees are listed: whether the integrals of all are known."""
    measured = float(num_unsure)
    sentence = (
        f"all trees are listed, but the integrals of {num_unsure} are not known well enough for "
        f"the answer to be called exact: give a narrower prior of constants, or more time"
    )
    return Check("unsure", SEARCH, measured, 1.0, graded(measured, 1.0), sentence)


def explained_check(r2: float, limits: CheckSettings) -> Check:
    """Whether any formula explains anything."""
    if not math.isfinite(r2):
        sentence = "the target is constant: there is nothing to explain"
        return Check("explained", SEARCH, 0.0, limits.unexplained, Grade.OK, sentence)
    left = 1.0 - r2
    grade = graded(left, limits.unexplained)
    sentence = f"the formulas explain {max(0.0, r2):.1%} of the variance of the target"
    if grade:
        sentence += ", which is little: the columns, the operators or the size may not suffice"
    return Check("explained", SEARCH, left, limits.unexplained, grade, sentence)


def prior_check(posterior: Posterior, others: Sequence[OtherPrior], limits: CheckSettings) -> Check:
    """Whether the prior over trees alone decides what is first: how much less probable than the
    first function is all that says the same of the rows, under the most favourable other prior, as
    a logarithm."""
    own = posterior.functions[0].probability
    under = max((other.agreeing for other in others), default=own)
    measured = math.log(max(own, 1e-300) / max(under, 1e-300))
    grade = graded(measured, limits.prior_decides)
    told = " and ".join(f"{other.probabilities[0]:.2g} under {other.name}" for other in others)
    sentence = f"the first function has probability {own:.2g}" + (f", {told}" if told else "")
    if grade:
        best = max(others, key=lambda other: other.agreeing).first[0][0]
        sentence += (
            f": the prior over formulas decides between it and others such as {best}, not the "
            f"data; measure more rows, or judge by what is known of the field"
        )
    elif others and under > 2.0 * max(other.probabilities[0] for other in others):
        sentence += f", where functions that say the same of the rows have {under:.2g}"
    return Check("prior", DATA, measured, limits.prior_decides, grade, sentence)


def explained(problem: Problem, posterior: Posterior) -> float:
    """R² of the posterior's mean at the data; NaN for a constant target."""
    draws = posterior.draws
    most = max(100, _MOST_VALUES // len(problem.X))
    if most < len(draws):
        draws = draws.chosen(np.linspace(0, len(draws) - 1, most).astype(int))
    mean, _, _ = moments(draws, problem.X)
    return r_squared(problem.likelihood.y, mean, problem.likelihood.weights)


def data_checks(
    problem: Problem, posterior: Posterior, seed: int, most_draws: int = DRAWS
) -> list[Check]:
    """Replicated data from the posterior against the data."""
    return check_data(replication(problem, posterior, seed, most_draws))


def replication(
    problem: Problem, posterior: Posterior, seed: int, most_draws: int = DRAWS
) -> Replication:
    """The data, and data replicated from draws of the posterior, as plain arrays; of many rows some
    at random."""
    rng = np.random.default_rng([seed, streams.CHECKED_ROWS])
    if len(problem.data.y) > _ROWS:
        problem = problem.some(np.sort(rng.choice(len(problem.data.y), _ROWS, replace=False)))
    likelihood, data = problem.likelihood, problem.data
    size = min(most_draws, len(posterior.draws))
    draws = posterior.draws.chosen(np.linspace(0, len(posterior.draws) - 1, size).astype(int))
    curves = draws.curves(data.X)
    with np.errstate(all="ignore"):
        residuals = likelihood.residuals(np, curves) / draws.noise_factor[:, None]
    counts = np.ones(len(data.y)) if likelihood.weights is None else np.asarray(likelihood.weights)
    position = np.arange(len(data.y)) if problem.position is None else problem.position
    of_tree = np.array([expression.num_constants for expression in draws.expressions])
    prior = likelihood.prior
    return Replication(
        X=data.X,
        column_names=data.feature_names,
        y=data.y,
        counts=counts,
        position=position,
        curves=curves,
        residuals=residuals,
        replicated=likelihood.noise.draw(rng, residuals.shape),
        log_density=likelihood.row_log_density(curves, draws.noise_factor),
        cdf=likelihood.noise.cdf(residuals),
        num_constants=of_tree[draws.tree],
        noise=likelihood.noise,
        noise_is_inferred=likelihood.is_inferred,
        scale_prior=None if prior is None else prior.cdf(float(np.median(draws.noise_factor))),
    )

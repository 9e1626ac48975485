"""`Comparison`: what became of formulas that were weighed against each other."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from dvisr.checks import SEARCH, Check, Grade, Verdict, graded
from dvisr.diagnostics import r_squared
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.fitting import checks
from dvisr.marginal import Engine, Weighed, noise_draws, residuals_of
from dvisr.posterior import Draws, Function, Posterior, inclusion_of
from dvisr.posterior.arviz import tree_datatree
from dvisr.problem import Problem
from dvisr.settings import CheckSettings, FitSettings

if TYPE_CHECKING:
    import xarray

_MOST_MOMENTS = 4_000  # draws of constants that the moments of the noise are averaged over


@dataclasses.dataclass(frozen=True)
class Compared:
    """What is known of one formula."""

    problem: Problem
    expression: Expression
    engine: Engine
    weighed: Weighed
    loo: Any  # ArviZ's ELPDData, or None
    names: tuple[str, ...]  # of the constants

    @property
    def has_constants(self) -> bool:
        return self.expression.num_constants > 0

    @property
    def is_defined(self) -> bool:
        return math.isfinite(self.weighed.log_marginal)


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """The formulas, best first.

    Attributes
    ----------
    table : DataFrame
        One row a formula.
    constants : DataFrame
        One row a constant of each formula.
    verdict_ : Verdict
        The checks: whether the numbers can be relied on, and whether the data look like the best
        formula with this noise.
    verdict : str
        "ok", "caution" or "do-not-trust": the worst grade of the checks.
    reasons : list of str
        What speaks against the numbers.
    assumptions : list of str
        What the numbers rest on.
    """

    table: pd.DataFrame
    constants: pd.DataFrame
    verdict_: Verdict
    assumptions: list[str]
    _compared: tuple[Compared, ...] = dataclasses.field(repr=False)
    _seed: int = dataclasses.field(repr=False)

    @property
    def verdict(self) -> str:
        return self.verdict_.word

    @property
    def reasons(self) -> list[str]:
        return list(self.verdict_.reasons)

    def to_datatree(self, i: int = 0, *, count: int = 2000) -> xarray.DataTree:
        """Draws of the constants and the noise of the formula in row `i`, for ArviZ."""
        if not 0 <= i < len(self._compared):
            raise ValueError(f"the table has rows 0 to {len(self._compared) - 1}, not {i}")
        one = self._compared[i]
        seed = own_seed(self._seed, one.expression)
        return tree_datatree(one.engine, one.expression, one.weighed, count=count, seed=seed)

    def __str__(self) -> str:
        shown = ["equation", "log_evidence", "log_evidence_stderr", "probability", "elpd_loo", "r2"]
        parts = [self.table[shown].to_string(float_format="%.6g")]
        if len(self.constants):
            parts.append(self.constants.to_string(index=False, float_format="%.6g"))
        parts.append("\n".join([f"verdict: {self.verdict}", *self.verdict_.lines]))
        parts.append("\n".join(self.assumptions))
        return "\n\n".join(parts)


def own_seed(seed: int, expression: Expression) -> int:
    """By the formula's text, so that neither its rivals nor their order matter."""
    digest = hashlib.sha256(f"{seed} {expression}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _noise_moments(one: Compared) -> tuple[float, float]:
    """The mean and standard deviation of the noise's scale, worked out given the constants and
    averaged over those."""
    likelihood, weighed = one.engine.likelihood, one.weighed
    _, unit = likelihood.noise_unit
    if not likelihood.is_inferred:
        return unit, 0.0
    order = np.argsort(-weighed.log_weights)[:_MOST_MOMENTS]
    places = order[np.isfinite(weighed.log_weights[order])]
    weights = weighed.weights[places] / weighed.weights[places].sum()
    _, residuals = residuals_of(
        one.engine, np.array(one.expression.tokens), weighed.constants[places]
    )
    means, squares = likelihood.scale_moments(residuals)
    mean, square = float(weights @ means), float(weights @ squares)
    return unit * mean, unit * math.sqrt(max(0.0, square - mean * mean))


def _r2(one: Compared) -> float:
    """The share of the variance of y that the formula explains at the mode."""
    likelihood = one.engine.likelihood
    values, _ = evaluate(one.expression, one.engine.X, one.weighed.mode.tolist())
    values = np.broadcast_to(values, likelihood.y.shape)
    return r_squared(likelihood.y, values, likelihood.weights)


def make_table(found: Sequence[Compared]) -> pd.DataFrame:
    values = np.array([one.weighed.log_marginal for one in found])
    probabilities = np.exp(values - logsumexp(values))
    rows: list[dict[str, Any]] = []
    for one, value, probability in zip(found, values, probabilities, strict=True):
        noise, noise_std = _noise_moments(one) if one.is_defined else (math.nan, math.nan)
        modal = one.expression.with_constants(one.weighed.mode.tolist() if one.is_defined else None)
        row = {
            "expression": str(one.expression),
            "equation": str(modal),
            "log_evidence": value,
            "log_evidence_stderr": one.weighed.error if one.is_defined else math.nan,
            "probability": probability,
            "bayes_factor": math.exp(value - values[0]),
            "log_bayes_factor": value - values[0],
            "complexity": one.expression.complexity,
            "num_constants": one.expression.num_constants,
            "noise_std": noise,
            "noise_std_std": noise_std,
            "r2": _r2(one) if one.is_defined else math.nan,
            "elpd_loo": math.nan if one.loo is None else one.loo.elpd,
            "elpd_loo_se": math.nan if one.loo is None else one.loo.se,
            "max_pareto_k": math.nan if one.loo is None else float(one.loo.pareto_k.max()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def make_constants(found: Sequence[Compared], coverage: float) -> pd.DataFrame:
    levels = np.array([0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage])
    columns = ["expression", "constant", "mean", "std", "low", "high", "mode", "curvature_std"]
    rows = []
    for one in found:
        if not (one.is_defined and one.has_constants):
            continue
        weighed = one.weighed
        low, high = weighed.quantiles(levels)
        curvature = np.sqrt(np.diag(weighed.curvature))
        numbers = (weighed.mean, weighed.std, low, high, weighed.mode, curvature)
        for place, values in enumerate(zip(*numbers, strict=True)):
            rows.append([str(one.expression), one.names[place], *map(float, values)])
    return pd.DataFrame(rows, columns=columns)


def make_verdict(found: Sequence[Compared], seed: int, settings: FitSettings) -> Verdict:
    """Whether the numbers can be relied on, and whether the data look like the best formula."""
    best = found[0]
    made = [
        _integral_check(one, settings.checks, is_best=one is best)
        for one in found
        if one.has_constants
    ]
    if best.is_defined:
        made += checks.data_checks(best.problem, _posterior_of(best, seed, settings), seed)
    return Verdict.of(made)


def _integral_check(one: Compared, limits: CheckSettings, *, is_best: bool) -> Check:
    """Of one formula: whether its log evidence is known."""
    name = f"integral of {one.expression}"
    caution, grave = limits.compared_error
    if not one.is_defined:
        sentence = f"no constants were found at which {one.expression} is defined: leave it out"
        return Check(name, SEARCH, math.inf, caution, Grade.CAUTION, sentence)
    error, effective = one.weighed.error, one.weighed.effective_size
    grave_limit = grave if is_best else None
    measured, sentence = error, f"the log evidence of {one.expression} is known to {error:.2g}"
    if error >= caution:
        sentence = (
            f"the log evidence of {one.expression} has a standard error of {error:.2g}: give a "
            f"narrower prior of constants"
        )
    elif is_best and effective < limits.compared_effective:
        measured = grave
        sentence = (
            f"the draws of the constants of {one.expression} are worth only {effective:.0f} "
            f"independent ones: give a narrower prior of constants"
        )
    elif checks.is_heavy(one.weighed):
        measured = caution
        sentence = (
            f"the importance weights of {one.expression} have heavy tails: its numbers may be "
            f"further off than their errors say"
        )
    grade = graded(measured, caution, grave_limit)
    return Check(name, SEARCH, measured, caution, grade, sentence, grave_limit)


def _posterior_of(one: Compared, seed: int, settings: FitSettings) -> Posterior:
    """The posterior of one formula's constants, as a fit would have it that knew no other."""
    rng = np.random.default_rng([seed, 3])
    places = one.weighed.resampled(settings.weighing.num_draws, rng)
    constants = one.weighed.constants[places]
    likelihood, grammar = one.problem.likelihood, one.problem.grammar
    value = one.weighed.log_marginal
    function = Function(one.expression, 1.0, value, 1, one.weighed)
    factor = noise_draws(one.engine, np.array(one.expression.tokens), constants, rng)
    return Posterior(
        grammar=grammar,
        functions=(function,),
        trees=(),
        log_evidence=value,
        log_evidence_stderr=one.weighed.error,
        is_exact=False,
        inclusion=inclusion_of(grammar, [function]),
        draws=Draws(
            (one.expression,),
            np.zeros(len(places), dtype=np.int64),
            constants,
            factor,
            likelihood.typical_scale,
            likelihood.noise,
        ),
    )


def list_assumptions(problem: Problem, names: Sequence[Sequence[str]]) -> list[str]:
    """What the numbers rest on, in sentences; `names` are of the constants of each formula."""
    sentences = [
        f"Prior of every constant: {problem.constant_prior}.",
        f"Noise: {problem.describe_noise()}.",
        "The formulas are equally probable beforehand, and these alone are compared.",
    ]
    named = dict.fromkeys(
        name for own in names for place, name in enumerate(own) if name.lstrip("_") != f"c{place}"
    )
    if named:
        sentences.append(f"No columns, so taken for constants to be found: {', '.join(named)}.")
    if problem.likelihood.weights is not None:
        sentences.append("A row counts as often as it was seen.")
    return sentences

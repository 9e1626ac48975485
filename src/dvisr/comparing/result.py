"""`Comparison`: what became of formulas that were weighed against each other."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp

from dvisr.constants import AbstractConstantPrior
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.likelihood import NOISE_PRIOR_FRACTION, AbstractLikelihood, InferredNoise
from dvisr.marginal import Engine, Weighed
from dvisr.posterior.datatree import noise_unit, tree_datatree

if TYPE_CHECKING:
    import xarray

OK, CAUTION, DO_NOT_TRUST = "ok", "caution", "do-not-trust"
_ROUGH, _WRONG = 0.1, 0.5  # errors of a log evidence from which to take care, and to refuse
_HEAVY = 0.7  # the Pareto k of weights from which averages over them are unreliable
_SHARE = 0.01  # of a single draw: below it a heavy-looking tail is bounded and does no harm
_FEWEST_EFFECTIVE = 100


@dataclasses.dataclass(frozen=True)
class Compared:
    """What is known of one formula."""

    expression: Expression
    engine: Engine
    weighed: Weighed
    loo: Any  # ArviZ's ELPDData, or None
    pareto_k: float  # of the importance weights

    @property
    def has_constants(self) -> bool:
        return self.expression.num_constants > 0

    @property
    def is_defined(self) -> bool:
        return math.isfinite(self.weighed.log_marginal)


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """The formulas, best first.

    - `table`: one row a formula; `constants`: one row a constant of each.
    - `verdict`: "ok", "caution" or "do-not-trust", for the `reasons` given.
    - `assumptions`: what the numbers rest on.
    """

    table: pd.DataFrame
    constants: pd.DataFrame
    verdict: str
    reasons: list[str]
    assumptions: list[str]
    _compared: tuple[Compared, ...] = dataclasses.field(repr=False)
    _seed: int = dataclasses.field(repr=False)

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
        parts.append("\n".join([f"verdict: {self.verdict}", *self.reasons]))
        parts.append("\n".join(self.assumptions))
        return "\n\n".join(parts)


def is_heavy(weighed: Weighed, pareto_k: float) -> bool:
    """Whether a few draws decide. A Pareto k alone is misled by a bounded bump of weights, as where
    the prior of a constant has a peak at zero that the proposal has not."""
    return pareto_k > _HEAVY and float(weighed.log_weights.max()) > math.log(_SHARE)


def own_seed(seed: int, expression: Expression) -> int:
    """By the formula's text, so that neither its rivals nor their order matter."""
    digest = hashlib.sha256(f"{seed} {expression}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def _noise_moments(one: Compared) -> tuple[float, float]:
    """The mean and standard deviation of the noise's own, in closed form given the constants."""
    likelihood, weighed = one.engine.likelihood, one.weighed
    _, unit = noise_unit(likelihood)
    if not isinstance(likelihood, InferredNoise):
        return unit, 0.0
    usable = np.isfinite(weighed.log_weights) & np.isfinite(weighed.squares)
    weights, squares = weighed.weights[usable], weighed.squares[usable]
    shape, rate = likelihood.shape + 0.5 * likelihood.count, likelihood.rate + 0.5 * squares
    mean = math.exp(gammaln(shape - 0.5) - gammaln(shape)) * float(weights @ np.sqrt(rate))
    if shape <= 1.0:
        return unit * mean, math.inf
    variance = float(weights @ rate) / (shape - 1.0) - mean * mean
    return unit * mean, unit * math.sqrt(max(0.0, variance))


def _r2(one: Compared) -> float:
    """The share of the variance of y that the formula explains at the mode."""
    likelihood = one.engine.likelihood
    values, _ = evaluate(one.expression, one.engine.X, one.weighed.mode.tolist())
    often = np.ones(len(likelihood.y)) if likelihood.weights is None else likelihood.weights
    centred = likelihood.y - np.average(likelihood.y, weights=often)
    size = float(np.abs(centred).max())
    if size == 0.0:
        return math.nan
    with np.errstate(over="ignore"):
        left = often @ ((likelihood.y - values) / size) ** 2
    return float(1.0 - left / (often @ (centred / size) ** 2))


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
            rows.append([str(one.expression), f"c{place}", *map(float, values)])
    return pd.DataFrame(rows, columns=columns)


def judge(found: Sequence[Compared]) -> tuple[str, list[str]]:
    """Whether the numbers can be relied on, and what speaks against it."""
    reasons: list[str] = []
    best = found[0]
    is_wrong = False
    if best.has_constants and best.weighed.error > _WRONG:
        is_wrong = True
        reasons.append(
            f"The log evidence of the best formula, {best.expression}, has a standard error of "
            f"{best.weighed.error:.2g}."
        )
    if best.has_constants and best.weighed.effective_size < _FEWEST_EFFECTIVE:
        is_wrong = True
        reasons.append(
            f"The draws of the constants of the best formula, {best.expression}, are worth only "
            f"{best.weighed.effective_size:.0f} independent ones."
        )
    for one in found:
        if one.has_constants and not one.is_defined:
            reasons.append(f"No constants were found at which {one.expression} is defined.")
        elif one.weighed.error > _ROUGH and not (one is best and is_wrong):
            reasons.append(
                f"The log evidence of {one.expression} has a standard error of "
                f"{one.weighed.error:.2g}."
            )
        elif is_heavy(one.weighed, one.pareto_k):
            reasons.append(
                f"The importance weights of {one.expression} have heavy tails (Pareto k "
                f"{one.pareto_k:.2f}): its numbers may be further off than their errors say."
            )
    return (DO_NOT_TRUST if is_wrong else CAUTION if reasons else OK), reasons


def list_assumptions(
    prior: AbstractConstantPrior, likelihood: AbstractLikelihood, has_bars: bool
) -> list[str]:
    scale = float(np.asarray(likelihood.scale).flat[0])
    if isinstance(likelihood, InferredNoise):
        size = "error bars times a factor" if has_bars else "one standard deviation for all rows"
        centre = "1" if has_bars else f"{NOISE_PRIOR_FRACTION:g} of the spread of y ({scale:.3g})"
        noise = (
            f"Gaussian, {size}, inferred; its prior weighs as much as one observation, of a size "
            f"of {centre}"
        )
    elif has_bars:
        noise = "Gaussian, its standard deviations given row by row"
    else:
        noise = f"Gaussian, of the standard deviation {scale:g} in every row"
    sentences = [
        f"Prior of every constant: {prior}.",
        f"Noise: {noise}.",
        "The formulas are equally probable beforehand, and these alone are compared.",
    ]
    if likelihood.weights is not None:
        sentences.append("A row counts as often as its weight says.")
    return sentences

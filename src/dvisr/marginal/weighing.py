"""One tree's constants by importance sampling: log p(y | tree) to a known error, and draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import logsumexp

from dvisr.evaluation.tree import make_work
from dvisr.likelihood import InferredNoise
from dvisr.marginal import laplace
from dvisr.marginal.engine import METHODS, Engine
from dvisr.marginal.mixtures import Mixture, inverse
from dvisr.marginal.optimising import make_fit

ERROR = 0.01  # of log p(y | tree): rounds go on until it is met
NUM_STARTS = 48
_TIGHT = 1e-12
_ROUNDS = (1_000, 4_000, 16_000, 64_000, 200_000)
_MOST_VALUES = 100_000_000  # draws times points, in one round
_WIDER = (4.0, 16.0)  # times the variance: components that a posterior far from Gaussian needs
_ADAPTATIONS = 6  # steps of EM after a round
_MOST_ADAPTED = 32_000  # draws that they look at


@dataclasses.dataclass(frozen=True)
class Weighed:
    """What is known of one tree. Draws are of its constants: `log_weights` sum to 1 over them and
    turn averages over the draws into averages over the posterior. A tree without constants has one
    draw of none."""

    log_marginal: float
    error: float  # the standard error of log_marginal; 0 where it is exact
    method: str
    mode: np.ndarray  # (constants,): where the posterior is highest
    curvature: np.ndarray  # (constants, constants): the covariance that the curvature there says
    constants: np.ndarray  # (draws, constants)
    log_weights: np.ndarray  # (draws,)
    log_q: np.ndarray  # (draws,): the log density that they were drawn with
    squares: np.ndarray  # (draws,): the sum of squares of the whitened residuals

    @property
    def effective_size(self) -> float:
        return math.exp(-float(logsumexp(2.0 * self.log_weights)))

    @property
    def weights(self) -> np.ndarray:
        found: np.ndarray = np.exp(self.log_weights)
        return found

    @property
    def mean(self) -> np.ndarray:
        found: np.ndarray = self.weights @ self.constants
        return found

    @property
    def std(self) -> np.ndarray:
        # The weight inside the square: a draw may lie so far out that its square alone overflows.
        scaled = np.sqrt(self.weights)[:, None] * (self.constants - self.mean)
        with np.errstate(all="ignore"):
            found: np.ndarray = np.sqrt((scaled * scaled).sum(axis=0))
        return found

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """(levels, constants): of each constant by itself."""
        found = np.empty((len(levels), self.constants.shape[1]))
        for place in range(self.constants.shape[1]):
            order = np.argsort(self.constants[:, place])
            cumulative = np.cumsum(self.weights[order])
            middle = (cumulative - 0.5 * self.weights[order]) / cumulative[-1]
            found[:, place] = np.interp(levels, middle, self.constants[order, place])
        return found

    def resampled(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Places of draws, each as often as it weighs, spread as evenly as can be."""
        cumulative = np.cumsum(self.weights)
        points = (np.arange(count) + rng.uniform()) / count * cumulative[-1]
        places = np.minimum(np.searchsorted(cumulative, points), len(cumulative) - 1)
        return rng.permutation(places)


def weigh(
    engine: Engine,
    tokens: np.ndarray,
    rng: np.random.Generator,
    *,
    error: float = ERROR,
    num_starts: int = NUM_STARTS,
) -> Weighed:
    """`tokens` are one tree's, ids padded with -1."""
    tokens = np.array(tokens, dtype=np.int8)
    k = int((tokens == engine.library.constant_id).sum()) if engine.library.constant_id >= 0 else 0
    work = make_work(len(tokens), k, engine.leaves.shape[1])
    fit = make_fit(k)
    values, methods, best = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, max(1, k)))
    laplace.fit_many(
        engine.apply, tokens[None], engine.language, engine.leaves, num_starts, _TIGHT,
        -math.inf, engine.law, work, fit, engine.units, values, methods, best,
    )  # fmt: skip
    method = METHODS[int(methods[0])]
    if k == 0 or method == "undefined":
        return _without_constants(engine, tokens, float(values[0]), method)
    count = int(fit.num_modes[0])
    precision = fit.widths[:count].copy()
    best_mode = int(np.argmin(fit.heights[:count]))
    usable = np.isfinite(fit.masses[:count])
    usable[best_mode] = True
    masses = np.where(np.isfinite(fit.masses[:count]), fit.masses[:count], 0.0)
    places = [*map(int, np.flatnonzero(usable)), *[best_mode] * len(_WIDER)]
    variances = np.array([*np.ones(int(usable.sum())), *_WIDER])
    mixture = Mixture.at_modes(
        engine.prior,
        fit.modes[places],
        precision[places] / variances[:, None, None],
        masses[places] - np.log(variances),
    )
    found = _rounds(engine, tokens, mixture, rng, error)
    exact = method == "exact"
    return dataclasses.replace(
        found,
        log_marginal=float(values[0]) if exact else found.log_marginal,
        error=0.0 if exact else found.error,
        method="exact" if exact else "importance sampling",
        mode=best[0, :k].copy(),
        curvature=inverse(precision[best_mode]),
    )


def _rounds(
    engine: Engine,
    tokens: np.ndarray,
    mixture: Mixture,
    rng: np.random.Generator,
    error: float,
) -> Weighed:
    """Draw, weigh, adapt the mixture to what was found, and draw more until it suffices."""
    most = max(_ROUNDS[0], _MOST_VALUES // engine.leaves.shape[1])
    found: Weighed | None = None
    for size in _ROUNDS:
        if found is not None and size > most:
            break
        constants = mixture.sample(size, rng)
        with np.errstate(all="ignore"):  # far out a density is zero
            parts, _ = mixture.log_parts(constants)
        log_q = logsumexp(parts, axis=0)
        squares = squares_of(engine, tokens, constants)
        log_p = _log_joint(engine, constants, squares)
        with np.errstate(invalid="ignore"):
            ratios = np.where(np.isfinite(log_q), log_p - log_q, -np.inf)
        total = float(logsumexp(ratios))
        if not math.isfinite(total):
            continue
        weights = np.exp(ratios - total)
        relative = math.sqrt(max(0.0, size * float((weights**2).sum()) - 1.0) / size)
        now = Weighed(
            log_marginal=total - math.log(size),
            error=relative,
            method="importance sampling",
            mode=np.empty(0),
            curvature=np.empty((0, 0)),
            constants=constants,
            log_weights=ratios - total,
            log_q=log_q,
            squares=squares,
        )
        # The later round is to be believed, be its error larger: then it met what the earlier one
        # missed. So the first, with the fewest draws from the prior, is not the last either.
        found = now
        if found.error < error and size > _ROUNDS[0]:
            break
        mixture = _adapted(mixture, constants, weights)
    if found is None:
        found = _without_constants(engine, tokens, -math.inf, "undefined")
    return found


def _adapted(mixture: Mixture, constants: np.ndarray, weights: np.ndarray) -> Mixture:
    """One step of EM hardly moves the components along a bent ridge; a few do. Draws come in the
    order of the components, so that every so manieth is a fair choice of them."""
    stride = -(-len(constants) // _MOST_ADAPTED)
    kept = weights[::stride]
    if not kept.sum() > 0.0:
        return mixture
    with np.errstate(all="ignore"):
        for _ in range(_ADAPTATIONS):
            parts, distances = mixture.log_parts(constants[::stride])
            mixture = mixture.adapted(constants[::stride], kept / kept.sum(), parts, distances)
    return mixture


def squares_of(engine: Engine, tokens: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """The sum of squares of the whitened residuals for each row of constants."""
    work = make_work(len(tokens), constants.shape[1], engine.leaves.shape[1])
    squares = np.empty(len(constants))
    laplace.squares_many(
        engine.apply, tokens, engine.language, engine.leaves,
        np.ascontiguousarray(constants, dtype=np.float64), engine.law, work, squares,
    )  # fmt: skip
    return squares


def _log_joint(engine: Engine, constants: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """log p(y, constants | tree), the noise integrated out where it is inferred."""
    with np.errstate(all="ignore"):
        likelihood = np.where(
            np.isfinite(squares), engine.likelihood.of_squares(np, squares), -np.inf
        )
        prior = np.asarray(engine.prior.log_prob(np, constants)).sum(axis=1)
    total: np.ndarray = likelihood + np.where(np.isfinite(prior), prior, -np.inf)
    return total


def noise_draws(engine: Engine, squares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The factor s of the noise given what the constants leave of the squares; ones if given."""
    likelihood = engine.likelihood
    if not isinstance(likelihood, InferredNoise):
        return np.ones(len(squares))
    shape = likelihood.shape + 0.5 * likelihood.count
    rate = likelihood.rate + 0.5 * squares
    found: np.ndarray = np.sqrt(rate / rng.gamma(shape, 1.0, len(squares)))
    return found


def _without_constants(engine: Engine, tokens: np.ndarray, value: float, method: str) -> Weighed:
    nothing = np.zeros((1, 0))
    squares = squares_of(engine, tokens, nothing) if method == "exact" else np.full(1, np.inf)
    return Weighed(
        log_marginal=value,
        error=0.0,
        method=method,
        mode=np.zeros(0),
        curvature=np.zeros((0, 0)),
        constants=nothing,
        log_weights=np.zeros(1),
        log_q=np.zeros(1),
        squares=squares,
    )

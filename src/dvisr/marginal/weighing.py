"""One tree's constants by importance sampling: log p(y | tree) to a known error, and draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from dvisr.evaluation.tree import make_work
from dvisr.library.threads import for_each
from dvisr.marginal import laplace
from dvisr.marginal.engine import Engine
from dvisr.marginal.law import make_fit
from dvisr.marginal.mixtures import TURN, Mixture, inverse, log_prior_of_turns
from dvisr.marginal.weighed import Weighed
from dvisr.settings import WeighingSettings

_TIGHT = 1e-12
_VALUES_A_TASK = 1_000_000  # draws times rows, below which a thread more is not worth it
_MOST_VALUES = 20_000_000  # draws times rows that are held at once
_TRIED_TURNS = (1, -1, 7)
_SAME_PHASE = 0.1  # of a turn: modes closer than this are one
_LEFT_OUT = 14.0  # nats below the largest: modes that the proposal leaves to the prior
_ALIKE = 0.5  # nats between Laplace's approximation and draws that bear each other out
_EASY = 0.05  # an error from which on one round may do
_DRAWS_AT_ONCE = 8_000  # between two looks at the clock
_VALUES_AT_ONCE = 4_000_000  # draws times rows, likewise
_WIDER = (4.0, 16.0)  # times the variance: components that a posterior far from Gaussian needs


def weigh(
    engine: Engine,
    tokens: np.ndarray,
    rng: np.random.Generator,
    settings: WeighingSettings | None = None,
    *,
    error: float | None = None,
    num_starts: int | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> Weighed:
    """One tree's log p(y | tree), to the error of the settings unless another is given, and draws
    of its constants. `tokens` are its own, ids padded with -1. Once it is late what is left of a
    round is left out, and no further one made, whatever the error is by then."""
    own = WeighingSettings() if settings is None else settings
    num_starts = own.num_starts if num_starts is None else num_starts
    tokens = np.array(tokens, dtype=np.int8)
    found = engine.modes(tokens, num_starts, _TIGHT)
    method, constant = found.method, engine.library.constant_id
    if constant < 0 or not (tokens == constant).any() or method == "undefined":
        return _without_constants(found.log_marginal, method)
    precision, modes, best, count = found.precision, found.modes, found.best, len(found.modes)
    masses = np.where(np.isfinite(found.masses), found.masses, -np.inf)
    largest = int(np.argmax(masses)) if np.isfinite(masses).any() else 0
    phase = _phase(engine, tokens, modes[largest]) if count > 1 else -1
    if phase >= 0:
        modes, precision, masses = _without_turns(engine, phase, modes, precision, masses)
        largest = 0
    masses[largest] = max(masses[largest], -1e300)
    usable = np.flatnonzero(masses > masses[largest] - _LEFT_OUT)
    places = [*map(int, usable), *[largest] * len(_WIDER)]
    variances = np.array([*np.ones(len(usable)), *_WIDER])
    mixture = Mixture.at_modes(
        engine.prior,
        modes[places],
        precision[places] / variances[:, None, None],
        masses[places] - masses[largest] - np.log(variances),
        phase,
    )
    wanted = own.error if error is None else error
    weighed = _rounds(engine, tokens, mixture, rng, own, wanted, found.log_marginal, is_late)
    exact = method == "exact"
    off = np.abs(modes - best)
    if phase >= 0:
        off[:, phase] = np.abs(off[:, phase] - TURN * np.rint(off[:, phase] / TURN))
    shown = int(np.argmin(off.sum(axis=1)))
    return dataclasses.replace(
        weighed,
        log_marginal=found.log_marginal if exact else weighed.log_marginal,
        error=0.0 if exact else weighed.error,
        method="exact" if exact else "importance sampling",
        mode=best,
        curvature=inverse(precision[shown]),
    )


def _phase(engine: Engine, tokens: np.ndarray, mode: np.ndarray) -> int:
    """The place of a constant that may be moved by whole turns and nothing changes, or -1."""
    for place in range(len(mode)):
        moved = np.tile(mode, (len(_TRIED_TURNS), 1))
        moved[:, place] += TURN * np.array(_TRIED_TURNS)
        if all(_is_same_peak(engine, tokens, mode, other) for other in moved):
            return place
    return -1


def _without_turns(
    engine: Engine, phase: int, modes: np.ndarray, precision: np.ndarray, masses: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of modes that are whole turns apart one, within half a turn of zero, with the mass of all:
    the same peak, each time with another prior."""
    turned = modes.copy()
    turned[:, phase] -= TURN * np.rint(modes[:, phase] / TURN)
    log_prior = np.asarray(engine.prior.log_prob(np, modes[:, phase]))
    # One turn's mass, less its prior's share, is that of the peak.
    peaks = masses - log_prior + _log_prior_of_all_turns(engine, turned[:, phase])
    kept: list[int] = []
    for number in np.argsort(-peaks, kind="stable"):
        apart = [np.abs(turned[number] - turned[other]).max() for other in kept]
        if not apart or min(apart) > _SAME_PHASE * TURN:
            kept.append(int(number))
    return turned[kept], precision[kept], peaks[kept]


def _log_prior_of_all_turns(engine: Engine, phases: np.ndarray) -> np.ndarray:
    log_prior = np.asarray(engine.prior.log_prob(np, phases))
    turns = log_prior_of_turns(engine.prior, phases)
    found: np.ndarray = log_prior - turns[:, turns.shape[1] // 2]
    return found


def _is_same_peak(engine: Engine, tokens: np.ndarray, one: np.ndarray, two: np.ndarray) -> bool:
    """Whether the likelihood is the same at two sets of constants."""
    misfits, _ = residuals_of(engine, tokens, np.stack([one, two]), with_residuals=False)
    first, second = misfits
    return bool(abs(first - second) < 1e-6 * (1.0 + abs(first)))


def _rounds(
    engine: Engine,
    tokens: np.ndarray,
    mixture: Mixture,
    rng: np.random.Generator,
    settings: WeighingSettings,
    error: float,
    expected: float,
    is_late: Callable[[], bool],
) -> Weighed:
    """Draw, weigh, adapt the mixture to what was drawn, and draw more until it suffices. `expected`
    is Laplace's approximation."""
    first = settings.rounds[0]
    most = max(first, settings.most_values // engine.leaves.shape[1])
    latest: Weighed | None = None
    for size in settings.rounds:
        if latest is not None and (size > most or is_late()):
            break
        constants = mixture.sample(size, rng)
        densities = _densities(
            engine, tokens, mixture, constants, _never if latest is None else is_late
        )
        if densities is None:
            break
        log_q, log_p = densities
        with np.errstate(invalid="ignore"):
            ratios = np.where(np.isfinite(log_q), log_p - log_q, -np.inf)
        total = float(logsumexp(ratios))
        if not math.isfinite(total):
            continue
        weights = np.exp(ratios - total)
        value = total - math.log(size)
        relative = math.sqrt(max(0.0, size * float((weights**2).sum()) - 1.0) / size)
        if latest is not None:
            # Where rounds disagree beyond what they say of themselves, one of them was mistaken.
            relative = max(relative, 0.5 * (abs(value - latest.log_marginal) - 2.0 * latest.error))
        # The later round is to be believed, be its error larger: then it met what the earlier one
        # missed. So the first, with the fewest draws from the prior, is the last only where little
        # is asked for and Laplace's approximation says the same.
        latest = Weighed(
            log_marginal=value,
            error=relative,
            method="importance sampling",
            mode=np.empty(0),
            curvature=np.empty((0, 0)),
            constants=constants,
            log_weights=ratios - total,
            log_q=log_q,
        )
        is_borne_out = error >= _EASY and abs(value - expected) < _ALIKE
        if latest.error < error and (size > first or is_borne_out):
            break
        mixture = _adapted(mixture, constants, weights, settings, is_late)
    return _without_constants(-math.inf, "undefined") if latest is None else latest


def _never() -> bool:
    return False


def _densities(
    engine: Engine,
    tokens: np.ndarray,
    mixture: Mixture,
    constants: np.ndarray,
    is_late: Callable[[], bool],
) -> tuple[np.ndarray, np.ndarray] | None:
    """log q and log p(y, constants | tree) at draws, part by part; None if it grows late."""
    log_q, log_p = np.empty(len(constants)), np.empty(len(constants))
    size = min(_DRAWS_AT_ONCE, max(1, _VALUES_AT_ONCE // engine.leaves.shape[1]))
    for start in range(0, len(constants), size):
        if is_late():
            return None
        part = slice(start, start + size)
        with np.errstate(all="ignore"):  # far out a density is zero
            parts, _ = mixture.log_parts(constants[part])
        log_q[part] = logsumexp(parts, axis=0)
        log_p[part] = log_joint_of(engine, tokens, constants[part])
    return log_q, log_p


def _adapted(
    mixture: Mixture,
    constants: np.ndarray,
    weights: np.ndarray,
    settings: WeighingSettings,
    is_late: Callable[[], bool],
) -> Mixture:
    """One step of EM hardly moves the components along a bent ridge; a few do. Draws come in the
    order of the components, so that evenly spaced ones are a fair choice of them. Once it is late
    no further step is made: there is no further round to draw for."""
    stride = -(-len(constants) // settings.most_adapted)
    kept = weights[::stride]
    if not kept.sum() > 0.0:
        return mixture
    with np.errstate(all="ignore"):
        for _ in range(settings.adaptations):
            if is_late():
                break
            parts, distances = mixture.log_parts(constants[::stride])
            mixture = mixture.adapted(constants[::stride], kept / kept.sum(), parts, distances)
    return mixture


def residuals_of(
    engine: Engine, tokens: np.ndarray, constants: np.ndarray, *, with_residuals: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Of one tree at rows of constants (draws, constants): how far each is from a perfect fit, in
    nats (draws,), and its residuals in units of their scales (draws, points), NaN where the tree is
    undefined."""
    points = engine.leaves.shape[1]
    tokens, constants = np.array(tokens, dtype=np.int8), np.array(constants, dtype=np.float64)
    misfits = np.empty(len(constants))
    residuals = np.empty((len(constants) if with_residuals else 0, points))

    def make_run() -> Callable[[slice], None]:
        work = make_work(len(tokens), constants.shape[1], points)
        fit = make_fit(constants.shape[1], points)
        return lambda part: laplace.misfits_many(
            engine.apply, tokens, engine.language, engine.leaves, constants[part], engine.law, work,
            fit, misfits[part], residuals[part],
        )  # fmt: skip

    at_once = max(1, _VALUES_A_TASK // points)
    tasks = [slice(at, at + at_once) for at in range(0, len(constants), at_once)]
    for_each(make_run, tasks, engine.num_threads)
    return misfits, residuals


def log_joint_of(engine: Engine, tokens: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """log p(y, constants | tree) at rows of constants, the noise integrated out where it is
    inferred; -inf where the tree is undefined."""
    misfits, _ = residuals_of(engine, tokens, constants, with_residuals=False)
    with np.errstate(all="ignore"):
        prior = np.asarray(engine.prior.log_prob(np, constants)).sum(axis=1)
    total: np.ndarray = engine.law.perfect - misfits + np.where(np.isfinite(prior), prior, -np.inf)
    return total


def noise_draws(
    engine: Engine, tokens: np.ndarray, constants: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The factor s of the noise, one draw for each row of constants; ones where it is given. It is
    NaN where the tree is undefined."""
    if not engine.likelihood.is_inferred:
        return np.ones(len(constants))
    drawn = np.full(len(constants), np.nan)
    at_once = max(1, _MOST_VALUES // engine.leaves.shape[1])
    for start in range(0, len(constants), at_once):
        _, residuals = residuals_of(engine, tokens, constants[start : start + at_once])
        defined = np.flatnonzero(np.isfinite(residuals).all(axis=1))
        drawn[start + defined] = engine.likelihood.scale_draws(rng, residuals[defined])
    return drawn


def _without_constants(value: float, method: str) -> Weighed:
    return Weighed(
        log_marginal=value,
        error=0.0,
        method=method,
        mode=np.zeros(0),
        curvature=np.zeros((0, 0)),
        constants=np.zeros((1, 0)),
        log_weights=np.zeros(1),
        log_q=np.zeros(1),
    )

"""A heavy-tailed mixture to draw a tree's constants from, for importance sampling.

Its components are Student t distributions at the modes, of the constants and of their logarithms;
the same with one constant drawn from the prior instead, which finds what repeats itself far from a
mode; and the prior itself, so that no weight can be large. Where a constant is a phase, the modes
that are whole turns apart are one component: a t about one of them, moved by a number of turns that
is drawn in proportion to the prior there.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import gammaln, logsumexp

from dvisr.constants import AbstractConstantPrior, Decades

FREEDOM = 5.0
_NONE = -1  # no constant is drawn from the prior
_ALL = -2  # all are
_LEAST = 0.1  # what the prior's components share at the least
_SUPPORT = 20.0  # effective draws below which a component is left as it is
_MOST_VARIED = 16  # modes, heaviest first, with components besides the plain one
TURN = 2.0 * math.pi
_MOST_TURNS = 30_000  # either way: `Decades` has 0.4 % of its phases beyond
_FAR = 14.0  # nats: the prior's mass beyond which no turns are reckoned with


def near_zero(prior: AbstractConstantPrior) -> float:
    """The unit of asinh(c / unit). A ridge c * c = const is straight in these where constants are
    larger; below there must be next to nothing of the posterior."""
    return 0.02 * prior.low if isinstance(prior, Decades) else 1e-5 * prior.scale


@dataclasses.dataclass(frozen=True)
class Mixture:
    """`redrawn` is the place of the constant that a component draws from the prior. A component
    `in_logs` is a t of asinh(c / unit): constants whose product alone the data know lie along a
    line there, and along a hyperbola as they are."""

    prior: AbstractConstantPrior
    unit: float
    shares: np.ndarray  # (components,), summing to 1
    means: np.ndarray  # (components, constants)
    scales: np.ndarray  # (components, constants, constants)
    redrawn: np.ndarray  # (components,)
    in_logs: np.ndarray  # (components,)
    least: np.ndarray  # (components,): shares below which none is adapted
    phase: int = _NONE  # the place of a constant that may be moved by whole turns
    log_turns: np.ndarray | None = None  # (components, turns): of each number of turns, the log
    # probability; -inf but for 0 in components that are not moved

    @classmethod
    def at_modes(
        cls,
        prior: AbstractConstantPrior,
        modes: np.ndarray,
        precisions: np.ndarray,
        log_masses: np.ndarray,
        phase: int = _NONE,
    ) -> Mixture:
        """With a phase, modes are one of those that are whole turns apart, and masses are of them
        all."""
        count, k = modes.shape
        unit = near_zero(prior)
        shares = np.exp(log_masses - logsumexp(log_masses))
        plain = np.array([inverse(precision) for precision in precisions])
        stretch = np.sqrt(modes**2 + unit**2)
        in_logs = np.array(
            [inverse(p * np.outer(d, d)) for p, d in zip(precisions, stretch, strict=True)]
        )
        logs = np.arcsinh(modes / unit)
        none = np.full(count, _NONE)
        most = np.argsort(-log_masses, kind="stable")[:_MOST_VARIED]  # a sine has hundreds of modes
        few = shares[most] / shares[most].sum()
        parts = [
            (shares, modes, plain, none, False),
            (0.5 * few, logs[most], in_logs[most], none[most], True),
        ]
        if k > 1:
            for place in range(k):
                places = np.full(len(most), place)
                parts.append((0.25 / k * few, modes[most], plain[most], places, False))
        else:
            parts.append((0.15 * few, modes[most], 9.0 * plain[most], none[most], False))
        together = np.concatenate([*(part[0] for part in parts), [0.1]])
        together = np.maximum(together, 1e-6)
        redrawn = np.concatenate([*(part[3] for part in parts), [_ALL]])
        # What looks for modes that are not known yet goes on looking, whatever it found so far.
        least = np.where(redrawn != _NONE, together, 0.0)
        means = np.concatenate([*(part[1] for part in parts), np.zeros((1, k))])
        log_turns = None
        if phase != _NONE:
            moved = log_prior_of_turns(prior, modes[:, phase])
            log_turns = np.full((len(together), moved.shape[1]), -np.inf)
            log_turns[:, moved.shape[1] // 2] = 0.0
            log_turns[:count] = moved
        return cls(
            prior,
            unit,
            together / together.sum(),
            means,
            np.concatenate([*(part[2] for part in parts), np.eye(k)[None]]),
            redrawn,
            np.concatenate([*(np.full(len(part[0]), part[4]) for part in parts), [False]]),
            np.maximum(_LEAST * least / least.sum(), 1e-3 / len(least)),
            phase,
            log_turns,
        )

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws, allotted to the components in proportion as evenly as can be."""
        edges = np.cumsum(self.shares) * count + rng.uniform()
        edges[-1] = count + 1.0
        numbers = np.diff(np.minimum(np.floor(edges), count), prepend=0.0).astype(int)
        k = self.means.shape[1]
        parts = []
        for component, number in enumerate(numbers):
            if number <= 0:
                continue
            if self.redrawn[component] == _ALL:
                parts.append(self.prior.sample(rng, (number, k)))
                continue
            factor = np.linalg.cholesky(self.scales[component])
            normal = rng.standard_normal((number, k)) @ factor.T
            chi = rng.chisquare(FREEDOM, (number, 1))
            drawn = self.means[component] + normal * np.sqrt(FREEDOM / chi)
            if self.in_logs[component]:
                drawn = self.unit * np.sinh(np.clip(drawn, -600.0, 600.0))
            if self._is_moved(component):
                drawn[:, self.phase] += TURN * self._drawn_turns(component, number, rng)
            place = self.redrawn[component]
            if place >= 0:
                drawn[:, place] = self.prior.sample(rng, (number,))
            parts.append(drawn)
        return np.concatenate(parts)

    def _is_moved(self, component: int) -> bool:
        """Whether it is a t about one of many modes that are whole turns apart."""
        if self.log_turns is None:
            return False
        return bool(np.isfinite(self.log_turns[component, 0]))

    def _drawn_turns(self, component: int, count: int, rng: np.random.Generator) -> np.ndarray:
        assert self.log_turns is not None
        cumulative = np.cumsum(np.exp(self.log_turns[component]))
        places = np.searchsorted(cumulative, rng.uniform(0.0, cumulative[-1], count))
        turns: np.ndarray = np.minimum(places, len(cumulative) - 1) - self._most_turns
        return turns

    @property
    def _most_turns(self) -> int:
        assert self.log_turns is not None
        return int(self.log_turns.shape[1] // 2)

    def _turns_to(self, component: int, constants: np.ndarray) -> np.ndarray:
        """Of each draw: the turns from the component's mean to it, to the nearest."""
        off = constants[:, self.phase] - self.means[component, self.phase]
        with np.errstate(invalid="ignore"):
            turns: np.ndarray = np.clip(np.rint(off / TURN), -self._most_turns, self._most_turns)
        return turns

    def _seen(self, component: int, constants: np.ndarray) -> np.ndarray:
        if self._is_moved(component):
            moved = constants.copy()
            moved[:, self.phase] -= TURN * self._turns_to(component, constants)
            return moved
        return np.arcsinh(constants / self.unit) if self.in_logs[component] else constants

    def log_parts(self, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each component its log share plus log density, and its squared distances."""
        count, k = constants.shape
        with np.errstate(all="ignore"):  # far out a density is zero
            of_prior = np.asarray(self.prior.log_prob(np, constants))
        stretch = -np.log(np.hypot(constants, self.unit)).sum(axis=1)
        parts = np.empty((len(self.shares), count))
        distances = np.zeros((len(self.shares), count))
        for component, share in enumerate(self.shares):
            place = self.redrawn[component]
            if place == _ALL:
                parts[component] = math.log(share) + of_prior.sum(axis=1)
                continue
            kept = [j for j in range(k) if j != place]
            parts[component] = math.log(share)
            if place >= 0:
                parts[component] += of_prior[:, place]
            if self.in_logs[component]:
                parts[component] += stretch
            if kept:
                centred = self._seen(component, constants)[:, kept] - self.means[component, kept]
                scale = self.scales[component][np.ix_(kept, kept)]
                density, distances[component] = _log_t(centred, scale)
                if self._is_moved(component):
                    density = self._with_turns(component, constants, centred, density)
                parts[component] += density
        return parts, distances

    def _with_turns(
        self, component: int, constants: np.ndarray, centred: np.ndarray, density: np.ndarray
    ) -> np.ndarray:
        """The log density with the number of turns summed over: the nearest, whose own is given,
        and those next to it, beyond which a t is nothing."""
        assert self.log_turns is not None
        turns = self._turns_to(component, constants).astype(np.int64) + self._most_turns
        log_turns, total = self.log_turns[component], []
        for further in (-1, 0, 1):
            inside = np.clip(turns + further, 0, len(log_turns) - 1)
            moved = density
            if further:
                shifted = centred.copy()
                shifted[:, self.phase] -= TURN * further
                moved = _log_t(shifted, self.scales[component])[0]
            there = turns + further == inside
            total.append(np.where(there, log_turns[inside] + moved, -np.inf))
        found: np.ndarray = logsumexp(total, axis=0)
        return found

    def adapted(
        self, constants: np.ndarray, weights: np.ndarray, parts: np.ndarray, distances: np.ndarray
    ) -> Mixture:
        """Closer to what the weights say (Cappé and others, 2008): an EM step on weighted draws."""
        k = constants.shape[1]
        belongs = np.exp(parts - logsumexp(parts, axis=0)) * weights
        shares = belongs.sum(axis=1)
        means, scales = self.means.copy(), self.scales.copy()
        for component in map(int, np.flatnonzero(self.redrawn == _NONE)):
            own = belongs[component]
            if not own.sum() ** 2 > _SUPPORT * k * (own**2).sum():
                continue
            seen = self._seen(component, constants)
            pull = own * (FREEDOM + k) / (FREEDOM + distances[component])
            mean = pull @ seen / pull.sum()
            centred = seen - mean
            scale = (pull[:, None] * centred).T @ centred / own.sum()
            if _is_usable(scale):
                means[component], scales[component] = mean, scale
        shares = np.maximum(shares, self.least)
        return dataclasses.replace(self, shares=shares / shares.sum(), means=means, scales=scales)


def log_prior_of_turns(prior: AbstractConstantPrior, phases: np.ndarray) -> np.ndarray:
    """(phases, turns): the log of the prior's density so many turns from each, normalised. As many
    turns one way as the other: none is in the middle."""
    most = min(_MOST_TURNS, 1 + math.ceil((abs(prior.centre) + prior.radius(_FAR)) / TURN))
    turns = TURN * np.arange(-most, most + 1)
    log_prior = np.asarray(prior.log_prob(np, phases[:, None] + turns))
    found: np.ndarray = log_prior - logsumexp(log_prior, axis=1, keepdims=True)
    return found


def inverse(precision: np.ndarray) -> np.ndarray:
    """By way of correlations: constants may be many decades apart."""
    size = np.sqrt(np.maximum(np.diag(precision), 1e-300))
    values, vectors = np.linalg.eigh(precision / np.outer(size, size))
    # A direction that is hardly bounded at all is bounded here, for a proposal to be of use.
    values = np.maximum(values, 1e-12)
    found = (vectors / values) @ vectors.T / np.outer(size, size)
    symmetric: np.ndarray = 0.5 * (found + found.T)
    return symmetric


def _is_usable(scale: np.ndarray) -> bool:
    if not np.isfinite(scale).all():
        return False
    spread = np.sqrt(np.diag(scale))
    if not (spread > 0.0).all():
        return False
    return bool(np.linalg.eigvalsh(scale / np.outer(spread, spread)).min() > 1e-10)


def _log_t(centred: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = centred.shape[1]
    factor = np.linalg.cholesky(scale)
    whitened = centred @ np.linalg.inv(factor).T  # of a triangle of a few rows
    distances = np.einsum("dk,dk->d", whitened, whitened)
    constant = float(gammaln(0.5 * (FREEDOM + k)) - gammaln(0.5 * FREEDOM))
    constant -= 0.5 * k * math.log(FREEDOM * math.pi) + float(np.log(np.diag(factor)).sum())
    return constant - 0.5 * (FREEDOM + k) * np.log1p(distances / FREEDOM), distances

"""A heavy-tailed mixture to draw a tree's constants from, for importance sampling.

Its components are Student t distributions at the modes, of the constants and of their logarithms;
the same with one constant drawn from the prior instead, which finds what repeats itself far from a
mode, such as the phases of a sine; and the prior itself, so that no weight can be large.
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

    @classmethod
    def at_modes(
        cls,
        prior: AbstractConstantPrior,
        modes: np.ndarray,
        precisions: np.ndarray,
        log_masses: np.ndarray,
    ) -> Mixture:
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
        parts = [(shares, modes, plain, none, False), (0.5 * shares, logs, in_logs, none, True)]
        if k > 1:
            for place in range(k):
                places = np.full(count, place)
                parts.append((0.25 / k * shares, modes, plain, places, False))
        else:
            parts.append((0.15 * shares, modes, 9.0 * plain, none, False))
        together = np.concatenate([*(part[0] for part in parts), [0.1]])
        together = np.maximum(together, 1e-6)
        redrawn = np.concatenate([*(part[3] for part in parts), [_ALL]])
        # What looks for modes that are not known yet goes on looking, whatever it found so far.
        least = np.where(redrawn != _NONE, together, 0.0)
        return cls(
            prior,
            unit,
            together / together.sum(),
            np.concatenate([*(part[1] for part in parts), np.zeros((1, k))]),
            np.concatenate([*(part[2] for part in parts), np.eye(k)[None]]),
            redrawn,
            np.concatenate([*(np.full(count, part[4]) for part in parts), [False]]),
            np.maximum(_LEAST * least / least.sum(), 1e-3 / len(least)),
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
            place = self.redrawn[component]
            if place >= 0:
                drawn[:, place] = self.prior.sample(rng, (number,))
            parts.append(drawn)
        return np.concatenate(parts)

    def _seen(self, component: int, constants: np.ndarray) -> np.ndarray:
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
                parts[component] += density
        return parts, distances

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
    whitened = np.linalg.solve(factor, centred.T)
    distances = (whitened * whitened).sum(axis=0)
    constant = float(gammaln(0.5 * (FREEDOM + k)) - gammaln(0.5 * FREEDOM))
    constant -= 0.5 * k * math.log(FREEDOM * math.pi) + float(np.log(np.diag(factor)).sum())
    return constant - 0.5 * (FREEDOM + k) * np.log1p(distances / FREEDOM), distances

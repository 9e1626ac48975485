"""`Weighed`: what is known of one tree's constants, as weighted draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import logsumexp


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
    pareto_k_of_all: float | None = None  # of the weights, where draws were left out since

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

    def thinned(self, most: int, rng: np.random.Generator) -> Weighed:
        """With at most so many draws, by the method of Fearnhead and Clifford (2003): those that
        weigh more than a bar are kept as they are, and of the others each with a chance that is its
        weight over the bar, with the bar as its weight. No average is biased by it."""
        if len(self.log_weights) <= most:
            return self
        weights = self.weights / self.weights.sum()
        if (weights > 0.0).sum() <= most:
            return self._only(np.flatnonzero(weights > 0.0), self.log_weights)
        falling = np.sort(weights)[::-1]
        left = np.cumsum(falling[::-1])[::-1]  # of the weight, from each place on
        room = most - np.arange(most)
        heavy = int(np.argmax(falling[:most] * room <= left[:most]))  # so many are kept as they are
        bar = left[heavy] / room[heavy]
        chances = np.minimum(weights / bar, 1.0)
        points = np.cumsum(chances) + rng.uniform()
        kept = np.flatnonzero(np.floor(points) > np.floor(points - chances))
        return self._only(kept, np.log(np.maximum(weights, bar)))

    def _only(self, kept: np.ndarray, log_weights: np.ndarray) -> Weighed:
        return dataclasses.replace(
            self,
            constants=self.constants[kept],
            log_weights=log_weights[kept] - logsumexp(log_weights[kept]),
            log_q=self.log_q[kept],
        )

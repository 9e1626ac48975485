"""Which trees to make neighbours of: good ones, at several temperatures, and the best of each size.

A temperature is chosen so that so many forms share the weight, not by its own number: what is hot
for twenty points is freezing for a thousand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from dvisr.search.visited import ALL_ISLANDS, VisitedTrees
from dvisr.settings import SearchSettings


def temper(log_joint: np.ndarray, effective: float) -> np.ndarray:
    """Shares of a softmax at the lowest temperature at which that many have the weight (by the
    sum of squares); not below a temperature of 1."""
    count = int(np.isfinite(log_joint).sum())
    if count == 0:
        return np.zeros(len(log_joint))

    def shares(cold: float) -> np.ndarray:
        powers = np.exp(cold * (log_joint - log_joint.max()))
        found: np.ndarray = powers / powers.sum()
        return found

    if 1.0 / (shares(1.0) ** 2).sum() >= min(effective, 0.9 * count):
        return shares(1.0)
    low, high = -14.0, 0.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if 1.0 / (shares(np.exp(middle)) ** 2).sum() >= min(effective, 0.9 * count):
            low = middle
        else:
            high = middle
    return shares(np.exp(low))


class Parents:
    """Draws parents for one island from what that island has seen."""

    def __init__(
        self, visited: VisitedTrees, island: int, settings: SearchSettings | None = None
    ) -> None:
        self._settings = SearchSettings() if settings is None else settings
        joint = np.where(visited.forms_of_island(island), visited.form_joint_estimate, -np.inf)
        count = min(self._settings.most_parents, len(joint))
        foremost = np.argpartition(-joint, count - 1)[:count]
        foremost = foremost[np.isfinite(joint[foremost])]
        self.trees = visited.form_tree[foremost]
        self._log_joint = joint[foremost]
        self._of_size = self._best_by_size(visited, foremost)

    def _best_by_size(self, visited: VisitedTrees, foremost: np.ndarray) -> list[np.ndarray]:
        """Places of the best of each size, judged by the likelihood: the prior is the same for all
        of a size, or nearly."""
        sizes = (self.trees >= 0).sum(axis=1)
        fit = visited.form_estimate[foremost]
        found = []
        for size in np.unique(sizes):
            own = np.flatnonzero(sizes == size)
            found.append(own[np.argsort(-fit[own], kind="stable")[: self._settings.best_of_size]])
        return found

    def draw(self, count: int, rng: np.random.Generator, heat: float = 1.0) -> np.ndarray:
        """Parents; with more heat more forms share the weight."""
        if len(self.trees) == 0:
            return self.trees
        best = np.concatenate([places[:3] for places in self._of_size])
        by_size = rng.choice(best, int(self._settings.of_best_sizes * count))
        rest = count - len(by_size)
        parts = [by_size]
        levels = self._settings.parent_levels
        for level, effective in enumerate(levels):
            share = rest * (level + 1) // len(levels) - rest * level // len(levels)
            shares = temper(self._log_joint, heat * effective)
            parts.append(rng.choice(len(self.trees), share, p=shares))
        drawn: np.ndarray = self.trees[np.concatenate(parts)]
        return drawn

    def ranking(self) -> Iterator[np.ndarray]:
        """Trees by promise: the likeliest and the best of each size in turn, each once."""
        order = np.argsort(-self._log_joint, kind="stable")
        deep = max((len(places) for places in self._of_size), default=0)
        by_size = [int(p[rank]) for rank in range(deep) for p in self._of_size if rank < len(p)]
        seen: set[int] = set()
        for one, other in itertools.zip_longest(order.tolist(), by_size):
            for place in (one, other):
                if place is not None and place not in seen:
                    seen.add(place)
                    yield self.trees[place]


def agreement(visited: VisitedTrees) -> float:
    """How far the islands agree: 1 less the total variation between their posteriors, each over
    the forms that the island came across by itself. What one has missed and the other has not
    shows here."""
    shares = []
    for island in ALL_ISLANDS:
        joint = np.where(visited.forms_of_island(island), visited.form_log_joint, -np.inf)
        if not np.isfinite(joint.max(initial=-np.inf)):
            return 0.0
        own = np.exp(joint - joint.max())
        shares.append(own / own.sum())
    return 1.0 - 0.5 * float(np.abs(shares[0] - shares[1]).sum())

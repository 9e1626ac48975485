"""Many rows: new trees race on parts of them, and those that may matter are weighed on all.

A part's rows stand for all rows (`dvisr.marginal.parts`), so that a log joint on a part estimates
that on all rows. Its error is common to all trees, but for what two trees differ by; that grows
with the rows that a row of the part stands for. So every tree is held against one that was weighed
on all rows, the likeliest so far, part by part: it goes on to the next part, with the constants
that it has by then, unless it is behind by more than the error may come to.

A tree is fitted on the smallest part. Since its rows are counted as all rows, the posterior of the
constants is as wide there as it will be: from then on only the likelihood at the best constants is
worked out anew. What comes near the likeliest tree on all rows is fitted there in full.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dvisr.marginal import Engine

_POINTS_AT_ONCE = 1_000_000  # trees times rows, between two looks at the clock
_NEAR = 9.0  # nats: one in eight thousand


@dataclasses.dataclass(frozen=True)
class Looks:
    """First looks at trees.

    Parameters
    ----------
    log_marginal : ndarray of shape (trees,)
        log p(y | tree) on all rows; -inf where that is undefined or was not worked out. Of what is
        far behind the likeliest, the likelihood alone may be of all rows.
    estimate : ndarray of shape (trees,)
        The same, or where it was not worked out an estimate, for the search to go by.
    """

    log_marginal: np.ndarray
    estimate: np.ndarray


class Race:
    """Fits trees on more and more rows.

    Parameters
    ----------
    engine : Engine
        Of all rows, with coarse ones of parts of them.
    num_starts : int
        Of the optimiser, on the smallest part.
    hopeless, hopeless_a_row : float
        Nats behind the likeliest tree from which on a tree is left: so many, and so many more for
        each row that a row of the part stands for.
    is_late : callable, optional
        Once it is late, trees stay at the part that they have come to, if one was ever weighed on
        all rows.
    """

    def __init__(
        self,
        engine: Engine,
        num_starts: int,
        hopeless: float,
        hopeless_a_row: float,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        parts, count = engine.levels[:-1], engine.likelihood.count
        self._levels = [*(part.standing_for(count) for part in parts), engine]
        self._num_starts, self._is_late = num_starts, is_late
        rows = len(engine.X)
        self._margins = [hopeless + hopeless_a_row * rows / len(e.X) for e in self._levels[:-1]]
        # Log joints of the likeliest tree so far, on each part and on all rows.
        self.reference = np.full(len(self._levels), -np.inf)
        self.num_fitted = np.zeros(len(self._levels), dtype=np.int64)  # trees, on each

    @property
    def num_rows(self) -> int:
        """On which all trees are fitted."""
        return len(self._levels[0].X)

    def look(self, trees: np.ndarray, log_prior: np.ndarray) -> Looks:
        """At trees (trees, length) whose log prior is given."""
        self.num_fitted[0] += len(trees)
        bars = self._bar(0) - log_prior
        fits = self._levels[0].fit(trees, self._num_starts, bars)
        joint = fits.log_marginal + log_prior
        whole, estimate = np.full(len(trees), -np.inf), np.full(len(trees), -np.inf)
        best = int(np.argmax(joint)) if len(joint) else 0
        first = np.zeros(len(trees), dtype=bool)
        # The best of them alone, lest there be nothing yet to hold the others against.
        first[best : best + 1] = joint[best : best + 1] > self.reference[0]
        for chosen in (first, ~first):
            places = np.flatnonzero(chosen)
            looks = self._climb(trees[places], log_prior[places], joint[places], fits.modes[places])
            whole[places], estimate[places] = looks.log_marginal, looks.estimate
        return Looks(whole, estimate)

    def _look_closely(
        self, trees: np.ndarray, log_prior: np.ndarray, joint: np.ndarray, modes: np.ndarray
    ) -> np.ndarray:
        """At those that come near the likeliest on all rows, in full: from the modes that they have
        come with, and from starts that are made with the rows of a part counted once each. Where
        a part stands for more rows than it has, its highest mode hides the others. A look may find
        less than was reckoned, and then others come near. Whether there was time for each."""
        whole, is_done = self._levels[-1], np.zeros(len(trees), dtype=bool)
        size = max(1, _POINTS_AT_ONCE // len(whole.X))
        while True:
            best = max(float(self.reference[-1]), float(joint.max(initial=-np.inf)))
            near = np.flatnonzero(~is_done & np.isfinite(joint) & (joint > best - _NEAR))
            is_late = np.isfinite(self.reference[-1]) and self._is_late()
            if len(near) == 0 or is_late:
                break
            part = near[np.argsort(-joint[near], kind="stable")][:size]
            fits = [whole.fit(trees[part], starts=modes[part])]
            fits.append(whole.fit(trees[part], self._num_starts))
            found = np.maximum(fits[0].log_marginal, fits[1].log_marginal)
            joint[part], is_done[part] = found + log_prior[part], True
        has_time = np.ones(len(trees), dtype=bool)
        has_time[near] = False
        return has_time

    def _bar(self, level: int) -> float:
        """The least log joint on a part with which a tree goes on from there."""
        return float(self.reference[level]) - self._margins[level]

    def _followed(
        self, level: int, trees: np.ndarray, modes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """From given modes: the log likelihoods and the modes there, of as many trees, from the
        first on, as there is time for."""
        engine, count = self._levels[level], 0
        log_likelihood, found = np.full(len(trees), -np.inf), np.full(modes.shape, np.nan)
        size = max(1, _POINTS_AT_ONCE // len(engine.X))
        while count < len(trees):
            if np.isfinite(self.reference[-1]) and self._is_late():
                break
            part = slice(count, min(count + size, len(trees)))
            there = engine.follow(trees[part], modes[part])
            log_likelihood[part], found[part] = there.log_likelihood, there.modes
            count = part.stop
        return log_likelihood[:count], found[:count]

    def _climb(
        self, trees: np.ndarray, log_prior: np.ndarray, joint: np.ndarray, modes: np.ndarray
    ) -> Looks:
        """From their log joints and modes on the smallest part."""
        joints = np.full((len(self._levels), len(trees)), -np.inf)
        reached = np.zeros(len(trees), dtype=np.int64)
        joints[0] = joint
        last = len(self._levels) - 1
        alive = np.flatnonzero(np.isfinite(joint) & (joint > self._bar(0)))
        modes = modes[alive]
        # All of the log joint but the likelihood: the priors, and how wide the posterior is.
        rest = joint[alive] - self._levels[0].follow(trees[alive], modes).log_likelihood
        is_known = np.isfinite(rest)
        alive, rest, modes = alive[is_known], rest[is_known], modes[is_known]
        for level in range(1, last + 1):
            log_likelihood, modes = self._followed(level, trees[alive], modes)
            alive, rest = alive[: len(modes)], rest[: len(modes)]
            self.num_fitted[level] += len(alive)
            joints[level, alive] = rest + log_likelihood
            reached[alive] = level
            if level < last:
                goes_on = np.isfinite(joints[level, alive])
                goes_on &= joints[level, alive] > self._bar(level)
                alive, rest, modes = alive[goes_on], rest[goes_on], modes[goes_on]
        whole = joints[last, alive]
        has_time = self._look_closely(trees[alive], log_prior[alive], whole, modes)
        joints[last, alive] = whole
        is_whole = reached == last
        is_whole[alive[~has_time]] = False
        if is_whole.any():
            best = int(np.argmax(np.where(is_whole, joints[last], -np.inf)))
            if joints[last, best] > self.reference[last]:
                self.reference = joints[:, best].copy()
        known = joints[reached, np.arange(len(trees))]
        with np.errstate(invalid="ignore"):
            ahead = known - self.reference[reached]
        estimate = np.where(is_whole, known, self.reference[last] + ahead) - log_prior
        estimate = np.where(np.isnan(estimate), -np.inf, estimate)
        return Looks(np.where(is_whole, estimate, -np.inf), estimate)

"""Trees with a function in them that has a constant inside: sin(c x), exp(c x), 1 / (x + c), x^c.

If y = C(g), then C undone on y says what g must be. A table of functions (`search.matching`) has no
constants, and what is fitted to a hole in closed form is a factor and an offset alone. Here the
likeliest functions of one constant that is neither are worked out at values of it so near each
other that g is seldom missed between two; from the nearest, one step along the slope by the
constant tells how near g would come. What is written has a constant in that place, and the fit
finds its value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dvisr.constraints import CountRule, Grammar
from dvisr.library.threads import for_each
from dvisr.problem import Problem
from dvisr.search.forms import Algebra
from dvisr.search.inner_functions import APART, inner_functions
from dvisr.search.inner_scoring import nearest_entries
from dvisr.search.legality import Legality
from dvisr.search.matching import COSTS, FACTOR, OFFSET, Contexts, Matching

_FURTHEST = 1.5  # times the angle above: as far as a step along the slope is believed
_CONSTANT = -5.0  # nats that the constant inside costs, at a guess
_CONTEXTS_AT_ONCE = 64
_NEAR = 5  # times as many functions as are kept are looked at again after a step
_COUNTS = np.array([0, 1, 1, 2])  # of constants, by kind: of a factor, of an offset


class InnerConstants:
    """Fills holes with functions of one constant.

    Parameters
    ----------
    problem : Problem
    matching : Matching
        The rows that are compared, and how a factor and an offset are written.
    algebra : Algebra
    most : int
        Functions that are tried: the likeliest before the data.
    """

    def __init__(self, problem: Problem, matching: Matching, algebra: Algebra, most: int) -> None:
        self._problem, self._matching = problem, matching
        self._legality = Legality(problem.grammar)
        self._functions = inner_functions(problem, matching.X, algebra, most)
        self._most_constants = _most_constants(problem.grammar)
        wrapped = [(0, 0) if w is None else (len(w[0]), len(w[1])) for w in matching.wrapped]
        self._around = np.array([before + after for before, after in wrapped])

    def filled(
        self,
        contexts: Contexts,
        most: int,
        num_threads: int = 1,
        is_late: Callable[[], bool] = lambda: False,
        a_context: int = 3,
    ) -> np.ndarray:
        """The best, at most so many, with so many functions for a context. Once it is late the
        other contexts are left."""
        return self._filled(contexts, most, num_threads, is_late, a_context, self._costs)

    def alone(
        self, contexts: Contexts, most: int, is_late: Callable[[], bool] = lambda: False
    ) -> np.ndarray:
        """The best, at most so many, each with a factor and an offset and nothing around it: places
        for others, whatever each is worth by itself."""
        costs, both = self._costs, FACTOR | OFFSET
        if np.isfinite(costs[both]):  # else as far as it can be said
            costs = np.where(np.arange(len(COSTS)) == both, costs, -np.inf)
        return self._filled(contexts.of_nothing(), most, 1, is_late, most, costs)

    def _filled(
        self,
        contexts: Contexts,
        most: int,
        num_threads: int,
        is_late: Callable[[], bool],
        a_context: int,
        costs: np.ndarray,
    ) -> np.ndarray:
        count = len(contexts.tokens)
        if not count or not len(self._functions.number):
            return np.zeros((0, self._problem.grammar.max_tokens), dtype=np.int8)
        num_functions = len(self._functions.trees)
        best = min(a_context, num_functions)
        entries = np.zeros((count, best), dtype=np.int64)
        kinds = np.zeros((count, best), dtype=np.int64)
        scores = np.full((count, best), -np.inf)

        def run(part: slice) -> None:
            if not is_late():
                near = self._nearest(contexts, part, min(_NEAR * best, num_functions), costs)
                kind, score = self._scores(contexts, part, near, costs)
                order = np.argsort(-score, axis=1, kind="stable")[:, :best]
                entries[part], kinds[part], scores[part] = (
                    np.take_along_axis(found, order, axis=1) for found in (near, kind, score)
                )

        parts = [slice(n, n + _CONTEXTS_AT_ONCE) for n in range(0, count, _CONTEXTS_AT_ONCE)]
        for_each(lambda: run, parts, num_threads)
        order = np.argsort(-scores, axis=None, kind="stable")
        order = order[np.isfinite(scores.ravel()[order])][:most]
        return self._written(contexts, order // best, entries.ravel()[order], kinds.ravel()[order])

    def _nearest(
        self, contexts: Contexts, part: slice, count: int, costs: np.ndarray
    ) -> np.ndarray:
        """For each context the entries of the nearest functions, so many and each function once,
        with a factor, and an offset where there is room for one; as they are, before a step."""
        own, half = self._functions, self._matching.half
        targets, weights = contexts.targets[part], contexts.weights[part]
        # The order is that of cost + log prior - half * log(left).
        offset = float(np.exp((COSTS[FACTOR] - COSTS[FACTOR | OFFSET]) / half))
        has_offset = self._constants_around(contexts.tokens[part]) + 3 <= self._most_constants
        has_offset &= bool(np.isfinite(costs[FACTOR | OFFSET]))
        found = np.zeros((len(targets), count), dtype=np.int64)
        with np.errstate(all="ignore"):
            total = weights.sum(axis=1)
            nearest_entries(
                np.ascontiguousarray(targets), weights / total[:, None], own.by_row, own.starts,
                np.exp(-own.log_prior[own.starts[:-1]] / half), has_offset, offset,
                self._matching.floor / total, found,
            )  # fmt: skip
        return found

    def _scores(
        self, contexts: Contexts, part: slice, entries: np.ndarray, costs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of each entry the best kind, and its score: that of the log joint, about, after a step
        along the slope by the constant."""
        own = self._functions
        targets, weights = contexts.targets[part][:, None, :], contexts.weights[part][:, None, :]
        values, slopes = own.values[entries], own.slopes[entries]
        with np.errstate(all="ignore"):
            left = np.stack(
                [_left(kind, targets, weights, values, slopes) for kind in range(len(COSTS))]
            )
            scores = costs[:, None, None] - self._matching.half * np.log(
                left + self._matching.floor
            )
        has_room = self._has_room(contexts.tokens[part], entries)
        scores = np.where(np.isfinite(scores) & has_room, scores, -np.inf)
        kinds = scores.argmax(axis=0)
        best = np.take_along_axis(scores, kinds[None], axis=0)[0]
        return kinds, best + own.log_prior[entries] + contexts.log_prior[part][:, None]

    def _has_room(
        self, around: list[tuple[np.ndarray, np.ndarray]], entries: np.ndarray
    ) -> np.ndarray:
        """(kinds, contexts, entries): whether the tree is no longer than it may be, and has no more
        constants."""
        own, constants = self._functions, self._constants_around(around)
        tokens = np.array([len(a) + len(b) for a, b in around])[:, None]
        sizes = own.sizes[own.number[entries]] + tokens + self._around[:, None, None]
        # A constant inside, and one for a factor and an offset each.
        count = constants[:, None] + 1 + _COUNTS[:, None, None]
        is_short = sizes <= self._problem.grammar.max_tokens
        return np.asarray(is_short & (count <= self._most_constants))

    def _constants_around(self, around: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        constant = self._problem.grammar.library.constant_id
        return np.array([(a == constant).sum() + (b == constant).sum() for a, b in around])

    @property
    def _costs(self) -> np.ndarray:
        """Of each kind, with the constant inside; -inf of one that can't be written."""
        wrapped = self._matching.wrapped
        costs = [cost if w is not None else -np.inf for cost, w in zip(COSTS, wrapped, strict=True)]
        return np.array(costs) + _CONSTANT

    def _written(
        self, contexts: Contexts, places: np.ndarray, entries: np.ndarray, kinds: np.ndarray
    ) -> np.ndarray:
        rows = np.full((len(places), self._problem.grammar.max_tokens), -1, dtype=np.int8)
        for row, place, entry, kind in zip(rows, places, entries, kinds, strict=True):
            before, after = contexts.tokens[place]
            wrapped = self._matching.wrapped[kind]
            assert wrapped is not None  # its score would be none
            function = self._functions.trees[self._functions.number[entry]]
            made = [*before, *wrapped[0], *function, *wrapped[1], *after]
            row[: len(made)] = made
        return np.asarray(rows[self._legality(rows)])


def _left(
    kind: int, targets: np.ndarray, weights: np.ndarray, values: np.ndarray, slopes: np.ndarray
) -> np.ndarray:
    """The squares that are left of the targets by values, as they are or with a factor, an offset
    or both, moved by a step along their slopes. Rows are on the last axis."""

    def dot(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        return np.asarray((weights * one * two).sum(axis=-1, keepdims=True))

    if kind & OFFSET:
        total = weights.sum(axis=-1, keepdims=True)
        targets, values, slopes = (
            part - (weights * part).sum(axis=-1, keepdims=True) / total
            for part in (targets, values, slopes)
        )
    size = dot(values, values)
    has_factor = bool(kind & FACTOR)
    factor = dot(targets, values) / size if has_factor else np.ones_like(size)
    rest = targets - factor * values
    # Along the values a factor has done what could be done.
    shared = dot(slopes, values) / size if has_factor else np.zeros_like(size)
    across = slopes - shared * values
    step = dot(rest, across) / dot(across, across)
    shift = step / (factor - step * shared)
    angle = np.abs(shift) * np.sqrt(dot(across, across) / size)
    moved = np.where(angle < _FURTHEST * APART, rest - step * across, rest)
    return np.asarray(dot(moved, moved)[..., 0])


def _most_constants(grammar: Grammar) -> int:
    """That rules of counts leave a tree."""
    constant = grammar.library.constant_id
    limits = [
        rule.maximum
        for rule in grammar.rules
        if isinstance(rule, CountRule) and rule.maximum is not None and constant >= 0
        if rule.counts(grammar.library[constant])
    ]
    return min([*limits, grammar.max_tokens])

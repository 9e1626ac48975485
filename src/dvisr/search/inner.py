"""Trees with a function in them that has a constant inside: sin(c x), exp(c x), 1 / (x + c), x^c.

If y = C(g), then C undone on y says what g must be. A table of functions (`search.matching`) has no
constants, and what is fitted to a hole in closed form is a factor and an offset alone. Here the
likeliest functions of one constant that is neither are worked out at values of it so near each
other that g can't be missed between two; from the nearest, one step along the slope by the constant
tells how near g would come. What is written has a constant in that place: the fit finds its value.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from dvisr.constraints import CountRule, Grammar
from dvisr.library import Kind, Library
from dvisr.library.threads import for_each
from dvisr.problem import Problem
from dvisr.search.forms import Algebra, forms
from dvisr.search.inverting import Tree
from dvisr.search.legality import Legality
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from dvisr.search.matching import COSTS, FACTOR, OFFSET, Contexts, Matching
from dvisr.search.screening import leading_columns
from dvisr.search.table import LARGEST

_MOST_COLUMNS = 10
_TREES_A_FUNCTION = 30  # of the likeliest trees, so many for each function that is asked for
_SIZES = np.geomspace(1e-4, 1e4, 600)  # of a constant that is tried, before they are thinned out
_APART = 0.3  # the angle between the values of a function at two constants, in radians
_MOST_VALUES = 64  # of a constant, of each sign
_SHIFT = 1e-5  # of a constant, for the slope by its logarithm
_FURTHEST = 1.5  # times the angle above: as far as a step along the slope is believed
_CONSTANT = -5.0  # nats that the constant inside costs, at a guess
_CONTEXTS_AT_ONCE = 64
_CANCELLED = 1e-10  # of a sum of squares: what is less is what rounding leaves
_CONSTANT_SIZE = 1e-9  # of values that differ by less than that share of them, nothing is known
_COUNTS = np.array([0, 1, 1, 2])  # of constants, by kind: of a factor, of an offset
_TURNS_NOWHERE, _SAME = 1e-3, 0.015  # radians
_MOSTLY = 0.9  # of the values of a function: those of known ones end somewhere
_FIRST_LOOK = np.array([0.37, 1.3, 2.9])


@dataclasses.dataclass(frozen=True)
class _Functions:
    """Functions at values of their constant, one after the other.

    Parameters
    ----------
    trees : list of ndarray
        The tokens of each function.
    number : ndarray of shape (entries,)
        Which function.
    log_prior : ndarray of shape (entries,)
        Of the function, as a part of a tree.
    values, slopes : ndarray of shape (entries, rows)
        At the rows that are compared; the slopes are by the constant's logarithm.
    """

    trees: list[np.ndarray]
    number: np.ndarray
    log_prior: np.ndarray
    values: np.ndarray
    slopes: np.ndarray

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        return np.array([len(tokens) for tokens in self.trees], dtype=np.int64)

    @functools.cached_property
    def squares(self) -> np.ndarray:
        return self.values**2


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
        self._functions = _functions(problem, matching, algebra, most)
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

    def alone(self, contexts: Contexts, most: int) -> np.ndarray:
        """The best, at most so many, each with a factor and an offset and nothing around it: places
        for others, whatever each is worth by itself."""
        costs = np.where(np.arange(len(COSTS)) == len(COSTS) - 1, self._costs, -np.inf)
        whole = contexts.of_nothing()
        return self._filled(whole, most, 1, lambda: False, most, costs)

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
        best = min(a_context, len(self._functions.trees))
        entries = np.zeros((count, best), dtype=np.int64)
        kinds = np.zeros((count, best), dtype=np.int64)
        scores = np.full((count, best), -np.inf)

        def run(part: slice) -> None:
            if not is_late():
                entries[part] = self._nearest(contexts, part, best)
                kinds[part], scores[part] = self._scores(contexts, part, entries[part], costs)

        parts = [slice(n, n + _CONTEXTS_AT_ONCE) for n in range(0, count, _CONTEXTS_AT_ONCE)]
        for_each(lambda: run, parts, num_threads)
        order = np.argsort(-scores, axis=None, kind="stable")
        order = order[np.isfinite(scores.ravel()[order])][:most]
        return self._written(contexts, order // best, entries.ravel()[order], kinds.ravel()[order])

    def _nearest(self, contexts: Contexts, part: slice, count: int) -> np.ndarray:
        """For each context the entries of the best functions, so many and each function once,
        with a factor, and an offset or not."""
        own, half = self._functions, self._matching.half
        targets, weights = contexts.targets[part], contexts.weights[part]
        weighted = weights * targets
        cross, squares = weighted @ own.values.T, weights @ own.squares.T
        sums = weights @ own.values.T
        total, first = weights.sum(axis=1)[:, None], weighted.sum(axis=1)[:, None]
        whole = (weighted * targets).sum(axis=1)[:, None]
        # The order is that of cost + log prior - half * log(left).
        offset = float(np.exp((COSTS[FACTOR] - COSTS[FACTOR | OFFSET]) / half))
        with np.errstate(all="ignore"):
            explained = cross**2 / squares
            centred = (cross - first * sums / total) ** 2 / (squares - sums**2 / total)
            least = _CANCELLED * whole
            left = np.maximum(whole - explained, least)
            beside = np.maximum(whole - first**2 / total - centred, least)
            left += self._matching.floor
            left = np.minimum(left, offset * (beside + self._matching.floor))
            left *= np.exp(-own.log_prior / half)
        left = np.where(np.isfinite(left), left, np.inf)
        # Of each function the best of its entries, then the best functions.
        starts = np.flatnonzero(np.diff(own.number, prepend=-1))
        of_function = np.minimum.reduceat(left, starts, axis=1)
        chosen = np.argsort(of_function, axis=1, kind="stable")[:, :count]
        ends = np.append(starts[1:], len(own.number))
        found = np.zeros((len(left), count), dtype=np.int64)
        for row, functions in enumerate(chosen):
            for place, function in enumerate(functions):
                within = left[row, starts[function] : ends[function]]
                found[row, place] = starts[function] + int(within.argmin())
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
        own, constant = self._functions, self._problem.grammar.library.constant_id
        tokens = np.array([len(a) + len(b) for a, b in around])[:, None]
        constants = np.array([(a == constant).sum() + (b == constant).sum() for a, b in around])
        sizes = own.sizes[own.number[entries]] + tokens + self._around[:, None, None]
        # A constant inside, and one for a factor and an offset each.
        count = constants[:, None] + 1 + _COUNTS[:, None, None]
        is_short = sizes <= self._problem.grammar.max_tokens
        return np.asarray(is_short & (count <= self._most_constants))

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
    moved = np.where(angle < _FURTHEST * _APART, rest - step * across, rest)
    return np.asarray(dot(moved, moved)[..., 0])


def _functions(problem: Problem, matching: Matching, algebra: Algebra, most: int) -> _Functions:
    """The likeliest with one constant, each canonical form once, at values of it that are so far
    apart; not those that a factor and an offset are enough for."""
    library = problem.grammar.library
    trees: list[np.ndarray] = []
    parts: list[tuple[float, np.ndarray, np.ndarray]] = []
    known = _Known(len(matching.X))
    for log_prior, tokens in _likeliest(problem, algebra, most) if library.constant_id >= 0 else ():
        values, slopes = _thinned(library, tokens, matching.X)
        if len(values) and not known.has(values):  # c^x is exp(c x)
            trees.append(tokens)
            parts.append((log_prior, values, slopes))
            known.add(values, slopes)
        if len(trees) == most:
            break
    rows = len(matching.X)
    sizes = [len(values) for _, values, _ in parts]
    return _Functions(
        trees,
        np.repeat(np.arange(len(parts)), sizes),
        np.repeat([log_prior for log_prior, _, _ in parts], sizes),
        np.concatenate([np.zeros((0, rows)), *(values for _, values, _ in parts)]),
        np.concatenate([np.zeros((0, rows)), *(slopes for _, _, slopes in parts)]),
    )


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


def _likeliest(problem: Problem, algebra: Algebra, most: int) -> list[tuple[float, np.ndarray]]:
    """Their log priors as parts of trees, and their tokens."""
    library, data = problem.grammar.library, problem.data
    grammar, prior = of_subtrees(problem.grammar, problem.tree_prior, problem.grammar.max_tokens)
    leading = set(leading_columns(data.X, data.y, _MOST_COLUMNS).tolist())
    variables = library.ids_of_kind(Kind.VARIABLE)
    others = tuple(n for n in variables if library[n].column not in leading)
    trees, _ = likeliest_trees(grammar, prior, _TREES_A_FUNCTION * most, leaving_out=others)
    trees = trees[(trees == library.constant_id).sum(axis=1) == 1]
    _, first = np.unique(forms(trees, algebra), return_index=True)
    trees = trees[np.sort(first)]
    log_prior = np.asarray(prior.log_prob(np, trees)) - float(np.max(prior.log_size))
    return [(float(log), row[row >= 0]) for log, row in zip(log_prior, trees, strict=True)]


def _thinned(library: Library, tokens: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The function's values (constants, rows), and their slopes by the constant's logarithm, for
    constants of either sign between which it turns by an angle; none of what turns nowhere, since
    it is one function times a factor, plus an offset."""

    def at(constants: np.ndarray) -> np.ndarray:
        tree = Tree(library, tokens, X, [constants[:, None]])
        return np.array(np.broadcast_to(tree.values[0], (len(constants), len(X))))

    found, directions = [], []
    with np.errstate(all="ignore"):
        first = at(_FIRST_LOOK)
        first = _unit(first - first.mean(axis=1, keepdims=True))
    if np.isfinite(first).all() and (np.abs(first @ first[0]) > 1.0 - _TURNS_NOWHERE**2).all():
        return np.zeros((0, len(X))), np.zeros((0, len(X)))
    for sign in (1.0, -1.0):
        constants = sign * _SIZES
        with np.errstate(all="ignore"):
            values = at(constants)
            centred = values - values.mean(axis=1, keepdims=True)
            size = np.sqrt((centred**2).sum(axis=1, keepdims=True))
            largest = np.abs(values).max(axis=1, keepdims=True)
            is_known = (size > _CONSTANT_SIZE * largest) & (largest < LARGEST)
            direction = np.where(is_known, centred / size, 0.0)
        directions.append(direction)
        kept = np.flatnonzero(is_known[:, 0])
        if len(kept) < 2 or (sign < 0.0 and _are_parallel(*directions)):
            continue
        direction = direction[kept]
        cosines = np.abs((direction[1:] * direction[:-1]).sum(axis=1))
        arc = np.append(0.0, np.cumsum(np.arccos(np.minimum(cosines, 1.0))))
        if arc[-1] < _TURNS_NOWHERE:
            continue
        wanted = np.arange(0.5 * _APART, max(float(arc[-1]), _APART), _APART)[:_MOST_VALUES]
        places = np.unique(np.searchsorted(arc, wanted).clip(max=len(kept) - 1))
        found.append(constants[kept[places]])
    if not found:
        return np.zeros((0, len(X))), np.zeros((0, len(X)))
    chosen = np.concatenate(found)
    with np.errstate(all="ignore"):
        values = at(chosen)
        slopes = (at(chosen * (1.0 + _SHIFT)) - values) / _SHIFT
    is_whole = np.isfinite(slopes).all(axis=1)
    return values[is_whole], slopes[is_whole]


def _unit(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(values / np.sqrt((values**2).sum(axis=-1, keepdims=True)))


class _Known:
    """Functions up to a factor and an offset, by values and slopes."""

    def __init__(self, rows: int) -> None:
        self._directions, self._across = np.zeros((0, rows)), np.zeros((0, rows))

    def has(self, values: np.ndarray) -> bool:
        """Whether nearly all of these are what known functions come to between their values."""
        if not len(self._directions):
            return False
        directions = _unit(values - values.mean(axis=1, keepdims=True))
        cosines = directions @ self._directions.T
        nearest = np.abs(cosines).argmax(axis=1)
        along = np.take_along_axis(cosines, nearest[:, None], axis=1)[:, 0]
        across = (directions * self._across[nearest]).sum(axis=1)
        return bool((1.0 - along**2 - across**2 < _SAME**2).mean() > _MOSTLY)

    def add(self, values: np.ndarray, slopes: np.ndarray) -> None:
        directions = _unit(values - values.mean(axis=1, keepdims=True))
        slopes = slopes - slopes.mean(axis=1, keepdims=True)
        across = _unit(slopes - (slopes * directions).sum(axis=1, keepdims=True) * directions)
        self._directions = np.concatenate([self._directions, directions])
        self._across = np.concatenate([self._across, np.nan_to_num(across)])


def _are_parallel(ones: np.ndarray, others: np.ndarray) -> bool:
    """Wherever both are known: sin(-c x) is -sin(c x)."""
    cosines = np.abs((ones * others).sum(axis=1))
    is_known = (ones != 0.0).any(axis=1) & (others != 0.0).any(axis=1)
    return bool(is_known.any() and (cosines[is_known] > 1.0 - 1e-9).all())

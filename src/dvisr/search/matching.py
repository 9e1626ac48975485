"""Trees of two parts: a context, which is a tree with a hole, and a function that fills it.

The context inverted on the data says what values the hole must hold (`search.inverting`); a table
of the likeliest functions, with their values at the rows, is gone through for those that have them,
up to a factor and an offset. A pair costs a few operations a row, so that contexts and functions
together reach trees of twice the size of either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dvisr.library.threads import for_each
from dvisr.marginal import Engine
from dvisr.problem import Problem
from dvisr.search.forms import Algebra
from dvisr.search.inverting import Tree, ends_of
from dvisr.search.legality import Legality
from dvisr.search.scoring import match
from dvisr.search.table import LARGEST, likeliest_functions
from dvisr.settings import SearchSettings

_MOST_ROWS = 20  # that functions are compared at
_WEIGHTS_APART = 1e3  # the largest weight of a row is so many times the median at most
_LEAST_ROWS = 0.75  # of the rows, at which a context can be inverted
# What the constants of g, g * c, g + c and g * c + c cost, at a guess, in nats.
COSTS = (0.0, -5.0, -5.0, -10.0)
FACTOR, OFFSET = 1, 2  # bits of the number of a kind
_CONTEXTS_A_TASK = 16
_CONTEXTS_AT_ONCE = 64  # that are inverted between two looks at the clock


Tell = Callable[[float], None]  # the share that is done


@dataclasses.dataclass(frozen=True)
class Contexts:
    """Trees with a hole each.

    Parameters
    ----------
    tokens : list of (tokens before the hole, tokens after it)
    log_prior : ndarray of shape (contexts,)
        Of the context with a column in its hole.
    targets, weights : ndarray of shape (contexts, rows)
        The values that the hole must hold, and how much each counts: 0 where there is none.
    """

    tokens: list[tuple[np.ndarray, np.ndarray]]
    log_prior: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    def of_nothing(self) -> Contexts:
        """Of these the one in which the hole is the whole tree, if it is there."""
        parts = enumerate(self.tokens)
        return self._some([n for n, (before, after) in parts if not len(before) + len(after)])

    def first(self, most: int) -> Contexts:
        return self._some(list(range(min(most, len(self.tokens)))))

    def _some(self, kept: list[int]) -> Contexts:
        tokens = [self.tokens[n] for n in kept]
        return Contexts(tokens, self.log_prior[kept], self.targets[kept], self.weights[kept])


class Matching:
    """Fills the holes of contexts with the functions of a table.

    Parameters
    ----------
    problem : Problem
    engine : Engine
    algebra : Algebra
    settings : SearchSettings
    is_late : callable, optional
        Once it is late, making the table is given up: `OutOfTime`.
    """

    def __init__(
        self,
        problem: Problem,
        engine: Engine,
        algebra: Algebra,
        settings: SearchSettings,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        self._problem, self._settings = problem, settings
        self._legality = Legality(problem.grammar)
        law, self._coarsest = engine.law, engine.levels[0]
        chosen = np.arange(len(law.y))
        if len(chosen) > _MOST_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(chosen, _MOST_ROWS, replace=False))
        self.X = problem.X[chosen]
        self.y = np.exp(law.y[chosen]) if law.is_log else law.y[chosen]
        unit = law.inverse[chosen] / (self.y if law.is_log else 1.0)
        with np.errstate(over="ignore"):  # of a target of 1e-300; such rows are left out
            self._row_weights = law.counts[chosen] * unit**2
        spread = float(np.var(law.y * law.inverse)) or 1.0
        self.floor = 1e-6 * spread * len(chosen)
        # The few that are compared speak for no more than those that trees race on.
        counted = law.observations if engine.coarse is None else len(self._coarsest.X)
        self.half = 0.5 * (counted + 1.0)
        self.column = next(
            (i for i, token in enumerate(problem.grammar.library) if token.column >= 0), -1
        )
        self.wrapped = _wrappings(problem)
        table = likeliest_functions(
            problem, algebra, settings.table_functions, self.X, is_late, engine.num_threads
        )
        self.trees, self.log_prior = table.trees, table.log_prior
        self._values = np.ascontiguousarray(table.values.T)
        self._sizes = (self.trees >= 0).sum(axis=1)

    @property
    def values(self) -> np.ndarray:
        """Of the table's functions at the rows that are compared, (functions, rows)."""
        return self._values.T

    def likely_contexts(self, is_late: Callable[[], bool] = lambda: False) -> Contexts:
        """Of the likeliest trees, whatever these are worth by themselves. Once it is late the other
        contexts are left."""
        trees = self.trees[: self._settings.table_contexts]
        room = max(1, self._settings.most_matched_values // max(1, self._values.size))
        return self._contexts(trees, np.zeros((len(trees), 0)), 0, room, is_late)

    def contexts_of(
        self, trees: np.ndarray, is_late: Callable[[], bool] = lambda: False
    ) -> Contexts:
        """These trees without one of their subtrees."""
        constants = self._coarsest.fit(trees, self._settings.num_starts).constants
        return self._contexts(trees, constants, 1, None, is_late)

    def _contexts(
        self,
        trees: np.ndarray,
        constants: np.ndarray,
        first: int,
        most: int | None,
        is_late: Callable[[], bool],
    ) -> Contexts:
        """Each once, of all subtrees from that position on, the likeliest first; at most so many,
        and no further ones once it is late."""
        library = self._problem.grammar.library
        holes: dict[tuple[bytes, bytes], tuple[int, int]] = {}  # the tree and the position
        for number, row in enumerate(trees):
            tokens = row[row >= 0]
            ends = ends_of(library.arities, tokens)
            for hole in range(first, len(tokens)):
                around = tokens[:hole].tobytes(), tokens[ends[hole] :].tobytes()
                holes.setdefault(around, (number, hole))
        parts = [(np.frombuffer(a, np.int8), np.frombuffer(b, np.int8)) for a, b in holes]
        places, log_prior = list(holes.values()), self._prior_of(parts)
        made: dict[int, Tree] = {}

        def required(place: int) -> tuple[np.ndarray, np.ndarray] | None:
            number, hole = places[place]
            if number not in made:
                tokens = trees[number][trees[number] >= 0]
                count = int((tokens == library.constant_id).sum())
                made[number] = Tree(library, tokens, self.X, constants[number, :count].tolist())
            return made[number].required(hole, self.y)

        order = np.argsort(-log_prior, kind="stable").tolist()
        most = len(order) if most is None else most
        chosen: list[int] = []
        targets, weights = (np.zeros((0, len(self.y))) for _ in range(2))
        for start in range(0, len(order), _CONTEXTS_AT_ONCE):
            if len(chosen) >= most or is_late():
                break
            tried = [(n, required(n)) for n in order[start : start + _CONTEXTS_AT_ONCE]]
            asked = [(place, found) for place, found in tried if found is not None]
            if not asked:
                continue
            values, slopes = (np.array([found[n] for _, found in asked]) for n in range(2))
            own_targets, own_weights, is_known = self.weighed(values, slopes)
            chosen += [place for (place, _), known in zip(asked, is_known, strict=True) if known]
            targets = np.concatenate([targets, own_targets[is_known]])
            weights = np.concatenate([weights, own_weights[is_known]])
        chosen = chosen[:most]
        tokens = [parts[place] for place in chosen]
        return Contexts(tokens, log_prior[chosen], targets[:most], weights[:most])

    def _prior_of(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The log prior of contexts, with a column in their holes."""
        rows = np.full((len(parts), self._problem.grammar.max_tokens), -1, dtype=np.int8)
        for row, (before, after) in zip(rows, parts, strict=True):
            row[: len(before) + 1 + len(after)] = [*before, self.column, *after]
        return np.asarray(self._problem.tree_prior.log_prob(np, rows))

    def target(self, tree: Tree, hole: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The values that the hole must hold, and the weight of each row."""
        found = tree.required(hole, self.y)
        if found is None:
            return None
        targets, weights, is_known = self.weighed(found[0][None], found[1][None])
        return (targets[0], weights[0]) if is_known[0] else None

    def weighed(
        self, values: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of many holes, (holes, rows): the values and their weights, zero where there are none,
        and whether there are enough."""
        with np.errstate(all="ignore"):
            weights = slopes**2 * self._row_weights
            is_known = np.isfinite(weights) & (weights > 0.0) & (np.abs(values) < LARGEST)
        count = is_known.sum(axis=1)
        is_enough = count >= max(2.0, _LEAST_ROWS * values.shape[1])
        # The median of what is known: the unknown come last.
        ordered = np.sort(np.where(is_known, weights, np.inf), axis=1)
        known = np.maximum(count, 1)[:, None]
        lower = np.take_along_axis(ordered, (known - 1) // 2, axis=1)
        upper = np.take_along_axis(ordered, known // 2, axis=1)
        with np.errstate(over="ignore"):
            largest = _WEIGHTS_APART * 0.5 * (lower + upper)
        weights = np.minimum(np.where(is_known, weights, 0.0), largest)
        return np.where(is_known, values, 0.0), weights, is_enough

    def filled(
        self,
        contexts: Contexts,
        most: int,
        num_functions: int | None = None,
        is_late: Callable[[], bool] = lambda: False,
        tell: Tell = lambda done: None,
    ) -> np.ndarray:
        """Contexts with the likeliest functions of the table in their holes, so many of these or
        all; the best, at most so many. Once it is late the other contexts are left."""
        grammar = self._problem.grammar
        functions, kinds, scores = self._matches(contexts, num_functions, is_late, tell)
        order = np.argsort(-scores, axis=None, kind="stable")
        order = order[np.isfinite(scores.ravel()[order])][:most]
        rows = np.full((len(order), grammar.max_tokens), -1, dtype=np.int8)
        for row, place in zip(rows, order, strict=True):
            before, after = contexts.tokens[place // scores.shape[1]]
            wrapped = self.wrapped[int(kinds.ravel()[place])]
            assert wrapped is not None  # those that can't be said cost too much to be found
            function = self.trees[functions.ravel()[place]]
            made = [*before, *wrapped[0], *function[function >= 0]]
            made += [*wrapped[1], *after]
            row[: len(made)] = made
        return rows[self._legality(rows)]

    def _matches(
        self,
        contexts: Contexts,
        num_functions: int | None,
        is_late: Callable[[], bool] = lambda: False,
        tell: Tell = lambda done: None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each context the best functions: their numbers, kinds and scores."""
        count, best = len(contexts.tokens), self._settings.matches_a_context
        functions = np.zeros((count, best), dtype=np.int64)
        kinds = np.zeros((count, best), dtype=np.int64)
        scores = np.full((count, best), -np.inf)
        most_tokens = self._problem.grammar.max_tokens
        room = np.array([most_tokens - len(a) - len(b) for a, b in contexts.tokens], dtype=np.int64)
        costs = np.array(
            [c if w is not None else -np.inf for c, w in zip(COSTS, self.wrapped, strict=True)]
        )
        extra = np.array([0 if w is None else len(w[0]) + len(w[1]) for w in self.wrapped])

        def run(part: slice) -> None:
            tell(part.start / count)
            if is_late():
                return
            match(
                contexts.targets[part], contexts.weights[part], contexts.log_prior[part],
                room[part], self._values, self.log_prior[:num_functions], self._sizes, costs,
                extra, self.half, self.floor, functions[part], kinds[part], scores[part],
            )  # fmt: skip

        starts = range(0, count, _CONTEXTS_A_TASK)
        parts = [slice(start, start + _CONTEXTS_A_TASK) for start in starts]
        for_each(lambda: run, parts, self._coarsest.num_threads)
        return functions, kinds, scores


def _wrappings(problem: Problem) -> list[tuple[list[int], list[int]] | None]:
    """What is written before and after a function of each kind; None where it can't be said."""
    library = problem.grammar.library
    constant, times, plus = library.constant_id, library.find("*"), library.find("+")
    wrapped: list[tuple[list[int], list[int]] | None] = [([], []), None, None, None]
    if constant >= 0 and times is not None:
        wrapped[1] = ([times], [constant])
    if constant >= 0 and plus is not None:
        wrapped[2] = ([plus], [constant])
        if times is not None:
            wrapped[3] = ([plus, times], [constant, constant])
    return wrapped

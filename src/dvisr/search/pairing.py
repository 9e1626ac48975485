"""Trees of two likely functions: u(f + g), u(f - g), u(f g), u(f / g), with constants or without,
where u may have a column in it.

If y = u(f + g), then u undone on y says what f + g must be, and the squares that a pair leaves
follow from f f, f g and g g, summed over the rows: some operations for each of millions
of pairs. Products and quotients are sums and differences of logarithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dvisr.library import Kind
from dvisr.library.threads import for_each
from dvisr.problem import Problem
from dvisr.search.inverting import Tree
from dvisr.search.legality import Legality
from dvisr.search.matching import Matching, Tell
from dvisr.search.pair_scoring import (
    BOTH,
    FIRST,
    FROM,
    MINUS,
    SCALED_MINUS,
    SCALED_PLUS,
    SECOND,
    best_partners,
)
from dvisr.search.screening import leading_columns

# What a pair may stand in, in prefix order: the pair is ?, and x each of the columns.
_OUTER = ("?", "sqrt ?", "square ?", "exp ?", "log ?", "/ 1 ?")
_WITH_COLUMN = ("* x ?", "/ ? x", "/ x ?", "* x sqrt ?", "/ sqrt ? x", "/ x sqrt ?")
_MOST_COLUMNS = 6
_FEWER = 0.8  # of the functions, where there is a column: there are many such contexts
_ROWS_AT_ONCE = 128  # functions whose products with all others are formed together
_BEST = 3  # pairs that are kept for each function
_LARGEST = 1e3  # times the size of the target: functions beyond it would have to cancel
_CONSTANT = -5.0  # nats that a constant costs, at a guess
_SUM = -2.0  # nats that an operator costs
_BEHIND = 15.0  # nats behind the best: pairs further off are not kept

# What each kind of pair costs. Of logarithms there are only the first three kinds.
_NUM_KINDS = 8
_COSTS = np.array([0.0, 0.0, 0.0, _CONSTANT, _CONSTANT, _CONSTANT, _CONSTANT, 2.0 * _CONSTANT])


@dataclasses.dataclass(frozen=True)
class _Outer:
    """What a pair stands in: tokens before and after it; the values that it must have, and the
    weights of rows; how many functions are tried."""

    before: list[int]
    after: list[int]
    target: np.ndarray
    weights: np.ndarray
    count: int
    has_column: bool


@dataclasses.dataclass(frozen=True)
class _Space:
    """Where functions are added up: as they are, or as logarithms, with or without a factor."""

    values: np.ndarray  # (functions, rows)
    target: np.ndarray
    weights: np.ndarray
    is_used: np.ndarray  # of the functions
    num_kinds: int
    is_log: bool
    has_factor: bool


@dataclasses.dataclass(frozen=True)
class _Found:
    """Pairs in one space: the numbers of their functions in the table, kinds and scores."""

    outer: _Outer
    space: _Space
    first: np.ndarray
    second: np.ndarray
    kinds: np.ndarray
    scores: np.ndarray


class Pairing:
    """Pairs of the likeliest functions of a table.

    Parameters
    ----------
    problem : Problem
    matching : Matching
        Its table, and what its rows weigh.
    num_functions : int
        Of the table, from the likeliest on, without those that have a number other than 1 in them:
        factors come with the pairs.
    """

    def __init__(self, problem: Problem, matching: Matching, num_functions: int) -> None:
        self._problem, self._matching = problem, matching
        self._library = problem.grammar.library
        factors = [
            n for n, t in enumerate(self._library) if t.kind is Kind.LITERAL and t.value != 1
        ]
        plain = np.flatnonzero(~np.isin(matching.trees, factors).any(axis=1))
        self._numbers = plain[:num_functions]  # of the table
        self._values = matching.values[self._numbers]
        self._log_prior = matching.log_prior[self._numbers]
        self._count = len(self._numbers)
        self._legality = Legality(problem.grammar)

    def likeliest(
        self,
        most: int,
        num_threads: int,
        is_late: Callable[[], bool] = lambda: False,
        tell: Tell = lambda done: None,
    ) -> np.ndarray:
        """The trees that fit the data best for their size, at most so many. Once it is late the
        other outer functions are left."""
        found: list[_Found] = []
        outers = self._outers()
        for number, outer in enumerate(outers):
            tell(number / len(outers))
            if is_late():
                break
            spaces = self._spaces(outer)
            found += [self._best(outer, space, num_threads, is_late) for space in spaces]
        rows = [self._trees(part, max(1, most // len(found))) for part in found]
        nothing = np.zeros((0, self._problem.grammar.max_tokens), dtype=np.int8)
        return np.concatenate([nothing, *rows])

    def _outers(self) -> list[_Outer]:
        """As far as the library has words for them and they can be undone."""
        data = self._problem.data
        of_column = {self._library[n].column: n for n in self._library.ids_of_kind(Kind.VARIABLE)}
        leading = leading_columns(data.X, data.y, _MOST_COLUMNS).tolist()
        columns = [of_column[column] for column in leading if column in of_column]
        fewer = int(_FEWER * self._count)
        asked = [(text, -1, self._count) for text in _OUTER]
        asked += [(text, int(column), fewer) for column in columns for text in _WITH_COLUMN]
        found = []
        for text, column, count in asked:
            words = text.split()
            tokens = [
                column if word == "x" else self._matching.column if word == "?"
                else self._library.find(word)
                for word in words
            ]  # fmt: skip
            if any(token is None for token in tokens):
                continue
            plain = [token for token in tokens if token is not None]
            hole = words.index("?")
            tree = Tree(self._library, plain, self._matching.X, [])
            target = self._matching.target(tree, hole)
            if target is not None:
                found.append(_Outer(plain[:hole], plain[hole + 1 :], *target, count, column >= 0))
        return found

    def _bar(self, space: _Space) -> float:
        """Somewhat below the score of the best single function: pairs below it are not kept."""
        with np.errstate(all="ignore"):
            off = ((space.values - space.target) ** 2) @ space.weights
            log_prior = self._log_prior[: len(off)]
            scores = log_prior - self._matching.half * np.log(off + self._matching.floor)
        scores = scores[space.is_used & np.isfinite(scores)]
        return float(scores.max(initial=-np.inf)) - _BEHIND

    def _trees(self, found: _Found, most: int) -> np.ndarray:
        """The best of one space, written out. From one to another scores can't be compared: rows
        that an outer function makes too much of are given less weight than they have."""
        rows = np.full((most, self._problem.grammar.max_tokens), -1, dtype=np.int8)
        count = 0
        for place in np.argsort(-found.scores, kind="stable"):
            if count == most:
                break
            tokens = self._written(found, int(place))
            if tokens is not None and len(tokens) <= rows.shape[1]:
                rows[count, : len(tokens)] = tokens
                count += 1
        legal: np.ndarray = rows[:count][self._legality(rows[:count])]
        return legal

    def _spaces(self, outer: _Outer) -> list[_Space]:
        """A column times a product is a product, which comes up without the column."""
        target, weights = outer.target, outer.weights
        values = self._values[: outer.count]
        size = np.sqrt((weights * target**2).sum())
        sizes = np.sqrt((values**2) @ weights)
        is_used = (sizes < _LARGEST * size) & (sizes > size / _LARGEST)
        spaces = []
        if self._library.find("+") is not None or self._library.find("-") is not None:
            kinds = _NUM_KINDS if self._has_constant() else 3
            spaces.append(_Space(values, target, weights, is_used, kinds, False, False))
        known = weights > 0.0
        has_products = self._library.find("*") is not None or self._library.find("/") is not None
        if outer.has_column or not has_products or not (target[known] > 0.0).all():
            return spaces
        with np.errstate(all="ignore"):
            logs = np.log(values)
            log_target = np.where(known, np.log(np.where(known, target, 1.0)), 0.0)
        is_positive = np.isfinite(logs).all(axis=1)
        logs = np.where(is_positive[:, None], logs, 0.0)
        by_log = weights * target**2
        spaces.append(_Space(logs, log_target, by_log, is_positive, 3, True, False))
        if self._has_constant() and self._library.find("*") is not None:
            shares = by_log / by_log.sum()
            spaces.append(
                _Space(
                    logs - (logs @ shares)[:, None],
                    log_target - float(log_target @ shares),
                    by_log, is_positive, 3, True, True,
                )
            )  # fmt: skip
        return spaces

    def _has_constant(self) -> bool:
        return self._library.constant_id >= 0 and self._library.find("*") is not None

    def _best(
        self, outer: _Outer, space: _Space, num_threads: int, is_late: Callable[[], bool]
    ) -> _Found:
        bar = self._bar(space)
        used = np.flatnonzero(space.is_used)
        values = np.ascontiguousarray(space.values[used])
        log_prior = self._log_prior[used]
        columns = np.ascontiguousarray(values.T)
        scaled = np.ascontiguousarray(values * space.weights)
        squares, with_target = (scaled * values).sum(axis=1), scaled @ space.target
        whole = float((space.weights * space.target**2).sum())
        partners = np.full((len(used), _BEST), -1, dtype=np.int64)
        kinds, scores = np.zeros_like(partners), np.full(partners.shape, bar)
        half, floor = self._matching.half, self._matching.floor
        costs = _COSTS + _SUM + (_CONSTANT if space.has_factor else 0.0)

        def run(start: int) -> None:
            if is_late():
                return
            rows = slice(start, start + _ROWS_AT_ONCE)
            best_partners(
                scaled[rows], columns, start, squares, with_target, whole, log_prior, costs,
                space.num_kinds, half, floor, partners[rows], kinds[rows], scores[rows],
            )  # fmt: skip

        for_each(lambda: run, range(0, len(used), _ROWS_AT_ONCE), num_threads)
        rows, places = np.nonzero(partners >= 0)
        chosen = partners[rows, places], kinds[rows, places], scores[rows, places]
        return _Found(outer, space, used[rows], used[chosen[0]], chosen[1], chosen[2])

    def _written(self, found: _Found, place: int) -> list[int] | None:
        """The tokens of a pair; None where the library has no word for it."""
        trees, constant = self._matching.trees, self._library.constant_id
        numbers = self._numbers[[found.first[place], found.second[place]]]
        one, two = ([int(token) for token in trees[n] if token >= 0] for n in numbers)
        kind, space = int(found.kinds[place]), found.space
        add, subtract = ("*", "/") if space.is_log else ("+", "-")
        plus, minus, times = (self._library.find(name) for name in (add, subtract, "*"))
        sign = minus if kind in (MINUS, FROM, SCALED_MINUS) else plus
        if sign is None:
            return None
        if kind == FROM:
            one, two = two, one
        scaled = [] if times is None else [times]
        if kind in (FIRST, BOTH):
            one = [*scaled, *one, constant]
        if kind in (SECOND, BOTH):
            two = [*scaled, *two, constant]
        tokens = [sign, *one, *two]
        if kind in (SCALED_PLUS, SCALED_MINUS) or space.has_factor:
            tokens = [*scaled, *tokens, constant]
        return [*found.outer.before, *tokens, *found.outer.after]

"""Trees with products of powers in them: x^2 * u / sqrt(v), with a factor or without.

If y = C(g), then C undone on y says what g must be, and which product of powers of the columns
comes nearest to g is a least squares problem in the logarithms (`search.power_scoring`): however
many columns it has, it needs no list of functions that it would have to be in. What a product
stands in are contexts of the search, and shapes of two products, as in h + g, h / (exp(g) - 1)
or sqrt(h - g): one of the two, h, is taken from a list of small products, the other follows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from dvisr.library import Kind
from dvisr.library.threads import for_each
from dvisr.problem import Problem
from dvisr.search.inverting import Tree
from dvisr.search.legality import Legality
from dvisr.search.likeliest import of_subtrees
from dvisr.search.matching import Contexts, Matching, Tell
from dvisr.search.power_others import Others, likeliest_pairs, small_products
from dvisr.search.power_scoring import MOST_HALVES, nearest_powers, nearest_with_another
from dvisr.search.power_writing import Product, Writer
from dvisr.search.screening import leading_columns

# Two products h and ? in prefix order. Where h is a factor of the whole it may be left out.
_SHAPES = (
    "+ h ?", "- h ?", "- ? h",
    "sqrt + h ?", "sqrt - h ?", "sqrt - ? h", "square + h ?", "exp + h ?", "exp - h ?",
    "log + h ?", "/ 1 + h ?", "/ 1 - h ?", "/ 1 - ? h",
    "* h exp ?", "/ h exp ?", "/ h - exp ? 1", "* h - exp ? 1", "/ h + exp ? 1",
    "* h log ?", "* h sin ?", "* h cos ?",
    "* h sqrt + 1 ?", "* h sqrt - 1 ?", "/ h sqrt + 1 ?", "/ h sqrt - 1 ?",
    "/ h + 1 ?", "/ h - 1 ?",
)  # fmt: skip
_MOST_COLUMNS = 10
_LEFT_ROWS = 2  # more rows than columns: with fewer, nearly any product fits
_HEADS_AT_ONCE, _PAIRS_AT_ONCE = 256, 2_000
_BEST = 2  # products that are kept for each target
_CONSTANT = -5.0  # nats that a factor costs, at a guess
_COLUMN, _INVERTED = 3.0, 0.3  # nats that a column costs, and one that is divided by
_POWERS = {1: 2.0, 2: 0.0, 3: 5.0, 4: 1.5, 5: 6.5, 6: 3.5, 7: 8.0, 8: 4.0}  # of halves, besides
_WRITTEN = 2  # products that are written out for each tree that is asked for


@dataclasses.dataclass(frozen=True)
class _Shape:
    """Two products in a shape: its words, and the heads that are tried, with what they cost."""

    words: list[str]
    heads: np.ndarray
    costs: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Found:
    """Products for one shape and one kind of factor, the best first.

    Places are of the heads or of the contexts, exponents (products, columns) in halves. Fits and
    scores are of the log joint, about: without what columns and operators cost, and with a guess at
    it. Others are the functions, if any, that the last exponents are of."""

    places: np.ndarray
    exponents: np.ndarray
    fits: np.ndarray
    scores: np.ndarray
    has_factor: bool
    others: np.ndarray | None = None


class PowerProducts:
    """Fills holes with products of powers of the columns.

    Parameters
    ----------
    problem : Problem
    matching : Matching
        What its rows weigh.
    num_pairs : int
        Shapes of two products with a small product in each that are tried: the likeliest.
    """

    def __init__(self, problem: Problem, matching: Matching, num_pairs: int) -> None:
        self._problem, self._matching = problem, matching
        library = problem.grammar.library
        X, data = matching.X, problem.data
        most = max(0, min(_MOST_COLUMNS, len(X) - _LEFT_ROWS))
        leading = [int(n) for n in leading_columns(data.X, data.y, most)[:most]]
        of_column = {library[n].column: n for n in library.ids_of_kind(Kind.VARIABLE)}
        # Signs and zeros count wherever they are, not at the rows that are compared alone.
        has_zero: np.ndarray = np.any(problem.X == 0.0, axis=0)
        has_negative: np.ndarray = np.any(problem.X < 0.0, axis=0)
        self._columns = [n for n in leading if n in of_column and not has_zero[n]]
        self._logs = np.ascontiguousarray(np.log(np.abs(X[:, self._columns])).T)
        self._is_negative = np.ascontiguousarray(X[:, self._columns].T < 0.0)
        has_halves = library.find("sqrt") is not None
        by_halves = [has_halves and not has_negative[n] for n in self._columns]
        self._steps = np.where(by_halves, 1, 2).astype(np.int64)
        self._costs = np.array([_cost(halves) for halves in range(-MOST_HALVES, MOST_HALVES + 1)])
        self._writer = Writer(library, [of_column[n] for n in self._columns])
        self._legality = Legality(problem.grammar)
        # Of few columns there are few products, and those of one are in the table.
        self._share = max(0, len(self._columns) - 1) / (_MOST_COLUMNS - 1)
        self._num_pairs = int(self._share * num_pairs)
        self._others = Others.of(library, matching)
        self._has_halves = has_halves

    def filled(
        self,
        contexts: Contexts,
        most: int,
        num_pairs: int = 0,
        num_threads: int = 1,
        is_late: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """Contexts with products of powers in their holes, and with such a product times another
        function to a power, for so many pairs of context and function, the likeliest, or fewer
        where there are few columns; the best of either, at most so many."""
        if not self._share or not contexts.tokens:
            return self._rows([])
        plain, with_another = [], []
        for has_factor in self._kinds():
            if is_late():
                break
            nearest = self._nearest(contexts.targets, contexts.weights, has_factor)
            plain.append(self._best(*nearest, contexts.log_prior, has_factor, most))
            if num_pairs and len(self._others.trees):
                with_another.append(
                    self._with_another(contexts, most, num_pairs, num_threads, has_factor, is_late)
                )

        def written(part: _Found, place: int) -> Iterator[list[int]]:
            before, after = contexts.tokens[int(part.places[place])]
            exponents = part.exponents[place].tolist()
            product = Product(exponents, part.has_factor)
            if part.others is not None:
                other = self._others.tokens(int(part.others[place]))
                product = Product(exponents[:-1], part.has_factor, other, exponents[-1])
            for tokens in self._writer.product(product):
                yield [*before.tolist(), *tokens, *after.tolist()]

        parts = [self._chosen(found, most, written) for found in (plain, with_another)]
        return np.concatenate(parts)

    def _with_another(
        self,
        contexts: Contexts,
        most: int,
        num_pairs: int,
        num_threads: int,
        has_factor: bool,
        is_late: Callable[[], bool],
    ) -> _Found:
        """Products of powers of the columns and of one of the other functions."""
        others = self._others
        most_pairs = int(self._share * num_pairs)
        pairs = likeliest_pairs(contexts.log_prior, others.log_prior, most_pairs)
        log_prior = contexts.log_prior[pairs[:, 0]] + others.log_prior[pairs[:, 1]]
        count = len(pairs)
        exponents = np.zeros((count, _BEST, len(self._columns) + 1), dtype=np.int8)
        scores = np.full((count, _BEST), -np.inf)

        def run(part: slice) -> None:
            if is_late():
                return
            nearest_with_another(
                contexts.targets, contexts.weights, self._logs, self._is_negative, self._steps,
                others.logs, others.is_negative, pairs[part], self._has_halves, self._costs,
                has_factor, self._matching.half, self._matching.floor, exponents[part],
                scores[part],
            )  # fmt: skip

        for_each(lambda: run, _parts(count, _PAIRS_AT_ONCE), num_threads)
        scores += _CONSTANT if has_factor else 0.0
        found = self._best(exponents, scores, log_prior, has_factor, most)
        own = pairs[found.places]
        return dataclasses.replace(found, places=own[:, 0], others=own[:, 1])

    def pairs(
        self,
        most: int,
        num_threads: int,
        is_late: Callable[[], bool] = lambda: False,
        tell: Tell = lambda done: None,
    ) -> np.ndarray:
        """Two products of powers in each shape; the best of all, at most so many. Once it is late
        the other shapes are left."""
        shapes = [] if is_late() else self._shapes()
        rows = [self._rows([])]
        for number, shape in enumerate(shapes):
            tell(number / len(shapes))
            if is_late():
                break
            found = self._best_of(shape, num_threads, most, is_late)

            def written(part: _Found, place: int, shape: _Shape = shape) -> Iterator[list[int]]:
                head = Product(shape.heads[int(part.places[place])].tolist(), False)
                product = Product(part.exponents[place].tolist(), part.has_factor)
                yield from self._writer.shape(shape.words, head, product)

            rows.append(self._chosen(found, max(1, most // len(shapes)), written))
        return np.concatenate(rows)

    def _kinds(self) -> tuple[bool, ...]:
        """Without a factor, and with one."""
        library = self._problem.grammar.library
        can_scale = library.constant_id >= 0 and library.find("*") is not None
        return (False, True) if can_scale else (False,)

    def _shapes(self) -> list[_Shape]:
        """As far as the library has words for them, each with as many heads as make the pairs that
        are the likeliest of all shapes together."""
        texts = [text.split() for text in _SHAPES]
        most = self._problem.grammar.max_tokens
        texts = [words for words in texts if self._writer.can_say(words) and len(words) <= most]
        if not texts or not self._share:
            return []
        column = self._matching.column
        rows = self._rows([self._writer.as_context(words, column) for words in texts])
        # As parts of trees: what is required of a whole one is met by the products.
        parts = of_subtrees(self._problem.grammar, self._problem.tree_prior, most)[1]
        prior = np.asarray(parts.log_prob(np, rows))
        heads, costs = small_products(self._steps, self._costs, self._num_pairs)
        pairs = likeliest_pairs(prior, -costs, self._num_pairs)
        counts = np.bincount(pairs[:, 0], minlength=len(texts))
        return [
            _Shape(words, heads[:count], costs[:count])
            for words, count in zip(texts, counts.tolist(), strict=True)
            if count
        ]

    def _best_of(
        self, asked: _Shape, num_threads: int, most: int, is_late: Callable[[], bool]
    ) -> list[_Found]:
        """The best pairs of one shape."""
        heads, kinds = asked.heads.astype(np.float64), self._kinds()
        shape = (len(kinds), len(heads), _BEST)
        exponents = np.zeros((*shape, len(self._columns)), dtype=np.int8)
        scores = np.full(shape, -np.inf)

        def run(part: slice) -> None:
            required = None if is_late() else self._required(asked.words, heads[part])
            if required is None:
                return
            targets, weights, is_known = required
            weights = np.where(is_known[:, None], weights, 0.0)
            for kind, has_factor in enumerate(kinds):
                found = self._nearest(targets, weights, has_factor)
                exponents[kind, part], scores[kind, part] = found

        for_each(lambda: run, _parts(len(heads), _HEADS_AT_ONCE), num_threads)
        return [
            self._best(exponents[kind], scores[kind], -asked.costs, has_factor, most)
            for kind, has_factor in enumerate(kinds)
        ]

    def _best(
        self,
        exponents: np.ndarray,
        scores: np.ndarray,
        log_prior: np.ndarray,
        has_factor: bool,
        most: int,
    ) -> _Found:
        """Of all items (items, best) the best, at most so many as may be written out."""
        whole = scores + log_prior[:, None]
        order = np.argsort(-whole, axis=None, kind="stable")
        order = order[np.isfinite(whole.ravel()[order])][: _WRITTEN * most]
        chosen = np.unravel_index(order, scores.shape)
        found = exponents[chosen]
        fits = scores[chosen] + self._costs[found.astype(int) + MOST_HALVES].sum(axis=1)
        return _Found(chosen[0], found, fits, whole[chosen], has_factor)

    def _required(
        self, words: list[str], heads: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """For each of the heads the values that the other product must have, the weights of rows,
        and whether there are enough."""
        matching = self._matching
        tokens = self._writer.as_context(words, matching.column)
        column = self._problem.grammar.library[matching.column].column
        with np.errstate(over="ignore"):
            values = np.exp(0.5 * heads @ self._logs)
        odd = (heads % 4 != 0) & (heads != 0)
        values *= np.where((odd.astype(int) @ self._is_negative.astype(int)) % 2 == 1, -1.0, 1.0)
        X = np.broadcast_to(values[:, :, None], (*values.shape, column + 1))
        tree = Tree(self._problem.grammar.library, tokens, X, [])
        found = tree.required(words.index("?"), np.broadcast_to(matching.y, values.shape))
        return None if found is None else matching.weighed(*found)

    def _nearest(
        self, targets: np.ndarray, weights: np.ndarray, has_factor: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        exponents = np.zeros((len(targets), _BEST, len(self._columns)), dtype=np.int8)
        scores = np.full((len(targets), _BEST), -np.inf)
        nearest_powers(
            np.ascontiguousarray(targets), np.ascontiguousarray(weights), self._logs,
            self._is_negative, self._steps, self._costs, has_factor, self._matching.half,
            self._matching.floor, exponents, scores,
        )  # fmt: skip
        return exponents, scores + (_CONSTANT if has_factor else 0.0)

    def _chosen(
        self,
        found: list[_Found],
        most: int,
        written: Callable[[_Found, int], Iterator[list[int]]],
    ) -> np.ndarray:
        """The best products written out, each in its likeliest ways; the best of these."""
        asked = [(part, place) for part in found for place in range(len(part.scores))]
        asked.sort(key=lambda one: -one[0].scores[one[1]])
        texts: list[list[int]] = []
        gains: list[float] = []
        for part, place in asked[: _WRITTEN * most]:
            for tokens in written(part, place):
                if len(tokens) <= self._problem.grammar.max_tokens:
                    texts.append(tokens)
                    gains.append(float(part.fits[place]))
        rows = self._rows(texts)
        is_legal = self._legality(rows)
        rows, fits = rows[is_legal], np.array(gains, dtype=np.float64)[is_legal]
        log_prior = np.asarray(self._problem.tree_prior.log_prob(np, rows))
        best: np.ndarray = rows[np.argsort(-(fits + log_prior), kind="stable")[:most]]
        return best

    def _rows(self, texts: list[list[int]]) -> np.ndarray:
        rows = np.full((len(texts), self._problem.grammar.max_tokens), -1, dtype=np.int8)
        for row, tokens in zip(rows, texts, strict=True):
            row[: len(tokens)] = tokens
        return rows


def _cost(halves: int) -> float:
    """Nats that a column to that power costs, at a guess."""
    if halves == 0:
        return 0.0
    return _COLUMN + _POWERS[abs(halves)] + (_INVERTED if halves < 0 else 0.0)


def _parts(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]

"""`ExactPosterior`: the oracle's answer, and what stands behind it with and without constants."""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np
import pandas as pd

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.exact.derivations import Derivations
from dvisr.exact.enumeration import enumerate_trees
from dvisr.exact.functions import FunctionTable, Progress
from dvisr.exact.grouping import group
from dvisr.exact.marginal import TOLERANCE, LogMarginal, log_marginal
from dvisr.expression import Expression, canonical_form
from dvisr.likelihood import AbstractLikelihood
from dvisr.prior import TreePrior

MAX_TREES_WITH_CONSTANTS = 500_000
MAX_ERROR = 1e-4  # of the log evidence; beyond it the answer is refused
GOOD_ERROR = 1e-8  # of the log evidence; short of it, the integrals at fault are tried again
SECOND_EFFORT = 20
_MOST_TIES = 20  # trees of equal probability that are looked at for each one shown
_FIRST_PASS = 0.5  # of the time, for all that is known beforehand


class CannotPromise(ValueError):
    """What was asked for can't be had to a known error."""


@dataclasses.dataclass(frozen=True)
class TreeRow:
    expression: Expression
    log_joint: float


@dataclasses.dataclass(frozen=True)
class FunctionRow:
    expression: Expression  # its likeliest tree, the smallest of those
    log_joint: float  # of all its trees together
    num_trees: int


class AbstractRanking(abc.ABC):
    """The trees and functions of a finished computation, likeliest first."""

    log_evidence: float
    log_evidence_error: float
    num_functions: int | None

    @abc.abstractmethod
    def trees(self, count: int) -> list[TreeRow]: ...

    @abc.abstractmethod
    def functions(self, count: int) -> list[FunctionRow]: ...


@dataclasses.dataclass(frozen=True)
class ExactPosterior:
    """The posterior over all trees of a grammar, by summing over every one of them.

    `num_trees` counts every tree of the library up to the size limit, forbidden ones included;
    `num_allowed` those that the constraints leave; `num_functions` the distinct value vectors on
    the data (None with constants). `log_evidence_error` is an estimate; 0 means rounding alone.
    """

    grammar: Grammar
    log_evidence: float
    log_evidence_error: float
    num_trees: int
    num_allowed: int
    num_functions: int | None
    ranking: AbstractRanking = dataclasses.field(repr=False)

    def table(self, count: int = 20) -> pd.DataFrame:
        """The likeliest trees, one a row."""
        rows = [
            {
                "expression": str(row.expression),
                "probability": math.exp(row.log_joint - self.log_evidence),
                "log_joint": row.log_joint,
                "complexity": row.expression.complexity,
            }
            for row in self.ranking.trees(_checked(count))
        ]
        return pd.DataFrame(rows, columns=["expression", "probability", "log_joint", "complexity"])

    def functions(self, count: int = 20) -> pd.DataFrame:
        """The likeliest functions, one a row: trees that compute the same are added up."""
        rows = [
            {
                "expression": str(row.expression),
                "probability": math.exp(row.log_joint - self.log_evidence),
                "log_joint": row.log_joint,
                "complexity": row.expression.complexity,
                "num_trees": row.num_trees,
            }
            for row in self.ranking.functions(_checked(count))
        ]
        columns = ["expression", "probability", "log_joint", "complexity", "num_trees"]
        return pd.DataFrame(rows, columns=columns)


def _checked(count: int) -> int:
    if isinstance(count, bool) or int(count) != count or count < 1:
        raise ValueError(f"the number of rows must be a whole number above 0, not {count!r}")
    return int(count)


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the oracle is asked: the language, the data and the priors."""

    grammar: Grammar
    X: np.ndarray
    likelihood: AbstractLikelihood
    tree_prior: TreePrior
    constant_prior: AbstractConstantPrior


def solve(problem: Problem, progress: Progress = lambda fraction: None) -> ExactPosterior:
    grammar = problem.grammar
    ranking: AbstractRanking
    if grammar.library.has_constants:
        ranking = TreeRanking(problem, progress)
    else:
        ranking = FunctionRanking(problem, progress)
    if not np.isfinite(ranking.log_evidence):
        raise CannotPromise(
            "no expression has a likelihood above zero on these data: each is undefined at some "
            "row, or too far from the target for this noise; raise the noise or rescale the data"
        )
    return ExactPosterior(
        grammar=grammar,
        log_evidence=ranking.log_evidence,
        log_evidence_error=ranking.log_evidence_error,
        num_trees=count_trees(grammar.unconstrained),
        num_allowed=count_trees(grammar),
        num_functions=ranking.num_functions,
        ranking=ranking,
    )


class FunctionRanking(AbstractRanking):
    """Without constants: sums over functions, however many trees each has."""

    def __init__(self, problem: Problem, progress: Progress) -> None:
        self._problem = problem
        prior = problem.tree_prior
        self._table = FunctionTable(
            problem.grammar,
            problem.X,
            np.exp(prior.log_token),
            lambda values: np.asarray(problem.likelihood.log_prob(np, values)),
            progress,
        )
        blocks, entries, log_joint, log_likelihood, prints = [], [], [], [], []
        for number, block in self._table.trees():
            with np.errstate(divide="ignore"):
                weights = np.log(block.weights)
            log_likelihood.append(block.scores)
            log_joint.append(block.scores + weights + prior.log_size[block.size])
            prints.append(block.prints)
            blocks.append(np.full(len(block.scores), number, dtype=np.int32))
            entries.append(np.arange(len(block.scores), dtype=np.int32))
        self._blocks, self._entries = _joined(blocks), _joined(entries)
        self._log_joint, self._log_likelihood = _joined(log_joint), _joined(log_likelihood)
        together = np.concatenate(prints, axis=1) if prints else np.empty((2, 0))
        self._members, self._starts = group(together)
        self.num_functions = len(self._starts) - 1
        self.log_evidence = _log_sum(self._log_joint)
        self.log_evidence_error = 0.0

    def trees(self, count: int) -> list[TreeRow]:
        prior = self._problem.tree_prior
        derivations = Derivations(self._table, prior.log_token, count)
        bounds = np.empty(len(self._log_joint))
        for number, block in self._table.trees():
            here = self._blocks == number
            bounds[here] = derivations.heaviest(number) + prior.log_size[block.size]
        bounds += self._log_likelihood
        bounds = np.round(bounds, 9)  # equal up to rounding is equal
        sizes = np.array([block.size for block in self._table.blocks])[self._blocks]
        rows: list[TreeRow] = []
        order = np.lexsort((sizes, -bounds))
        for looked_at, place in enumerate(order):
            if len(rows) >= count:
                last = order[looked_at - 1]
                is_worse = (bounds[place], -sizes[place]) < (bounds[last], -sizes[last])
                if is_worse or len(rows) >= _MOST_TIES * count:
                    break
            if np.isneginf(bounds[place]):
                break
            found = derivations.of_entry(int(self._blocks[place]), int(self._entries[place]))
            rows += [self._row(tokens) for _, tokens in found]
        return sorted(rows, key=_row_order)[:count]

    def functions(self, count: int) -> list[FunctionRow]:
        groups = np.logaddexp.reduceat(self._log_joint[self._members], self._starts[:-1])
        derivations = Derivations(self._table, self._problem.tree_prior.log_token, 1)
        rows = []
        for number in _descending(groups)[:count]:
            if np.isneginf(groups[number]):
                break
            places = self._members[self._starts[number] : self._starts[number + 1]]
            trees = [
                derivations.of_entry(int(self._blocks[p]), int(self._entries[p]))[0][1]
                for p in places
            ]
            best = min((self._row(tokens) for tokens in trees), key=_row_order)
            num_trees = sum(
                int(self._table.blocks[self._blocks[p]].counts[self._entries[p]]) for p in places
            )
            rows.append(FunctionRow(best.expression, float(groups[number]), num_trees))
        return rows

    def _row(self, tokens: tuple[int, ...]) -> TreeRow:
        problem = self._problem
        expression = Expression(problem.grammar.library, tokens)
        found = log_marginal(expression, problem.X, problem.likelihood, problem.constant_prior)
        log_prior = problem.tree_prior.log_prob(np, np.array(tokens))
        return TreeRow(expression, found.value + float(log_prior))


class TreeRanking(AbstractRanking):
    """With constants: every tree by itself, its constants integrated out. Trees of one canonical
    form have one integral, which is worked out once."""

    num_functions = None

    def __init__(self, problem: Problem, progress: Progress) -> None:
        grammar = problem.grammar
        total = count_trees(grammar)
        if total > MAX_TREES_WITH_CONSTANTS:
            raise CannotPromise(
                f"there are {total:,} expressions with constants to integrate one by one, and at "
                f"most {MAX_TREES_WITH_CONSTANTS:,} are taken on: lower max_tokens, or limit the "
                f"constants"
            )
        trees = enumerate_trees(grammar)
        self._expressions = [
            Expression(grammar.library, tuple(int(t) for t in row[row >= 0])) for row in trees
        ]
        symmetric = problem.constant_prior.is_symmetric
        forms = [canonical_form(e, symmetric_constants=symmetric) for e in self._expressions]
        numbers: dict[str, int] = {}
        self._form = np.array([numbers.setdefault(form, len(numbers)) for form in forms])
        first = np.unique(self._form, return_index=True)[1]
        self._log_prior = problem.tree_prior.log_prob(np, trees)
        self._marginals: list[LogMarginal] = []
        for done, index in enumerate(first):
            self._marginals.append(self._marginal(problem, self._expressions[index], 1))
            progress(_FIRST_PASS * (done + 1) / len(first))
        self._add_up()
        # What ran out of nodes and is not known well enough for its weight gets a longer try.
        unfinished = np.array([marginal.error > TOLERANCE for marginal in self._marginals])
        is_wanting = self._shares_of_error() > GOOD_ERROR / max(1, unfinished.sum())
        again = np.flatnonzero(unfinished & is_wanting)
        for done, form in enumerate(again):
            expression = self._expressions[first[form]]
            self._marginals[form] = self._marginal(problem, expression, SECOND_EFFORT)
            progress(_FIRST_PASS + (1.0 - _FIRST_PASS) * (done + 1) / len(again))
        self._add_up()
        shares = self._shares_of_error()
        self.log_evidence_error = float(shares.sum())
        if not self.log_evidence_error <= MAX_ERROR:
            worst = self._expressions[first[int(np.argmax(shares))]]
            raise CannotPromise(
                f"the integral over the constants of {worst} is known only to within a share of "
                f"{shares.max():.0e} of the evidence, and {MAX_ERROR:.0e} is promised: leave out "
                f"an operator it uses, or limit the constants"
            )

    def _marginal(self, problem: Problem, expression: Expression, effort: int) -> LogMarginal:
        return log_marginal(
            expression, problem.X, problem.likelihood, problem.constant_prior, effort=effort
        )

    def _add_up(self) -> None:
        values = np.array([marginal.value for marginal in self._marginals])
        self._log_joint = values[self._form] + self._log_prior
        self.log_evidence = _log_sum(self._log_joint)

    def _shares_of_error(self) -> np.ndarray:
        """By canonical form: the error of its integral as a share of the evidence."""
        if not np.isfinite(self.log_evidence):
            return np.zeros(len(self._marginals))
        log_errors = np.array([marginal.log_error for marginal in self._marginals])
        log_shares = log_errors[self._form] + self._log_prior - self.log_evidence
        return np.bincount(self._form, weights=np.exp(np.minimum(log_shares, 700.0)))

    def trees(self, count: int) -> list[TreeRow]:
        rows = [
            TreeRow(self._expressions[i], float(self._log_joint[i]))
            for i in np.flatnonzero(self._log_joint >= _threshold(self._log_joint, count))
            if np.isfinite(self._log_joint[i])
        ]
        return sorted(rows, key=_row_order)[:count]

    def functions(self, count: int) -> list[FunctionRow]:
        members = np.argsort(self._form, kind="stable")
        starts = np.append(np.unique(self._form[members], return_index=True)[1], len(members))
        groups = np.logaddexp.reduceat(self._log_joint[members], starts[:-1])
        rows = []
        for number in _descending(groups)[:count]:
            if np.isneginf(groups[number]):
                break
            places = members[starts[number] : starts[number + 1]]
            trees = [TreeRow(self._expressions[p], float(self._log_joint[p])) for p in places]
            best = min(trees, key=_row_order)
            rows.append(FunctionRow(best.expression, float(groups[number]), len(places)))
        return rows


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0)


def _log_sum(values: np.ndarray) -> float:
    """Summed in pairs: one by one, millions of rounding errors would add up."""
    top = float(values.max()) if len(values) else -math.inf
    return top + math.log(np.exp(values - top).sum()) if math.isfinite(top) else top


def _threshold(values: np.ndarray, count: int) -> float:
    if len(values) <= count:
        return -math.inf
    return float(np.partition(values, len(values) - count)[len(values) - count]) - 1e-9


def _descending(values: np.ndarray) -> np.ndarray:
    order: np.ndarray = np.argsort(-values, kind="stable")
    return order


def _row_order(row: TreeRow) -> tuple[float, int, tuple[int, ...]]:
    # Equal up to rounding counts as equal, so that the order does not hang on the last bit.
    return -round(row.log_joint, 9), row.expression.complexity, row.expression.tokens

"""The posterior with constants: every tree by itself, its constants integrated out."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size, count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.exact.best_fit import log_best_fit
from dvisr.exact.functions import Progress
from dvisr.exact.marginal import TOLERANCE, LogMarginal, check_dimensions, log_marginal
from dvisr.exact.ranking import (
    AbstractRanking,
    CannotPromise,
    FunctionRow,
    TreeRow,
    descending,
    log_sum,
    row_order,
)
from dvisr.expression import Expression, canonical_form
from dvisr.problem import Problem

MAX_TREES_WITH_CONSTANTS = 500_000
MAX_ERROR = 1e-4  # of the log evidence; beyond it the answer is refused
GOOD_ERROR = 1e-8  # of the log evidence; short of it, the integrals at fault are tried again
SECOND_EFFORT = 20
_NEGLIGIBLE = 1e-12  # of the evidence
_FIRST_PASS = 0.5  # of the time, for all that is known beforehand


class TreeRanking(AbstractRanking):
    """With constants: every tree by itself, its constants integrated out. Trees of one canonical
    form have one integral, which is worked out once."""

    num_functions = None

    def __init__(self, problem: Problem, progress: Progress) -> None:
        grammar = problem.grammar
        total = count_trees(grammar)
        if total > MAX_TREES_WITH_CONSTANTS:
            raise CannotPromise(
                f"there are {_large(total)} expressions with constants to integrate one by one, "
                f"and at most {MAX_TREES_WITH_CONSTANTS:,} are taken on: lower max_tokens to "
                f"{_largest_size(grammar)}, or add max-constants=2 to the constraints"
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
        for index in first:  # before any work is done
            check_dimensions(self._expressions[index], problem.likelihood, problem.constant_prior)
        self._log_prior = problem.tree_prior.log_prob(np, trees)
        self._marginals: list[LogMarginal] = []
        for done, index in enumerate(first):
            self._marginals.append(self._marginal(problem, self._expressions[index], 1))
            progress(_FIRST_PASS * (done + 1) / len(first))
        self._add_up()
        # What ran out of nodes and is not known well enough for its weight gets a longer try,
        # unless even its best fit would not matter.
        again = self._wanting()
        for done, form in enumerate(again):
            expression = self._expressions[first[form]]
            if not self._is_negligible(problem, form, expression):
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
                f"an operator it uses, or add max-constants=1 to the constraints"
            )

    def _marginal(self, problem: Problem, expression: Expression, effort: int) -> LogMarginal:
        return log_marginal(
            expression, problem.X, problem.likelihood, problem.constant_prior, effort=effort
        )

    def _wanting(self) -> np.ndarray:
        unfinished = np.array([marginal.error > TOLERANCE for marginal in self._marginals])
        limit = GOOD_ERROR / max(1, unfinished.sum())
        wanting: np.ndarray = np.flatnonzero(unfinished & (self._shares_of_error() > limit))
        return wanting

    def _is_negligible(self, problem: Problem, form: int, expression: Expression) -> bool:
        """Whether the likelihood of the tree's best fit, times the prior, is nothing beside the
        evidence. If so that bounds its error, whatever the quadrature could not exclude."""
        best = log_best_fit(expression, problem.X, problem.likelihood, problem.constant_prior)
        prior = log_sum(self._log_prior[self._form == form])
        if best + prior - self.log_evidence > math.log(_NEGLIGIBLE):
            return False
        known = self._marginals[form]
        bound = min(known.log_error, best)
        self._marginals[form] = LogMarginal(known.value, bound, "quadrature and best fit")
        return True

    def _add_up(self) -> None:
        values = np.array([marginal.value for marginal in self._marginals])
        self._log_joint = values[self._form] + self._log_prior
        self.log_evidence = log_sum(self._log_joint)

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
        return sorted(rows, key=row_order)[:count]

    def functions(self, count: int) -> list[FunctionRow]:
        members = np.argsort(self._form, kind="stable")
        starts = np.append(np.unique(self._form[members], return_index=True)[1], len(members))
        groups = np.logaddexp.reduceat(self._log_joint[members], starts[:-1])
        rows = []
        for number in descending(groups)[:count]:
            if np.isneginf(groups[number]):
                break
            places = members[starts[number] : starts[number + 1]]
            trees = [TreeRow(self._expressions[p], float(self._log_joint[p])) for p in places]
            best = min(trees, key=row_order)
            rows.append(FunctionRow(best.expression, float(groups[number]), len(places)))
        return rows


def _threshold(values: np.ndarray, count: int) -> float:
    if len(values) <= count:
        return -math.inf
    return float(np.partition(values, len(values) - count)[len(values) - count]) - 1e-9


def _large(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def _largest_size(grammar: Grammar) -> int:
    """The most tokens for which there are few enough trees."""
    so_far = itertools.accumulate(count_by_size(grammar))
    return max(1, sum(count <= MAX_TREES_WITH_CONSTANTS for count in so_far) - 1)

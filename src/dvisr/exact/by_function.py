"""The posterior without constants: sums over functions, however many trees each has."""

from __future__ import annotations

import math

import numpy as np

from dvisr.exact.charges import Charges
from dvisr.exact.derivations import Derivations
from dvisr.exact.functions import FunctionTable, Progress
from dvisr.exact.grouping import group
from dvisr.exact.marginal import log_marginal
from dvisr.exact.ranking import (
    AbstractRanking,
    FunctionRow,
    TreeRow,
    descending,
    log_sum,
    row_order,
)
from dvisr.expression import Expression
from dvisr.problem import Problem

_MOST_TIES = 20  # trees of equal probability that are looked at for each one shown


class FunctionRanking(AbstractRanking):
    """Without constants: sums over functions, however many trees each has."""

    def __init__(self, problem: Problem, progress: Progress) -> None:
        self._problem = problem
        prior = problem.tree_prior
        self._table = FunctionTable(
            problem.grammar,
            problem.X,
            Charges(prior),
            lambda values: np.asarray(problem.likelihood.log_prob(np, values)),
            progress,
        )
        blocks, entries, log_joint, log_likelihood, prints = [], [], [], [], []
        for number, block in self._table.trees():
            with np.errstate(divide="ignore"):
                weights = np.log(block.weights[:, 0]) + self._log_root(number)
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
        self.log_evidence = log_sum(self._log_joint)
        self.log_evidence_error = 0.0

    def trees(self, count: int) -> list[TreeRow]:
        prior = self._problem.tree_prior
        derivations = Derivations(self._table, prior, count)
        bounds = np.empty(len(self._log_joint))
        for number, block in self._table.trees():
            here = self._blocks == number
            bounds[here] = derivations.heaviest(number) + self._log_root(number)
            bounds[here] += prior.log_size[block.size]
        bounds += self._log_likelihood
        with np.errstate(over="ignore"):
            bounds = np.round(bounds, 9)  # equal up to rounding is equal
        sizes = np.array([block.size for block in self._table.blocks])[self._blocks]
        rows: list[TreeRow] = []
        for place in np.lexsort((sizes, -bounds)):
            if np.isneginf(bounds[place]) or len(rows) >= _MOST_TIES * count:
                break
            if len(rows) >= count:
                rows.sort(key=row_order)
                last = rows[count - 1]
                standing = (np.round(last.log_joint, 9), -last.expression.complexity)
                if (bounds[place], -sizes[place]) < standing:
                    break
            found = derivations.of_entry(int(self._blocks[place]), int(self._entries[place]))
            rows += [self._row(tokens) for _, tokens in found]
        return sorted(rows, key=row_order)[:count]

    def functions(self, count: int) -> list[FunctionRow]:
        groups = np.logaddexp.reduceat(self._log_joint[self._members], self._starts[:-1])
        derivations = Derivations(self._table, self._problem.tree_prior, 1)
        rows = []
        for number in descending(groups)[:count]:
            if np.isneginf(groups[number]):
                break
            places = self._members[self._starts[number] : self._starts[number + 1]]
            trees = [
                derivations.of_entry(int(self._blocks[p]), int(self._entries[p]))[0][1]
                for p in places
            ]
            best = min((self._row(tokens) for tokens in trees), key=row_order)
            num_trees = sum(
                int(self._table.blocks[self._blocks[p]].counts[self._entries[p]]) for p in places
            )
            rows.append(FunctionRow(best.expression, float(groups[number]), num_trees))
        return rows

    def _log_root(self, block: int) -> float:
        return math.log(self._table.charges.whole(self._table.root_of(block)))

    def _row(self, tokens: tuple[int, ...]) -> TreeRow:
        problem = self._problem
        expression = Expression(problem.grammar.library, tokens)
        found = log_marginal(expression, problem.X, problem.likelihood, problem.constant_prior)
        log_prior = problem.tree_prior.log_prob(np, np.array(tokens))
        return TreeRow(expression, found.value + float(log_prior))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0)

"""`ExactPosterior`: the oracle's answer."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd

from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.exact.by_function import FunctionRanking
from dvisr.exact.by_tree import TreeRanking
from dvisr.exact.functions import Progress
from dvisr.exact.ranking import AbstractRanking, CannotPromise
from dvisr.problem import Problem


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

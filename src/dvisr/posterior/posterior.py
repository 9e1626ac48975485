"""`Posterior`: functions, trees and draws, as tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pandas as pd

from dvisr.constraints import Grammar
from dvisr.expression import Expression
from dvisr.library import Kind
from dvisr.marginal import Weighed
from dvisr.posterior.predictive import Draws


@dataclasses.dataclass(frozen=True)
class Function:
    """Trees that are the same function. The expression is the likeliest and simplest of them."""

    expression: Expression
    probability: float
    log_joint: float
    num_trees: int
    weighed: Weighed
    forms: tuple[int, ...] = ()  # numbers of its canonical forms among the visited
    log_prior: float = math.nan  # of its trees together; NaN where they are not known

    @property
    def modal(self) -> Expression:
        return self.expression.with_constants(self.weighed.mode.tolist())


@dataclasses.dataclass(frozen=True)
class Tree:
    expression: Expression
    probability: float
    log_joint: float
    weighed: Weighed | None  # None: too unlikely to have been weighed by itself


@dataclasses.dataclass(frozen=True)
class Posterior:
    """Functions and trees, likeliest first: all that matter, not all that were visited.

    `log_evidence` is the log of the sum over visited trees, a lower bound on the evidence, unless
    `is_exact`, when every tree was visited.
    """

    grammar: Grammar
    functions: tuple[Function, ...]
    trees: tuple[Tree, ...]
    log_evidence: float
    log_evidence_stderr: float
    is_exact: bool
    inclusion: pd.Series
    draws: Draws

    def function_table(self) -> pd.DataFrame:
        rows = [
            {
                "expression": str(function.expression),
                "equation": str(function.modal),
                "probability": function.probability,
                "num_trees": function.num_trees,
                "complexity": function.expression.complexity,
                "log_joint": function.log_joint,
                "log_prior": function.log_prior,
                "log_likelihood": function.log_joint - function.log_prior,
                **_constants(function.weighed),
            }
            for function in self.functions
        ]
        return pd.DataFrame(rows)

    def tree_table(self) -> pd.DataFrame:
        rows = [
            {
                "expression": str(tree.expression),
                "probability": tree.probability,
                "complexity": tree.expression.complexity,
                "log_joint": tree.log_joint,
                **_constants(tree.weighed),
            }
            for tree in self.trees
        ]
        return pd.DataFrame(rows)


def _constants(weighed: Weighed | None) -> dict[str, object]:
    if weighed is None:
        return {"constants": None, "constants_std": None}
    return {
        "constants": tuple(float(value) for value in weighed.mean),
        "constants_std": tuple(float(value) for value in weighed.std),
    }


def inclusion_of(grammar: Grammar, functions: Sequence[Function]) -> pd.Series:
    """The probability that each variable appears in the expression that is shown for a function: a
    tree that has b / b for the number 1 says nothing of b."""
    library = grammar.library
    total = sum(function.probability for function in functions)
    shares = {
        library[token].column_name: sum(
            function.probability for function in functions if token in function.expression.tokens
        )
        / total
        for token in library.ids_of_kind(Kind.VARIABLE)
    }
    return pd.Series(shares, name="inclusion", dtype=float).clip(0.0, 1.0)

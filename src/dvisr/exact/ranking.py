"""What the oracle's answers have in common."""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np

from dvisr.expression import Expression


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


def log_sum(values: np.ndarray) -> float:
    """Summed in pairs: one by one, millions of rounding errors would add up."""
    top = float(values.max()) if len(values) else -math.inf
    return top + math.log(np.exp(values - top).sum()) if math.isfinite(top) else top


def descending(values: np.ndarray) -> np.ndarray:
    order: np.ndarray = np.argsort(-values, kind="stable")
    return order


def row_order(row: TreeRow) -> tuple[float, int, tuple[int, ...]]:
    # Equal up to rounding counts as equal, so that the order does not hang on the last bit.
    return -round(row.log_joint, 9), row.expression.complexity, row.expression.tokens

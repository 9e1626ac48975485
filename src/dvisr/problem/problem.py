"""`Problem`: data, grammar and priors, as the oracle, fits, comparisons and experiments take it."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Grammar
from dvisr.likelihood import Likelihood
from dvisr.prior import TreePrior
from dvisr.types import Dataset


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a posterior is asked for.

    Parameters
    ----------
    data : Dataset
        Rows that were seen at least once; how often is in the likelihood's weights.
    grammar : Grammar
        The language and its constraints.
    tree_prior : TreePrior
    constant_prior : AbstractConstantPrior
    likelihood : Likelihood
        The noise model with the observations.
    position : ndarray of shape (rows,), optional
        The place of each row in the table that it came from; None: they are in its order.
    """

    data: Dataset
    grammar: Grammar
    tree_prior: TreePrior
    constant_prior: AbstractConstantPrior
    likelihood: Likelihood
    position: np.ndarray | None = None

    @property
    def X(self) -> np.ndarray:
        return self.data.X

    def some(self, rows: np.ndarray) -> Problem:
        """The same with some of the rows, by their numbers."""
        own = self.likelihood
        data = Dataset(
            self.data.X[rows],
            self.data.y[rows],
            None if self.data.y_err is None else self.data.y_err[rows],
            self.data.feature_names,
        )
        weights = None if own.weights is None else own.weights[rows]
        position = rows if self.position is None else self.position[rows]
        return dataclasses.replace(
            self, data=data, likelihood=own.some(rows, weights), position=position
        )

    def describe_noise(self) -> str:
        """The noise model in words."""
        return self.likelihood.describe()

    def is_same_as(self, other: Problem) -> bool:
        """Whether the posterior is the same: then a search of one can go on for the other."""
        one, two = self.likelihood, other.likelihood
        return (
            self.grammar.library == other.grammar.library
            and self.grammar.max_tokens == other.grammar.max_tokens
            and self.grammar.rules == other.grammar.rules
            and self.constant_prior == other.constant_prior
            and self.tree_prior.is_same_as(other.tree_prior)
            and np.array_equal(self.X, other.X)
            and (one.noise, one.prior, one.total) == (two.noise, two.prior, two.total)
            and np.array_equal(one.y, two.y)
            and np.array_equal(one.scale, two.scale)
            and (one.weights is None) == (two.weights is None)
            and (one.weights is None or np.array_equal(one.weights, two.weights))  # type: ignore[arg-type]
        )

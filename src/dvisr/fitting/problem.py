"""What a fit is asked: the language, the data and the priors, made of what a user gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dvisr.constants import AbstractConstantPrior, constant_prior
from dvisr.constraints import Constraints, Grammar, max_constants
from dvisr.library import Library, Token
from dvisr.likelihood import AbstractLikelihood, make_likelihood
from dvisr.marginal import Engine
from dvisr.prior import TreePrior
from dvisr.prior import tree_prior as make_tree_prior
from dvisr.types import Dataset


@dataclasses.dataclass(frozen=True)
class Problem:
    grammar: Grammar
    data: Dataset
    likelihood: AbstractLikelihood
    tree_prior: TreePrior
    constant_prior: AbstractConstantPrior

    @classmethod
    def create(
        cls,
        data: Dataset,
        *,
        operators: Sequence[str | Token],
        constants: bool,
        max_tokens: int,
        max_constants: int | None,
        constraints: Constraints,
        tree_prior: str | Mapping[str, float] | TreePrior,
        constant_prior: str | AbstractConstantPrior,
        noise: float | str,
        weights: np.ndarray | None = None,
    ) -> Problem:
        if not isinstance(constants, (bool, np.bool_)):
            raise ValueError(f"constants must be True or False, not {constants!r}")
        library = Library.create(operators, data.feature_names, constants=bool(constants))
        grammar = make_grammar(library, max_tokens, max_constants, constraints)
        return cls(
            grammar=grammar,
            data=data,
            likelihood=make_likelihood(data.y, noise, data.y_err, weights),
            tree_prior=make_tree_prior(tree_prior, grammar),
            constant_prior=_as_prior(constant_prior),
        )

    def engine(self, num_threads: int | None = None) -> Engine:
        return Engine(
            self.grammar.library,
            self.data.X,
            self.likelihood,
            self.constant_prior,
            num_threads=num_threads,
        )


def _as_prior(choice: str | AbstractConstantPrior) -> AbstractConstantPrior:
    return constant_prior(choice)


def make_grammar(
    library: Library, max_tokens: int, most: int | None, constraints: Constraints
) -> Grammar:
    """The user's rules, and the limit on constants where the library has any."""
    if most is not None and (
        isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 0
    ):
        raise ValueError(f"max_constants must be a whole number of at least 0, not {most!r}")
    rules: list[Any] = []
    if isinstance(constraints, str):
        rules = [part for part in constraints.split(",") if part.strip()]
    elif isinstance(constraints, Sequence):
        rules = list(constraints)
    else:
        rules = [constraints]
    if library.has_constants and most is not None:
        rules.append(max_constants(int(most)))
    return Grammar(library, max_tokens, rules)

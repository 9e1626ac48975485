"""The oracle: the exact posterior over all trees, wherever it can be known."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dvisr.constants import AbstractConstantPrior, Normal
from dvisr.constraints import Constraints, Grammar
from dvisr.exact.functions import Progress, TooManyFunctions
from dvisr.exact.marginal import LogMarginal, TooManyConstants, log_marginal
from dvisr.exact.posterior import ExactPosterior, solve
from dvisr.exact.ranking import CannotPromise, Problem
from dvisr.library import Library, Token
from dvisr.likelihood import make_likelihood
from dvisr.prior import TreePrior
from dvisr.prior import tree_prior as make_tree_prior
from dvisr.types import Dataset

__all__ = [
    "CannotPromise",
    "ExactPosterior",
    "LogMarginal",
    "Problem",
    "TooManyConstants",
    "TooManyFunctions",
    "exact_posterior",
    "log_marginal",
    "solve",
]


def exact_posterior(
    X: Any,
    y: Any,
    *,
    operators: Sequence[str | Token] = ("+", "*", "sin"),
    max_tokens: int = 12,
    constants: bool = False,
    constraints: Constraints = "paper",
    tree_prior: str | Mapping[str, float] | TreePrior = "uniform",
    noise: float | str = 1.0,
    y_err: Any = None,
    constant_prior_mean: float = 0.0,
    constant_prior_std: float = 10.0,
    constant_prior: AbstractConstantPrior | None = None,
    feature_names: Sequence[str] | None = None,
    progress: Progress | None = None,
    **unknown: Any,
) -> ExactPosterior:
    """The exact posterior over every expression of up to `max_tokens` tokens.

    - `X`, `y`: the data, as arrays or data frames; `y_err`: one standard deviation a row.
    - `operators`: names, numbers, or operators made by `new_operator`; `constants=True` adds the
      constant `c`, whose value is integrated out under a Normal prior (or `constant_prior`).
    - `constraints`: "paper", "default", "none", names, rules, or a list of these.
    - `tree_prior`: "uniform" (the paper's), "allowed", "size-balanced", "weights", or a mapping
      from tokens to weights.
    - `noise`: the standard deviation of the noise (a factor of `y_err` where that is given), or
      "infer" to integrate it out.
    - `progress`: called with the fraction that is done.

    A request whose answer can't be had to a known error is refused with a `ValueError`.
    """
    if unknown:
        raise TypeError(_unknown_parameter(next(iter(unknown))))
    if constant_prior is not None and not isinstance(constant_prior, AbstractConstantPrior):
        raise ValueError(f"constant_prior must be a distribution, not {constant_prior!r}")
    if not isinstance(constants, (bool, np.bool_)):
        raise ValueError(f"constants must be True or False, not {constants!r}")
    data = Dataset.create(X, y, y_err, feature_names)
    library = Library.create(operators, data.feature_names, constants=constants)
    grammar = Grammar(library, max_tokens, constraints)
    problem = Problem(
        grammar=grammar,
        X=data.X,
        likelihood=make_likelihood(data.y, noise, data.y_err),
        tree_prior=make_tree_prior(tree_prior, grammar),
        constant_prior=constant_prior or Normal(constant_prior_mean, constant_prior_std),
    )
    return solve(problem, progress or (lambda fraction: None))


def _unknown_parameter(name: str) -> str:
    known = list(inspect.signature(exact_posterior).parameters)[:-1]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
    return f"exact_posterior has no parameter {name!r}: {hint}"

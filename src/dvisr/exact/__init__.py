"""The oracle: the exact posterior over all trees, wherever it can be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dvisr.constants import AbstractConstantPrior
from dvisr.constraints import Constraints
from dvisr.exact.functions import Progress, TooManyFunctions
from dvisr.exact.marginal import LogMarginal, TooManyConstants, log_marginal
from dvisr.exact.posterior import ExactPosterior, solve
from dvisr.exact.ranking import CannotPromise
from dvisr.library import Token
from dvisr.prior import ChosenPrior
from dvisr.problem import make_problem, unknown_parameter
from dvisr.types import Dataset

__all__ = [
    "CannotPromise",
    "ExactPosterior",
    "LogMarginal",
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
    max_constants: int | None = None,
    constraints: Constraints = "paper",
    tree_prior: ChosenPrior = "uniform",
    noise: Any = 1.0,
    y_err: Any = None,
    sample_weight: Any = None,
    constant_prior: str | AbstractConstantPrior | None = None,
    constant_prior_mean: float = 0.0,
    constant_prior_std: float = 10.0,
    feature_names: Sequence[str] | None = None,
    progress: Progress | None = None,
    **unknown: Any,
) -> ExactPosterior:
    """The exact posterior over every expression of up to `max_tokens` tokens.

    The words are those of `DVISRRegressor`; the defaults are the paper's.

    Parameters
    ----------
    X : array-like or data frame of shape (rows, columns)
    y : array-like of shape (rows,)
    operators : sequence of str or Token
        Names of operators, numbers, or operators made by `new_operator`.
    max_tokens : int
        The size of the largest expression.
    constants : bool
        Whether to allow the constant `c`, whose value is integrated out.
    max_constants : int, optional
        The most constants in an expression; None for no limit but the size.
    constraints : str, rule, or list of these
        "paper", "default", "none", names of rules, or rules.
    tree_prior : str, mapping, TreePrior or callable
        "uniform" (the paper's), "allowed", "size-balanced", "weights", weights by token, or a
        function that makes a `TreePrior` for a `Grammar`.
    noise : float, str or AbstractNoise
        A number is the standard deviation of Gaussian noise (with `y_err`, a factor of it);
        "infer", "student", "student:NU", "relative" and others: see `dvisr.noise.noise_model`.
    y_err : array-like of shape (rows,), optional
        One error bar a row.
    sample_weight : array-like of shape (rows,), optional
        How often each row was seen.
    constant_prior : str or AbstractConstantPrior, optional
        "normal:MEAN,STD", "decades", "decades:LOW,HIGH"; None for a Normal of the two below.
    constant_prior_mean, constant_prior_std : float
    feature_names : sequence of str, optional
    progress : callable, optional
        Called with the fraction that is done.

    Returns
    -------
    ExactPosterior

    Raises
    ------
    ValueError
        For a request whose answer can't be had to a known error, and for input that is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from dvisr import exact_posterior
    >>> x = np.arange(11) / 10
    >>> exact = exact_posterior(x[:, None], x**2, operators=("+", "*", "sin"), max_tokens=3)
    >>> round(exact.log_evidence, 6), exact.num_allowed
    (-10.69865, 4)
    """
    if unknown:
        raise unknown_parameter(exact_posterior, next(iter(unknown)))
    problem = make_problem(
        Dataset.create(X, y, y_err, feature_names),
        operators=operators,
        constants=constants,
        max_tokens=max_tokens,
        max_constants=max_constants,
        constraints=constraints,
        tree_prior=tree_prior,
        constant_prior=constant_prior,
        noise=noise,
        sample_weight=sample_weight,
        constant_prior_mean=constant_prior_mean,
        constant_prior_std=constant_prior_std,
    )
    return solve(problem, progress or (lambda fraction: None))

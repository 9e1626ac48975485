"""A user's words into a `Problem`: the same words for every command, function and estimator."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dvisr.constants import AbstractConstantPrior, Normal, constant_prior
from dvisr.constraints import Constraints, Grammar, max_constants
from dvisr.constraints.rules import CountRule
from dvisr.library import Library, Token
from dvisr.likelihood import make_likelihood
from dvisr.prior import ChosenPrior
from dvisr.prior import tree_prior as make_tree_prior
from dvisr.problem.problem import Problem
from dvisr.problem.rows import distinct_rows
from dvisr.types import Dataset

MOST_CONSTANTS = 4  # of a formula in a fit, unless something else is asked for


def make_problem(
    data: Dataset,
    *,
    operators: Sequence[str | Token],
    constants: bool,
    max_tokens: int,
    max_constants: int | None,
    constraints: Constraints,
    tree_prior: ChosenPrior,
    constant_prior: str | AbstractConstantPrior | None,
    noise: Any,
    sample_weight: Any = None,
    constant_prior_mean: float = 0.0,
    constant_prior_std: float = 10.0,
) -> Problem:
    """The problem that these words describe; see `DVISRRegressor` for what each means.

    `constant_prior=None` is a Normal of the mean and standard deviation given.
    """
    if not isinstance(constants, (bool, np.bool_)):
        raise ValueError(f"constants must be True or False, not {constants!r}")
    rows = distinct_rows(data, sample_weight)
    library = Library.create(operators, data.feature_names, constants=bool(constants))
    grammar = _grammar(library, max_tokens, max_constants, constraints)
    return Problem(
        data=rows.data,
        grammar=grammar,
        tree_prior=make_tree_prior(tree_prior, grammar),
        constant_prior=_constant_prior(constant_prior, constant_prior_mean, constant_prior_std),
        likelihood=make_likelihood(rows.data.y, noise, rows.data.y_err, rows.weights),
        position=rows.position,
    )


def _constant_prior(choice: Any, mean: float, std: float) -> AbstractConstantPrior:
    return Normal(mean, std) if choice is None else constant_prior(choice)


def _grammar(
    library: Library, max_tokens: int, most: int | None, constraints: Constraints
) -> Grammar:
    """The user's rules, and the limit on constants where the library has any."""
    rules: list[Any]
    if isinstance(constraints, str):
        rules = [part for part in constraints.split(",") if part.strip()]
    elif isinstance(constraints, Sequence):
        rules = list(constraints)
    else:
        rules = [constraints]
    limit = most_constants(most, rules)
    if library.has_constants and limit is not None:
        rules.append(max_constants(limit))
    return Grammar(library, max_tokens, rules)


def most_constants(most: int | None, rules: Sequence[Any]) -> int | None:
    """The limit on constants that the parameter sets. A limit among the constraints takes the place
    of the parameter's default; two that differ and are both given are refused."""
    most = whole_number(most, "max_constants", 0)
    named = [rule for rule in rules if _is_limit(rule)]
    if not named or most is None:
        return most
    if most == MOST_CONSTANTS:
        return None
    if any(_limit_of(rule) not in (None, most) for rule in named):
        raise ValueError(
            f"max_constants={most} and the constraint {named[0]} disagree: give one of them"
        )
    return most


def _is_limit(rule: Any) -> bool:
    """Whether a rule, by name or as an object, limits the number of constants."""
    if isinstance(rule, str):
        return rule.strip().startswith("max-constants=")
    is_count = isinstance(rule, CountRule) and rule.maximum is not None
    return is_count and rule == max_constants(rule.maximum)


def _limit_of(rule: Any) -> int | None:
    if isinstance(rule, CountRule):
        return rule.maximum
    number = rule.partition("=")[2].strip()
    return int(number) if number.isdigit() else None


def whole_number(value: Any, name: str, least: int) -> int | None:
    """A whole number of at least that, or None."""
    if value is None:
        return None
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def threads_of(n_jobs: Any) -> int:
    """How many threads `n_jobs` asks for: None and -1 are all cores, -2 all but one."""
    cores = os.cpu_count() or 1
    if n_jobs is None:
        return cores
    is_whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not is_whole or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or a whole number other than 0, not {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn takes: None is another one each time."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**32:
            raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {random_state}")
        return int(random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ValueError(
        f"random_state must be None, a whole number or a generator, not {random_state!r}"
    )


def unknown_parameter(function: Callable[..., Any], name: str) -> TypeError:
    """The error for a keyword that a function does not take, with the one that was meant."""
    known = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
    return TypeError(f"{function.__name__} has no parameter {name!r}: {hint}")

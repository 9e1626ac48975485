"""Formulas that the user names, weighed against each other: evidence, constants, prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dvisr.comparing.result import (
    Compared,
    Comparison,
    list_assumptions,
    make_constants,
    make_table,
    make_verdict,
    own_seed,
)
from dvisr.constants import AbstractConstantPrior
from dvisr.expression import Expression, ParseError, canonical_form, parse_with_parameters
from dvisr.expression.lexing import leaves_in, numbers_in
from dvisr.fitting.checks import is_heavy
from dvisr.library import OPERATORS, Library
from dvisr.library.threads import for_each
from dvisr.marginal import Engine, Weighed, weigh
from dvisr.posterior.loo import loo_of_draws
from dvisr.problem import Problem, make_problem, seed_of, threads_of, unknown_parameter
from dvisr.settings import FitSettings
from dvisr.types import Dataset

__all__ = ["Comparison", "check_names", "compare"]

_MOST_ROWS_LEFT_OUT = 2_000  # leaving one out takes a millisecond or two a row
_STARTS_TIMES_ROWS = 500_000

_Formula = tuple[Expression, tuple[str, ...]]  # with the names of its constants


def compare(
    X: Any,
    y: Any,
    expressions: Sequence[str],
    *,
    noise: Any = "infer",
    y_err: Any = None,
    sample_weight: Any = None,
    constant_prior: str | AbstractConstantPrior = "decades",
    feature_names: Sequence[str] | None = None,
    coverage: float = 0.9,
    n_jobs: int | None = None,
    random_state: Any = None,
    **unknown: Any,
) -> Comparison:
    """Which of these formulas the data support, by how much, and with which constants.

    Parameters
    ----------
    X : array-like or data frame of shape (rows, columns)
    y : array-like of shape (rows,)
    expressions : sequence of str
        Texts such as "c * exp(-x0 / c)" or "a * exp(-x0 / b)". Every `c` is a constant of its own,
        to be found, and so is every name that is no column; numbers are themselves; columns go by
        their names, odd ones in backticks. A name may stand once in a formula, and must not be
        that of the target.
    noise : float, str or AbstractNoise
        As in `DVISRRegressor`.
    y_err : array-like of shape (rows,), optional
        One error bar a row.
    sample_weight : array-like of shape (rows,), optional
        How often each row was seen. Rows of weight 0 are left out.
    constant_prior : str or AbstractConstantPrior
        "decades", "decades:LOW,HIGH", "normal:MEAN,STD", or a prior.
    feature_names : sequence of str, optional
    coverage : float
        Of the intervals of the constants.
    n_jobs : int, optional
        Formulas weighed at the same time; None or -1 for as many as there are cores.
    random_state : int, generator or None
        A seed, for the same numbers again; None for another one each time.

    Returns
    -------
    Comparison

    Notes
    -----
    Leave-one-out prediction (`elpd_loo`) is worked out for up to 2,000 rows and is NaN beyond. A
    formula's numbers depend on the data, the settings and itself alone, not on its rivals.

    Examples
    --------
    >>> import numpy as np
    >>> from dvisr import compare
    >>> x = np.linspace(1, 5, 20)
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(20)
    >>> found = compare(x[:, None], 3 * x + noise, ["c * x0", "c * x0 * x0"], random_state=0)
    >>> found.table["expression"][0]
    'c * x0'
    """
    if unknown:
        raise unknown_parameter(compare, next(iter(unknown)))
    if not (isinstance(coverage, (int, float)) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
    data = Dataset.create(X, y, y_err, feature_names)
    texts = _texts(expressions)
    target = getattr(y, "name", None)
    if isinstance(target, str):
        check_names(texts, data.feature_names, {target: "is the target"})
    problems = [
        make_problem(
            data,
            operators=[*OPERATORS, *_numbers(number, text)],
            constants=True,
            max_tokens=200,
            max_constants=None,
            constraints="none",
            tree_prior="allowed",
            constant_prior=constant_prior,
            noise=noise,
            sample_weight=sample_weight,
        )
        for number, text in enumerate(texts, 1)
    ]
    formulas = _formulas(texts, problems)
    seed, settings = seed_of(random_state), FitSettings()
    found = _all_compared(problems, formulas, seed, settings, threads_of(n_jobs))
    found.sort(key=lambda one: (-one.weighed.log_marginal, str(one.expression)))
    return Comparison(
        make_table(found),
        make_constants(found, coverage),
        make_verdict(found, seed, settings),
        list_assumptions(problems[0], [names for _, names in formulas]),
        tuple(found),
        seed,
    )


def _texts(expressions: Sequence[str]) -> list[str]:
    texts = [expressions] if isinstance(expressions, str) else list(expressions)
    if not texts:
        raise ValueError("there is no formula to compare: give at least one, as in 'c * x0 + c'")
    return texts


def check_names(texts: Sequence[str], columns: Sequence[str], others: Mapping[str, str]) -> None:
    """A `ValueError` for a constant that is called like something that it is not: of these names
    each says what it is."""
    for number, text in enumerate(texts, 1):
        for name in _leaves(text):
            if name in others and name not in columns and name not in OPERATORS and name != "c":
                raise ValueError(
                    f"formula {number}, {text!r:.80}: {name!r} {others[name]}: leave it out, or "
                    f"give the constant another name"
                )


def _leaves(text: str) -> list[str]:
    try:
        return leaves_in(text)
    except ParseError:  # which will be told when it is read
        return []


def _numbers(number: int, text: str) -> list[str]:
    try:
        return numbers_in(text)
    except ParseError as error:
        raise ValueError(f"formula {number}, {text!r:.80}: {error}") from None


def _formulas(texts: Sequence[str], problems: Sequence[Problem]) -> list[_Formula]:
    known: dict[tuple[Library, str], Expression] = {}
    formulas = []
    for number, (text, problem) in enumerate(zip(texts, problems, strict=True), 1):
        try:
            expression, names = parse_with_parameters(text, problem.grammar.library)
        except ValueError as error:
            raise ValueError(f"formula {number}, {text!r:.80}: {error}") from None
        symmetric = problem.constant_prior.is_symmetric
        form = canonical_form(expression, symmetric_constants=symmetric)
        same = known.setdefault((expression.library, form), expression)
        if same is not expression:
            raise ValueError(f"formula {number}, {text!r:.80}, is the same as {same}: list it once")
        formulas.append((expression, names))
    return formulas


def _all_compared(
    problems: Sequence[Problem],
    formulas: Sequence[_Formula],
    seed: int,
    settings: FitSettings,
    num_threads: int,
) -> list[Compared]:
    solved: dict[int, Compared] = {}

    def solve(number: int) -> None:
        solved[number] = _compared(problems[number], formulas[number], seed, settings)

    for_each(lambda: solve, range(len(problems)), num_threads)
    found = [solved[number] for number in range(len(problems))]
    if not any(one.is_defined for one in found):
        raise ValueError(
            f"none of the formulas is defined on every row, {formulas[0][0]} for example: look for "
            f"logarithms and roots of negative values, divisions by zero, and values that are too "
            f"large or too small for a computer"
        )
    return found


def _compared(problem: Problem, formula: _Formula, seed: int, settings: FitSettings) -> Compared:
    expression, names = formula
    engine = Engine.of(problem, num_threads=1)
    own = own_seed(seed, expression)
    weighed = _weighed(engine, expression, own, settings)
    loo = None
    if math.isfinite(weighed.log_marginal) and len(engine.likelihood.y) <= _MOST_ROWS_LEFT_OUT:
        loo = loo_of_draws(engine, expression, weighed, seed=own)
    return Compared(problem, expression, engine, weighed, loo, names)


def _weighed(engine: Engine, expression: Expression, seed: int, settings: FitSettings) -> Weighed:
    """Where few draws decide, more carefully: a proposal that is better adapted may do."""
    own = settings.weighing
    tokens = np.array(expression.tokens, dtype=np.int8)
    fewest, most = own.compared_starts
    starts = max(fewest, min(most, _STARTS_TIMES_ROWS // len(engine.likelihood.y)))
    for error in own.compared_errors:
        rng = np.random.default_rng(seed)
        weighed = weigh(engine, tokens, rng, own, error=error, num_starts=starts)
        if expression.num_constants == 0 or not math.isfinite(weighed.log_marginal):
            break
        if not is_heavy(weighed) or weighed.error > error:
            break  # all is well, or no more can be done
    return weighed

"""Formulas that the user names, weighed against each other: evidence, constants, prediction."""

from __future__ import annotations

import concurrent.futures
import difflib
import inspect
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dvisr.comparing.result import (
    Compared,
    Comparison,
    is_heavy,
    judge,
    list_assumptions,
    make_constants,
    make_table,
    own_seed,
)
from dvisr.constants import AbstractConstantPrior
from dvisr.constants import constant_prior as make_constant_prior
from dvisr.expression import Expression, canonical_form, parse
from dvisr.expression.parsing import _lexemes
from dvisr.library import OPERATORS, Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine, Weighed, weigh
from dvisr.posterior.datatree import loo_of_draws, pareto_k
from dvisr.types import Dataset, as_numbers

__all__ = ["Comparison", "compare"]

_MOST_ROWS_LEFT_OUT = 2_000  # leaving one out takes a millisecond or two a row
_STARTS = (48, 256)  # of the optimiser: the more, the fewer rows there are
_STARTS_TIMES_ROWS = 500_000
_ERRORS = (0.01, 0.004, 0.0015)  # of a log evidence, to be tried in turn


def compare(
    X: Any,
    y: Any,
    expressions: Sequence[str],
    *,
    noise: float | str = "infer",
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

    - `X`, `y`: the data, as arrays or data frames; `y_err`: one standard deviation a row;
      `sample_weight`: how often each row was observed. Rows of weight 0 are left out.
    - `expressions`: texts such as "c * exp(-x0 / c)". Every `c` is a constant of its own, to be
      found; numbers are themselves; columns go by their names, odd ones in backticks.
    - `noise`: the standard deviation of the noise (a factor of `y_err` where that is given), or
      "infer" to find it too.
    - `constant_prior`: "decades", "decades:1e-6,1e6", "normal:0,10", or a prior.
    - `coverage`: of the intervals of the constants.
    - `n_jobs`: formulas weighed at the same time; -1 for as many as there are cores.

    Leave-one-out prediction (`elpd_loo`) is worked out for up to 2,000 rows and is NaN beyond.
    A formula's numbers depend on the data, the settings and itself alone, not on its rivals.
    """
    if unknown:
        raise TypeError(_unknown_parameter(next(iter(unknown))))
    if not (isinstance(coverage, (int, float)) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
    prior = make_constant_prior(constant_prior)
    data = Dataset.create(X, y, y_err, feature_names)
    weights = _checked_weights(sample_weight, len(data.y))
    formulas = _formulas(expressions, data.feature_names, prior)
    seed, workers = _seed(random_state), _workers(n_jobs)
    kept = slice(None) if weights is None else weights > 0.0
    likelihood = make_likelihood(
        data.y[kept],
        noise,
        None if data.y_err is None else data.y_err[kept],
        None if weights is None else weights[kept],
    )

    def solve(expression: Expression) -> Compared:
        engine = Engine(expression.library, data.X[kept], likelihood, prior, num_threads=1)
        return _compared(engine, expression, seed)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(solve, formulas))
    if not any(one.is_defined for one in found):
        raise ValueError(
            f"none of the formulas is defined on every row, not {formulas[0]} for one: look for "
            f"logarithms and roots of negative values and divisions by zero"
        )
    found.sort(key=lambda one: (-one.weighed.log_marginal, str(one.expression)))
    verdict, reasons = judge(found)
    return Comparison(
        make_table(found),
        make_constants(found, coverage),
        verdict,
        reasons,
        list_assumptions(prior, likelihood, data.y_err is not None),
        tuple(found),
        seed,
    )


def _unknown_parameter(name: str) -> str:
    known = list(inspect.signature(compare).parameters)[:-1]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
    return f"compare has no parameter {name!r}: {hint}"


def _checked_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = as_numbers(np.asarray(sample_weight), "sample_weight")
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight must be one number a row: {rows}, not {weights.shape}")
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(
            f"sample_weight must not be negative, but is {weights[row]:g} in row {row + 1}"
        )
    if not (weights > 0.0).any():
        raise ValueError("sample_weight is 0 in every row, which leaves no data: give some weight")
    return weights


def _seed(random_state: Any) -> int:
    """A whole number from what scikit-learn takes."""
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, not {random_state}")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    raise ValueError(f"random_state must be a whole number or a generator, not {random_state!r}")


def _workers(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, not {n_jobs!r}")
    cores = os.cpu_count() or 1
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def _formulas(
    texts: Sequence[str], names: Sequence[str], prior: AbstractConstantPrior
) -> list[Expression]:
    if isinstance(texts, str):
        texts = [texts]
    listed = list(texts)
    if not listed:
        raise ValueError("there is no formula to compare: give at least one, as in 'c * x0 + c'")
    found: dict[tuple[Library, str], Expression] = {}
    for number, text in enumerate(listed, 1):
        try:
            expression = parse(text, _library(text, names))
        except ValueError as error:
            raise ValueError(f"formula {number}, {text!r:.80}: {error}") from None
        form = canonical_form(expression, symmetric_constants=prior.is_symmetric)
        same = found.setdefault((expression.library, form), expression)
        if same is not expression:
            raise ValueError(f"formula {number}, {text!r:.80}, is the same as {same}: list it once")
    return list(found.values())


def _library(text: str, names: Sequence[str]) -> Library:
    """Every operator that comes with the package, and the numbers in the formula."""
    lexemes = _lexemes(text) if isinstance(text, str) else []
    spellings: dict[float, str] = {}
    for lexeme in lexemes:
        if lexeme.kind == "number":
            spellings.setdefault(float(lexeme.text), lexeme.text)
    numbers = [spellings[value] for value in sorted(spellings)]
    if any(lexeme.kind == "name" and lexeme.text == "pi" for lexeme in lexemes):
        numbers.append("pi")
    return Library.create([*OPERATORS, *numbers], names, constants=True)


def _compared(engine: Engine, expression: Expression, seed: int) -> Compared:
    own = own_seed(seed, expression)
    rows = len(engine.likelihood.y)
    weighed, k = _weighed(engine, expression, own)
    loo = None
    if math.isfinite(weighed.log_marginal) and rows <= _MOST_ROWS_LEFT_OUT:
        loo = loo_of_draws(engine, expression, weighed, seed=own)
    return Compared(expression, engine, weighed, loo, k)


def _weighed(engine: Engine, expression: Expression, seed: int) -> tuple[Weighed, float]:
    """With the Pareto k of the weights. Where few draws decide, more carefully: a proposal that is
    better adapted may do."""
    tokens = np.array(expression.tokens, dtype=np.int8)
    fewest, most = _STARTS
    starts = max(fewest, min(most, _STARTS_TIMES_ROWS // len(engine.likelihood.y)))
    for error in _ERRORS:
        rng = np.random.default_rng(seed)
        weighed = weigh(engine, tokens, rng, error=error, num_starts=starts)
        if expression.num_constants == 0 or not math.isfinite(weighed.log_marginal):
            return weighed, math.nan
        k = pareto_k(weighed.log_weights)
        if not is_heavy(weighed, k) or weighed.error > error:
            break  # all is well, or no more can be done
    return weighed, k

"""An answer as arrays and plain values for a file, and back. What comes from a file is checked."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd

from dvisr.checks import Verdict
from dvisr.expression import Expression
from dvisr.fitting.fitters import Outcome
from dvisr.marginal import Weighed
from dvisr.posterior import Draws, Function, Posterior, Tree
from dvisr.problem import Problem

# Of the diagnostics: what every summary has.
_SHOWN = ("num_rows", "r2", "num_allowed", "num_trees_visited")
_ROUNDING = 1e-6  # of sums of probabilities
_SMALLEST = np.finfo(np.float32).tiny  # that has all of its 24 bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Read(Weighed):
    """From a file: means and deviations are those of the draws before they were rounded; of
    `log_q`, which only tells draws that can be used, no more is kept than that."""

    first: np.ndarray
    second: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.first

    @property
    def std(self) -> np.ndarray:
        return self.second


class _Kept:
    """What is known of each tree, written once. Draws of constants are rounded: 24 bits of how far
    each is from the mode, and of each logarithm."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.rows: list[list[Any]] = []
        self._numbers: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._same: list[np.ndarray] = []  # holds on to them: an id is one's own while it lives

    def number(self, weighed: Weighed | None) -> int:
        if weighed is None:
            return -1
        if id(weighed) not in self._numbers:
            number = self._numbers[id(weighed)] = len(self.rows)
            name = f"weighed.{number}."
            self.arrays[name + "mode"] = weighed.mode
            self.arrays[name + "curvature"] = weighed.curvature
            self.arrays[name + "moments"] = np.stack([weighed.mean, weighed.std])
            self.arrays |= _rounded(name + "constants", weighed.constants, weighed.mode)
            is_used = np.isfinite(weighed.log_q)
            if not is_used.all():
                self.arrays[name + "is_used"] = is_used
            place = self._shared(weighed.log_weights)
            self.rows.append([weighed.log_marginal, weighed.error, weighed.method, place])
        return self._numbers[id(weighed)]

    def _shared(self, logs: np.ndarray) -> int:
        """Trees of one form have the same."""
        if id(logs) not in self._places:
            self._places[id(logs)] = len(self._same)
            self.arrays[f"logs.{len(self._same)}"] = logs.astype(np.float32)
            self._same.append(logs)
        return self._places[id(logs)]


def _rounded(name: str, values: np.ndarray, mode: np.ndarray) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        off = values - mode
        if not np.isfinite(off).all():
            return {name: values}
        largest = np.abs(off).max(axis=0, initial=0.0)
        exponent = np.frexp(largest)[1].astype(np.int32)
        short = np.ldexp(off, -exponent).astype(np.float32)
        if ((np.abs(short) < _SMALLEST) & (off != 0.0)).any():
            return {name: values}  # one draw is so far off that the others would lose their digits
        return {name: short, name + ".exponent": exponent}


def _unrounded(name: str, arrays: dict[str, np.ndarray], mode: np.ndarray) -> np.ndarray:
    values = arrays[name]
    if values.ndim != 2 or values.shape[1] != len(mode):
        raise ValueError(f"{name} is of another size")
    if name + ".exponent" not in arrays:
        return values.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.ldexp(values.astype(np.float64), arrays[name + ".exponent"])
        found: np.ndarray = mode + off
    return found


def to_file(outcome: Outcome) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    posterior, kept = outcome.posterior, _Kept()
    draws = posterior.draws
    functions = [
        [
            list(function.expression.tokens), function.probability, function.log_joint,
            function.log_prior, function.num_trees, kept.number(function.weighed),
        ]
        for function in posterior.functions
    ]  # fmt: skip
    arrays = {
        "draws.tree": draws.tree.astype(np.int32),
        "draws.constants": draws.constants,
        "draws.noise_factor": draws.noise_factor,
        "trees.log_joint": np.array([tree.log_joint for tree in posterior.trees]),
        "trees.probability": np.array([tree.probability for tree in posterior.trees]),
    }
    values = {
        "scale": draws.scale,
        "drawn": [list(expression.tokens) for expression in draws.expressions],
        "trees": [list(tree.expression.tokens) for tree in posterior.trees],
        "tree_weighed": [kept.number(tree.weighed) for tree in posterior.trees],
        "inclusion": posterior.inclusion.to_dict(),
        "is_exact": posterior.is_exact,
        "log_evidence": posterior.log_evidence,
        "log_evidence_stderr": posterior.log_evidence_stderr,
        "elbo": outcome.elbo,
        "verdict": outcome.verdict.as_dict(),
        "diagnostics": outcome.diagnostics,
        "interrupted": outcome.is_interrupted,
        "history": outcome.history.to_dict("records"),
        "history_columns": list(outcome.history.columns),
        "front": outcome.front.to_dict("records"),
        "front_columns": list(outcome.front.columns),
        "functions": functions,
        "weighed": kept.rows,
    }
    return arrays | kept.arrays, finite(values)


def from_file(arrays: dict[str, np.ndarray], values: dict[str, Any], problem: Problem) -> Outcome:
    """Raises `ValueError`, `KeyError` or `TypeError` for what `to_file` did not make."""
    values = restored(values)
    diagnostics = values["diagnostics"]
    is_told = isinstance(diagnostics, dict) and all(
        isinstance(diagnostics.get(name), (int, float)) for name in _SHOWN
    )
    if not is_told or not isinstance(values["interrupted"], bool):
        raise ValueError("its diagnostics are not as they were written")
    return Outcome(
        posterior=_posterior(values, arrays, problem),
        verdict=Verdict.from_dict(values["verdict"]),
        diagnostics=diagnostics,
        elbo=float(values["elbo"]),
        history=_frame(values, "history"),
        front=_frame(values, "front"),
        is_interrupted=values["interrupted"],
    )


def _frame(values: dict[str, Any], name: str) -> pd.DataFrame:
    columns, rows = values[f"{name}_columns"], values[name]
    if not all(isinstance(c, str) for c in columns) or not all(
        isinstance(row, dict) and set(row) == set(columns) for row in rows
    ):
        raise ValueError(f"its {name} is not as it was written")
    return pd.DataFrame(rows, columns=columns)


def _posterior(
    values: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem
) -> Posterior:
    library = problem.grammar.library

    def expression(tokens: list[int]) -> Expression:
        if not all(type(token) is int and 0 <= token < len(library) for token in tokens):
            raise ValueError("a formula has a token that is none")
        return Expression(library, tuple(tokens))

    weighed = [_weighed(n, row, arrays) for n, row in enumerate(values["weighed"])]
    functions = tuple(
        _function(expression(row[0]), row[1:], weighed) for row in values["functions"]
    )
    rows = zip(
        values["trees"],
        arrays["trees.probability"].tolist(),
        arrays["trees.log_joint"].tolist(),
        values["tree_weighed"],
        strict=True,
    )
    trees = tuple(
        Tree(
            expression(tokens),
            _probability(probability),
            joint,
            None if place == -1 else _checked(weighed[_place(place, len(weighed))], len(tokens)),
        )
        for tokens, probability, joint, place in rows
    )
    if not functions or sum(f.probability for f in functions) > 1.0 + _ROUNDING:
        raise ValueError("its probabilities do not sum to one or less")
    return Posterior(
        grammar=problem.grammar,
        functions=functions,
        trees=trees,
        log_evidence=float(values["log_evidence"]),
        log_evidence_stderr=float(values["log_evidence_stderr"]),
        is_exact=bool(values["is_exact"]),
        inclusion=_inclusion(values["inclusion"], problem),
        draws=_draws(tuple(map(expression, values["drawn"])), values, arrays, problem),
    )


def _function(expression: Expression, row: list[Any], weighed: list[Weighed]) -> Function:
    probability, log_joint, log_prior, count, place = row
    one = _checked(weighed[_place(place, len(weighed))], len(expression.tokens))
    if len(one.mode) != expression.num_constants:
        raise ValueError(f"{expression} has not as many constants as values of them")
    return Function(
        expression, _probability(probability), float(log_joint), int(count), one, (),
        float(log_prior),
    )  # fmt: skip


def _weighed(number: int, row: list[Any], arrays: dict[str, np.ndarray]) -> Weighed:
    value, error, method, place = row
    name = f"weighed.{number}."
    mode, curvature = arrays[name + "mode"], arrays[name + "curvature"]
    constants = _unrounded(name + "constants", arrays, mode)
    log_weights = arrays[f"logs.{int(place)}"].astype(np.float64)
    is_used = arrays.get(name + "is_used", np.ones(len(log_weights), dtype=bool))
    moments = arrays[name + "moments"]
    if (
        mode.ndim != 1
        or moments.shape != (2, len(mode))
        or curvature.shape != (len(mode), len(mode))
        or not len(constants) == len(log_weights) == len(is_used) > 0
    ):
        raise ValueError("the draws of a tree's constants do not fit each other")
    total = float(np.exp(log_weights).sum())
    if not abs(total - 1.0) < 1e-3:
        raise ValueError(f"the weights of a tree's constants sum to {total:g}, not to 1")
    return _Read(
        log_marginal=float(value),
        error=float(error),
        method=str(method),
        mode=mode,
        curvature=curvature,
        constants=constants,
        log_weights=log_weights - math.log(total),
        log_q=np.where(is_used, 0.0, -np.inf),
        first=moments[0],
        second=moments[1],
    )


def _draws(
    expressions: tuple[Expression, ...],
    values: dict[str, Any],
    arrays: dict[str, np.ndarray],
    problem: Problem,
) -> Draws:
    tree, constants = arrays["draws.tree"], arrays["draws.constants"]
    factor = arrays["draws.noise_factor"]
    most = max((expression.num_constants for expression in expressions), default=0)
    if (
        tree.ndim != 1
        or len(tree) == 0
        or factor.shape != tree.shape
        or constants.ndim != 2
        or len(constants) != len(tree)
        or constants.shape[1] < most
    ):
        raise ValueError("the draws do not fit each other")
    if not ((tree >= 0) & (tree < len(expressions))).all():
        raise ValueError("a draw is of a formula that is not there")
    scale = float(values["scale"])
    if not scale > 0.0 or not (factor >= 0.0).all():
        raise ValueError("the noise has no size")
    return Draws(expressions, tree, constants, factor, scale, problem.likelihood.noise)


def _inclusion(shares: dict[str, Any], problem: Problem) -> pd.Series:
    if set(shares) != set(problem.data.feature_names):
        raise ValueError("the columns that it has probabilities of are others")
    found = {name: _probability(share) for name, share in shares.items()}
    return pd.Series(found, name="inclusion", dtype=float)


def _checked(weighed: Weighed, num_tokens: int) -> Weighed:
    if len(weighed.mode) > num_tokens:
        raise ValueError("a formula has more constants than tokens")
    return weighed


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not 0.0 <= float(value) <= 1.0 + _ROUNDING:
        raise ValueError(f"it has a probability of {value!r:.40}")
    return float(value)


def _place(value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"{value!r:.40} is no place from 0 to {count - 1}")
    return value


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, dict):
        return {str(name): finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else {"number": repr(float(value))}
    if isinstance(value, np.generic):
        return value.item()
    return value


def restored(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"number"} and isinstance(value["number"], str):
            return float(value["number"])
        return {name: restored(part) for name, part in value.items()}
    if isinstance(value, list):
        return [restored(part) for part in value]
    return value

"""Accuracy against complexity: of each size the formula that fits best, if it beats all smaller."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dvisr.diagnostics import log_total, r_squared
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.fitting.search import Search

FRONT_COLUMNS = ["complexity", "loss", "r2", "score", "equation", "probability"]
_CANDIDATES = 3  # of each size
_BETTER = 0.999  # of the loss: what counts as better


def front(search: Search) -> pd.DataFrame:
    """`score` is the fall of the log of the loss by each token more; see `functions_` for what is
    probable, which is another question."""
    visited, likelihood = search.visited, search.problem.likelihood
    joint = visited.form_log_joint
    sizes = (visited.form_tree >= 0).sum(axis=1)
    rows: list[dict[str, object]] = []
    best, before = math.inf, 0
    unit = float(np.abs(likelihood.y).max()) or 1.0  # so that no square overflows
    for size in np.unique(sizes):
        own = np.flatnonzero((sizes == size) & np.isfinite(visited.form_estimate))
        order = own[np.argsort(-visited.form_estimate[own], kind="stable")[:_CANDIDATES]]
        fitted = [(*_fitted(search, visited.form_tree[form], unit), int(form)) for form in order]
        if not fitted:
            continue
        loss, values, expression, form = min(fitted, key=lambda row: row[0])
        if not loss < _BETTER * best:
            continue
        fall = math.log(best / loss) if 0.0 < loss < best < math.inf else 0.0
        rows.append(
            {
                "complexity": int(size),
                "loss": loss * unit * unit,
                "r2": r_squared(likelihood.y, values, likelihood.weights),
                "score": fall / max(1, int(size) - before),
                "equation": str(expression),
                "probability": math.exp(joint[form] - log_total(joint)),
            }
        )
        best, before = loss, int(size)
    return pd.DataFrame(rows, columns=FRONT_COLUMNS)


def _fitted(search: Search, tree: np.ndarray, unit: float) -> tuple[float, np.ndarray, Expression]:
    """The mean squared residual in units of the target, the values and the formula at its mode."""
    data, weights = search.problem.data, search.problem.likelihood.weights
    tokens = tuple(int(token) for token in tree if token >= 0)
    bare = Expression(search.problem.grammar.library, tokens)
    constants = search.engine.polish(tree)[: bare.num_constants]
    expression = bare.with_constants(constants.tolist())
    values, defined = evaluate(expression, data.X)
    values = np.broadcast_to(values, data.y.shape)
    if not defined.all():
        return math.inf, values, expression
    with np.errstate(over="ignore"):
        squares = ((values - data.y) / unit) ** 2
    return float(np.average(squares, weights=weights)), values, expression

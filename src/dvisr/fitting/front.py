"""Accuracy against complexity: of each size the formula that fits best, if it beats all smaller."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.fitting.loop import Search

FRONT_COLUMNS = ["complexity", "loss", "r2", "score", "equation", "probability"]
_CANDIDATES = 3  # of each size
_BETTER = 0.999  # of the loss: what counts as better


def front(search: Search) -> pd.DataFrame:
    """`score` is the fall of the log of the loss by each token more; see `functions_` for what is
    probable, which is another question."""
    ledger, problem = search.ledger, search.problem
    joint = ledger.form_log_joint
    total = joint.max() + math.log(np.exp(joint - joint.max()).sum())
    sizes = (ledger.form_tree >= 0).sum(axis=1)
    rows: list[dict[str, object]] = []
    best, before = math.inf, 0
    unit = _unit(search)  # losses are in units of the target, so that no square overflows
    centred = (problem.data.y - _mean(search)) / unit
    spread = float(np.average(centred**2, weights=_weights(search)))
    for size in np.unique(sizes):
        own = np.flatnonzero((sizes == size) & np.isfinite(ledger.form_log_marginal))
        order = own[np.argsort(-ledger.form_log_marginal[own], kind="stable")[:_CANDIDATES]]
        found = [(*_fitted(search, ledger.form_tree[form]), int(form)) for form in order]
        if not found:
            continue
        loss, expression, form = min(found, key=lambda row: row[0])
        if not loss < _BETTER * best:
            continue
        fall = math.log(best / loss) if 0.0 < loss < best < math.inf else 0.0
        rows.append(
            {
                "complexity": int(size),
                "loss": loss * unit * unit,
                "r2": 1.0 - loss / spread if spread > 1e-24 else math.nan,
                "score": fall / max(1, int(size) - before),
                "equation": str(expression),
                "probability": math.exp(joint[form] - total),
            }
        )
        best, before = loss, int(size)
    return pd.DataFrame(rows, columns=FRONT_COLUMNS)


def _fitted(search: Search, tree: np.ndarray) -> tuple[float, Expression]:
    library, data = search.problem.grammar.library, search.problem.data
    tokens = tuple(int(token) for token in tree if token >= 0)
    bare = Expression(library, tokens)
    constants = search.engine.polish(tree)[: bare.num_constants]
    expression = bare.with_constants(constants.tolist())
    values, defined = evaluate(expression, data.X)
    if not defined.all():
        return math.inf, expression
    with np.errstate(over="ignore"):
        squares = ((np.broadcast_to(values, data.y.shape) - data.y) / _unit(search)) ** 2
    return float(np.average(squares, weights=_weights(search))), expression


def _weights(search: Search) -> np.ndarray | None:
    return search.problem.likelihood.weights


def _unit(search: Search) -> float:
    return float(np.abs(search.problem.data.y).max()) or 1.0


def _mean(search: Search) -> float:
    unit = _unit(search)
    return unit * float(np.average(search.problem.data.y / unit, weights=_weights(search)))

"""Trees that are one and the same function: merged, and one's constants as another's."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from dvisr.constants import Normal
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.marginal import Engine, Weighed

_MOST_MATCHED = 5  # constants of a tree: 3840 orders and signs
_SAME = 1e-4  # of the residuals: fits that differ by less are one function
_PROBES = 16


def probe_rows(X: np.ndarray) -> np.ndarray:
    """Rows beside the data's: values of each column, combined at random."""
    rng = np.random.default_rng(0)
    return np.stack([rng.choice(column, _PROBES) for column in X.T], axis=1)


def matched(one: Expression, weighed: Weighed, two: Expression, X: np.ndarray) -> Weighed | None:
    """What is known of one tree's constants as the other's, which has the same ones in another
    order or with other signs; None where no order and signs make the two equal, or there are too
    many to try."""
    k = len(weighed.mode)
    if k > _MOST_MATCHED:
        return None
    values, _ = evaluate(one, X, list(weighed.mode))
    for order in itertools.permutations(range(k)):
        for signs in itertools.product((1.0, -1.0), repeat=k):
            factors = np.array(signs)
            others, defined = evaluate(two, X, list(factors * weighed.mode[list(order)]))
            if defined.all() and np.allclose(others, values, rtol=1e-9, atol=1e-12):
                flips = np.outer(factors, factors)
                return dataclasses.replace(
                    weighed,
                    mode=factors * weighed.mode[list(order)],
                    curvature=flips * weighed.curvature[np.ix_(order, order)],
                    constants=factors * weighed.constants[:, list(order)],
                )
    return None


def merged(engine: Engine, trees: np.ndarray, probes: np.ndarray) -> list[list[int]]:
    """Groups of trees whose best fits under a flat prior are one function, on the data and beside
    them. Where constants do the same work in another way the best fit is the same to the last
    digits; where one tree can do more than another it is not. Fits are compared as the likelihood
    compares them with y: through its link, in units of each row's scale."""
    flat, likelihood = engine.with_prior(Normal(0.0, 1e13)), engine.likelihood
    X = np.concatenate([engine.X, probes])
    scale = np.asarray(likelihood.scale)  # beside the data, the largest
    scale = np.concatenate([scale, np.full(len(probes), scale.max())])
    y = likelihood.linked(np, likelihood.y) / scale[: len(likelihood.y)]
    unit = float(np.abs(y).max()) or 1.0  # so that no square overflows
    y = y / unit
    values = []
    for tree in trees:
        fitted = flat.polish(tree)
        tokens = tuple(int(token) for token in tree if token >= 0)
        expression = Expression(engine.library, tokens)
        constants = [np.asarray(value) for value in fitted]
        found, defined = evaluate(expression, X, constants[: expression.num_constants])
        found = np.where(defined, np.broadcast_to(found, (len(X),)), np.nan)
        values.append(likelihood.linked(np, found) / scale / unit)
    spread = float(np.std(y)) or 1.0
    groups: list[list[int]] = []
    for place, row in enumerate(values):
        residuals = row[: len(y)] - y
        residuals = residuals[np.isfinite(residuals)]
        with np.errstate(over="ignore"):
            left = float(np.sqrt((residuals**2).sum() / max(1, len(residuals))))
        for group in groups:
            other = values[group[0]]
            same = np.isnan(row) == np.isnan(other)
            gap = np.nanmax(np.abs(row - other)) if (~np.isnan(row - other)).any() else 0.0
            if same.all() and gap <= _SAME * left + 1e-9 * spread:
                group.append(place)
                break
        else:
            groups.append([place])
    return groups

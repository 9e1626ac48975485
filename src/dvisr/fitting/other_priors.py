"""What the answer would be under other priors over trees: the visited trees weighed anew, at the
cost of a sum."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.evaluation import evaluate
from dvisr.fitting.weighing import FormWeigher
from dvisr.posterior import Posterior
from dvisr.prior import tree_prior

NAMES = ("size-balanced", "uniform")
_SHOWN = 5
_COMPARED = 60  # forms whose curves are compared with that of the first function


@dataclasses.dataclass(frozen=True)
class OtherPrior:
    """The posterior under another prior.

    Parameters
    ----------
    name : str
    probabilities : tuple of float
        Of the functions that the fit lists, in their order.
    first : tuple of (str, float)
        The likeliest functions under it, with their probabilities.
    agreeing : float
        The probability of functions that say the same of the rows as the fit's first one: their
        curves are no further from its own than its constants leave it uncertain.
    """

    name: str
    probabilities: tuple[float, ...]
    first: tuple[tuple[str, float], ...]
    agreeing: float

    def as_rows(self) -> list[dict[str, Any]]:
        """Plain values, for `diagnostics_`."""
        return [{"expression": text, "probability": share} for text, share in self.first]


def other_priors(weigher: FormWeigher, posterior: Posterior) -> list[OtherPrior]:
    problem = weigher.search.problem
    names = [name for name in NAMES if name != problem.tree_prior.name]
    curves = _Curves(weigher, posterior)
    return [_under(weigher, posterior, curves, name) for name in names]


def _under(weigher: FormWeigher, posterior: Posterior, curves: _Curves, name: str) -> OtherPrior:
    visited, functions = weigher.visited, posterior.functions
    prior = tree_prior(name, weigher.search.problem.grammar)
    joint = np.full(visited.num_forms, -np.inf)
    log_prior = np.asarray(prior.log_prob(np, visited.trees))
    np.logaddexp.at(joint, visited.tree_form, log_prior)
    joint += visited.form_log_marginal
    shares = np.exp(joint - log_total(joint))
    of_function = np.array([shares[list(function.forms)].sum() for function in functions])
    listed = {form for function in functions for form in function.forms}
    best = np.argsort(-shares, kind="stable")[: _SHOWN + len(listed)]
    rows = [(str(f.expression), float(p)) for f, p in zip(functions, of_function, strict=True)]
    rows += [
        (str(weigher.expression(weigher.representative(int(form)))), float(shares[form]))
        for form in best
        if int(form) not in listed
    ]
    rows.sort(key=lambda row: -row[1])
    agreeing = float(of_function[0]) + curves.agreeing(shares)
    return OtherPrior(name, tuple(of_function.tolist()), tuple(rows[:_SHOWN]), min(1.0, agreeing))


class _Curves:
    """The curves of forms at the rows, against that of the posterior's first function."""

    def __init__(self, weigher: FormWeigher, posterior: Posterior) -> None:
        self._weigher = weigher
        self._first = set(posterior.functions[0].forms)
        problem = weigher.search.problem
        first = posterior.functions[0]
        noise = float(np.median(posterior.draws.noise_factor))
        free = max(1, first.expression.num_constants)
        self._width = noise * math.sqrt(free / problem.likelihood.count)
        values, _ = evaluate(first.modal, problem.X)
        self._residuals = problem.likelihood.residuals(np, values)
        self._gaps: dict[int, float] = {}

    def agreeing(self, shares: np.ndarray) -> float:
        """The share of forms that are not the first function's, and say the same of the rows."""
        best = [int(form) for form in np.argsort(-shares, kind="stable")[:_COMPARED]]
        self._measure([form for form in best if form not in self._gaps])
        return float(
            sum(
                shares[form]
                for form in best
                if form not in self._first and self._gaps[form] <= self._width
            )
        )

    def _measure(self, forms: list[int]) -> None:
        """The root mean square of the distance from the first function's curve, in noise units."""
        if not forms:
            return
        search = self._weigher.search
        trees = np.array([self._weigher.representative(form) for form in forms])
        constants = search.engine.fit(trees, search.settings.search.num_starts).constants
        likelihood = search.problem.likelihood
        counts = np.ones(len(likelihood.y)) if likelihood.weights is None else likelihood.weights
        for form, tree, found in zip(forms, trees, constants, strict=True):
            expression = self._weigher.expression(tree)
            values, _ = evaluate(expression, search.problem.X, list(found))
            with np.errstate(all="ignore"):
                squares = (likelihood.residuals(np, values) - self._residuals) ** 2
            gap = math.sqrt(float((squares * counts).sum()) / likelihood.count)
            self._gaps[form] = gap if math.isfinite(gap) else math.inf

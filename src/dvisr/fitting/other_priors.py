"""What the answer would be under other priors over trees: the visited trees weighed anew, at the
cost of a sum."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.fitting.weighing import FormWeigher
from dvisr.posterior import Function, Posterior
from dvisr.prior import tree_prior

NAMES = ("size-balanced", "uniform")
_SHOWN = 5


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
    """

    name: str
    probabilities: tuple[float, ...]
    first: tuple[tuple[str, float], ...]

    def as_rows(self) -> list[dict[str, Any]]:
        """Plain values, for `diagnostics_`."""
        return [{"expression": text, "probability": share} for text, share in self.first]


def other_priors(weigher: FormWeigher, posterior: Posterior) -> list[OtherPrior]:
    problem = weigher.search.problem
    names = [name for name in NAMES if name != problem.tree_prior.name]
    return [_under(weigher, posterior.functions, name) for name in names]


def _under(weigher: FormWeigher, functions: tuple[Function, ...], name: str) -> OtherPrior:
    visited = weigher.visited
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
    return OtherPrior(name, tuple(of_function.tolist()), tuple(rows[:_SHOWN]))

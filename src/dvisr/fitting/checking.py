"""Whether the answer can be trusted: fresh draws after the search, and a verdict.

The sum over visited trees is a lower bound on the evidence, and replay teaches the network what was
visited: both are blind to what nobody visited. So the trained network draws afresh; what it finds
that was never seen, and what that weighs, is an estimate of what was missed.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

from dvisr.diagnostics import Verdict, importance_weights, judged, total_variation
from dvisr.fitting.finish import Finish
from dvisr.fitting.loop import Search
from dvisr.posterior.answer import Posterior, log_total
from dvisr.posterior.predictive import moments
from dvisr.search.exploring import agreement

FRESH = 1500
LESSONS = 250
_RATE = 5e-3
_TAIL = 10.0
_FEW_ROWS = 6
_FEW_STEPS = 5
_COMPARED = 1000  # trees whose q is compared with their posterior


def teach(search: Search, deadline: float | None = None) -> None:
    """Teach the network the posterior over what was visited, as it stands now."""
    network = search.network
    if network is None:
        return
    nobody = np.zeros(network.num_samples)
    trees, _ = network.draw()
    for lesson in range(LESSONS):
        if deadline is not None and time.perf_counter() > deadline:
            return
        rate = _RATE * 0.5 * (1.0 + math.cos(math.pi * lesson / LESSONS))
        network.learn(trees, nobody, search.replayed(network, 1.0), rate)


def fresh_draws(search: Search, deadline: float | None = None) -> dict[str, Any]:
    """Draws after training: visited or not, and what the unvisited weigh."""
    network, ledger = search.network, search.ledger
    if network is None:
        return {}
    batches = []
    for number in range(-(-FRESH // network.num_samples)):
        if number >= 2 and deadline is not None and time.perf_counter() > deadline:
            break
        batches.append(network.draw())
    trees = np.concatenate([batch[0] for batch in batches])
    log_q = np.concatenate([batch[1] for batch in batches])
    before = log_total(ledger.form_log_joint)
    unseen = ~ledger.contains(trees)
    num_forms = ledger.num_forms
    numbers = ledger.visit(trees, islands=())
    log_joint = ledger.tree_log_joint[numbers]
    found = importance_weights(log_joint - log_q)
    floored = np.maximum(log_joint, search.floor + ledger.tree_log_prior[numbers])
    ratios = log_joint - log_q
    weights = np.exp(ratios - ratios.max()) if np.isfinite(ratios.max()) else np.zeros(len(ratios))
    total = float(weights.sum())
    unknown = ledger.tree_form[numbers] >= num_forms

    def mass(which: np.ndarray) -> float:
        return float(weights[which].sum()) / total if total > 0.0 else 1.0

    return {
        "elbo": float((floored - log_q).mean()),
        "log_evidence_visited": before,
        "log_evidence_importance": found.log_evidence,
        "log_evidence_importance_stderr": found.stderr,
        "effective_sample_size": found.effective_size,
        "num_fresh": len(trees),
        "largest_weight": found.largest_share,
        "unseen_share": float(unseen.mean()),
        "unseen_mass": mass(unseen),
        "unknown_mass": mass(unknown),
        "invalid_share": float((log_joint == -np.inf).mean()),
    }


Shares = list[tuple[frozenset[int], float]]


def moved(before: Shares, after: Shares) -> float:
    """How much probability lies elsewhere than before: a total variation between functions, of
    which each is the forms that it has. Functions that share a form are one."""
    found: list[tuple[frozenset[int], float]] = []  # forms, and by how much they are likelier now
    for sign, shares in ((-1.0, before), (1.0, after)):
        for forms, probability in shares:
            same = [entry for entry in found if entry[0] & forms]
            found = [entry for entry in found if not entry[0] & forms]
            together = forms.union(*(entry[0] for entry in same))
            found.append((together, sign * probability + sum(entry[1] for entry in same)))
    return 0.5 * sum(abs(difference) for _, difference in found)


def total_variation_of(search: Search) -> float:
    """Between q and the posterior over the visited, over the likeliest trees and the rest of q
    taken as one."""
    network, ledger = search.network, search.ledger
    assert network is not None
    joint = ledger.tree_log_joint
    count = min(_COMPARED, len(joint))
    chosen = np.argpartition(-joint, count - 1)[:count]
    log_posterior = joint[chosen] - log_total(joint)
    log_q = network.log_prob(ledger.trees[chosen])
    inside = total_variation(log_q, log_posterior)
    rest_q = max(0.0, 1.0 - float(np.exp(log_q).sum()))
    rest = max(0.0, 1.0 - float(np.exp(log_posterior).sum()))
    return min(1.0, inside + 0.5 * abs(rest_q - rest))


def k_hat(log_weights: np.ndarray) -> float:
    """Pareto's k of a tree's importance weights: above 0.7 their tail is too heavy to rely on. Zero
    where no weight is ten times the mean: they have no tail, and its fit means nothing."""
    from arviz_stats.base import array_stats

    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < 100 or finite.max() < math.log(_TAIL / len(log_weights)):
        return 0.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = float(array_stats.psislw(-finite)[1])  # it takes log likelihoods left out
    return found if math.isfinite(found) else 0.0


def diagnose(
    search: Search, finish: Finish, answer: Posterior, checked: dict[str, Any], is_whole: bool
) -> dict[str, Any]:
    """All diagnostics, with the verdict and its reasons."""
    likely = [f for f, share in enumerate(finish.shares()) if share > 0.01 and f in finish.weighed]
    weighed = [finish.weighed[form] for form in likely]
    with_constants = [found for found in weighed if found.constants.shape[1] > 0]
    found = {
        "exact": answer.is_exact,
        "num_trees_visited": len(search.ledger.trees),
        "num_forms_visited": search.ledger.num_forms,
        "num_allowed": search.num_allowed,
        "complete_size": search.complete_size,
        "shown_share": float(sum(function.probability for function in answer.functions)),
        "constants_k_hat": max((k_hat(w.log_weights) for w in with_constants), default=0.0),
        "constants_error": max((w.error for w in weighed), default=0.0),
        **checked,
    }
    found["num_steps"] = len(search.history)
    found["is_whole"] = is_whole
    found["num_rows"] = search.problem.likelihood.count
    if not answer.is_exact:
        found["island_agreement"] = agreement(search.ledger)
        found["total_variation"] = total_variation_of(search)
    found["r2"] = _r2(search, answer)
    verdict = _verdict(found)
    return {"verdict": verdict.word, "reasons": list(verdict.reasons), **found}


def _r2(search: Search, answer: Posterior) -> float:
    """Of the posterior's mean at the data; NaN for a constant target. In units of the target, so
    that no square overflows."""
    likelihood = search.problem.likelihood
    unit = float(np.abs(likelihood.y).max()) or 1.0
    y = likelihood.y / unit
    mean, _, _ = moments(answer.draws, search.problem.data.X)
    with np.errstate(over="ignore"):
        left = float(np.average((y - mean / unit) ** 2, weights=likelihood.weights))
    centred = y - np.average(y, weights=likelihood.weights)
    spread = float(np.average(centred**2, weights=likelihood.weights))
    return 1.0 - left / spread if spread > 1e-24 else math.nan


def _verdict(found: dict[str, Any]) -> Verdict:
    grave, doubtful = [], []
    if found["constants_k_hat"] > 0.7 and found["constants_error"] > 0.02:
        doubtful.append(
            f"the integral over the constants of a likely formula is poorly known "
            f"(k-hat {found['constants_k_hat']:.2f})"
        )
    if found["constants_error"] > 0.3:
        grave.append(
            f"the integral over the constants of a likely formula has an error of "
            f"{found['constants_error']:.2f} in its logarithm"
        )
    if found["num_rows"] < _FEW_ROWS:
        doubtful.append(f"there are only {found['num_rows']:.0f} rows, which decide little")
    if not found["exact"]:
        steps = found["num_steps"]
        if not found["is_whole"]:
            text = f"the search was stopped early, after {steps} steps"
            (grave if steps < _FEW_STEPS else doubtful).append(text)
        elif steps < _FEW_STEPS:
            doubtful.append(f"{steps} steps are few for a search")
        missed, moved = found.get("unknown_mass", 0.0), found.get("moved", 0.0)
        text = f"fresh draws suggest that {missed:.0%} of the posterior was not visited"
        if missed > 0.4:
            grave.append(text)
        elif missed > 0.1:
            doubtful.append(text)
        text = f"fresh draws have moved {moved:.0%} of the probability between functions"
        if moved > 0.2:
            grave.append(text)
        elif moved > 0.05:
            doubtful.append(text)
        agreed = found["island_agreement"]
        if agreed < 0.5:
            grave.append(f"two independent searches agree on {agreed:.0%} of the posterior only")
        elif agreed < 0.9:
            doubtful.append(f"two independent searches agree on {agreed:.0%} of the posterior only")
        if found.get("effective_sample_size", 0.0) < 20.0:
            doubtful.append(
                "the network learnt too little of the posterior for its fresh draws to tell what "
                "was missed"
            )
    if math.isfinite(found["r2"]) and found["r2"] < 0.1:
        doubtful.append(
            f"no formula explains much of the target (R² {found['r2']:.2f}): what is listed is the "
            f"best of a poor lot"
        )
    return judged(grave, doubtful)

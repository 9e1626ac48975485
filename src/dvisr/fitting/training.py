"""The network at the end of a search, trained on what was visited: drawn from afresh.

The sum over visited trees is a lower bound on the evidence, and replay trains the network on what
was visited: both are blind to what was never visited. So the trained network draws afresh; what it
draws that was never visited, and what that weighs, is an estimate of what was missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dvisr.diagnostics import importance_weights, log_total, total_variation
from dvisr.fitting.limits import Limit
from dvisr.fitting.network import AbstractNetwork
from dvisr.fitting.search import Search

_MOST_COMPARED = 128  # trees whose q is compared with their posterior
_BATCHES_AT_ONCE = 2  # between two looks at the clock


def draw_afresh(
    search: Search, network: AbstractNetwork, limit: Limit | None = None
) -> dict[str, Any]:
    """Draws after training are visited; what they say of the search, as diagnostics."""
    visited = search.visited
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    due = -(-search.settings.search.num_fresh // network.num_samples)
    while due > 0 and not (batches and limit is not None and limit.is_over()):
        count = min(due, _BATCHES_AT_ONCE)
        batches.append(network.draw(count))
        due -= count
    trees = np.concatenate([batch[0] for batch in batches])
    log_q = np.concatenate([batch[1] for batch in batches])
    before = log_total(visited.form_log_joint)
    is_unseen = ~visited.contains(trees)
    num_forms = visited.num_forms
    numbers = visited.visit(trees, islands=())
    log_joint = visited.tree_log_joint[numbers]
    weights = importance_weights(log_joint - log_q)
    estimate = visited.tree_joint_estimate[numbers]
    floored = np.maximum(estimate, search.floor + visited.tree_log_prior[numbers])
    ratios = log_joint - log_q
    is_any = bool(np.isfinite(ratios.max()))
    shares = np.exp(ratios - log_total(ratios)) if is_any else np.zeros(len(ratios))
    is_unknown = visited.tree_form[numbers] >= num_forms
    unknown = float(shares[is_unknown].sum())
    return {
        "elbo": float((floored - log_q).mean()),
        "log_evidence_visited": before,
        "log_evidence_importance": weights.log_evidence,
        "log_evidence_importance_stderr": weights.stderr,
        "effective_sample_size": weights.effective_size,
        "num_fresh": len(trees),
        "largest_weight": weights.largest_share,
        "unseen_share": float(is_unseen.mean()),
        "unseen_mass": float(shares[is_unseen].sum()),
        "unknown_mass": unknown,
        "unknown_mass_stderr": float(np.sqrt((shares**2 * (is_unknown - unknown) ** 2).sum())),
        "invalid_share": float((estimate == -np.inf).mean()),
    }


def distance_to_visited(search: Search, network: AbstractNetwork) -> float:
    """The total variation between q and the posterior over the visited, over the likeliest trees
    and the rest of q taken as one."""
    joint = search.visited.tree_log_joint
    count = min(_MOST_COMPARED, len(joint))
    chosen = np.argpartition(-joint, count - 1)[:count]
    log_posterior = joint[chosen] - log_total(joint)
    log_q = network.log_prob(search.visited.trees[chosen])
    inside = total_variation(log_q, log_posterior)
    rest_q = max(0.0, 1.0 - float(np.exp(log_q).sum()))
    rest = max(0.0, 1.0 - float(np.exp(log_posterior).sum()))
    return min(1.0, inside + 0.5 * abs(rest_q - rest))

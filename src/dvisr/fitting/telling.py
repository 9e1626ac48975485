"""What a fit tells of itself at its end, as plain values: parts of its diagnostics."""

from __future__ import annotations

from typing import Any

from dvisr.fitting.search import Search
from dvisr.posterior import Posterior


def visited_values(search: Search, posterior: Posterior) -> dict[str, Any]:
    """Of what was visited, and by whom."""
    return {
        "exact": posterior.is_exact,
        "num_trees_visited": len(search.visited.trees),
        "num_forms_visited": search.visited.num_forms,
        "num_allowed": search.num_allowed,
        "num_listed": search.num_listed,
        "listed_share": search.listed_share,
        "shown_share": float(sum(f.probability for f in posterior.functions)),
        "num_steps": len(search.history),
        "num_rows": search.problem.likelihood.count,
        "num_raced_rows": search.race.num_rows,
        "num_forms_on_all_rows": search.visited.num_weighed,
        "network": None if search.network is None else search.network.name,
        "why_plain": search.why_plain,
    }


def stopped_by(is_whole: bool, is_told: bool) -> str:
    """What ended a fit before its end: "signal", "time", or nothing."""
    return "signal" if is_told else "" if is_whole else "time"

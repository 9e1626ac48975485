"""Priors that go by sizes and tokens alone, and the one place where names become priors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size, count_trees, weight_by_size
from dvisr.prior.base import TreePrior
from dvisr.prior.science import science, science_from_text
from dvisr.prior.weights import checked_weights, weights_from_text


def uniform(grammar: Grammar) -> TreePrior:
    """The paper's: every tree of the library up to the size limit is equally likely, forbidden
    ones included. They keep their share and have no likelihood."""
    total = count_trees(grammar.unconstrained)
    sizes = [-math.log(total) if count else -math.inf for count in count_by_size(grammar)]
    return _made("uniform", sizes, grammar)


def allowed(grammar: Grammar) -> TreePrior:
    """Every legal tree is equally likely."""
    total = count_trees(grammar)
    sizes = [-math.log(total) if count else -math.inf for count in count_by_size(grammar)]
    return _made("allowed", sizes, grammar)


def size_balanced(grammar: Grammar) -> TreePrior:
    """Every size that has a legal tree is equally likely, and so are the legal trees of a size."""
    counts = count_by_size(grammar)
    num_sizes = sum(count > 0 for count in counts)
    sizes = [-math.log(num_sizes) - math.log(n) if n else -math.inf for n in counts]
    return _made("size-balanced", sizes, grammar)


def token_weights(grammar: Grammar, weights: Mapping[str, float] | None = None) -> TreePrior:
    """A legal tree's probability is in proportion to the product of its tokens' weights.

    A token that is not named weighs 1; weights are then scaled to sum to 1 over the library. So
    with nothing named each token costs log(size of the library), and larger trees are less likely.
    """
    raw = checked_weights(grammar.library, weights or {})
    scaled = raw / raw.sum()
    by_size = weight_by_size(grammar, scaled.tolist())
    total = math.fsum(by_size)
    vanished = any(
        n and not w > 1e-290 for n, w in zip(count_by_size(grammar), by_size, strict=True)
    )
    if vanished or not math.isfinite(total):
        raise ValueError(
            "these token weights are too far apart to be normalised: bring them closer"
        )
    sizes = [-math.log(total) if weight > 0.0 else -math.inf for weight in by_size]
    return _made("weights", sizes, grammar, np.log(scaled))


def _made(
    name: str, sizes: list[float], grammar: Grammar, log_token: np.ndarray | None = None
) -> TreePrior:
    if log_token is None:
        log_token = np.zeros(len(grammar.library))
    return TreePrior(name, np.array(sizes), log_token[None])


NAMED = {
    "uniform": uniform,
    "allowed": allowed,
    "size-balanced": size_balanced,
    "weights": token_weights,
    "science": science,
}


# What a user may give: a name, token weights, a prior, or a function that makes one for a grammar.
ChosenPrior = str | Mapping[str, float] | TreePrior | Callable[[Grammar], TreePrior]


def tree_prior(choice: ChosenPrior, grammar: Grammar) -> TreePrior:
    """From what a user gives. `weights:sin=0.5,exp=0.1` names weights in text; `science:FILE` a
    corpus of formulas."""
    if isinstance(choice, TreePrior):
        return choice.checked(grammar)
    if callable(choice):
        made = choice(grammar)
        if not isinstance(made, TreePrior):
            raise ValueError(f"a function for tree_prior must return a TreePrior, not {made!r}")
        return made.checked(grammar)
    if isinstance(choice, Mapping):
        return token_weights(grammar, choice)
    name, separator, listed = str(choice).partition(":")
    if name not in NAMED or (separator and name not in ("weights", "science")):
        close = difflib.get_close_matches(name, NAMED, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(NAMED)}"
        raise ValueError(f"{str(choice)!r} is no tree prior: {hint}")
    if separator and name == "science":
        return science_from_text(grammar, listed)
    if separator:
        return token_weights(grammar, weights_from_text(listed))
    return NAMED[name](grammar)

"""Priors over trees.

All of them have one shape: log p(tree) = a term for its size + a term for each of its tokens. That
is what lets the oracle sum over trees without listing them.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size, count_trees, weight_by_size


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["log_size", "log_token"], meta_fields=["name"]
)
@dataclasses.dataclass(frozen=True)
class TreePrior:
    """`log_size[n]` is -inf for a size that has no tree. A forbidden tree has no place here: its
    prior mass, where it has any, meets a likelihood of zero."""

    name: str
    log_size: np.ndarray  # (max_tokens + 1,)
    log_token: np.ndarray  # (tokens,)

    @property
    def is_by_token(self) -> bool:
        """Whether two trees of one size can differ in prior probability."""
        return bool(np.any(self.log_token != 0.0))

    def log_prob(self, np: Any, tokens: Any) -> Any:
        """Of legal trees (..., length), ids padded with -1, with the namespace that is given."""
        is_token = tokens >= 0
        log_size, log_token = np.asarray(self.log_size), np.asarray(self.log_token)
        by_token = np.where(is_token, log_token[np.where(is_token, tokens, 0)], 0.0)
        return log_size[is_token.sum(axis=-1)] + by_token.sum(axis=-1)


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
    library = grammar.library
    given = {} if weights is None else dict(weights)
    for name, weight in given.items():
        if library.find(name) is None:
            names = [token.name for token in library]
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {' '.join(names)}"
            raise ValueError(f"the weight of {name!r} is of no token of the library: {hint}")
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"the weight of {name!r} must be above 0, not {weight}")
    raw = np.array([float(given.get(token.name, 1.0)) for token in library])
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
    return TreePrior(name, np.array(sizes), log_token)


NAMED = {
    "uniform": uniform,
    "allowed": allowed,
    "size-balanced": size_balanced,
    "weights": token_weights,
}


def tree_prior(choice: str | Mapping[str, float] | TreePrior, grammar: Grammar) -> TreePrior:
    """From what a user gives: a name, token weights, or a prior. `weights:sin=0.5,exp=0.1` names
    weights in text."""
    if isinstance(choice, TreePrior):
        if len(choice.log_size) != grammar.max_tokens + 1:
            raise ValueError("this tree prior was made for another grammar: make it anew")
        return choice
    if isinstance(choice, Mapping):
        return token_weights(grammar, choice)
    name, separator, listed = str(choice).partition(":")
    if name not in NAMED or (separator and name != "weights"):
        close = difflib.get_close_matches(name, NAMED, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(NAMED)}"
        raise ValueError(f"{str(choice)!r} is no tree prior: {hint}")
    if separator:
        return token_weights(grammar, _weights_from_text(listed))
    return NAMED[name](grammar)


def _weights_from_text(text: str) -> dict[str, float]:
    weights = {}
    for part in text.split(","):
        token, separator, number = part.rpartition("=")
        try:
            weights[token.strip()] = float(number)
        except ValueError:
            separator = ""
        if not separator:
            raise ValueError(f"{part!r} is no token weight: write it like sin=0.5")
    return weights

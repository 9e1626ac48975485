"""`Grammar`: a library, a size limit and rules; which trees are legal follows from them."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from dvisr.constraints.budget import Budget, SubtreeCosts, build_budget, subtree_costs
from dvisr.constraints.presets import Constraints, rules_of
from dvisr.constraints.rules import (
    CountRule,
    MaxDepth,
    Rule,
    ScopeRule,
    check_names,
)
from dvisr.constraints.rules import (
    max_tokens as max_tokens_rule,
)
from dvisr.constraints.scopes import Scopes, build_scopes
from dvisr.constraints.tables import MaskTables, build_tables
from dvisr.library import Library

LARGEST_MAX_TOKENS = 200


class Grammar:
    """Immutable. Rules that leave no tree at all are refused here, by name."""

    def __init__(
        self, library: Library, max_tokens: int, constraints: Constraints = "none"
    ) -> None:
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, (int, np.integer)):
            raise ValueError(f"max_tokens must be a whole number, not {max_tokens!r}")
        if not 1 <= max_tokens <= LARGEST_MAX_TOKENS:
            raise ValueError(
                f"max_tokens must be between 1 and {LARGEST_MAX_TOKENS}, not {max_tokens}"
            )
        self.library = library
        self.max_tokens = int(max_tokens)
        self.rules = rules_of(constraints, library)
        for rule in self.rules:
            check_names(rule, library)
        self._own_states: object = None  # of slot states that others do not have
        words = _Words(library, self.max_tokens, tuple(self.rules))
        self.scopes, self.budget, self.costs = _built(words)
        if not _has_tree(self.budget, self.costs):
            raise ValueError(_no_tree_message(library, self.max_tokens, self.rules))

    @functools.cached_property
    def tables(self) -> MaskTables:
        """The exact mask; see `masking` for its use under jit."""
        return build_tables(self.scopes, self.budget, self.costs)

    @functools.cached_property
    def unconstrained(self) -> Grammar:
        """Every tree of the library up to the size limit, forbidden ones included."""
        return Grammar(self.library, self.max_tokens) if self.rules else self

    def told_apart(self, scopes: Scopes, origin: np.ndarray) -> Grammar:
        """The same trees by slot states that tell more apart: `origin` has the state that each of
        them was before."""
        made = copy.copy(self)
        for cached in ("tables", "unconstrained"):
            made.__dict__.pop(cached, None)
        made._own_states = object()
        made.scopes = scopes
        made.costs = SubtreeCosts(
            [self.costs.of_state[state] for state in origin],
            [self.costs.of_root[state] for state in origin],
        )
        return made

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same words, size and rules: what was counted for one holds."""
        return self is other or (
            isinstance(other, Grammar)
            and (self.max_tokens, self._own_states) == (other.max_tokens, other._own_states)
            and (self.library, self.rules) == (other.library, other.rules)
        )

    def __hash__(self) -> int:
        return hash((self.library, self.max_tokens, len(self.rules)))

    def __repr__(self) -> str:
        rules = "; ".join(rule.describe() for rule in self.rules)
        limit = f"at most {self.max_tokens} tokens"
        return f"Grammar({self.library}, {limit}{'; ' if rules else ''}{rules})"


@dataclasses.dataclass(frozen=True)
class _Words:
    """What a grammar follows from."""

    library: Library
    max_tokens: int
    rules: tuple[Rule, ...]


@functools.lru_cache(maxsize=16)
def _built(words: _Words) -> tuple[Scopes, Budget, SubtreeCosts]:
    """Of equal words once; nothing of it is ever changed."""
    return _build(words.library, words.max_tokens, words.rules)


def _build(
    library: Library, max_tokens: int, rules: Sequence[Rule]
) -> tuple[Scopes, Budget, SubtreeCosts]:
    # No tree is deeper than it has tokens: such a bound would only cost states.
    scopes = build_scopes(
        library,
        [
            rule
            for rule in rules
            if isinstance(rule, ScopeRule)
            and not (isinstance(rule, MaxDepth) and rule.depth >= max_tokens - 1)
        ],
    )
    budget = build_budget(library, [r for r in rules if isinstance(r, CountRule)], max_tokens)
    return scopes, budget, subtree_costs(scopes, budget)


def _has_tree(budget: Budget, costs: SubtreeCosts) -> bool:
    return any(budget.fits(cost) for cost in costs.of_state[0])


def _no_tree_message(library: Library, max_tokens: int, rules: Sequence[Rule]) -> str:
    """Name a smallest set of rules that clash: drop each in turn and see whether a tree appears."""
    clash = [max_tokens_rule(max_tokens), *rules]
    for rule in clash[1:]:
        without = [other for other in clash[1:] if other is not rule]
        _, budget, costs = _build(library, max_tokens, without)
        if not _has_tree(budget, costs):
            clash.remove(rule)
    named = "; ".join(f"'{rule.describe()}'" for rule in clash)
    return f"no expression of {library} satisfies all of: {named}; relax one of them or add a token"

"""Count rules as budgets, and what it takes to complete a tree within them.

A *cost* is a vector: how many tokens a subtree holds of each counted set, all tokens first. For
every slot state we keep the set of costs of its legal subtrees. Whether a token may be written
now is then a question about sums of such sets: its own subtree, the slots that wait, and what is
already spent must together fit the budget. The sets are kept small by dropping costs that another
one makes superfluous, which loses nothing; so the answer is exact.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from dvisr.constraints.rules import CountRule
from dvisr.constraints.scopes import Scopes
from dvisr.library import Library

Cost = tuple[int, ...]
Costs = frozenset[Cost]


@dataclasses.dataclass(frozen=True)
class Budget:
    """The counted sets of tokens, all tokens first, with the least and the most of each."""

    weights: np.ndarray  # int (token, counted set)
    minimum: Cost
    maximum: Cost

    @property
    def num_counted(self) -> int:
        return len(self.maximum)

    def cost_of(self, token_id: int) -> Cost:
        return tuple(int(weight) for weight in self.weights[token_id])

    def fits(self, cost: Cost) -> bool:
        return all(
            low <= spent <= high
            for low, spent, high in zip(self.minimum, cost, self.maximum, strict=True)
        )

    def reduced(self, costs: Iterable[Cost]) -> Costs:
        """Without costs beyond the maximum, and without those that another undercuts in every
        set that has no minimum while it equals them in the others: where the dearer fits, the
        cheaper does."""
        inside = {c for c in costs if all(a <= b for a, b in zip(c, self.maximum, strict=True))}
        free = [i for i, low in enumerate(self.minimum) if low == 0]
        bound = [i for i, low in enumerate(self.minimum) if low > 0]
        kept: dict[Cost, list[Cost]] = {}
        for cost in sorted(inside, key=lambda c: (sum(c[i] for i in free), c)):
            rivals = kept.setdefault(tuple(cost[i] for i in bound), [])
            if not any(all(rival[i] <= cost[i] for i in free) for rival in rivals):
                rivals.append(cost)
        return frozenset(itertools.chain.from_iterable(kept.values()))

    def sum(self, first: Costs, second: Costs) -> Costs:
        return self.reduced(
            tuple(a + b for a, b in zip(one, two, strict=True)) for one in first for two in second
        )


def build_budget(library: Library, rules: Sequence[CountRule], max_tokens: int) -> Budget:
    """Rules on the same tokens become one; a rule that can never bite is dropped."""
    merged: dict[tuple[int, ...], tuple[int, int]] = {(1,) * len(library): (0, max_tokens)}
    for rule in rules:
        weights = tuple(rule.counts(token) for token in library)
        low, high = merged.get(weights, (0, max_tokens))
        limit = high if rule.maximum is None else min(high, rule.maximum)
        merged[weights] = (max(low, rule.minimum), limit)
    everything, *others = merged.items()
    kept = [everything] + [
        (weights, (low, high))
        for weights, (low, high) in others
        if low > 0 or (high < max_tokens and any(weights))
    ]
    return Budget(
        weights=np.array([weights for weights, _ in kept], dtype=np.int32).T,
        minimum=tuple(low for _, (low, _) in kept),
        maximum=tuple(high for _, (_, high) in kept),
    )


@dataclasses.dataclass(frozen=True)
class SubtreeCosts:
    """Costs of the legal subtrees of a slot state: in all, and by the token at their root."""

    of_state: list[Costs]
    of_root: list[list[Costs]]


def subtree_costs(scopes: Scopes, budget: Budget) -> SubtreeCosts:
    """The least fixed point: start from nothing and add what the tables derive until no set
    changes."""
    num_states, num_tokens = scopes.allowed.shape
    nothing: Costs = frozenset()
    of_root = [[nothing] * num_tokens for _ in range(num_states)]
    of_state = [nothing] * num_states
    own = [frozenset({budget.cost_of(token)}) for token in range(num_tokens)]
    changed = True
    while changed:
        changed = False
        for state in range(num_states):
            for token in np.flatnonzero(scopes.allowed[state]):
                below = _operand_costs(scopes, budget, of_state, of_root, state, int(token))
                costs = own[token] if below is None else budget.sum(own[token], below)
                if costs != of_root[state][token]:
                    of_root[state][token] = costs
                    changed = True
            of_state[state] = budget.reduced(itertools.chain.from_iterable(of_root[state]))
    return SubtreeCosts(of_state, of_root)


def _operand_costs(
    scopes: Scopes,
    budget: Budget,
    of_state: list[Costs],
    of_root: list[list[Costs]],
    state: int,
    token: int,
) -> Costs | None:
    """Costs of all operands of the token together; None for a leaf."""
    below = int(scopes.operand[state, token])
    if below < 0:
        return None
    beside = scopes.right[state, token]
    if (beside < 0).all():
        return of_state[below]
    together: set[Cost] = set()
    for right in np.unique(beside[beside >= 0]):
        left = budget.reduced(
            itertools.chain.from_iterable(
                of_root[below][root] for root in np.flatnonzero(beside == right)
            )
        )
        together |= budget.sum(left, of_state[right])
    return budget.reduced(together)

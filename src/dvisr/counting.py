"""Counting trees without listing them, by dynamic programming over slot states and sizes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dvisr.constraints import Grammar
from dvisr.constraints.budget import Budget, Cost

# How many trees (or what weight of them) there are by cost. Counts are Python's integers: they
# pass 2**63 within the sizes that users ask for.
_Counts = dict[Cost, Any]


@functools.lru_cache(maxsize=128)
def count_by_size(grammar: Grammar) -> tuple[int, ...]:
    """The number of legal trees of each size; entry n is for n tokens, entry 0 is 0."""
    return tuple(int(total) for total in _by_size(grammar, [1] * len(grammar.library)))


def count_trees(grammar: Grammar) -> int:
    return sum(count_by_size(grammar))


def weight_by_size(grammar: Grammar, weights: Sequence[float]) -> tuple[float, ...]:
    """The sum over the legal trees of each size of the product of their tokens' weights."""
    return tuple(float(total) for total in _by_size(grammar, weights))


def _by_size(grammar: Grammar, weights: Sequence[Any]) -> list[Any]:
    budget = grammar.budget
    return [
        sum(number for cost, number in _merged(roots[0]).items() if budget.fits(cost))
        for roots in _subtrees(grammar, weights)
    ]


def _subtrees(grammar: Grammar, weights: Sequence[Any]) -> list[list[list[_Counts]]]:
    """[size][state][token at the root], by cost. (Rules about the right sibling may look at the
    left one's root.)"""
    scopes = grammar.scopes
    num_states, num_tokens = scopes.allowed.shape
    alike = _alike(grammar)
    # by_root[size][state][token], of_state[size][state]
    by_root: list[list[list[_Counts]]] = [[[{}] * num_tokens] * num_states]
    of_state: list[list[_Counts]] = [[{}] * num_states]
    for size in range(1, grammar.max_tokens + 1):
        by_root.append([[{} for _ in range(num_tokens)] for _ in range(num_states)])
        operands: dict[tuple[int, bytes], _Counts] = {}  # of this size, as several tokens have them
        for state, tokens in alike:
            found = _of_token(grammar, by_root, of_state, size, state, tokens[0], operands)
            for token in tokens:
                weighed = {cost: number * weights[token] for cost, number in found.items()}
                by_root[size][state][token] = weighed
        of_state.append([_merged(roots) for roots in by_root[size]])
    return by_root


def _alike(grammar: Grammar) -> list[tuple[int, list[int]]]:
    """Slot states with their tokens, those together that lead to the same slots at the same cost:
    what is counted for one of them holds for all."""
    scopes, budget = grammar.scopes, grammar.budget
    groups: dict[tuple[int, int, bytes, Cost], list[int]] = {}
    for state, token in np.argwhere(scopes.allowed):
        below, beside = int(scopes.operand[state, token]), scopes.right[state, token].tobytes()
        key = (int(state), below, beside, budget.cost_of(token))
        groups.setdefault(key, []).append(int(token))
    return [(key[0], tokens) for key, tokens in groups.items()]


def _of_token(
    grammar: Grammar,
    by_root: list[list[list[_Counts]]],
    of_state: list[list[_Counts]],
    size: int,
    state: int,
    token: int,
    operands: dict[tuple[int, bytes], _Counts],
) -> _Counts:
    """Trees of a size with that token at the root, itself not weighed. Those of a binary's two
    operands are looked up in `operands`, and added to them."""
    scopes, budget = grammar.scopes, grammar.budget
    own = budget.cost_of(token)
    found: _Counts = {}
    below, beside = scopes.operand[state, token], scopes.right[state, token]
    if below < 0:
        if size == 1:
            _add(found, own, 1, budget.maximum)
    elif (beside < 0).all():
        _add_shifted(found, of_state[size - 1][below], own, budget)
    else:
        key = (int(below), beside.tobytes())
        if key not in operands:
            operands[key] = _of_operands(by_root, of_state, size - 1, below, beside, budget)
        _add_shifted(found, operands[key], own, budget)
    return found


def _of_operands(
    by_root: list[list[list[_Counts]]],
    of_state: list[list[_Counts]],
    size: int,
    below: int,
    beside: np.ndarray,
    budget: Budget,
) -> _Counts:
    """Both operands of a binary, of so many tokens together."""
    found: _Counts = {}
    for left_size in range(1, size):
        for left, right in _pairs(by_root[left_size][below], beside):
            rights = of_state[size - left_size][right]
            for cost, number in _product(left, rights, budget.maximum).items():
                _add(found, cost, number, budget.maximum)
    return found


def _pairs(left_roots: list[_Counts], beside: np.ndarray) -> list[tuple[_Counts, int]]:
    """Left operands, grouped by the slot state that they give the right operand."""
    return [
        (_merged([left_roots[root] for root in np.flatnonzero(beside == right)]), int(right))
        for right in np.unique(beside[beside >= 0])
    ]


def _add(counts: _Counts, cost: Cost, number: Any, maximum: Cost) -> None:
    if not any(map(operator.gt, cost, maximum)):
        counts[cost] = counts.get(cost, 0) + number


def _add_shifted(counts: _Counts, others: _Counts, by: Cost, budget: Budget) -> None:
    for cost, number in others.items():
        shifted = tuple(map(operator.add, cost, by))
        _add(counts, shifted, number, budget.maximum)


def _product(first: _Counts, second: _Counts, maximum: Cost) -> _Counts:
    product: _Counts = {}
    for one, number in first.items():
        for two, other in second.items():
            cost = tuple(map(operator.add, one, two))
            _add(product, cost, number * other, maximum)
    return product


def _merged(parts: list[_Counts]) -> _Counts:
    merged: _Counts = {}
    for part in parts:
        for cost, number in part.items():
            merged[cost] = merged.get(cost, 0) + number
    return merged

"""Sums of a prior's weights over all subtrees that a slot may hold, by dynamic programming.

By slot state, size and what the count rules count. Normalising a prior, drawing from it and walking
it token by token all go by these sums.

Numbers of trees grow beyond any float, so the weights of subtrees of n tokens are kept in units of
their own, exp(log_unit[n]): the largest is 1.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled

MAX_COSTS = 4096  # distinct costs of a tree; the sums over operands are quadratic in them
MAX_ENTRIES = 2**27  # of the largest table

# Weights below this share of the largest count as zero: then no product of two weights that matter
# underflows.
_LEAST = 1e-250


class Rules(NamedTuple):
    """The grammar as arrays. A *pool* is the slot state that a subtree is for, with the tokens that
    its root may be: the first pools are the states with all their tokens, from the others left
    operands are drawn once the state of the right one is decided. A *split* is a list of pairs
    (pool of the left operand, state of the right one)."""

    arities: np.ndarray  # int32 (token,)
    allowed: np.ndarray  # bool (state, token)
    operand: np.ndarray  # int32 (state, token): a unary's slot state, a binary's split, or -1
    pool_state: np.ndarray  # int32 (pool,)
    pool_holds: np.ndarray  # bool (pool, token)
    split_start: np.ndarray  # int32 (split + 1,)
    pair_left: np.ndarray  # int32 (pair,)
    pair_right: np.ndarray  # int32 (pair,)
    # What the count rules count, apart from tokens, is one number, `count`.
    own: np.ndarray  # int32 (token,): what a token adds, -1 if that is too much by itself
    plus: np.ndarray  # int32 (count, count), -1 beyond a maximum
    minus: np.ndarray  # int32 (count, count), -1 below zero


class Weights(NamedTuple):
    """Sums of the prior's weights over subtrees, in units that depend on their size."""

    total: np.ndarray  # float (pool, size, count)
    cumulative: np.ndarray  # float (pool, size, count, token)
    of_split: np.ndarray  # float (split, size, count): both operands, in units of their parent
    log_unit: np.ndarray  # float (size,), -inf where there is no subtree
    joint: np.ndarray  # float (left size, right size): units of the operands in the parent's


class Sums:
    """Of a prior's terms `log_token` (slot states, tokens) over a grammar."""

    def __init__(self, grammar: Grammar, log_token: np.ndarray) -> None:
        self.grammar = grammar
        self.rules: Rules = make_rules(grammar)
        self.largest = float(log_token.max())
        weight = np.exp(np.ascontiguousarray(log_token, dtype=np.float64) - self.largest)
        self.weights: Weights = Weights(*_weigh(self.rules, weight, grammar.max_tokens))

    @functools.cached_property
    def log_whole(self) -> np.ndarray:
        """(sizes, counts): the log of the sum over the legal whole trees, -inf where none is."""
        budget, sizes = self.grammar.budget, np.arange(self.grammar.max_tokens + 1)
        is_long_enough = (sizes >= budget.minimum[0]) & (sizes <= budget.maximum[0])
        has_enough = (count_vectors(self.grammar) >= budget.minimum[1:]).all(axis=1)
        with np.errstate(divide="ignore"):
            found = np.log(self.weights.total[0] * (is_long_enough[:, None] & has_enough))
        whole: np.ndarray = found + (self.weights.log_unit + self.largest * sizes)[:, None]
        return whole

    def of_root(self) -> tuple[np.ndarray, np.ndarray]:
        """(states, tokens, sizes, counts): sums over the subtrees of each slot state with that
        token at the root, in units of exp(returned[1][size])."""
        states = self.grammar.scopes.num_states
        steps = np.diff(self.weights.cumulative[:states], axis=-1, prepend=0.0)
        sizes = np.arange(self.grammar.max_tokens + 1)
        return np.moveaxis(steps, -1, 1), self.weights.log_unit + self.largest * sizes


def make_rules(grammar: Grammar) -> Rules:
    scopes, arities = grammar.scopes, np.require(grammar.library.arities, np.int32, ["C", "W"])
    own, plus, minus = _counts(grammar)
    pools = {(s, scopes.allowed[s].tobytes()): s for s in range(scopes.num_states)}
    operand = np.full(scopes.operand.shape, -1, dtype=np.int32)
    splits: dict[tuple[int, bytes], int] = {}
    pairs: list[list[tuple[int, int]]] = []
    for state, token in np.argwhere(scopes.operand >= 0):
        below, beside = int(scopes.operand[state, token]), scopes.right[state, token]
        if arities[token] == 1:
            operand[state, token] = below
            continue
        key = (below, beside.tobytes())
        operand[state, token] = splits.setdefault(key, len(splits))
        if len(splits) > len(pairs):
            rights = np.unique(beside[beside >= 0])
            lefts = [(below, (beside == right).tobytes()) for right in rights]
            numbers = [pools.setdefault(left, len(pools)) for left in lefts]
            pairs.append([(n, int(r)) for n, r in zip(numbers, rights, strict=True)])
    ends = np.cumsum([0, *(len(part) for part in pairs)])
    flat = np.array([pair for part in pairs for pair in part], dtype=np.int32).reshape(-1, 2)
    return Rules(
        arities=arities,
        allowed=np.require(scopes.allowed, np.bool_, ["C", "W"]),
        operand=operand,
        pool_state=np.array([state for state, _ in pools], dtype=np.int32),
        pool_holds=np.array([np.frombuffer(held, dtype=np.bool_) for _, held in pools]),
        split_start=ends.astype(np.int32),
        pair_left=flat[:, 0].copy(),
        pair_right=flat[:, 1].copy(),
        own=own,
        plus=plus,
        minus=minus,
    )


def _counts(grammar: Grammar) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of counts as single numbers, with their sums and differences."""
    most = np.array(grammar.budget.maximum[1:], dtype=np.int64)
    num_costs = (grammar.max_tokens + 1) * float(np.prod(most + 1.0))
    if num_costs > MAX_COSTS:
        raise ValueError(
            f"these count rules give a tree {num_costs:.0f} distinct costs, and draws from the "
            f"prior can have {MAX_COSTS}: lower max_tokens or drop a count rule"
        )
    vectors = count_vectors(grammar)
    strides = np.append(np.cumprod((most + 1)[:0:-1])[::-1], 1)[: len(most)].astype(np.int64)

    def numbered(counts: np.ndarray) -> np.ndarray:
        is_possible = ((counts >= 0) & (counts <= most)).all(axis=-1)
        return np.where(is_possible, counts @ strides, -1).astype(np.int32)

    return (
        numbered(grammar.budget.weights[:, 1:].astype(np.int64)),
        numbered(vectors[:, None] + vectors[None]),
        numbered(vectors[:, None] - vectors[None]),
    )


def count_vectors(grammar: Grammar) -> np.ndarray:
    """int (count, count rule)."""
    shape = [most + 1 for most in grammar.budget.maximum[1:]]
    return np.array(list(np.ndindex(*shape)), dtype=np.int64)


def _weigh(rules: Rules, weight: np.ndarray, max_tokens: int) -> tuple[np.ndarray, ...]:
    num_pools, num_tokens = rules.pool_holds.shape
    shape = (num_pools, max_tokens + 1, len(rules.plus))
    if np.prod(shape, dtype=float) * num_tokens > MAX_ENTRIES:
        raise ValueError(
            "these rules need tables too large to draw from the prior: "
            "drop a count or depth rule, or lower the maximum number of tokens"
        )
    total, cumulative = np.zeros(shape), np.zeros((*shape, num_tokens))
    of_split = np.zeros((len(rules.split_start) - 1, *shape[1:]))
    log_unit = np.full(max_tokens + 1, -np.inf)
    for size in range(1, max_tokens + 1):
        _weigh_size(rules, weight, size, total, cumulative, of_split, log_unit)
    left, right = np.indices((max_tokens + 1, max_tokens + 1))
    unit = log_unit[np.minimum(left + right + 1, max_tokens)]
    is_known = (log_unit[left] + log_unit[right] > -np.inf) & (unit > -np.inf)
    is_known &= left + right < max_tokens
    exponents = np.zeros(unit.shape)
    np.subtract(log_unit[left] + log_unit[right], unit, out=exponents, where=is_known)
    return total, cumulative, of_split, log_unit, np.where(is_known, np.exp(exponents), 0.0)


@compiled
def _weigh_size(rules, weight, size, total, cumulative, of_split, log_unit):
    """Fill the tables for subtrees of a size from those of smaller ones."""
    num_states, num_tokens = rules.allowed.shape
    num_counts = len(rules.plus)
    unit = 0.0 if size == 1 else log_unit[size - 1]
    for left in range(1, size - 1):
        unit = max(unit, log_unit[left] + log_unit[size - 1 - left])
    if unit == -np.inf:
        return
    _weigh_splits(rules, size, unit, total, of_split, log_unit)
    roots = np.zeros((num_states, num_tokens, num_counts))
    for state in range(num_states):
        for token in range(num_tokens):
            own, arity = rules.own[token], rules.arities[token]
            operand = rules.operand[state, token]
            if own < 0 or not rules.allowed[state, token] or (arity > 0 and operand < 0):
                continue
            if arity == 0:
                if size == 1:
                    roots[state, token, own] = weight[state, token]
                continue
            for count in range(num_counts):
                below = rules.minus[count, own]
                if below < 0 or size < 2:
                    continue
                if arity == 2:
                    operands = of_split[operand, size, below]
                else:
                    operands = total[operand, size - 1, below] * np.exp(log_unit[size - 1] - unit)
                roots[state, token, count] = weight[state, token] * operands
    largest = roots.max()
    if largest > 0.0:
        log_unit[size] = unit + np.log(largest)
        of_split[:, size] /= largest
        _fill(rules, size, roots / largest, total, cumulative)


@compiled
def _weigh_splits(rules, size, unit, total, of_split, log_unit):
    for split in range(len(rules.split_start) - 1):
        for pair in range(rules.split_start[split], rules.split_start[split + 1]):
            lefts, rights = total[rules.pair_left[pair]], total[rules.pair_right[pair]]
            for left in range(1, size - 1):
                right = size - 1 - left
                factor = np.exp(log_unit[left] + log_unit[right] - unit)
                if factor == 0.0:
                    continue
                for one in range(lefts.shape[1]):
                    if lefts[left, one] == 0.0:
                        continue
                    for two in range(lefts.shape[1]):
                        both = rules.plus[one, two]
                        if both >= 0:
                            weight = lefts[left, one] * rights[right, two] * factor
                            of_split[split, size, both] += weight


@compiled
def _fill(rules, size, roots, total, cumulative):
    num_pools, num_tokens = rules.pool_holds.shape
    for pool in range(num_pools):
        for count in range(roots.shape[2]):
            running = 0.0
            for token in range(num_tokens):
                weight = roots[rules.pool_state[pool], token, count]
                if rules.pool_holds[pool, token] and weight > _LEAST:
                    running += weight
                cumulative[pool, size, count, token] = running
            total[pool, size, count] = running

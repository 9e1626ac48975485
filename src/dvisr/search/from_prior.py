"""Independent draws of trees from their prior, exactly, on the host.

`sampling.prior_walk` has the same idea for policies. Here trees are drawn from the root down: first
what the whole tree costs (its tokens, and what the count rules count), then at every slot a token
and how its operands share the cost that is left. The weights of all choices are sums over subtrees,
worked out once by dynamic programming.

Numbers of trees grow beyond any float, so the weights of subtrees of n tokens are kept in units of
their own, exp(log_unit[n]): the largest is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.prior import TreePrior
from dvisr.search.streams import index_by_weight, new_stream, uniform

MAX_COSTS = 4096  # distinct costs of a tree; the sums over operands are quadratic in them
MAX_ENTRIES = 2**27  # of the largest table

# Weights below this share of the largest count as zero: then no product of two weights that matter
# underflows.
_LEAST = 1e-250


class _Rules(NamedTuple):
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


class _Weights(NamedTuple):
    """Sums of the prior's weights over subtrees, in units that depend on their size."""

    total: np.ndarray  # float (pool, size, count)
    cumulative: np.ndarray  # float (pool, size, count, token)
    of_split: np.ndarray  # float (split, size, count): both operands, in units of their parent
    log_unit: np.ndarray  # float (size,), -inf where there is no subtree
    joint: np.ndarray  # float (left size, right size): units of the operands in the parent's


class PriorSampler:
    """Draws from the prior over the legal trees: where forbidden ones have a share in it, as with
    `uniform`, it is the prior given that the tree is legal."""

    def __init__(self, grammar: Grammar, prior: TreePrior) -> None:
        log_size = np.asarray(prior.log_size, dtype=np.float64)
        log_token = np.asarray(prior.log_token, dtype=np.float64)
        if len(log_size) != grammar.max_tokens + 1 or len(log_token) != len(grammar.library):
            raise ValueError("this tree prior was made for another grammar: make it anew")
        self._max_tokens = grammar.max_tokens
        self._rules = _rules(grammar)
        largest = log_token.max()
        self._weights: _Weights = _Weights(
            *_weigh(self._rules, np.exp(log_token - largest), grammar.max_tokens)
        )
        log_size = log_size + largest * np.arange(len(log_size))
        self._sizes, self._counts, self._cumulative = _roots(grammar, self._weights, log_size)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Trees, int8 (count, max_tokens), ids in prefix order padded with -1."""
        trees = np.full((count, self._max_tokens), -1, dtype=np.int8)
        roots = (self._sizes, self._counts, self._cumulative)
        _draw(self._rules, self._weights, *roots, new_stream(rng), trees)
        return trees


def _rules(grammar: Grammar) -> _Rules:
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
    return _Rules(
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
    vectors = _vectors(grammar)
    strides = np.append(np.cumprod((most + 1)[:0:-1])[::-1], 1)[: len(most)].astype(np.int64)

    def numbered(counts: np.ndarray) -> np.ndarray:
        is_possible = ((counts >= 0) & (counts <= most)).all(axis=-1)
        return np.where(is_possible, counts @ strides, -1).astype(np.int32)

    return (
        numbered(grammar.budget.weights[:, 1:].astype(np.int64)),
        numbered(vectors[:, None] + vectors[None]),
        numbered(vectors[:, None] - vectors[None]),
    )


def _vectors(grammar: Grammar) -> np.ndarray:
    """int (count, count rule)."""
    shape = [most + 1 for most in grammar.budget.maximum[1:]]
    return np.array(list(np.ndindex(*shape)), dtype=np.int64)


def _roots(
    grammar: Grammar, weights: _Weights, log_size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a whole tree may cost, sizes and counts, and the cumulative prior of that."""
    budget, sizes = grammar.budget, np.arange(len(log_size))
    is_long_enough = (sizes >= budget.minimum[0]) & (sizes <= budget.maximum[0])
    has_enough = (_vectors(grammar) >= budget.minimum[1:]).all(axis=1)
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights.total[0] * (is_long_enough[:, None] & has_enough))
    log_weight += (weights.log_unit + log_size)[:, None]
    if not np.isfinite(log_weight.max()):
        raise ValueError("this tree prior gives no legal tree a finite share: use another one")
    sizes, counts = np.nonzero(log_weight > -np.inf)
    shares = np.exp(log_weight[sizes, counts] - log_weight.max())
    return sizes, counts, np.cumsum(shares)


def _weigh(rules: _Rules, token_weight: np.ndarray, max_tokens: int) -> tuple[np.ndarray, ...]:
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
        _weigh_size(rules, token_weight, size, total, cumulative, of_split, log_unit)
    left, right = np.indices((max_tokens + 1, max_tokens + 1))
    unit = log_unit[np.minimum(left + right + 1, max_tokens)]
    is_known = (log_unit[left] + log_unit[right] > -np.inf) & (unit > -np.inf)
    is_known &= left + right < max_tokens
    exponents = np.zeros(unit.shape)
    np.subtract(log_unit[left] + log_unit[right], unit, out=exponents, where=is_known)
    return total, cumulative, of_split, log_unit, np.where(is_known, np.exp(exponents), 0.0)


@compiled
def _weigh_size(rules, token_weight, size, total, cumulative, of_split, log_unit):
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
                    roots[state, token, own] = token_weight[token]
                continue
            for count in range(num_counts):
                below = rules.minus[count, own]
                if below < 0 or size < 2:
                    continue
                if arity == 2:
                    weight = of_split[operand, size, below]
                else:
                    weight = total[operand, size - 1, below] * np.exp(log_unit[size - 1] - unit)
                roots[state, token, count] = token_weight[token] * weight
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


@compiled
def _shared(rules, weights, split, size, count, stream):
    """How the operands of a subtree share what it costs: which pair, and the left one's cost."""
    point = uniform(stream) * weights.of_split[split, size, count]
    chosen = (-1, -1, -1)
    for pair in range(rules.split_start[split], rules.split_start[split + 1]):
        lefts = weights.total[rules.pair_left[pair]]
        rights = weights.total[rules.pair_right[pair]]
        for left in range(1, size - 1):
            right = size - 1 - left
            factor = weights.joint[left, right]
            for one in range(lefts.shape[1]):
                two = rules.minus[count, one]
                if two < 0:
                    continue
                share = lefts[left, one] * rights[right, two] * factor
                if share > 0.0:
                    chosen = (pair, left, one)  # the last one, where rounding leads past it
                    point -= share
                    if point < 0.0:
                        return chosen
    return chosen


@compiled
def _draw(rules, weights, root_sizes, root_counts, root_cumulative, stream, trees):
    waiting = np.empty((trees.shape[1] + 1, 3), dtype=np.int64)  # pool, size, count
    for tree in range(len(trees)):
        root = index_by_weight(root_cumulative, stream)
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, root_sizes[root], root_counts[root]
        height, place = 1, 0
        while height > 0:
            height -= 1
            pool, size, count = waiting[height, 0], waiting[height, 1], waiting[height, 2]
            token = index_by_weight(weights.cumulative[pool, size, count], stream)
            trees[tree, place] = token
            place += 1
            if rules.arities[token] == 0:
                continue
            operand = rules.operand[rules.pool_state[pool], token]
            rest = rules.minus[count, rules.own[token]]
            if rules.arities[token] == 1:
                waiting[height, 0], waiting[height, 1], waiting[height, 2] = operand, size - 1, rest
            else:
                pair, left, one = _shared(rules, weights, operand, size, rest, stream)
                waiting[height, 0] = rules.pair_right[pair]
                waiting[height, 1] = size - 1 - left
                waiting[height, 2] = rules.minus[rest, one]
                height += 1
                waiting[height, 0], waiting[height, 1] = rules.pair_left[pair], left
                waiting[height, 2] = one
            height += 1

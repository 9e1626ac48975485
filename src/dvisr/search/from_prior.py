"""Independent draws of trees from their prior, exactly, on the host.

`sampling.prior_walk` has the same idea for policies. Here trees are drawn from the root down: first
what the whole tree costs (its tokens, and what the count rules count), then at every slot a token
and how its operands share the cost that is left. The weights of all choices are sums over subtrees,
worked out once by dynamic programming (`prior.sums`).
"""

from __future__ import annotations

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library.compiling import compiled
from dvisr.prior import TreePrior
from dvisr.prior.sums import Sums
from dvisr.search.streams import index_by_weight, new_stream, uniform

_SHARED_DRAWS = 4_000  # that tell how often each token occurs


class PriorSampler:
    """Draws from the prior over the legal trees: where forbidden ones have a share in it, as with
    `uniform`, it is the prior given that the tree is legal."""

    def __init__(self, grammar: Grammar, prior: TreePrior) -> None:
        prior.checked(grammar)
        log_size = np.asarray(prior.log_size, dtype=np.float64)
        log_token = np.asarray(prior.log_token, dtype=np.float64)
        self._max_tokens = grammar.max_tokens
        told, rows = prior.slots(grammar)
        sums = Sums(told, log_token[rows])
        self._rules, self._weights = sums.rules, sums.weights
        self._sizes, self._counts, self._cumulative = _roots(sums.log_whole + log_size[:, None])

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Trees, int8 (count, max_tokens), ids in prefix order padded with -1."""
        trees = np.full((count, self._max_tokens), -1, dtype=np.int8)
        roots = (self._sizes, self._counts, self._cumulative)
        _draw(self._rules, self._weights, *roots, new_stream(rng), trees)
        return trees

    def token_shares(self, num_tokens: int) -> np.ndarray:
        """How often each token occurs in draws; none less than once."""
        drawn = self.draw(_SHARED_DRAWS, np.random.default_rng(0))
        counts = 1.0 + np.bincount(drawn[drawn >= 0].astype(np.int64), minlength=num_tokens)
        shares: np.ndarray = counts / counts.sum()
        return shares


def _roots(log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a whole tree may cost, sizes and counts, and the cumulative prior of that."""
    if not np.isfinite(log_weight.max()):
        raise ValueError("this tree prior gives no legal tree a finite share: use another one")
    sizes, counts = np.nonzero(log_weight > -np.inf)
    shares = np.exp(log_weight[sizes, counts] - log_weight.max())
    return sizes, counts, np.cumsum(shares)


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

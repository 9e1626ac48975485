"""The trees that are likeliest before the data are seen, all of them down to some probability.

A tree is written token by token, from left to right, and given up as soon as no way to complete it
is likely enough. The best completion of a slot is known from its state (`Viterbi`).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dvisr.constraints import Grammar
from dvisr.constraints.rules import CountRule
from dvisr.library.caching import kept
from dvisr.library.compiling import compiled
from dvisr.prior import TreePrior
from dvisr.search.legality import Legality

_STEP = 1.0  # nats by which the least probability is lowered until there are enough trees
_ROOM = 4  # times as many trees as are asked for, before rules of counts and ties
_FEWEST_TO_GUESS = 200  # trees, from which on the number further down is guessed
_MARGIN = 1.3  # times as many trees as are asked for are aimed at
_MOST_STEPS = 6


class _Tables(NamedTuple):
    """Slot states and tokens of a grammar, and the log weights of a prior, none above 0."""

    arities: np.ndarray  # int32 (token,)
    operand: np.ndarray  # int32 (state, token)
    right: np.ndarray  # int32 (state, token, root of the left operand)
    log_weight: np.ndarray  # float (state, token), -inf where it is not allowed
    best: np.ndarray  # float (state,): of any subtree
    best_operands: np.ndarray  # float (state, token): of the operands of a token, together
    log_size: np.ndarray  # float (size,)
    most_from: np.ndarray  # float (size,): the largest of log_size from there on


def likeliest_trees(
    grammar: Grammar, prior: TreePrior, most: int, *, leaving_out: Sequence[int] = ()
) -> tuple[np.ndarray, float]:
    """The likeliest legal trees, at most so many, and the log probability that none of the others
    exceeds. Of trees that are equally likely all are there or none.

    Parameters
    ----------
    grammar : Grammar
    prior : TreePrior
    most : int
    leaving_out : sequence of int
        Tokens that no tree shall have.

    Returns
    -------
    trees : ndarray of shape (trees, max_tokens)
        Token ids, padded with -1, likeliest first.
    bound : float
        -inf where there are no others.
    """
    tables = _tables(grammar, prior)
    log_weight = tables.log_weight.copy()
    log_weight[:, [token for token in leaving_out if token >= 0]] = -np.inf
    tables = tables._replace(log_weight=log_weight)
    rows = np.full((_ROOM * most + 1, grammar.max_tokens), -1, dtype=np.int8)
    logs = np.empty(len(rows))
    least, lowest = float(tables.best[0] + tables.log_size.max()), _lowest(grammar, tables)
    is_legal = Legality(grammar)
    counts: list[int] = []
    step = _STEP

    def found_above(least: float) -> tuple[np.ndarray, int]:
        """The rows of legal trees, likeliest first, and the number of all."""
        count = _write(tables, least, rows, logs)
        if count > _ROOM * most or (count < most and least > lowest):
            return np.zeros(0, dtype=np.int64), count
        found = np.flatnonzero(is_legal(rows[:count]))
        return found[np.argsort(-logs[found], kind="stable")], count

    while True:
        least -= step
        order, count = found_above(least)
        if len(order) > most:
            bound = float(logs[order[most]])
            return rows[order[logs[order] > bound + 1e-9]].copy(), bound
        if least <= lowest and count <= _ROOM * most:
            return rows[order].copy(), -np.inf
        if count > _ROOM * most:
            least += step
            if step > _STEP:  # too far at once
                step, counts = _STEP, []
                continue
            count = _write(tables, least, rows, logs)
            order = np.flatnonzero(is_legal(rows[:count]))
            if count > _ROOM * most or len(order) > most:  # the likeliest are too many already
                return rows[:0].copy(), np.inf
            return rows[order[np.argsort(-logs[order], kind="stable")]].copy(), least
        counts.append(count)
        step = _step_to(most, counts, step)


def weights_of(grammar: Grammar, prior: TreePrior) -> bytes:
    """A digest of what a prior says of the trees of a grammar."""
    found = hashlib.sha256()
    for array in _tables(grammar, prior):
        found.update(array.tobytes())
    return found.digest()


@kept(maxsize=4)
def listed(grammar: Grammar, prior: TreePrior, most: int) -> tuple[np.ndarray, float]:
    """`likeliest_trees`, listed once for a language."""
    return likeliest_trees(grammar, prior, most)


def _step_to(most: int, counts: list[int], step: float) -> float:
    """Nats to go further down for about so many trees, at the rate at which the last step found
    more."""
    if len(counts) < 2 or counts[-1] < _FEWEST_TO_GUESS or counts[-1] <= counts[-2]:
        return _STEP
    rate = np.log(counts[-1] / counts[-2]) / step
    return float(np.clip(np.log(_MARGIN * most / counts[-1]) / rate, _STEP, _MOST_STEPS * _STEP))


@functools.lru_cache(maxsize=8)
def of_subtrees(grammar: Grammar, prior: TreePrior, max_tokens: int) -> tuple[Grammar, TreePrior]:
    """The same for what may be a part of a tree, of so many tokens: nothing is required of it as it
    is of a whole one."""
    rules = [rule for rule in grammar.rules if not (isinstance(rule, CountRule) and rule.minimum)]
    sizes = np.asarray(prior.log_size[: max_tokens + 1], dtype=np.float64)
    known = np.append(sizes[np.isfinite(sizes)], np.asarray(prior.log_size).max())
    sizes = np.where(np.isfinite(sizes), sizes, known[0])
    own = TreePrior(prior.name, sizes, prior.log_token, prior.surroundings)
    return Grammar(grammar.library, max_tokens, rules), own


def _lowest(grammar: Grammar, tables: _Tables) -> float:
    """No tree is below this."""
    finite = tables.log_weight[np.isfinite(tables.log_weight)]
    sizes = tables.log_size[np.isfinite(tables.log_size)]
    return float(grammar.max_tokens * finite.min() + sizes.min()) - 1.0


@functools.lru_cache(maxsize=8)
def _tables(grammar: Grammar, prior: TreePrior) -> _Tables:
    told, rows = prior.slots(grammar)
    scopes, arities = told.scopes, np.require(grammar.library.arities, np.int32, ["C", "W"])
    log_token = np.asarray(prior.log_token, dtype=np.float64)[rows]
    largest = max(0.0, float(log_token.max()))
    sizes = np.arange(grammar.max_tokens + 1)
    log_size = np.asarray(prior.log_size, dtype=np.float64) + largest * sizes
    log_weight = np.where(scopes.allowed, log_token - largest, -np.inf)
    operand = np.require(scopes.operand, np.int32, ["C", "W"])
    right = np.require(scopes.right, np.int32, ["C", "W"])
    best, operands = _viterbi(log_weight, operand, right, arities, grammar.max_tokens)
    most_from = np.maximum.accumulate(log_size[::-1])[::-1].copy()
    return _Tables(arities, operand, right, log_weight, best, operands, log_size, most_from)


def _viterbi(
    log_weight: np.ndarray,
    operand: np.ndarray,
    right: np.ndarray,
    arities: np.ndarray,
    max_tokens: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The log weight of the best subtree of each state, and of the best operands of each token."""
    operands = np.where(arities == 0, 0.0, np.full(log_weight.shape, -np.inf))
    unary, binary = np.flatnonzero(arities == 1), np.flatnonzero(arities == 2)
    for _ in range(max_tokens):
        by_root = log_weight + operands
        best = by_root.max(axis=1)
        operands = operands.copy()
        below = operand[:, unary]
        operands[:, unary] = np.where(below >= 0, best[below], -np.inf)
        for token in binary:
            below, beside = operand[:, token], right[:, token]
            both = by_root[below] + np.where(beside >= 0, best[beside], -np.inf)
            operands[:, token] = np.where(below >= 0, both.max(axis=1), -np.inf)
    return (log_weight + operands).max(axis=1), operands


@compiled
def _write(tables, least, rows, logs):
    """All trees at or above `least`; one more than there is room for, if there are more. Rules of
    counts are not looked at."""
    length, num_tokens = rows.shape[1], len(tables.arities)
    row = np.full(length + 1, -1, dtype=np.int64)
    state = np.zeros(length + 1, dtype=np.int64)
    after = np.full(length + 1, -1, dtype=np.int64)  # whose right operand follows the subtree here
    so_far = np.zeros(length + 1)  # tokens before, and the best of the operands that wait
    num_open = np.ones(length + 1, dtype=np.int64)  # slots, the one here included
    count, position = 0, 0
    while position >= 0:
        row[position] += 1
        token = row[position]
        if token >= num_tokens:
            row[position] = -1
            position -= 1
            continue
        here = state[position]
        log = so_far[position] + tables.log_weight[here, token]
        if log == -np.inf:
            continue
        if position > 0 and after[position] == position - 1:  # the root of a left operand
            above = position - 1
            beside = tables.right[state[above], row[above], token]
            if beside < 0:
                continue
            log += tables.best[beside]
        slots = num_open[position] + tables.arities[token] - 1
        size = position + 1 + slots
        if size > length:
            continue
        if log + tables.best_operands[here, token] + tables.most_from[size] < least:
            continue
        if slots == 0:
            if log + tables.log_size[size] >= least:
                if count < len(rows):
                    rows[count, :size] = row[:size]
                    rows[count, size:] = -1
                    logs[count] = log + tables.log_size[size]
                count += 1
                if count >= len(rows):
                    return len(rows)
            continue
        following = position + 1
        if tables.arities[token] > 0:
            state[following] = tables.operand[here, token]
            after[following] = position if tables.arities[token] == 2 else after[position]
            so_far[following] = log
        else:
            above = after[position]
            beside = tables.right[state[above], row[above], row[above + 1]]
            state[following], after[following] = beside, after[above]
            so_far[following] = log - tables.best[beside]
        num_open[following] = slots
        position = following
    return count

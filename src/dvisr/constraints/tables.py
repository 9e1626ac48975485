"""The exact mask as lookup tables, worked out once when a grammar is built."""

from __future__ import annotations

import dataclasses

import numpy as np

from dvisr.constraints.budget import Budget, Costs, SubtreeCosts
from dvisr.constraints.scopes import Scopes

MAX_TABLE_ENTRIES = 2**28

# A slot's kind is its scope state and, for a left operand, the states that its right sibling's
# slot would have by the token chosen now (that slot is settled only by this choice).
_SlotKind = tuple[int, tuple[int, ...] | None]


@dataclasses.dataclass(frozen=True)
class MaskTables:
    """`feasible[rest, question[kind, token], spent]` is the mask.

    `rest` numbers the sets of costs that the waiting slots can have together, `spent` the vectors
    of what is already written, `question` the distinct sets of costs that a choice may lead to.
    """

    feasible: np.ndarray  # bool (rest, question, spent)
    question: np.ndarray  # int (kind, token)
    operand_kind: np.ndarray  # int (kind, token): kind of the only or left operand's slot
    right_kind: np.ndarray  # int (kind, token): kind of the sibling's slot that this settles
    rest_with: np.ndarray  # int (rest, kind): the rest when a slot of that kind waits too
    spent_by: np.ndarray  # int (token,): what a token adds to `spent`
    root_state: np.ndarray  # int (kind,): the kind's scope state
    is_left: np.ndarray  # bool (kind,): the slot of a left operand, which settles its sibling's


def build_tables(scopes: Scopes, budget: Budget, costs: SubtreeCosts) -> MaskTables:
    kinds = _slot_kinds(scopes)
    num_tokens = scopes.allowed.shape[1]
    numbers = {kind: number for number, kind in enumerate(kinds)}
    operand_kind = np.zeros((len(kinds), num_tokens), dtype=np.int32)
    right_kind = np.zeros_like(operand_kind)
    question = np.zeros_like(operand_kind)
    questions: dict[Costs, int] = {frozenset(): 0}
    for number, (state, beside) in enumerate(kinds):
        for token in np.flatnonzero(scopes.allowed[state]):
            if scopes.operand[state, token] >= 0:
                operand_kind[number, token] = numbers[_operand_slot(scopes, state, int(token))]
            asked = costs.of_root[state][token]
            if beside is not None:
                right_kind[number, token] = numbers[(beside[token], None)]
                asked = budget.sum(asked, costs.of_state[beside[token]])
            question[number, token] = questions.setdefault(asked, len(questions))
    rests, rest_with = _rests(kinds, budget, costs)
    return MaskTables(
        feasible=_feasible(rests, list(questions), budget),
        question=question,
        operand_kind=operand_kind,
        right_kind=right_kind,
        rest_with=rest_with,
        spent_by=(budget.weights @ _strides(budget)).astype(np.int32),
        root_state=np.array([state for state, _ in kinds], dtype=np.int32),
        is_left=np.array([beside is not None for _, beside in kinds]),
    )


def _operand_slot(scopes: Scopes, state: int, token: int) -> _SlotKind:
    below = int(scopes.operand[state, token])
    beside = scopes.right[state, token]
    return below, (None if (beside < 0).all() else tuple(int(right) for right in beside))


def _slot_kinds(scopes: Scopes) -> list[_SlotKind]:
    """Every kind of slot that a traversal can come to; the root's is first."""
    kinds: dict[_SlotKind, None] = {(0, None): None}
    for state, token in np.argwhere(scopes.operand >= 0):
        kinds[_operand_slot(scopes, state, token)] = None
    for right in np.unique(scopes.right[scopes.right >= 0]):
        kinds[(int(right), None)] = None
    return list(kinds)


def _rests(
    kinds: list[_SlotKind], budget: Budget, costs: SubtreeCosts
) -> tuple[list[Costs], np.ndarray]:
    """All sets of costs that a stack of waiting slots can have, found from the empty stack on."""
    nothing: Costs = frozenset({(0,) * budget.num_counted})
    numbers: dict[Costs, int] = {nothing: 0}
    rests = [nothing]
    rows: list[list[int]] = []
    while len(rows) < len(rests):
        row = []
        sums: dict[Costs, Costs] = {}  # many states have the same costs
        for state, beside in kinds:
            # Only a slot whose state is settled waits on the stack.
            grown = nothing
            if beside is None:
                more = costs.of_state[state]
                if more not in sums:
                    sums[more] = budget.sum(rests[len(rows)], more)
                grown = sums[more]
            if grown not in numbers:
                numbers[grown] = len(rests)
                rests.append(grown)
            row.append(numbers[grown])
        rows.append(row)
        _check_size(len(rests) * len(kinds))
    return rests, np.array(rows, dtype=np.int32)


def _strides(budget: Budget) -> np.ndarray:
    shape = np.array(budget.maximum) + 1
    return np.append(np.cumprod(shape[:0:-1])[::-1], 1).astype(np.int64)


def _feasible(rests: list[Costs], questions: list[Costs], budget: Budget) -> np.ndarray:
    spent = np.stack(np.unravel_index(*_all_spent(budget)), axis=1)
    _check_size(len(rests) * len(questions) * len(spent))
    low, high = np.array(budget.minimum), np.array(budget.maximum)
    feasible = np.zeros((len(rests), len(questions), len(spent)), dtype=bool)
    for i, rest in enumerate(rests):
        for j, asked in enumerate(questions):
            for cost in budget.sum(rest, asked):
                total = spent + np.array(cost)
                feasible[i, j] |= ((total >= low) & (total <= high)).all(axis=1)
    return feasible


def _all_spent(budget: Budget) -> tuple[np.ndarray, tuple[int, ...]]:
    shape = tuple(most + 1 for most in budget.maximum)
    _check_size(int(np.prod(shape, dtype=float)))
    return np.arange(int(np.prod(shape))), shape


def _check_size(entries: int) -> None:
    if entries > MAX_TABLE_ENTRIES:
        raise ValueError(
            "these rules together need tables too large to build: "
            "drop a count or depth rule, or lower the maximum number of tokens"
        )

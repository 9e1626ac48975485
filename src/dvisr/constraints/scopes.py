"""The scope rules of a grammar, multiplied into one small table of slot states."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np

from dvisr.constraints.rules import LEFT, RIGHT, ScopeRule
from dvisr.library import Library, Token

MAX_SLOT_STATES = 4_096

_State = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True)
class Scopes:
    """Slot states are numbered; the root's is 0. Entries for what is not allowed are -1."""

    allowed: np.ndarray  # bool (state, token): what the scope rules alone allow
    operand: np.ndarray  # int (state, token): state of the only or the left operand's slot
    right: np.ndarray  # int (state, token, left root): state of the right operand's slot

    @property
    def num_states(self) -> int:
        return len(self.allowed)


def build_scopes(library: Library, rules: Sequence[ScopeRule]) -> Scopes:
    """Explore the product of the rules' states from the root, then merge states that no
    subtree can tell apart."""
    root: _State = tuple(rule.root() for rule in rules)
    numbers: dict[_State, int] = {root: 0}
    states = [root]
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def number(state: _State) -> int:
        if state not in numbers:
            if len(states) >= MAX_SLOT_STATES:
                raise ValueError(
                    f"these rules need more than {MAX_SLOT_STATES} slot states: drop some of them"
                )
            numbers[state] = len(states)
            states.append(state)
        return numbers[state]

    size = len(library)
    while len(rows) < len(states):
        state = states[len(rows)]
        allowed = _allowed(library, rules, state)
        operand = np.full(size, -1, dtype=np.int32)
        right = np.full((size, size), -1, dtype=np.int32)
        for parent_id in np.flatnonzero(allowed):
            parent = library[int(parent_id)]
            if parent.is_leaf:
                continue
            below = _operand(rules, state, parent, LEFT, None)
            operand[parent_id] = number(below)
            if parent.arity == 2:
                for left_id in np.flatnonzero(_allowed(library, rules, below)):
                    beside = _operand(rules, state, parent, RIGHT, library[int(left_id)])
                    right[parent_id, left_id] = number(beside)
        rows.append((allowed, operand, right))
    return _merged(Scopes(*(np.stack(column) for column in zip(*rows, strict=True))))


def _allowed(library: Library, rules: Sequence[ScopeRule], state: _State) -> np.ndarray:
    return np.array(
        [
            all(rule.allows(part, token) for rule, part in zip(rules, state, strict=True))
            for token in library
        ],
        dtype=bool,
    )


def _operand(
    rules: Sequence[ScopeRule], state: _State, parent: Token, side: int, left: Token | None
) -> _State:
    return tuple(
        rule.operand(part, parent, side, left) for rule, part in zip(rules, state, strict=True)
    )


def _merged(scopes: Scopes) -> Scopes:
    """Moore's partition refinement: states are merged while they allow the same tokens and lead
    to merged states."""
    blocks = np.zeros(scopes.num_states, dtype=np.int64)
    count = 0
    while True:
        extended = np.append(blocks, -1)  # so that -1 maps to itself
        signatures = np.concatenate(
            [
                blocks[:, None],
                scopes.allowed,
                extended[scopes.operand],
                extended[scopes.right].reshape(scopes.num_states, -1),
            ],
            axis=1,
        )
        blocks = _numbered_by_first(signatures)
        if blocks.max() + 1 == count:
            break
        count = int(blocks.max()) + 1
    first = np.array([int(np.flatnonzero(blocks == block)[0]) for block in range(count)])
    extended = np.append(blocks, -1).astype(np.int32)
    return Scopes(
        allowed=scopes.allowed[first],
        operand=extended[scopes.operand[first]],
        right=extended[scopes.right[first]],
    )


def _numbered_by_first(rows: np.ndarray) -> np.ndarray:
    """Number distinct rows in the order of their first appearance, so that the root stays 0."""
    numbers: dict[bytes, int] = {}
    return np.array(
        [numbers.setdefault(row.tobytes(), len(numbers)) for row in np.ascontiguousarray(rows)]
    )

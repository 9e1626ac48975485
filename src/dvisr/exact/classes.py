"""What a finished subtree must remember for the rules that will look at it from above.

Scope rules speak of slots, from the root down. Read from the leaves up they say: a subtree fits
certain slot states and not others, and the token at its root may matter to a right sibling. Two
subtrees that agree on both, and on what they spend of the count rules, are interchangeable; they
are of one *class*. So the same declaration that masks the sampler drives this dynamic programme.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dvisr.constraints import Grammar
from dvisr.constraints.budget import Cost

# (states it fits as a bit set, group of its root token, what it spends apart from tokens)
SubtreeClass = tuple[int, int, Cost]


class Classes:
    def __init__(self, grammar: Grammar, signatures: Sequence[bytes]) -> None:
        """`signatures` are what else tells tokens apart."""
        self._scopes = grammar.scopes
        self._budget = grammar.budget
        self._states = range(grammar.scopes.num_states)
        # Root tokens that every right sibling treats alike form one group.
        columns = grammar.scopes.right.reshape(-1, len(grammar.library))
        groups: dict[bytes, int] = {}
        self._group = [
            groups.setdefault(columns[:, token].tobytes() + other, len(groups))
            for token, other in enumerate(signatures)
        ]
        self._member = {group: token for token, group in reversed(list(enumerate(self._group)))}

    @functools.cache  # noqa: B019 - lives as long as one computation
    def leaf(self, token: int) -> SubtreeClass | None:
        fits = [state for state in self._states if self._scopes.allowed[state, token]]
        return self._made(fits, token, [])

    @functools.cache  # noqa: B019
    def unary(self, token: int, operand: SubtreeClass) -> SubtreeClass | None:
        scopes = self._scopes
        fits = [
            state
            for state in self._states
            if scopes.allowed[state, token] and _has(operand, scopes.operand[state, token])
        ]
        return self._made(fits, token, [operand])

    @functools.cache  # noqa: B019
    def binary(self, token: int, left: SubtreeClass, right: SubtreeClass) -> SubtreeClass | None:
        scopes = self._scopes
        root = self._member[left[1]]
        fits = [
            state
            for state in self._states
            if scopes.allowed[state, token]
            and _has(left, scopes.operand[state, token])
            and _has(right, scopes.right[state, token, root])
        ]
        return self._made(fits, token, [left, right])

    def root(self, subtree: SubtreeClass) -> int:
        """A token of the group that its root is of."""
        return self._member[subtree[1]]

    def is_tree(self, subtree: SubtreeClass, size: int) -> bool:
        """Whether it may stand as a whole tree."""
        return _has(subtree, 0) and self._budget.fits((size, *subtree[2]))

    def _made(
        self, fits: list[int], token: int, operands: list[SubtreeClass]
    ) -> SubtreeClass | None:
        own = self._budget.cost_of(token)[1:]
        spent = tuple(
            cost + sum(operand[2][place] for operand in operands) for place, cost in enumerate(own)
        )
        most = self._budget.maximum[1:]
        if not fits or any(a > b for a, b in zip(spent, most, strict=True)):
            return None
        return sum(1 << state for state in fits), self._group[token], spent


def _has(subtree: SubtreeClass, state: int) -> bool:
    return state >= 0 and bool(subtree[0] >> int(state) & 1)

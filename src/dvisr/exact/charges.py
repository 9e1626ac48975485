"""What a prior charges for a tree, put together from the leaves up.

A token's factor may depend on its parent and its left sibling. Then it is known only when the
parent is: an operator charges for the roots of its operands, and the root of the whole tree is
charged for at the end. Where a factor depends on the token alone it is charged at once, so that
subtrees with different roots can be one entry.
"""

from __future__ import annotations

import numpy as np

from dvisr.prior import TreePrior


class Charges:
    def __init__(self, prior: TreePrior) -> None:
        self._weights = np.exp(np.asarray(prior.log_token, dtype=np.float64))
        self._places = prior.surroundings

    @property
    def signatures(self) -> list[bytes]:
        """Of each token: tokens of one signature are charged alike, and so is what stands beside
        them."""
        num_tokens = self._weights.shape[1]
        if self._places is None:
            return [b""] * num_tokens
        right = np.asarray(self._places.right)
        return [
            self._weights[:, token].tobytes() + np.ascontiguousarray(right[:, token]).tobytes()
            for token in range(num_tokens)
        ]

    def own(self, token: int) -> float:
        """At once, wherever the token stands."""
        return float(self._weights[0, token]) if self._places is None else 1.0

    def operand(self, parent: int, root: int) -> float:
        """By a unary operator for the root of its operand."""
        if self._places is None:
            return 1.0
        return float(self._weights[self._places.below[parent], root])

    def operands(self, parent: int, left: int, right: int) -> float:
        """By a binary operator for the roots of its operands."""
        if self._places is None:
            return 1.0
        beside = self._places.right[parent, left]
        return self.operand(parent, left) * float(self._weights[beside, right])

    def whole(self, root: int) -> float:
        """For the root of a whole tree."""
        return 1.0 if self._places is None else float(self._weights[0, root])

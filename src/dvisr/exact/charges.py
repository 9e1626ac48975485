"""What a prior charges for a tree, put together from the leaves up.

A token's factor may depend on its parent, its left sibling and the kind of its grandparent. Then it
is known only when those are: an operator charges for the roots of its operands, for each kind that
its own parent may turn out to be, and the root of the whole tree is charged for at the end. Where a
factor depends on the token alone it is charged at once, so that subtrees with different roots can
be one entry.
"""

from __future__ import annotations

import numpy as np

from dvisr.prior import TreePrior


class Charges:
    def __init__(self, prior: TreePrior) -> None:
        self._weights = np.exp(np.asarray(prior.log_token, dtype=np.float64))
        self._places = prior.surroundings
        self.num_kinds = 1 if self._places is None else len(self._places.below)
        self.num_tokens = self._weights.shape[1]

    @property
    def signatures(self) -> list[bytes]:
        """Of each token: tokens of one signature are charged alike, and so is what stands beside
        and below them."""
        if self._places is None:
            return [b""] * self.num_tokens
        right, kinds = np.asarray(self._places.right), np.asarray(self._places.kinds)
        return [
            self._weights[:, token].tobytes()
            + right[:, :, token].tobytes()
            + kinds[token : token + 1].tobytes()
            for token in range(self.num_tokens)
        ]

    def kind(self, token: int) -> int:
        """What kind of parent a token is."""
        return 0 if self._places is None else int(self._places.kinds[token])

    def own(self, token: int) -> float:
        """At once, wherever the token stands."""
        return float(self._weights[0, token]) if self._places is None else 1.0

    def operand(self, parent: int, root: int) -> np.ndarray:
        """By a unary operator for the root of its operand, by the kind of its own parent."""
        if self._places is None:
            return np.ones(1)
        found: np.ndarray = self._weights[self._places.below[:, parent], root]
        return found

    def operands(self, parent: int, left: int, right: int) -> np.ndarray:
        """By a binary operator for the roots of its operands, by the kind of its own parent."""
        if self._places is None:
            return np.ones(1)
        beside = self._weights[self._places.right[:, parent, left], right]
        found: np.ndarray = self.operand(parent, left) * beside
        return found

    def whole(self, root: int) -> float:
        """For the root of a whole tree."""
        return 1.0 if self._places is None else float(self._weights[0, root])

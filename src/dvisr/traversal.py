"""The prefix state machine: where in the tree the next token goes.

A tree is written in prefix order (pre-order): an operator, then its operands from left to right.
The next token fills the *current slot*. The slots that still wait are always right-hand operands,
so a stack that holds nothing but their depths is enough: in prefix order `path[d]` is the latest
node at depth d, hence `path[:depth]` are the current slot's ancestors, `path[depth - 1]` its
parent, and, for a right-hand operand, `path[depth]` its left sibling.

One implementation serves sampling, `log_prob` and the check of finished trees: `step` under
`jit`, `scan` and `vmap`.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

NONE = -1  # no token, no position


class TraversalState(eqx.Module):
    """What is known before the next token is chosen."""

    tokens: Int[Array, " length"]  # written so far, NONE after that
    path: Int[Array, " length"]  # position of the latest node at each depth
    waiting: Int[Array, " length"]  # depths of the right-hand slots that wait, a stack
    num_waiting: Int[Array, ""]
    position: Int[Array, ""]  # how many tokens are written
    depth: Int[Array, ""]  # of the current slot; the root's is 0
    is_left: Bool[Array, ""]  # the current slot is the left operand of a binary operator
    is_right: Bool[Array, ""]  # ... the right operand
    is_complete: Bool[Array, ""]

    @property
    def num_open(self) -> Int[Array, ""]:
        """Open slots, the current one included."""
        return jnp.where(self.is_complete, 0, self.num_waiting + 1)

    @property
    def previous(self) -> Int[Array, ""]:
        """Position of the token written last, or NONE."""
        return self.position - 1

    @property
    def parent(self) -> Int[Array, ""]:
        """Position of the current slot's parent, or NONE."""
        return jnp.where(self.depth > 0, self.path[jnp.maximum(self.depth - 1, 0)], NONE)

    @property
    def sibling(self) -> Int[Array, ""]:
        """Position of the current slot's left sibling, or NONE."""
        inside = jnp.minimum(self.depth, self.path.shape[0] - 1)
        return jnp.where(self.is_right, self.path[inside], NONE)

    @property
    def ancestors(self) -> Int[Array, " length"]:
        """Positions of the current slot's ancestors from the root down, then NONE."""
        return jnp.where(
            jnp.arange(self.path.shape[0], dtype=jnp.int32) < self.depth, self.path, NONE
        )

    def token_at(self, position: Int[Array, ""]) -> Int[Array, ""]:
        """The token's id at a position, NONE for NONE."""
        return jnp.where(position == NONE, NONE, self.tokens[jnp.maximum(position, 0)])


def start(length: int) -> TraversalState:
    """Before the first token of a tree of at most `length` tokens."""
    nothing = jnp.full((length,), NONE, dtype=jnp.int32)
    zero = jnp.zeros((), dtype=jnp.int32)
    false = jnp.zeros((), dtype=bool)
    return TraversalState(nothing, nothing, nothing, zero, zero, zero, false, false, false)


def step(
    state: TraversalState, token: Int[Array, ""], arities: Int[Array, " tokens"]
) -> TraversalState:
    """Write one token into the current slot and move on to the next one.

    A complete tree stays as it is. A token beyond `length` is lost: masks never allow one.
    """
    arity = arities[jnp.maximum(token, 0)]
    lanes = jnp.arange(state.tokens.shape[0], dtype=jnp.int32)
    is_operator = arity > 0
    is_binary = arity == 2

    tokens = jnp.where(lanes == state.position, token, state.tokens)
    path = jnp.where(lanes == state.depth, state.position, state.path)
    pushed = is_binary & (lanes == state.num_waiting)
    waiting = jnp.where(pushed, state.depth + 1, state.waiting)

    # After a leaf the latest waiting slot comes next; without one the tree is complete.
    is_last = ~is_operator & (state.num_waiting == 0)
    popped = waiting[jnp.maximum(state.num_waiting - 1, 0)]
    depth = jnp.where(is_operator, state.depth + 1, jnp.where(is_last, state.depth, popped))
    num_waiting = state.num_waiting + jnp.where(
        is_binary, 1, jnp.where(is_operator | is_last, 0, -1)
    )
    moved = TraversalState(
        tokens=tokens,
        path=path,
        waiting=waiting,
        num_waiting=num_waiting,
        position=state.position + 1,
        depth=depth,
        is_left=is_binary,
        is_right=~is_operator & ~is_last,
        is_complete=is_last,
    )
    return _keep_if(state.is_complete, state, moved)


def _keep_if(keep: Bool[Array, ""], old: TraversalState, new: TraversalState) -> TraversalState:
    return TraversalState(
        *(
            jnp.where(keep, getattr(old, field), getattr(new, field))
            for field in TraversalState.__dataclass_fields__
        )
    )

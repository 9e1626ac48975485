"""The mask under jit: which tokens may be written now, and moving on after one is.

A token is allowed if and only if a legal tree can still be completed after it, so a walk along
the mask never comes to a dead end, and a finished tree is legal if and only if each of its
tokens was in the mask in turn.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from dvisr import traversal
from dvisr.constraints.grammar import Grammar


class Mask(eqx.Module):
    """The tables of a grammar as arrays of the device."""

    feasible: Bool[Array, "rest question spent"]
    question: Int[Array, "kind tokens"]
    operand_kind: Int[Array, "kind tokens"]
    right_kind: Int[Array, "kind tokens"]
    rest_with: Int[Array, "rest kind"]
    spent_by: Int[Array, " tokens"]
    arities: Int[Array, " tokens"]
    length: int = eqx.field(static=True)


class MaskState(eqx.Module):
    traversal: traversal.TraversalState
    kind: Int[Array, ""]  # of the current slot
    rest: Int[Array, ""]  # what the waiting slots may cost
    spent: Int[Array, ""]
    waiting_kind: Int[Array, " length"]
    waiting_rest: Int[Array, " length"]  # the rest below each waiting slot


def make_mask(grammar: Grammar) -> Mask:
    tables = grammar.tables
    return Mask(
        feasible=jax.device_put(tables.feasible),
        question=jax.device_put(tables.question),
        operand_kind=jax.device_put(tables.operand_kind),
        right_kind=jax.device_put(tables.right_kind),
        rest_with=jax.device_put(tables.rest_with),
        spent_by=jax.device_put(tables.spent_by),
        arities=jax.device_put(grammar.library.arities),
        length=grammar.max_tokens,
    )


def start(mask: Mask) -> MaskState:
    zero = jnp.zeros((), dtype=jnp.int32)
    nothing = jnp.zeros((mask.length,), dtype=jnp.int32)
    return MaskState(traversal.start(mask.length), zero, zero, zero, nothing, nothing)


def allowed(mask: Mask, state: MaskState) -> Bool[Array, " tokens"]:
    """True where a token may be written now; all False once the tree is complete."""
    possible = mask.feasible[state.rest, mask.question[state.kind], state.spent]
    return possible & ~state.traversal.is_complete


def step(mask: Mask, state: MaskState, token: Int[Array, ""]) -> MaskState:
    """Write a token. What follows a token outside the mask is unspecified, but harmless."""
    before = state.traversal
    safe = jnp.maximum(token, 0)
    # The root token of a left operand settles the slot of its right sibling, which is the top
    # of the stack of waiting slots.
    top = before.num_waiting - 1
    settled = before.is_left & (jnp.arange(mask.length, dtype=jnp.int32) == top)
    right_kind = mask.right_kind[state.kind, safe]
    waiting_kind = jnp.where(settled, right_kind, state.waiting_kind)
    waiting_rest = jnp.where(settled, state.rest, state.waiting_rest)
    rest = jnp.where(before.is_left, mask.rest_with[state.rest, right_kind], state.rest)

    is_operator = mask.arities[safe] > 0
    inside = jnp.maximum(top, 0)
    moved = MaskState(
        traversal=traversal.step(before, token, mask.arities),
        kind=jnp.where(is_operator, mask.operand_kind[state.kind, safe], waiting_kind[inside]),
        rest=jnp.where(is_operator, rest, waiting_rest[inside]),
        spent=jnp.minimum(state.spent + mask.spent_by[safe], mask.feasible.shape[2] - 1),
        waiting_kind=waiting_kind,
        waiting_rest=waiting_rest,
    )
    kept: MaskState = jax.tree.map(
        lambda old, new: jnp.where(before.is_complete, old, new), state, moved
    )
    return kept


def is_allowed(mask: Mask, tokens: Int[Array, " length"]) -> Bool[Array, ""]:
    """Whether these tokens, NONE after the last, are one complete legal tree."""

    def body(
        carry: tuple[MaskState, Bool[Array, ""]], token: Int[Array, ""]
    ) -> tuple[tuple[MaskState, Bool[Array, ""]], None]:
        state, legal = carry
        in_range = (token >= 0) & (token < mask.arities.shape[0])
        inside = allowed(mask, state)[jnp.where(in_range, token, 0)] & in_range
        is_over = state.traversal.is_complete
        legal &= jnp.where(is_over, token == traversal.NONE, inside)
        return (step(mask, state, jnp.where(in_range, token, 0)), legal), None

    (state, legal), _ = jax.lax.scan(body, (start(mask), jnp.ones((), dtype=bool)), tokens)
    return legal & state.traversal.is_complete

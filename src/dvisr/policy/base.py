"""What a policy sees before each token, and what it must answer."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dvisr.constants import AbstractConstantHead
from dvisr.constraints.masking import MaskState
from dvisr.policy.filling import Filler
from dvisr.traversal import NONE


class Observation(eqx.Module):
    """The paper's inputs: three tokens, and the values of those among them that are constants.

    The ids are NONE where there is no such token, as at the first step; the values are zero where
    the token is no constant. (The parent is an operator and never has a value.)
    """

    previous: Int[Array, ""]
    parent: Int[Array, ""]
    sibling: Int[Array, ""]
    previous_constant: Float[Array, ""]
    sibling_constant: Float[Array, ""]
    place: Place


class Place(eqx.Module):
    """Beyond the paper's inputs: where in the tree the next token goes, and the state that the
    masks depend on."""

    num_open: Int[Array, ""]  # open slots, the current one included
    num_spare: Int[Array, ""]  # tokens left beyond one for each open slot
    depth: Int[Array, ""]
    kind: Int[Array, ""]  # the slot's scope flags and side, as the mask numbers them
    num_constants: Int[Array, ""]  # written so far
    parent_position: Int[Array, ""]  # NONE at the root
    is_in_sibling: Bool[Array, " length"]  # the tokens of the left sibling's subtree
    tokens: Int[Array, " length"]  # written so far, NONE after that


class Outputs(eqx.Module):
    """What the policy says of the next token. The mask is not its business: logits of forbidden
    tokens are ignored."""

    logits: Float[Array, " tokens"]
    constant: Float[Array, " outputs"]  # for the head: the token's value, should it be a constant


class AbstractPolicy(eqx.Module):
    """One tree at a time. `memory` is what the policy carries from token to token; any pytree.

    With a filler the constants are drawn once the tree is written; without one as they come up, by
    the outputs that the token came from.
    """

    head: eqx.AbstractVar[AbstractConstantHead]
    filler: eqx.AbstractVar[Filler | None]

    @abc.abstractmethod
    def start(self) -> Any:
        """The memory before the first token."""

    @abc.abstractmethod
    def __call__(self, memory: Any, observation: Observation) -> tuple[Any, Outputs]:
        """The memory afterwards, and what to write next."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any: ...


def observe(state: MaskState, constants: Float[Array, " length"], constant_id: int) -> Observation:
    """`constants` are zero wherever no constant has been written."""
    traversal = state.traversal
    previous, parent, sibling = traversal.previous, traversal.parent, traversal.sibling

    def value_at(position: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(position == NONE, 0.0, constants[jnp.maximum(position, 0)])

    length = traversal.tokens.shape[0]
    lanes = jnp.arange(length, dtype=jnp.int32)
    is_constant = (traversal.tokens == constant_id) & (traversal.tokens >= 0)
    place = Place(
        num_open=traversal.num_open,
        num_spare=length - traversal.position - traversal.num_open,
        depth=traversal.depth,
        kind=state.kind,
        num_constants=is_constant.sum(dtype=jnp.int32),
        parent_position=parent,
        # The left sibling's subtree ends where the right operand begins.
        is_in_sibling=(sibling != NONE) & (lanes >= sibling) & (lanes < traversal.position),
        tokens=traversal.tokens,
    )
    return Observation(
        previous=traversal.token_at(previous),
        parent=traversal.token_at(parent),
        sibling=traversal.token_at(sibling),
        previous_constant=value_at(previous),
        sibling_constant=value_at(sibling),
        place=place,
    )

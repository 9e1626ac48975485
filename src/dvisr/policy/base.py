"""What a policy sees before each token, and what it must answer."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constants import AbstractConstantHead
from dvisr.traversal import NONE, TraversalState


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


class Outputs(eqx.Module):
    """What the policy says of the next token. The mask is not its business: logits of forbidden
    tokens are ignored."""

    logits: Float[Array, " tokens"]
    constant: Float[Array, " outputs"]  # for the head: the token's value, should it be a constant


class AbstractPolicy(eqx.Module):
    """One tree at a time. `memory` is what the policy carries from token to token; any pytree."""

    head: eqx.AbstractVar[AbstractConstantHead]

    @abc.abstractmethod
    def start(self) -> Any:
        """The memory before the first token."""

    @abc.abstractmethod
    def __call__(self, memory: Any, observation: Observation) -> tuple[Any, Outputs]:
        """The memory afterwards, and what to write next."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any: ...


def observe(state: TraversalState, constants: Float[Array, " length"]) -> Observation:
    """`constants` are zero wherever no constant has been written."""
    previous, sibling = state.previous, state.sibling

    def value_at(position: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(position == NONE, 0.0, constants[jnp.maximum(position, 0)])

    return Observation(
        previous=state.token_at(previous),
        parent=state.token_at(state.parent),
        sibling=state.token_at(sibling),
        previous_constant=value_at(previous),
        sibling_constant=value_at(sibling),
    )

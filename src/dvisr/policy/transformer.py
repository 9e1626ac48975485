"""The attentive policy: every step sees all steps before it, where a recurrent one sees a digest.

Keys and values of the steps so far are kept in the memory, so that a step projects one token alone
and nothing is computed twice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dvisr.constants import AbstractConstantHead
from dvisr.constraints import Grammar
from dvisr.policy.base import AbstractPolicy, Observation, Outputs
from dvisr.policy.encoding import AbstractEncoder, PlaceInputs
from dvisr.policy.filling import Filler, for_constants

_EXPANSION = 4  # hidden units of a block's network for each unit of its width


class Memory(NamedTuple):
    """The number of steps made, and what they left behind; zeros at the places still to come."""

    step: Int[Array, ""]
    keys: Float[Array, "layers length heads size"]
    values: Float[Array, "layers length heads size"]


class Block(eqx.Module):
    """Attention, then a network of one hidden layer, each added to the signal that it read.

    Both read it normalised and the sum itself never is, so that slopes reach the first block as
    they are.
    """

    attention_norm: eqx.nn.LayerNorm
    attention_inputs: eqx.nn.Linear  # queries, keys and values, in this order
    attention_output: eqx.nn.Linear
    network_norm: eqx.nn.LayerNorm
    network_inputs: eqx.nn.Linear
    network_output: eqx.nn.Linear

    def __init__(self, width: int, dtype: Any, *, key: PRNGKeyArray) -> None:
        keys = jax.random.split(key, 4)
        inner = _EXPANSION * width
        self.attention_norm = eqx.nn.LayerNorm(width, dtype=dtype)
        self.attention_inputs = eqx.nn.Linear(width, 3 * width, dtype=dtype, key=keys[0])
        self.attention_output = eqx.nn.Linear(width, width, dtype=dtype, key=keys[1])
        self.network_norm = eqx.nn.LayerNorm(width, dtype=dtype)
        self.network_inputs = eqx.nn.Linear(width, inner, dtype=dtype, key=keys[2])
        self.network_output = eqx.nn.Linear(inner, width, dtype=dtype, key=keys[3])

    def __call__(
        self,
        signal: Float[Array, " width"],
        step: Int[Array, ""],
        keys: Float[Array, "length heads size"],
        values: Float[Array, "length heads size"],
    ) -> tuple[
        Float[Array, " width"],
        Float[Array, "length heads size"],
        Float[Array, "length heads size"],
    ]:
        """The signal after this block, and the keys and values with this step's among them."""
        length, num_heads, head_size = keys.shape
        places = jnp.arange(length, dtype=jnp.int32)
        projected = self.attention_inputs(self.attention_norm(signal))
        query, key, value = projected.reshape(3, num_heads, head_size)
        # Selected rather than updated in place: the gradient of that is a scatter, which is slow.
        here = (places == step)[:, None, None]
        keys = jnp.where(here, key[None], keys)
        values = jnp.where(here, value[None], values)
        found = _attend(query, keys, values, places <= step)
        signal = signal + self.attention_output(found.reshape(-1))
        hidden = jax.nn.gelu(self.network_inputs(self.network_norm(signal)))
        return signal + self.network_output(hidden), keys, values


def _attend(
    query: Float[Array, "heads size"],
    keys: Float[Array, "length heads size"],
    values: Float[Array, "length heads size"],
    is_past: Bool[Array, " length"],
) -> Float[Array, "heads size"]:
    """The first step is always past, so the softmax is never over nothing."""
    scores = jnp.einsum("hs,lhs->hl", query, keys) / math.sqrt(query.shape[-1])
    shares = jax.nn.softmax(jnp.where(is_past[None], scores, -jnp.inf))
    return jnp.einsum("hl,lhs->hs", shares, values)


class TransformerPolicy(AbstractPolicy):
    """A decoder: blocks on top of each other, a layer for tokens, one for constants.

    It can write trees of as many tokens as it has positions. Without the constant token, and where
    a filler draws the constants, there are no outputs for them.
    """

    input_layer: eqx.nn.Linear
    positions: Float[Array, "length width"]  # one vector for each number of tokens written
    blocks: tuple[Block, ...]
    norm: eqx.nn.LayerNorm
    token_layer: eqx.nn.Linear
    constant_layer: eqx.nn.Linear | None
    filler: Filler | None
    head: AbstractConstantHead
    encoder: AbstractEncoder
    num_heads: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        grammar: Grammar,
        width: int,
        *,
        key: PRNGKeyArray,
        num_layers: int = 2,
        num_heads: int = 4,
        encoder: AbstractEncoder | None = None,
        head: AbstractConstantHead | None = None,
        skeleton_first: bool = False,
        dtype: Any = jnp.float32,
    ) -> TransformerPolicy:
        _check_sizes(width, num_layers, num_heads)
        encoder = PlaceInputs.create(grammar) if encoder is None else encoder
        input_key, position_key, block_key, token_key, constant_key = jax.random.split(key, 5)
        constants = for_constants(grammar, width, head, skeleton_first, dtype, key=constant_key)
        # As large as if the position were one more one-hot input of the first layer.
        bound = 1.0 / math.sqrt(encoder.num_inputs)
        shape = (grammar.max_tokens, width)
        return cls(
            input_layer=eqx.nn.Linear(encoder.num_inputs, width, dtype=dtype, key=input_key),
            positions=jax.random.uniform(position_key, shape, dtype, -bound, bound),
            blocks=tuple(
                Block(width, dtype, key=k) for k in jax.random.split(block_key, num_layers)
            ),
            norm=eqx.nn.LayerNorm(width, dtype=dtype),
            token_layer=eqx.nn.Linear(width, len(grammar.library), dtype=dtype, key=token_key),
            constant_layer=constants.layer,
            filler=constants.filler,
            head=constants.head,
            encoder=encoder,
            num_heads=num_heads,
        )

    @property
    def dtype(self) -> Any:
        return self.positions.dtype

    def start(self) -> Memory:
        length, width = self.positions.shape
        shape = (len(self.blocks), length, self.num_heads, width // self.num_heads)
        nothing = jnp.zeros(shape, dtype=self.dtype)
        return Memory(jnp.zeros((), dtype=jnp.int32), nothing, nothing)

    def __call__(self, memory: Memory, observation: Observation) -> tuple[Memory, Outputs]:
        """Calls beyond the last position leave the memory as it is."""
        length = self.positions.shape[0]
        step = memory.step
        position = jax.nn.one_hot(step, length, dtype=self.dtype) @ self.positions
        signal = self.input_layer(self.encoder(observation, self.dtype)) + position
        all_keys, all_values = [], []
        for block, old_keys, old_values in zip(
            self.blocks, memory.keys, memory.values, strict=True
        ):
            signal, keys, values = block(signal, step, old_keys, old_values)
            all_keys.append(keys)
            all_values.append(values)
        signal = self.norm(signal)
        if self.constant_layer is None:
            constant = jnp.zeros((self.head.num_outputs,), dtype=self.dtype)
        else:
            constant = self.constant_layer(signal)
        moved = Memory(jnp.minimum(step + 1, length), jnp.stack(all_keys), jnp.stack(all_values))
        return moved, Outputs(self.token_layer(signal), constant)


def _check_sizes(width: int, num_layers: int, num_heads: int) -> None:
    if width < 1 or num_layers < 1 or num_heads < 1:
        raise ValueError(
            "a transformer needs at least 1 layer, 1 head and a width of 1, not "
            f"{num_layers}, {num_heads} and {width}"
        )
    if width % num_heads:
        raise ValueError(
            f"the width must be divisible by the number of heads, and {width} is not by {num_heads}"
        )

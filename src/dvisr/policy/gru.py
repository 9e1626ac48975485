"""The paper's policy: one gated recurrent unit, a linear layer for tokens, one for constants."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.library import Library
from dvisr.policy.base import AbstractPolicy, Observation, Outputs


class GRUCell(eqx.Module):
    """PyTorch's GRUCell: two bias vectors a gate, everything uniform in ±1/sqrt(hidden).

    Equinox's cell has one bias for two of the gates. The functions that the two can represent are
    the same, but an optimiser that scales each weight by itself moves a sum of two biases twice
    as far as one.
    """

    input_weight: Float[Array, "gates inputs"]
    hidden_weight: Float[Array, "gates hidden"]
    input_bias: Float[Array, " gates"]
    hidden_bias: Float[Array, " gates"]

    def __init__(self, num_inputs: int, hidden_size: int, dtype: Any, *, key: PRNGKeyArray) -> None:
        bound = 1.0 / math.sqrt(hidden_size)
        gates = 3 * hidden_size
        shapes = [(gates, num_inputs), (gates, hidden_size), (gates,), (gates,)]
        keys = jax.random.split(key, len(shapes))
        self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias = (
            jax.random.uniform(k, shape, dtype=dtype, minval=-bound, maxval=bound)
            for k, shape in zip(keys, shapes, strict=True)
        )

    def __call__(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"]
    ) -> Float[Array, " hidden"]:
        from_inputs = jnp.split(self.input_weight @ inputs + self.input_bias, 3)
        from_hidden = jnp.split(self.hidden_weight @ hidden + self.hidden_bias, 3)
        reset = jax.nn.sigmoid(from_inputs[0] + from_hidden[0])
        update = jax.nn.sigmoid(from_inputs[1] + from_hidden[1])
        new = jnp.tanh(from_inputs[2] + reset * from_hidden[2])
        return (1.0 - update) * new + update * hidden


class GRUPolicy(AbstractPolicy):
    """Without the constant token there are no inputs for values and no outputs for constants."""

    cell: GRUCell
    token_layer: eqx.nn.Linear
    constant_layer: eqx.nn.Linear | None
    head: AbstractConstantHead
    num_tokens: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        library: Library,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        head: AbstractConstantHead | None = None,
        dtype: Any = jnp.float32,
    ) -> GRUPolicy:
        if hidden_size < 1:
            raise ValueError(f"the hidden size must be at least 1, not {hidden_size}")
        head = NormalHead() if head is None else head
        cell_key, token_key, constant_key = jax.random.split(key, 3)
        num_inputs = 3 * len(library) + (2 if library.has_constants else 0)
        return cls(
            cell=GRUCell(num_inputs, hidden_size, dtype, key=cell_key),
            # Equinox's Linear has PyTorch's default initialisation: uniform in ±1/sqrt(inputs).
            token_layer=eqx.nn.Linear(hidden_size, len(library), dtype=dtype, key=token_key),
            constant_layer=eqx.nn.Linear(
                hidden_size, head.num_outputs, dtype=dtype, key=constant_key
            )
            if library.has_constants
            else None,
            head=head,
            num_tokens=len(library),
        )

    @property
    def dtype(self) -> Any:
        return self.cell.hidden_weight.dtype

    def start(self) -> Float[Array, " hidden"]:
        return jnp.zeros((self.cell.hidden_weight.shape[1],), dtype=self.dtype)

    def __call__(
        self, memory: Float[Array, " hidden"], observation: Observation
    ) -> tuple[Float[Array, " hidden"], Outputs]:
        memory = self.cell(self._inputs(observation), memory)
        if self.constant_layer is None:
            constant = jnp.zeros((self.head.num_outputs,), dtype=self.dtype)
        else:
            constant = self.constant_layer(memory)
        return memory, Outputs(self.token_layer(memory), constant)

    def _inputs(self, observation: Observation) -> Float[Array, " inputs"]:
        # one_hot(NONE) is a vector of zeros: a missing parent or sibling, and the first step.
        tokens = [observation.previous, observation.parent, observation.sibling]
        parts = [jax.nn.one_hot(token, self.num_tokens, dtype=self.dtype) for token in tokens]
        if self.constant_layer is not None:
            values = [observation.previous_constant, observation.sibling_constant]
            parts.append(jnp.stack(values))
        return jnp.concatenate(parts)

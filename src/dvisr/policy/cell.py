"""The gated recurrent unit."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


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

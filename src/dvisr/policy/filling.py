"""Skeleton first: the constants of a tree that is already written, each given those before it.

A policy that draws a constant as soon as it writes `c` does not know yet what will stand around it,
so its density has to cover every tree that may come: a mixture, where one Normal is offered. Here
the whole tree is read first, from its last token to its first, and the constants are then drawn
from left to right, each with all of the tree and the constants before it in view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dvisr.constants import AbstractConstantHead
from dvisr.library import Library
from dvisr.policy.cell import GRUCell

# Of the network's outputs for a constant and the position's own input: the constant's value.
PlaceConstant = Callable[[Array, Any], Array]


class Filler(eqx.Module):
    reader: GRUCell  # from the last token to the first
    writer: GRUCell  # from the first to the last
    layer: eqx.nn.Linear
    num_tokens: int = eqx.field(static=True)
    constant_id: int = eqx.field(static=True)
    grid: tuple[float, ...] = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        library: Library,
        hidden_size: int,
        head: AbstractConstantHead,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Filler:
        read_key, write_key, layer_key = jax.random.split(key, 3)
        num_tokens = len(library)
        return cls(
            reader=GRUCell(num_tokens, hidden_size, dtype, key=read_key),
            writer=GRUCell(
                num_tokens + hidden_size + 2 + len(head.grid), hidden_size, dtype, key=write_key
            ),
            layer=eqx.nn.Linear(hidden_size, head.num_outputs, dtype=dtype, key=layer_key),
            num_tokens=num_tokens,
            constant_id=library.constant_id,
            grid=head.grid,
        )

    def __call__(
        self, tokens: Int[Array, " length"], place: PlaceConstant, given: Any
    ) -> tuple[Float[Array, " length"], Float[Array, "length outputs"]]:
        """The constants at their tokens' places, zero elsewhere; and the outputs they came from."""
        dtype = self.reader.hidden_weight.dtype
        zero = jnp.zeros((self.reader.hidden_weight.shape[1],), dtype=dtype)
        words = jax.nn.one_hot(tokens, self.num_tokens, dtype=dtype)

        def read(hidden: Array, entry: tuple[Array, Array]) -> tuple[Array, Array]:
            token, word = entry
            hidden = jnp.where(token < 0, hidden, self.reader(word, hidden))
            return hidden, hidden

        _, contexts = jax.lax.scan(read, zero, (tokens, words), reverse=True)

        def fill(carry: tuple[Array, Array], entry: Any) -> tuple[tuple[Array, Array], Any]:
            (hidden, seen), (token, word, context, own) = carry, entry
            hidden = self.writer(jnp.concatenate([word, context, seen]), hidden)
            outputs = self.layer(hidden)
            is_constant = (token == self.constant_id) & (token >= 0)
            value = jnp.where(is_constant, place(outputs, own), 0.0)
            seen = jnp.where(is_constant, self._seen(value), 0.0)
            return (hidden, seen), (value, outputs)

        start = (zero, jnp.zeros((2 + len(self.grid),), dtype=dtype))
        _, found = jax.lax.scan(fill, start, (tokens, words, contexts, given))
        values, outputs = found
        return values, outputs

    def _seen(self, value: Float[Array, ""]) -> Float[Array, " features"]:
        """A constant as the next one's network sees it: bounded, by its log, and by how near it is
        to the points of the grid."""
        near = []
        if self.grid:
            grid = jnp.asarray(self.grid, dtype=value.dtype)
            near = [jnp.exp(-0.5 * ((value - grid) / (grid[1] - grid[0])) ** 2)]
        broad = [jnp.tanh(value), jnp.sign(value) * jnp.log1p(jnp.abs(value))]
        return jnp.concatenate([jnp.stack(broad), *near])

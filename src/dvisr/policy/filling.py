"""Skeleton first: the constants of a tree that is already written, each given those before it.

A policy that draws a constant as soon as it writes `c` does not know yet what will stand around it,
so its density has to cover every tree that may come: a mixture, where one Normal is offered. Here
the whole tree is read first, from its last token to its first, and the constants are then drawn
from left to right, each with all of the tree and the constants before it in view.

Constants of one tree trade off: in x0 + c + c their sum is known and neither of them is, in
x0 * c * c their product. So a constant's place on the line may follow each earlier one, and the
reciprocal of each, in proportion, and its width a power of each: what a network would need many
units for, it has exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dvisr.constants import AbstractConstantHead, AffineHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.policy.cell import GRUCell

_SMALL = 0.05  # a constant smaller than this is taken for about this small
# Of the network's outputs for a constant and the position's own input: the constant's value.
PlaceConstant = Callable[[Array, Any], Array]


class Filler(eqx.Module):
    reader: GRUCell  # from the last token to the first
    writer: GRUCell  # from the first to the last
    layer: eqx.nn.Linear
    following: eqx.nn.Linear  # how closely to follow each earlier constant
    head: AffineHead
    num_tokens: int = eqx.field(static=True)
    constant_id: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        grammar: Grammar,
        hidden_size: int,
        head: AbstractConstantHead,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Filler:
        head = AffineHead(head)
        read_key, write_key, layer_key = jax.random.split(key, 3)
        num_tokens = len(grammar.library)
        following = eqx.nn.Linear(hidden_size, 3 * grammar.max_tokens, dtype=dtype, key=layer_key)
        return cls(
            reader=GRUCell(num_tokens, hidden_size, dtype, key=read_key),
            writer=GRUCell(
                num_tokens + hidden_size + 3 + len(head.grid), hidden_size, dtype, key=write_key
            ),
            layer=eqx.nn.Linear(hidden_size, head.num_outputs, dtype=dtype, key=layer_key),
            # Nothing is followed at first.
            following=jax.tree.map(jnp.zeros_like, following),
            head=head,
            num_tokens=num_tokens,
            constant_id=grammar.library.constant_id,
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

        def fill(carry: tuple[Array, Array, Array], entry: Any) -> tuple[Any, Any]:
            (hidden, seen, values), (token, word, context, own, here) = carry, entry
            hidden = self.writer(jnp.concatenate([word, context, seen]), hidden)
            followed = self._followed(hidden, values)
            outputs = self.layer(hidden).at[-2:].add(followed)
            is_constant = (token == self.constant_id) & (token >= 0)
            value = jnp.where(is_constant, place(outputs, own), 0.0)
            seen = jnp.where(is_constant, self._seen(value), 0.0)
            return (hidden, seen, jnp.where(here, value, values)), outputs

        nothing = jnp.zeros(tokens.shape, dtype=dtype)
        start = (zero, jnp.zeros((3 + len(self.head.grid),), dtype=dtype), nothing)
        steps = jnp.eye(tokens.shape[0], dtype=bool)
        (_, _, values), outputs = jax.lax.scan(fill, start, (tokens, words, contexts, given, steps))
        return values, outputs

    def _followed(
        self, hidden: Float[Array, " hidden"], values: Float[Array, " length"]
    ) -> Float[Array, " 2"]:
        """What the earlier constants add to the shift and to the logarithm of the stretch."""
        slopes = self.following(hidden).reshape(3, -1)
        squares = values**2 + _SMALL**2
        sizes = jnp.where(values == 0.0, 0.0, 0.5 * jnp.log(squares))
        shift = slopes[0] * values + slopes[1] * values / squares
        return jnp.stack([shift.sum(), (slopes[2] * sizes).sum()])

    def _seen(self, value: Float[Array, ""]) -> Float[Array, " features"]:
        """A constant as the next one's network sees it: bounded, by its size from far and from
        near, and by how near it is to the points of the head's grid."""
        near = []
        if self.head.grid:
            grid = jnp.asarray(self.head.grid, dtype=value.dtype)
            near = [jnp.exp(-0.5 * ((value - grid) / (grid[1] - grid[0])) ** 2)]
        far = jnp.sign(value) * jnp.log1p(jnp.abs(value))
        broad = [jnp.tanh(value), far, 0.5 * jnp.log(value**2 + _SMALL**2)]
        return jnp.concatenate([jnp.stack(broad), *near])


class ForConstants(NamedTuple):
    """What of a policy is for its constants: a layer, or a filler, or, without the constant token,
    neither; and the head that makes a density of what these say."""

    layer: eqx.nn.Linear | None
    filler: Filler | None
    head: AbstractConstantHead


def for_constants(
    grammar: Grammar,
    hidden_size: int,
    head: AbstractConstantHead | None,
    skeleton_first: bool,
    dtype: Any,
    *,
    key: PRNGKeyArray,
) -> ForConstants:
    head = NormalHead() if head is None else head
    if not grammar.library.has_constants:
        return ForConstants(None, None, head)
    if skeleton_first:
        filler = Filler.create(grammar, hidden_size, head, dtype, key=key)
        return ForConstants(None, filler, filler.head)
    layer = eqx.nn.Linear(hidden_size, head.num_outputs, dtype=dtype, key=key)
    return ForConstants(layer, None, head)

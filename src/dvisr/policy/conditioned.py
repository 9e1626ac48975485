"""The policy that has read the data: a decoder that looks at the rows of a table before each token.

Its logits are added to the prior's log weights, and with its last layer at zero, as it is before
training, it is the prior. `Decoder` works on all tokens of a told tree at once (`__call__`), for
training, or on one at a time with what it has seen kept (`step`), for drawing; both are the same
blocks, and a test holds them to the same numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.library import Library
from dvisr.policy import vocabulary
from dvisr.policy.base import AbstractPolicy, Observation, Outputs
from dvisr.policy.filling import Filler
from dvisr.policy.layers import (
    Dense,
    Hidden,
    Norm,
    attend,
    attend_alone,
    in_heads,
    projected,
    widened,
)
from dvisr.policy.reading import Reader, Table

LENGTH = 16  # tokens of the longest trees in training; places beyond it look like the last
_MOST_OPEN = 8


class Sizes(NamedTuple):
    """Of a network that reads data."""

    width: int = 256
    reader_layers: int = 4
    decoder_layers: int = 4
    num_heads: int = 8


class SeenRows(eqx.Module):
    """Keys and values of a table's rows for each block of the decoder."""

    keys: Float[Array, "layers rows heads size"]
    values: Float[Array, "layers rows heads size"]
    is_row: Bool[Array, " rows"]


class Memory(NamedTuple):
    """Tokens written, and their keys and values, of each block (length, heads, size); zeros at the
    places still to come."""

    step: Int[Array, ""]
    keys: tuple[Array, ...]
    values: tuple[Array, ...]


def _normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    return jax.random.normal(key, shape, dtype=jnp.float32)


def _nothing(inputs: int, outputs: int) -> Dense:
    return Dense(
        jnp.zeros((inputs, outputs), dtype=jnp.float32), jnp.zeros((outputs,), dtype=jnp.float32)
    )


class DecoderBlock(eqx.Module):
    """A token looks at those before it, then at the rows, then goes through a network."""

    norm: Norm
    asks: Dense  # queries, keys and values, in this order
    finds: Dense
    row_norm: Norm
    row_asks: Dense
    row_tells: Dense  # keys and values of the rows
    row_finds: Dense
    hidden: Hidden
    num_heads: int = eqx.field(static=True)

    @classmethod
    def create(cls, width: int, num_heads: int, *, key: PRNGKeyArray) -> DecoderBlock:
        keys = jax.random.split(key, 6)
        return cls(
            norm=Norm.create(width),
            asks=Dense.create(width, 3 * width, key=keys[0]),
            finds=Dense.create(width, width, key=keys[1], gain=0.5),
            row_norm=Norm.create(width),
            row_asks=Dense.create(width, width, key=keys[2]),
            row_tells=Dense.create(width, 2 * width, key=keys[3]),
            row_finds=Dense.create(width, width, key=keys[4], gain=0.5),
            hidden=Hidden.create(width, key=keys[5]),
            num_heads=num_heads,
        )

    def told(self, rows: Float[Array, "rows width"]) -> tuple[Array, Array]:
        """Keys and values of the rows."""
        keys, values = jnp.split(self.row_tells(rows), 2, axis=-1)
        return in_heads(keys, self.num_heads), in_heads(values, self.num_heads)

    def projected(self, signal: Float[Array, "places width"]) -> tuple[Array, Array, Array]:
        return projected(self.norm, self.asks, signal, self.num_heads)

    def finished(
        self,
        signal: Float[Array, "places width"],
        found: Float[Array, "places width"],
        row_keys: Float[Array, "rows heads size"],
        row_values: Float[Array, "rows heads size"],
        is_row: Bool[Array, " rows"],
    ) -> Float[Array, "places width"]:
        """The signal after this block, from what it found among the tokens."""
        signal = signal + self.finds(found)
        asked = in_heads(self.row_asks(self.row_norm(signal)), self.num_heads)
        may_see = jnp.broadcast_to(is_row[None], (signal.shape[0], is_row.shape[0]))
        signal = signal + self.row_finds(attend(asked, row_keys, row_values, may_see))
        return signal + self.hidden(signal)


@jax.jit  # traced once for all blocks
def _one_more(
    block: DecoderBlock,
    signal: Array,
    here: Array,
    keys: Array,
    values: Array,
    row_keys: Array,
    row_values: Array,
    is_row: Array,
) -> tuple[Array, Array, Array]:
    """One place more through a block: its signal, and the keys and values with its own."""
    queries, key, value = block.projected(signal)
    keys = jax.lax.dynamic_update_index_in_dim(keys, key[0], here, 0)
    values = jax.lax.dynamic_update_index_in_dim(values, value[0], here, 0)
    before = (jnp.arange(keys.shape[0], dtype=jnp.int32) <= here)[None]
    found = attend_alone(queries, keys, values, before)
    return block.finished(signal, found, row_keys, row_values, is_row), keys, values


class Decoder(eqx.Module):
    """From observations and rows to a vector a token, and to logits over the vocabulary."""

    tokens: Float[Array, "kinds words width"]  # of the previous, the parent's and the sibling's
    places: Float[Array, "length width"]
    open_slots: Float[Array, "most width"]
    blocks: tuple[DecoderBlock, ...]
    norm: Norm
    layer: Dense

    @classmethod
    def create(cls, sizes: Sizes, *, key: PRNGKeyArray) -> Decoder:
        width = sizes.width
        token_key, place_key, open_key, block_key = jax.random.split(key, 4)
        block_keys = jax.random.split(block_key, sizes.decoder_layers)
        return cls(
            tokens=0.3 * _normal(token_key, (3, vocabulary.SIZE, width)),
            places=0.1 * _normal(place_key, (LENGTH, width)),
            open_slots=0.1 * _normal(open_key, (_MOST_OPEN, width)),
            blocks=tuple(DecoderBlock.create(width, sizes.num_heads, key=k) for k in block_keys),
            norm=Norm.create(width),
            # Nothing is said at first, so that the policy is the prior.
            layer=_nothing(width, vocabulary.SIZE),
        )

    def told(self, rows: Float[Array, "rows width"], is_row: Bool[Array, " rows"]) -> SeenRows:
        told = [block.told(rows) for block in self.blocks]
        keys, values = (jnp.stack(part) for part in zip(*told, strict=True))
        return SeenRows(keys, values, is_row)

    def embedded(
        self, words: Int[Array, " tokens"], seen: Observation, dtype: Any
    ) -> Float[Array, "places width"]:
        """Of observations with a leading axis. Multiplied by one-hot vectors, not looked up: the
        gradient of a lookup is slow. One-hot of NONE is zero: nothing stands there."""
        position = (seen.place.tokens >= 0).sum(axis=-1, dtype=jnp.int32)
        place = jax.nn.one_hot(jnp.minimum(position, LENGTH - 1), LENGTH, dtype=dtype)
        waiting = jnp.clip(seen.place.num_open - 1, 0, _MOST_OPEN - 1)
        slots = jax.nn.one_hot(waiting, _MOST_OPEN, dtype=dtype)
        signal = place @ self.places.astype(dtype) + slots @ self.open_slots.astype(dtype)
        found = (seen.previous, seen.parent, seen.sibling)
        for token, table in zip(found, self.tokens, strict=True):
            word = jnp.where(token < 0, -1, words[jnp.maximum(token, 0)])
            shown = jax.nn.one_hot(word, vocabulary.SIZE, dtype=dtype)
            signal = signal + shown @ table.astype(dtype)
        return signal

    def __call__(
        self, words: Int[Array, " tokens"], seen: Observation, rows: SeenRows, dtype: Any
    ) -> Float[Array, "places width"]:
        """All tokens of a told tree at once."""
        return self.decoded(self.embedded(words, seen, dtype), rows)

    def decoded(
        self, signal: Float[Array, "places width"], rows: SeenRows
    ) -> Float[Array, "places width"]:
        """Of embedded tokens."""
        length = signal.shape[0]
        before = jnp.tril(jnp.ones((length, length), dtype=bool))
        for block, row_keys, row_values in zip(self.blocks, rows.keys, rows.values, strict=True):
            queries, keys, values = block.projected(signal)
            found = attend(queries, keys, values, before)
            signal = block.finished(signal, found, row_keys, row_values, rows.is_row)
        return self.norm(signal)

    def step(
        self, words: Int[Array, " tokens"], seen: Observation, rows: SeenRows, memory: Memory
    ) -> tuple[Float[Array, " width"], Memory]:
        """One token more."""
        here = memory.step
        length, dtype = memory.keys[0].shape[0], memory.keys[0].dtype
        one = jax.tree.map(lambda leaf: leaf[None], seen)
        signal = self.embedded(words, one, dtype)
        all_keys, all_values = [], []
        for layer, block in enumerate(self.blocks):
            signal, keys, values = _one_more(
                block, signal, here, memory.keys[layer], memory.values[layer],
                rows.keys[layer], rows.values[layer], rows.is_row,
            )  # fmt: skip
            all_keys.append(keys)
            all_values.append(values)
        moved = Memory(jnp.minimum(here + 1, length - 1), tuple(all_keys), tuple(all_values))
        return self.norm(signal)[0], moved

    def logits(
        self, words: Int[Array, " tokens"], signal: Float[Array, "*any width"]
    ) -> Float[Array, "*any tokens"]:
        """Of a library's tokens; zero for those that it does not know."""
        said = widened(self.layer(signal))
        known = jnp.where(words == vocabulary.OTHER, -1, words)  # one-hot of -1 is zero
        chosen = jax.nn.one_hot(known, vocabulary.SIZE, dtype=said.dtype)
        return jnp.einsum("...v,tv->...t", said, chosen)


class DataNetwork(eqx.Module):
    """The weights that are trained once: a reader of tables and a decoder of trees."""

    reader: Reader
    decoder: Decoder

    @classmethod
    def create(cls, sizes: Sizes, *, key: PRNGKeyArray) -> DataNetwork:
        if min(sizes) < 1 or sizes.width % sizes.num_heads:
            raise ValueError(
                f"a network that reads data needs at least 1 layer and a width divisible by its "
                f"{sizes.num_heads} heads, not {sizes.reader_layers} and {sizes.decoder_layers} "
                f"layers of width {sizes.width}"
            )
        reader_key, decoder_key = jax.random.split(key)
        return cls(
            Reader.create(sizes.width, sizes.reader_layers, sizes.num_heads, key=reader_key),
            Decoder.create(sizes, key=decoder_key),
        )

    def read(self, table: Table, dtype: Any = jnp.float32) -> SeenRows:
        return self.decoder.told(self.reader(table, dtype), table.is_row)


class Adapter(eqx.Module):
    """What a policy learns on one table: a small network over the decoder's signal, which adds to
    the logits of the library's tokens. Nothing at first."""

    inner: Dense
    outer: Dense

    @classmethod
    def create(cls, width: int, hidden: int, num_tokens: int, *, key: PRNGKeyArray) -> Adapter:
        return cls(Dense.create(width, hidden, key=key), _nothing(hidden, num_tokens))

    def __call__(self, signal: Float[Array, "*any width"]) -> Float[Array, "*any tokens"]:
        return self.outer(jax.nn.gelu(self.inner(signal)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _new_adapter(width: int, hidden: int, num_tokens: int, key: PRNGKeyArray) -> Adapter:
    return Adapter.create(width, hidden, num_tokens, key=key)


class DataPolicy(AbstractPolicy):
    """A network that has read one table, writing trees of one library."""

    decoder: Decoder
    adapter: Adapter
    rows: SeenRows
    words: Int[Array, " tokens"]
    head: AbstractConstantHead
    filler: Filler | None
    length: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        network: DataNetwork,
        rows: SeenRows,
        library: Library,
        max_tokens: int,
        *,
        key: PRNGKeyArray,
        adapter_width: int = 64,
        columns: Sequence[int] | None = None,
    ) -> DataPolicy:
        """`columns` are those of the table that the rows were read of, if not the first ones."""
        words = jax.device_put(np.asarray(vocabulary.words_of(library, columns)))
        width = network.decoder.places.shape[1]
        return cls(
            decoder=network.decoder,
            adapter=_new_adapter(width, adapter_width, len(library), key),
            rows=rows,
            words=words,
            head=NormalHead(),
            filler=None,
            length=max_tokens,
        )

    @property
    def dtype(self) -> Any:
        return self.decoder.places.dtype

    def start(self) -> Memory:
        layers, _, heads, size = self.rows.keys.shape
        nothing = jnp.zeros((self.length, heads, size), dtype=self.rows.keys.dtype)
        return Memory(jnp.zeros((), dtype=jnp.int32), (nothing,) * layers, (nothing,) * layers)

    def __call__(self, memory: Memory, observation: Observation) -> tuple[Memory, Outputs]:
        signal, moved = self.decoder.step(self.words, observation, self.rows, memory)
        logits = self.decoder.logits(self.words, signal) + self.adapter(signal)
        constant = jnp.zeros((self.head.num_outputs,), dtype=self.dtype)
        return moved, Outputs(logits.astype(self.dtype), constant)

    def told(self, seen: Observation) -> tuple[Array, Array]:
        """Of all tokens of a told tree at once: the signals, and the logits before the adapter's
        are added."""
        signals = self.decoder(self.words, seen, self.rows, self.dtype)
        return signals, self.decoder.logits(self.words, signals)

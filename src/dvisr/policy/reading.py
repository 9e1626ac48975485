"""How a network reads a table: some rows of it, each a vector, none of which comes first.

Values span many decades and matter to many digits, so each is shown in several ways at once: its
sign and logarithm, itself (bent, where it is large), its place within its column, its sine and
cosine, and waves of its logarithm, which tell close values apart.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from dvisr.policy.layers import Dense, Hidden, Norm, attend, projected
from dvisr.policy.vocabulary import MOST_COLUMNS

MOST_ROWS = 32
_OCTAVES = (1.0, 2.0, 4.0, 8.0)
_NUM_FEATURES = 6 + 2 * len(_OCTAVES)
_VALUE_WIDTHS = (64, 32)  # of the network that every value goes through
_SMALLEST, _LARGEST = 1e-30, 1e30
_LARGEST_ANGLE = 1e4  # beyond it float32 has no sine worth the name


class Table(eqx.Module):
    """Rows of a table in float32, as many as are there and the rest zero."""

    X: Float[Array, "rows columns"]
    y: Float[Array, " rows"]
    is_row: Bool[Array, " rows"]
    is_column: Bool[Array, " columns"]


def make_table(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Table:
    """Of a user's table. Of more rows than are read, a random subset is."""
    chosen = np.arange(len(y))
    if len(y) > MOST_ROWS:
        chosen = np.sort(rng.choice(len(y), MOST_ROWS, replace=False))
    count, columns = len(chosen), X.shape[1]
    rows = np.zeros((MOST_ROWS, MOST_COLUMNS), dtype=np.float32)
    targets = np.zeros(MOST_ROWS, dtype=np.float32)
    rows[:count, :columns] = np.clip(X[chosen], -_LARGEST, _LARGEST)
    targets[:count] = np.clip(y[chosen], -_LARGEST, _LARGEST)
    return Table(
        jax.device_put(rows),
        jax.device_put(targets),
        jax.device_put(np.arange(MOST_ROWS) < count),
        jax.device_put(np.arange(MOST_COLUMNS) < columns),
    )


def features(table: Table) -> Float[Array, "rows values features"]:
    """Of every value, the columns' and then the target's; zero where there is none."""
    values = jnp.concatenate([table.X, table.y[:, None]], axis=1)
    is_value = _is_value(table)[None] & table.is_row[:, None]
    values = jnp.clip(jnp.where(is_value, values, 0.0), -_LARGEST, _LARGEST)
    logs = jnp.log(jnp.maximum(jnp.abs(values), _SMALLEST))
    angles = jnp.where(jnp.abs(values) < _LARGEST_ANGLE, values, 0.0)
    waves = [wave(octave * logs) for octave in _OCTAVES for wave in (jnp.sin, jnp.cos)]
    shown = [
        jnp.sign(values),
        logs / 8.0,
        jnp.arcsinh(values) / 4.0,
        _standardised(values, is_value),
        jnp.sin(angles),
        jnp.cos(angles),
        *waves,
    ]
    return jnp.where(is_value[..., None], jnp.stack(shown, axis=-1), 0.0)


def _is_value(table: Table) -> Bool[Array, " values"]:
    """Of the columns and the target, which there are."""
    return jnp.concatenate([table.is_column, jnp.ones((1,), dtype=bool)])


def _standardised(
    values: Float[Array, "rows values"], is_value: Bool[Array, "rows values"]
) -> Float[Array, "rows values"]:
    count = jnp.maximum(is_value.astype(values.dtype).sum(axis=0, keepdims=True), 1.0)
    size = jnp.maximum(jnp.abs(values).max(axis=0, keepdims=True), _SMALLEST)
    scaled = values / size  # squares would overflow
    mean = scaled.sum(axis=0, keepdims=True) / count
    off = jnp.where(is_value, scaled - mean, 0.0)
    spread = jnp.sqrt((off * off).sum(axis=0, keepdims=True) / count)
    return off / jnp.maximum(spread, 1e-6)


class RowBlock(eqx.Module):
    """Rows look at each other, then each goes through a network."""

    norm: Norm
    asks: Dense  # queries, keys and values, in this order
    finds: Dense
    hidden: Hidden
    num_heads: int = eqx.field(static=True)

    @classmethod
    def create(cls, width: int, num_heads: int, *, key: PRNGKeyArray) -> RowBlock:
        keys = jax.random.split(key, 3)
        return cls(
            Norm.create(width),
            Dense.create(width, 3 * width, key=keys[0]),
            Dense.create(width, width, key=keys[1], gain=0.5),
            Hidden.create(width, key=keys[2]),
            num_heads,
        )

    def __call__(
        self, rows: Float[Array, "rows width"], is_row: Bool[Array, " rows"]
    ) -> Float[Array, "rows width"]:
        queries, keys, values = projected(self.norm, self.asks, rows, self.num_heads)
        may_see = jnp.broadcast_to(is_row[None], (rows.shape[0], rows.shape[0]))
        rows = rows + self.finds(attend(queries, keys, values, may_see))
        return rows + self.hidden(rows)


@jax.jit  # traced once for all blocks
def _through(block: RowBlock, rows: Array, is_row: Array) -> Array:
    return block(rows, is_row)


class Reader(eqx.Module):
    """From a table to a vector a row."""

    value_layers: tuple[Dense, Dense]
    row_layers: tuple[Dense, Dense]
    blocks: tuple[RowBlock, ...]
    norm: Norm

    @classmethod
    def create(cls, width: int, num_layers: int, num_heads: int, *, key: PRNGKeyArray) -> Reader:
        keys = jax.random.split(key, 4 + num_layers)
        first, second = _VALUE_WIDTHS
        seen = (MOST_COLUMNS + 1) * second
        return cls(
            value_layers=(
                Dense.create(_NUM_FEATURES, first, key=keys[0]),
                Dense.create(first, second, key=keys[1]),
            ),
            row_layers=(
                Dense.create(seen, 2 * width, key=keys[2]),
                Dense.create(2 * width, width, key=keys[3]),
            ),
            blocks=tuple(RowBlock.create(width, num_heads, key=k) for k in keys[4:]),
            norm=Norm.create(width),
        )

    def __call__(self, table: Table, dtype: Any) -> Float[Array, "rows width"]:
        """In that type, but for the first layers, which tell close values apart."""
        there = _is_value(table)[None, :, None]
        values = self.value_layers[1](jax.nn.gelu(self.value_layers[0](features(table))))
        values = jnp.where(there, values, 0.0)
        rows = jax.nn.gelu(self.row_layers[0](values.reshape(values.shape[0], -1)))
        rows = self.row_layers[1](rows.astype(dtype))
        for block in self.blocks:
            rows = _through(block, rows, table.is_row)
        return self.norm(rows)

"""Laws and tables to train on, drawn as they are needed: a tree from the prior, columns of many
kinds and units, constants, values, noise. All under jit, on the device that trains.

A law is kept if it is defined on all of its rows and varies there; and small trees, of which the
prior has many, are kept less often than large ones (`kept_size`), so that a network sees enough of
what is hard. It learns the posterior under a prior so tilted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.evaluation.device import Evaluator
from dvisr.library import Kind, Library
from dvisr.policy import AbstractPolicy, Observation, Outputs
from dvisr.policy.conditioned import LENGTH
from dvisr.policy.filling import Filler
from dvisr.policy.reading import MOST_ROWS, Table
from dvisr.policy.vocabulary import MOST_COLUMNS, NUMBERS, OPERATORS
from dvisr.prior import TreePrior
from dvisr.sampling import Writer, make_writer, sample


@dataclasses.dataclass(frozen=True)
class LawSettings:
    """What laws and tables to draw.

    Parameters
    ----------
    column_weights : tuple of float
        How often a table has 1, 2, 3, ... columns.
    fewest_rows : int
        Rows are even between this and what the network reads.
    noise : tuple of float
        Least and most standard deviation, as shares of the spread of y; even in its logarithm.
    outlier_tables, outlier_rows, outlier_size : float
        The share of tables with outliers, of their rows that are, and how many times the noise.
    strange_units : float
        The share of tables whose columns are scaled by powers of ten.
    correlated : float
        The share of tables whose columns depend on each other.
    prior_constants : float
        The share of laws whose constants are spread over decades; the others' are near 1.
    kept_size : float
        Trees of fewer tokens are kept with probability tokens / kept_size.
    most_constants : int
        Trees of more are not kept.
    largest : float
        Of the values of a law.
    least_spread : float
        Of the values of a law, as a share of the largest.
    """

    column_weights: tuple[float, ...] = (20, 20, 16, 12, 10, 8, 4, 4, 3, 3)
    fewest_rows: int = 5
    noise: tuple[float, float] = (1e-4, 0.5)
    outlier_tables: float = 0.1
    outlier_rows: float = 0.1
    outlier_size: float = 10.0
    strange_units: float = 0.3
    correlated: float = 0.15
    prior_constants: float = 0.4
    kept_size: float = 11.0
    most_constants: int = 4
    largest: float = 1e20
    least_spread: float = 1e-3


_KINDS = (0.55, 0.15, 0.12, 0.1, 0.08)  # of columns: how often each


class Laws(eqx.Module):
    """Trees and their tables, on a leading axis; and which of them may be trained on."""

    tokens: Int[Array, "laws length"]
    table: Table
    is_good: Bool[Array, " laws"]


class PriorPolicy(AbstractPolicy):
    """It adds nothing to the prior: its draws are the prior's."""

    head: AbstractConstantHead
    filler: Filler | None
    num_tokens: int = eqx.field(static=True)

    @property
    def dtype(self) -> Any:
        return jnp.float32

    def start(self) -> None:
        return None

    def __call__(self, memory: None, observation: Observation) -> tuple[None, Outputs]:
        nothing = jnp.zeros((self.head.num_outputs,), dtype=jnp.float32)
        return None, Outputs(jnp.zeros((self.num_tokens,), dtype=jnp.float32), nothing)


class LawMaker(eqx.Module):
    """The language of the network, with as many columns as it reads, and the prior over it."""

    writer: Writer
    library: Library = eqx.field(static=True)
    settings: LawSettings = eqx.field(static=True)

    @classmethod
    def create(cls, prior: Any, settings: LawSettings, max_tokens: int = LENGTH) -> LawMaker:
        """`prior` makes a `TreePrior` of a grammar."""
        grammar = language(max_tokens)
        made: TreePrior = prior(grammar)
        plain = make_writer(grammar, made, jnp.float32)
        return cls(Writer(plain.mask, -1, plain.walk), grammar.library, settings)

    def draw(self, key: PRNGKeyArray, count: int) -> Laws:
        keys = jax.random.split(key, count)
        return jax.vmap(self._draw)(keys)

    def _draw(self, key: PRNGKeyArray) -> Laws:
        own = self.settings
        tree, columns, values, constants, noise, rows, keep = jax.random.split(key, 7)
        num_columns = _one_of(columns, own.column_weights) + 1
        tokens = self._tree(tree, num_columns)
        is_column = jnp.arange(MOST_COLUMNS, dtype=jnp.int32) < num_columns
        X = jnp.where(is_column[None], draw_columns(values, own), 0.0)
        drawn = draw_constants(constants, own, tokens.shape[0])
        y, is_defined = Evaluator(self.library)(tokens, drawn, X)
        size = (tokens >= 0).sum(dtype=jnp.int32).astype(jnp.float32)
        is_kept = _uniform(keep) * own.kept_size < size
        is_kept &= (tokens == self.library.constant_id).sum() <= own.most_constants
        y = jnp.where(is_defined, y, 0.0)
        largest = jnp.abs(y).max()
        spread = (y / jnp.maximum(largest, 1e-30)).std() * largest
        is_good = is_kept & is_defined & (largest < own.largest)
        is_good &= (spread > own.least_spread * largest) & (spread > 1e-20)
        count = jax.random.randint(rows, (), own.fewest_rows, MOST_ROWS + 1, dtype=jnp.int32)
        is_row = jnp.arange(MOST_ROWS, dtype=jnp.int32) < count
        y = jnp.where(is_row, y + spread * draw_noise(noise, own), 0.0)
        table = Table(jnp.where(is_row[:, None], X, 0.0), y, is_row, is_column)
        return Laws(tokens, table, is_good)

    def _tree(self, key: PRNGKeyArray, num_columns: Int[Array, ""]) -> Int[Array, " length"]:
        """Of the prior over trees of so many columns: no rule knows one column from another, so
        each place that has a column has any of them."""
        tree_key, column_key = jax.random.split(key)
        policy = PriorPolicy(head=NormalHead(), filler=None, num_tokens=len(self.library))
        tokens = sample(policy, self.writer, key=tree_key).tokens
        first = self.library.ids_of_kind(Kind.VARIABLE)[0]
        chosen = _uniform(column_key, tokens.shape) * num_columns.astype(jnp.float32)
        chosen = jnp.minimum(chosen.astype(jnp.int32), num_columns - 1)
        return jnp.where(tokens >= first, first + chosen, tokens)

    def weights(
        self, weights: Float[Array, "length tokens"], table: Table
    ) -> Float[Array, "length tokens"]:
        """The prior's log weights for as many columns as the table has, from those for all."""
        first = self.library.ids_of_kind(Kind.VARIABLE)[0]  # they come last
        others = jnp.zeros((first,), dtype=jnp.float32)
        more = jnp.log(MOST_COLUMNS / table.is_column.sum(dtype=jnp.int32).astype(jnp.float32))
        of_columns = jnp.where(table.is_column, more, -jnp.inf)
        return weights + jnp.concatenate([others, of_columns])[None]


def language(max_tokens: int) -> Grammar:
    """The network's own: the default language of a fit, with as many columns as it reads."""
    numbers = ["pi" if value == math.pi else f"{value:g}" for value in NUMBERS]
    names = [f"x{i}" for i in range(MOST_COLUMNS)]
    library = Library.create([*OPERATORS, *numbers], names, constants=True)
    return Grammar(library, max_tokens, "default")


def _one_of(key: PRNGKeyArray, weights: tuple[float, ...]) -> Int[Array, ""]:
    log_weights = jnp.log(jnp.asarray(weights, dtype=jnp.float32))
    return jax.random.categorical(key, log_weights).astype(jnp.int32)


def _uniform(
    key: PRNGKeyArray, shape: tuple[int, ...] = (), low: Any = 0.0, high: Any = 1.0
) -> Float[Array, "..."]:
    return jax.random.uniform(key, shape, dtype=jnp.float32, minval=low, maxval=high)


def _normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    return jax.random.normal(key, shape, dtype=jnp.float32)


def draw_columns(key: PRNGKeyArray, own: LawSettings) -> Float[Array, "rows columns"]:
    """Columns of five kinds, some tables' tied to each other, some in strange units."""
    keys = jax.random.split(key, 12)
    shape, columns = (MOST_ROWS, MOST_COLUMNS), (1, MOST_COLUMNS)
    steps = jnp.linspace(0.0, 1.0, MOST_ROWS, dtype=jnp.float32)
    grid = jnp.broadcast_to(steps[:, None], shape)
    even = _uniform(keys[0], shape)
    is_grid = _uniform(keys[1], columns) < 0.1
    even = jnp.where(is_grid, jax.random.permutation(keys[11], grid), even)

    def uniform(number: int, low: float, high: float) -> Float[Array, "1 columns"]:
        return _uniform(keys[number], columns, low, high)

    # A column is of one kind: the same random numbers serve all of them.
    positive = uniform(2, 0.1, 2.0) + uniform(3, 0.5, 6.0) * even
    either = uniform(4, -5.0, 0.0) * (1.0 - even) + uniform(5, 0.5, 5.0) * even
    decades = 10.0 ** (uniform(4, -1.5, 0.5) + uniform(5, 0.3, 2.5) * even)
    normal = 3.0 * uniform(4, -1.0, 1.0) + uniform(5, 0.3, 2.0) * _normal(keys[6], shape)
    whole = jnp.ceil(uniform(5, 2.0, 12.0) * even + 1e-6)
    kinds = (positive, either, decades, normal, whole)
    shares = jnp.log(jnp.asarray(_KINDS, dtype=jnp.float32))
    kind = jax.random.categorical(keys[7], shares, shape=columns)
    made = jnp.zeros(shape, dtype=jnp.float32)
    for number, values in enumerate(kinds):
        made = jnp.where(kind == number, values, made)

    tie_key, by_key, unit_key, how_key = jax.random.split(keys[8], 4)
    follows = (_uniform(keys[9]) < own.correlated) & (_uniform(tie_key, columns) < 0.5)
    share = _uniform(by_key, columns, 0.3, 1.0)
    made = jnp.where(follows, share * made[:, :1] + (1.0 - share) * made, made)
    power = jnp.where(_uniform(how_key) < 0.7, 3.0, 8.0).astype(jnp.float32)
    powers = power * _uniform(unit_key, columns, -1.0, 1.0)
    is_strange = _uniform(keys[10]) < own.strange_units
    return made * jnp.where(is_strange, 10.0**powers, 1.0)


def draw_constants(key: PRNGKeyArray, own: LawSettings, length: int) -> Float[Array, " length"]:
    """Near 1, or spread over decades as the prior of a fit's constants has them, by law."""
    near, far, cauchy, sign, which = jax.random.split(key, 5)
    close = jnp.exp(1.2 * _normal(near, (length,)))
    close = jnp.where(_uniform(sign, (length,)) < 0.75, close, -close)
    scale = 10.0 ** _uniform(far, (length,), -3.0, 4.0)
    spread = scale * jax.random.cauchy(cauchy, (length,), dtype=jnp.float32)
    return jnp.where(_uniform(which) < own.prior_constants, spread, close)


def draw_noise(key: PRNGKeyArray, own: LawSettings) -> Float[Array, " rows"]:
    """As a share of the spread."""
    level_key, noise_key, table_key, row_key = jax.random.split(key, 4)
    low, high = (math.log(level) for level in own.noise)
    level = jnp.exp(_uniform(level_key, (), low, high))
    noise = level * _normal(noise_key, (MOST_ROWS,))
    is_out = _uniform(row_key, (MOST_ROWS,)) < own.outlier_rows
    is_out &= _uniform(table_key) < own.outlier_tables
    return noise * jnp.where(is_out, own.outlier_size, 1.0)

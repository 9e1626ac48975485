"""What each input of the network that reads data buys, and what its size does: short trainings from
nothing, equal numbers of steps, on a GPU.

    python -m benchmarks.pretraining train NAME --steps 1600     one of VARIANTS, into docs/
    python -m benchmarks.pretraining show                        the tables of docs/network.md

One training of a variant is one number: two of the same network with different seeds (`all`,
`all, another seed`) show how far chance alone moves it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dvisr.library import Kind, Library
from dvisr.policy import reading, vocabulary
from dvisr.policy.conditioned import DataNetwork, Decoder, Sizes
from dvisr.policy.layers import Dense
from dvisr.policy.reading import Table
from dvisr.pretraining import training
from dvisr.pretraining.laws import LawMaker, LawSettings
from dvisr.pretraining.training import Trainer, TrainingSettings, draw_good, held_out
from dvisr.sampling.following import follow

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "network.md", DOCS / "pretraining.json"
_NUM_HELD_OUT = 8192
_HELD_OUT_SEED = 99
_HOLE_UNITS = 128
_LARGEST = 1e20
_SIZES = Sizes()


# Inputs taken away -----------------------------------------------------------------------------


def without_features(*numbers: int) -> Callable[[], None]:
    """Of each value: 0 its sign, 1 its logarithm, 2 itself, 3 its place in its column, 4 and 5 its
    sine and cosine, 6 to 13 waves of its logarithm."""

    def change() -> None:
        whole = reading.features

        def part(table: Table) -> Array:
            shown = whole(table)
            kept = np.ones(shown.shape[-1], dtype=np.float32)
            kept[list(numbers)] = 0.0
            return shown * jnp.asarray(kept)[None, None]

        reading.features = part

    return change


def without_tokens(*kinds: int) -> Callable[[], None]:
    """0 the previous token, 1 the parent, 2 the sibling."""

    def change() -> None:
        whole = Decoder.embedded
        names = ("previous", "parent", "sibling")

        def part(self: Decoder, words: Array, seen: Any, dtype: Any) -> Array:
            nothing = {names[kind]: jnp.full_like(seen.previous, -1) for kind in kinds}
            return whole(self, words, eqx.tree_at(
                lambda s: [getattr(s, name) for name in nothing], seen, list(nothing.values())
            ), dtype)  # fmt: skip

        Decoder.embedded = part  # type: ignore[method-assign]

    return change


def without_place() -> None:
    """Neither how many slots are open nor how many tokens are written."""
    whole = Decoder.embedded

    def part(self: Decoder, words: Array, seen: Any, dtype: Any) -> Array:
        blank = eqx.tree_at(
            lambda d: [d.places, d.open_slots], self, replace_fn=lambda leaf: 0.0 * leaf
        )
        return whole(blank, words, seen, dtype)

    Decoder.embedded = part  # type: ignore[method-assign]


# Values of holes -------------------------------------------------------------------------------


def required_values(
    library: Library, tokens: Int[Array, " length"], table: Table
) -> tuple[Float[Array, "length rows"], Bool[Array, "length rows"]]:
    """What each slot of a told tree would have to hold for the tree to give y, where the tokens
    before it say so: all slots but itself filled, and no constant among them."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        values = _subtree_values(library, tokens, table.X)
        return _inverted(library, tokens, values, table)


def _subtree_values(library: Library, tokens: Array, X: Array) -> Array:
    """Of the subtree at each position; NaN where it has a constant or is undefined."""
    length, rows = tokens.shape[0], X.shape[0]
    arities = jnp.asarray(library.arities)
    leaves = jnp.stack([
        X[:, t.column] if t.kind is Kind.VARIABLE
        else jnp.full((rows,), t.value if t.kind is Kind.LITERAL else jnp.nan, dtype=X.dtype)
        for t in library
    ])  # fmt: skip
    lanes = jnp.arange(length)[:, None]

    def body(carry: tuple[Array, Array], token: Array) -> tuple[tuple[Array, Array], Array]:
        stack, height = carry
        first, second = stack[jnp.maximum(height - 1, 0)], stack[jnp.maximum(height - 2, 0)]
        value = leaves[jnp.maximum(token, 0)]
        for number, operator in enumerate(library.tokens):
            if operator.kind is Kind.OPERATOR:
                assert operator.function is not None
                result = operator.function(jnp, *(first, second)[: operator.arity])
                value = jnp.where(token == number, result, value)
        after = height - arities[jnp.maximum(token, 0)] + 1
        pushed = jnp.where(lanes == after - 1, value[None], stack)
        is_pad = token < 0
        return (jnp.where(is_pad, stack, pushed), jnp.where(is_pad, height, after)), value

    start = (jnp.zeros((length, rows), dtype=X.dtype), jnp.zeros((), dtype=jnp.int32))
    return jax.lax.scan(body, start, tokens, reverse=True)[1]


_UNARY = {
    "neg": lambda r: -r,
    "square": jnp.sqrt,
    "sqrt": jnp.square,
    "exp": jnp.log,
    "log": jnp.exp,
    "sin": jnp.arcsin,
    "cos": jnp.arccos,
}
_BINARY = {  # of the right operand, from the result and the left one
    "+": lambda r, left: r - left,
    "-": lambda r, left: left - r,
    "*": lambda r, left: r / left,
    "/": lambda r, left: left / r,
    "^": lambda r, left: jnp.log(r) / jnp.log(left),
}


def _inverted(library: Library, tokens: Array, values: Array, table: Table) -> tuple[Array, Array]:
    """With a stack of open slots; a left operand can't be known before the right one is."""
    length = tokens.shape[0]
    lanes = jnp.arange(length + 1)[:, None]
    is_binary = jnp.asarray(library.arities) == 2
    is_unary = jnp.asarray(library.arities) == 1
    lefts = jnp.concatenate([values[1:], values[:1]])

    def body(carry: tuple[Array, Array], node: Any) -> tuple[tuple[Array, Array], Array]:
        stack, height = carry
        token, left = node
        wanted = stack[jnp.maximum(height - 1, 0)]
        inner = jnp.full_like(wanted, jnp.nan)
        for number, operator in enumerate(library.tokens):
            if operator.name in _UNARY:
                inner = jnp.where(token == number, _UNARY[operator.name](wanted), inner)
            if operator.name in _BINARY:
                inner = jnp.where(token == number, _BINARY[operator.name](wanted, left), inner)
        safe = jnp.maximum(token, 0)
        stack = jnp.where(lanes == height - 1, inner[None], stack)
        stack = jnp.where(is_binary[safe] & (lanes == height), jnp.nan, stack)
        more = jnp.where(is_binary[safe], 1, jnp.where(is_unary[safe], 0, -1))
        return (stack, height + more), wanted

    first = jnp.full((length + 1, table.y.shape[0]), jnp.nan, dtype=table.y.dtype)
    start = (first.at[0].set(table.y), jnp.ones((), dtype=jnp.int32))
    wanted = jax.lax.scan(body, start, (tokens, lefts))[1]
    is_known = jnp.isfinite(wanted) & (jnp.abs(wanted) < _LARGEST) & table.is_row[None]
    return jnp.where(is_known, wanted, 0.0), is_known


class HoleNetwork(eqx.Module):
    """A `DataNetwork` whose decoder also sees, row by row, what the hole should hold."""

    reader: reading.Reader
    decoder: Decoder
    of_values: Dense
    of_rows: Dense
    outer: Dense

    @classmethod
    def create(cls, sizes: Sizes, *, key: PRNGKeyArray) -> HoleNetwork:
        keys = jax.random.split(key, 4)
        plain = DataNetwork.create(sizes, key=keys[0])
        return cls(
            plain.reader,
            plain.decoder,
            Dense.create(reading._NUM_FEATURES + 1, _HOLE_UNITS, key=keys[1]),
            Dense.create(sizes.width, _HOLE_UNITS, key=keys[2]),
            Dense.create(_HOLE_UNITS, sizes.width, key=keys[3]),
        )

    def seen_holes(self, wanted: Array, is_known: Array, rows: Array, dtype: Any) -> Array:
        """A vector a place."""

        def of_place(values: Array, known: Array) -> Array:
            table = Table(values[:, None], values, known, jnp.ones((1,), dtype=bool))
            shown = reading.features(table)[:, 0]
            shown = jnp.concatenate([shown, known[:, None].astype(shown.dtype)], axis=1)
            hidden = jax.nn.gelu(self.of_values(shown.astype(dtype)) + self.of_rows(rows))
            weights = known.astype(dtype) / jnp.maximum(known.sum(), 1).astype(dtype)
            return weights @ hidden

        return self.outer(jax.vmap(of_place)(wanted, is_known))


def log_q_with_holes(
    network: HoleNetwork, maker: LawMaker, laws: Any, dtype: Any = jnp.float32
) -> tuple[Array, Array]:
    words = jnp.asarray(vocabulary.words_of(maker.library))

    def of_one(tokens: Array, table: Table) -> tuple[Array, Array]:
        seen, weights = follow(maker.writer, tokens)
        rows = network.reader(table, dtype)
        wanted, is_known = required_values(maker.library, tokens, table)
        of_holes = network.seen_holes(wanted, is_known, rows, dtype)
        decoder = network.decoder
        told = decoder.told(rows, table.is_row)
        signal = decoder.decoded(decoder.embedded(words, seen, dtype) + of_holes, told)
        logits = decoder.logits(words, signal)
        return training.log_q_of_tokens(tokens, logits, maker.weights(weights, table))

    found: tuple[Array, Array] = jax.vmap(of_one)(laws.tokens, laws.table)
    return found


def with_holes() -> None:
    changed: Any = training
    changed.DataNetwork, changed.log_q = HoleNetwork, log_q_with_holes


# Trainings -------------------------------------------------------------------------------------


def nothing_changed() -> None: ...


@dataclasses.dataclass(frozen=True)
class Variant:
    """A network to train: what is changed of the usual one, its sizes and its seed."""

    change: Callable[[], None] = nothing_changed
    sizes: Sizes = _SIZES
    seed: int = 0


VARIANTS = {
    "all": Variant(),
    "all, another seed": Variant(seed=1),
    "without waves of the logarithm": Variant(without_features(*range(6, 14))),
    "without sine and cosine": Variant(without_features(4, 5)),
    "without the place in the column": Variant(without_features(3)),
    "sign, logarithm and itself alone": Variant(without_features(*range(3, 14))),
    "without parent and sibling": Variant(without_tokens(1, 2)),
    "without open slots and places": Variant(without_place),
    "with values of holes": Variant(with_holes),
    "width 128": Variant(sizes=Sizes(width=128)),
    "width 384": Variant(sizes=Sizes(width=384)),
    "2 and 2 layers": Variant(sizes=Sizes(reader_layers=2, decoder_layers=2)),
    "4 and 2 layers": Variant(sizes=Sizes(decoder_layers=2)),
    "2 and 4 layers": Variant(sizes=Sizes(reader_layers=2)),
}


def train(name: str, steps: int) -> dict[str, Any]:
    from dvisr.prior.science import science

    variant = VARIANTS[name]
    variant.change()
    maker = LawMaker.create(science, LawSettings())
    settings = TrainingSettings(seed=variant.seed, warmup=steps // 8)
    drawn: Any = eqx.filter_jit(draw_good)
    laws = drawn(maker, jax.random.key(_HELD_OUT_SEED), _NUM_HELD_OUT, settings.drawn)
    trainer = Trainer(maker, variant.sizes, settings)
    weights = sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(trainer.state.network, eqx.is_array))
    )
    trainer.train(settings.steps_at_once)
    began = time.perf_counter()
    trainer.train(steps, cool=steps // 3)
    seconds = time.perf_counter() - began
    network, prior = held_out(trainer.state.network, maker, laws)
    return {
        "name": name,
        "weights": weights,
        "steps": trainer.step,
        "batch": settings.batch,
        "seconds": round(seconds, 1),
        "nats": float(network.mean()),
        "error": float(network.std() / len(network) ** 0.5),
        "prior": float(prior.mean()),
        "device": str(jax.devices()[0].device_kind),
    }


# Tables ----------------------------------------------------------------------------------------


def table() -> str:
    rows = {row["name"]: row for row in json.loads(FOUND.read_text())}
    usual = rows["all"]
    lines = [
        f"{usual['steps']:,} steps of {usual['batch']:,} laws from nothing, the rate falling over "
        f"the last third, on one {usual['device']}. The {_NUM_HELD_OUT:,} laws held out are the "
        f"same for all; the error of their mean is {usual['error']:.2f} nats.",
        "",
        "| network | weights, millions | nats a law | more than with all |",
        "| --- | --- | --- | --- |",
    ]
    for name in VARIANTS:
        if name in rows:
            row = rows[name]
            more = f"{row['nats'] - usual['nats']:+.2f}" if name != "all" else ""
            lines.append(f"| {name} | {row['weights'] / 1e6:.1f} | {row['nats']:.2f} | {more} |")
    return "\n".join(lines)


def show() -> None:
    begin, end = "<!-- inputs -->", "<!-- end of inputs -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}\n{table()}\n{end}{rest.split(end)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "show"])
    parser.add_argument("names", nargs="*", help="of VARIANTS")
    parser.add_argument("--steps", type=int, default=1200)
    options = parser.parse_args()
    for name in options.names:  # a process each, since a variant changes the modules
        row = train(name, options.steps)
        print(row, flush=True)
        found = json.loads(FOUND.read_text()) if FOUND.exists() else []
        kept = [other for other in found if other["name"] != name]
        FOUND.write_text(json.dumps([*kept, row], indent=1) + "\n")
    if options.what == "show":
        show()


if __name__ == "__main__":
    main()

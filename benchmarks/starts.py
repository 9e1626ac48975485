"""How many steps of training a start saves: the network that reads data, trained beforehand and
not, and the recurrent networks, on the paper's scaling experiments until KL is the published one.

    python -m benchmarks.starts measure --sizes 8,12
    python -m benchmarks.starts show

The first puts what it finds into docs/starts.json, the second a table of it into docs/network.md.
The decoder of the network that reads data starts from the prior `science`, which it was trained
with; what it learns towards is the paper's posterior, of a uniform prior and noise of 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from benchmarks.pages import with_tables
from benchmarks.study import Truth, scaling_problem, started, target_of, truth_of
from dvisr import training
from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.diagnostics import exact_kl
from dvisr.divergence import tree_log_q
from dvisr.fitting.data_network import network_of
from dvisr.optim import CosineDecay
from dvisr.policy import AbstractPolicy, Observation, Outputs, vocabulary
from dvisr.policy.conditioned import DataNetwork, Decoder, Memory, SeenRows, Sizes
from dvisr.policy.filling import Filler
from dvisr.policy.reading import make_table
from dvisr.prior.named import tree_prior
from dvisr.problem import Problem
from dvisr.recipes import find_recipe
from dvisr.sampling import Writer, make_writer
from dvisr.training import Training, TrainState, advance

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "network.md", DOCS / "starts.json"
PUBLISHED = {8: 0.00301668, 12: 0.08141437}  # the paper's KL at its sizes
RATES = (1e-3, 3e-4, 1e-4)
NUM_RUNS, MOST_STEPS = 3, 2000
_BETWEEN_LOOKS = 1.1  # each look at KL after so many times the steps of the last


class WholePolicy(AbstractPolicy):
    """A decoder that has read one table, all of whose weights are trained; what it has read of the
    rows too."""

    decoder: Decoder
    keys: Float[Array, "layers rows heads size"]
    values: Float[Array, "layers rows heads size"]
    words: tuple[int, ...] = eqx.field(static=True)
    length: int = eqx.field(static=True)
    head: AbstractConstantHead
    filler: Filler | None

    @property
    def dtype(self) -> Any:
        return self.decoder.places.dtype

    def start(self) -> Memory:
        layers, _, heads, size = self.keys.shape
        nothing = jnp.zeros((self.length, heads, size), dtype=self.dtype)
        return Memory(jnp.zeros((), dtype=jnp.int32), (nothing,) * layers, (nothing,) * layers)

    def __call__(self, memory: Memory, observation: Observation) -> tuple[Memory, Outputs]:
        rows = SeenRows(self.keys, self.values, jnp.ones((self.keys.shape[1],), dtype=bool))
        words = jnp.asarray(self.words, dtype=jnp.int32)
        signal, moved = self.decoder.step(words, observation, rows, memory)
        logits = self.decoder.logits(words, signal)
        constant = jnp.zeros((self.head.num_outputs,), dtype=self.dtype)
        return moved, Outputs(logits.astype(self.dtype), constant)


def whole_policy(problem: Problem, network: DataNetwork) -> WholePolicy:
    table = make_table(problem.X, problem.data.y, np.random.default_rng(0))
    seen = network.read(table)
    rows = np.flatnonzero(np.asarray(seen.is_row))
    library = problem.grammar.library
    return WholePolicy(
        decoder=network.decoder,
        keys=seen.keys[:, rows],
        values=seen.values[:, rows],
        words=tuple(int(word) for word in vocabulary.words_of(library)),
        length=problem.grammar.max_tokens,
        head=NormalHead(),
        filler=None,
    )


@dataclasses.dataclass(frozen=True)
class Start:
    """What is trained, its runs before the first step, and its writer in float64."""

    made: Training
    states: TrainState
    writer: Writer


def from_recipe(problem: Problem, name: str) -> Start:
    recipe = find_recipe(name, "scaling")
    made, states = started(problem, recipe, NUM_RUNS, np.float32)
    with jax.enable_x64(True):
        writer = recipe.training(problem.grammar, target_of(problem, np.float64)).writer
    return Start(made, states, writer)


def from_network(problem: Problem, rate: float, *, is_trained: bool) -> Start:
    """With the objective and the optimiser of the recipe `network`."""
    recipe = find_recipe("network", "scaling")
    plain = recipe.training(problem.grammar, target_of(problem, np.float32))
    prior = tree_prior("science", problem.grammar)
    made = dataclasses.replace(
        plain,
        writer=make_writer(problem.grammar, prior, np.float32),
        schedule=CosineDecay(rate, recipe.num_steps),
    )

    def one(key: Any) -> TrainState:
        own_key, train_key = jax.random.split(key)
        trained = network_of("pretrained")
        network = trained if is_trained else DataNetwork.create(Sizes(), key=own_key)
        return training.init(made, whole_policy(problem, network), key=train_key)

    states = [one(key) for key in training.run_keys(0, NUM_RUNS)]
    with jax.enable_x64(True):
        writer = make_writer(problem.grammar, prior, np.float64)
    return Start(made, jax.tree.map(lambda *parts: jnp.stack(parts), *states), writer)


def starts(problem: Problem) -> Iterator[tuple[str, float | None, Callable[[], Start]]]:
    yield "recurrent, the paper's recipe", None, lambda: from_recipe(problem, "paper")
    yield "recurrent, the recipe `network`", None, lambda: from_recipe(problem, "network")
    for rate in RATES:
        for name, is_trained in (("untrained", False), ("trained", True)):
            make = functools.partial(from_network, problem, rate, is_trained=is_trained)
            yield f"reads data, {name}", rate, make


def curve(truth: Truth, start: Start) -> list[list[float]]:
    """Steps and each run's KL, until all are at the published one."""
    states, done, found = start.states, 0, []
    while True:
        kls = [_kl(truth, start, states, run) for run in range(NUM_RUNS)]
        found.append([done, *kls])
        if max(kls) <= PUBLISHED[truth.problem.grammar.max_tokens] or done >= MOST_STEPS:
            return found
        count = min(max(1, int(done * (_BETWEEN_LOOKS - 1.0))), MOST_STEPS - done)
        states, _ = advance(start.made, states, jnp.asarray(count, dtype=jnp.int32))
        done += count


def _kl(truth: Truth, start: Start, states: TrainState, run: int) -> float:
    assert truth.trees is not None
    assert truth.log_posterior is not None
    with jax.enable_x64(True):
        policy: AbstractPolicy = jax.tree.map(
            lambda a: jnp.asarray(np.asarray(a[run]), dtype=jnp.float64), states.policy
        )
        return float(exact_kl(tree_log_q(policy, start.writer, truth.trees), truth.log_posterior))


def measure(sizes: list[int], path: Path) -> None:
    for size in sizes:
        truth = truth_of(scaling_problem(size))
        for name, rate, make in starts(truth.problem):
            began = time.perf_counter()
            found = curve(truth, make())
            rows = json.loads(path.read_text()) if path.exists() else []
            key = {"size": size, "name": name, "rate": rate}
            rows = [row for row in rows if {k: row[k] for k in key} != key]
            rows.append({**key, "curve": [[float(f"{x:.6g}") for x in point] for point in found]})
            path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
            seconds = time.perf_counter() - began
            print(size, name, rate, found[0], found[-1], f"{seconds:.0f} s", flush=True)


def steps_to(row: dict[str, Any], limit: float) -> list[float]:
    """Of each run: the first look at which it was there; infinity if at none."""
    runs = list(zip(*row["curve"], strict=True))
    return [
        min((step for step, kl in zip(runs[0], run, strict=True) if kl <= limit), default=np.inf)
        for run in runs[1:]
    ]


def table(rows: list[dict[str, Any]]) -> str:
    sizes = sorted({row["size"] for row in rows})
    head = " | ".join(f"KL at first, {n} tokens | steps to {PUBLISHED[n]:.4f}" for n in sizes)
    lines = [f"| network | rate | {head} |", "| --- " * (2 + 2 * len(sizes)) + "|"]
    for name, rate in dict.fromkeys((row["name"], row["rate"]) for row in rows):
        cells = [name, "its own" if rate is None else f"{rate:g}"]
        for size in sizes:
            own = next(r for r in rows if (r["size"], r["name"], r["rate"]) == (size, name, rate))
            steps = steps_to(own, PUBLISHED[size])
            median, worst = statistics.median(steps), max(steps)
            cells.append(f"{statistics.median(own['curve'][0][1:]):.3g}")
            cells.append(f"{_steps(median)} ({_steps(worst)})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _steps(count: float) -> str:
    return f"{count:.0f}" if np.isfinite(count) else f"over {MOST_STEPS}"


def show() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), {"starts": table(json.loads(FOUND.read_text()))}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--sizes", default="8,12")
    measuring.add_argument("--results", type=Path, default=FOUND)
    commands.add_parser("show")
    asked = parser.parse_args()
    if asked.command == "measure":
        measure([int(size) for size in asked.sizes.split(",")], asked.results)
    else:
        show()


if __name__ == "__main__":
    main()

"""How fast training is. Run with `make bench`; `--quick` measures fewer epochs.

Throughput after compiling, for the paper's scaling experiment at 12 tokens (1000 samples, 64
hidden units), and its ratio to a plain loop that samples and weighs one expression at a time and
takes no gradient. Seconds belong to a machine; the ratio, taken in one run, travels.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.plain_loop import PlainSampler, log_likelihood
from dvisr import training
from dvisr.experiments.paper import Experiment, scaling, tabled
from dvisr.experiments.running import make_training
from dvisr.recipes import PAPER
from dvisr.training import TrainState


def epoch_seconds(
    experiment: Experiment, precision: str, epochs: int
) -> tuple[float, float, TrainState]:
    """Of one epoch of all runs, after compiling; of compiling; and the trained states."""
    dtype = np.dtype(precision)
    with jax.enable_x64(dtype == np.float64):
        made, states = make_training(experiment, PAPER[experiment.kind], dtype, seed=0)
        began = time.perf_counter()
        states, _ = jax.block_until_ready(
            training.advance(made, states, jnp.asarray(1, dtype=jnp.int32))
        )
        compiling = time.perf_counter() - began
        began = time.perf_counter()
        states, _ = jax.block_until_ready(
            training.advance(made, states, jnp.asarray(epochs, dtype=jnp.int32))
        )
        return (time.perf_counter() - began) / epochs, compiling, states


def plain_rate(policy: Any, seconds: float) -> float:
    """Expressions a second, sampled and weighed one at a time, with this policy's weights: a fresh
    one would write shorter expressions than the trained one does."""
    sampler = PlainSampler(64, 12)
    cell, layer = policy.cell, policy.token_layer
    parts = (cell.input_weight, cell.hidden_weight, cell.input_bias, cell.hidden_bias)
    sampler.cell = [np.asarray(part[0], dtype=np.float64) for part in parts]
    sampler.head = [np.asarray(part[0], dtype=np.float64) for part in (layer.weight, layer.bias)]
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        tokens, log_q = sampler.sample()
        assert np.isfinite(log_likelihood(tokens) - log_q)
        count += 1
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    epochs = 60 if parser.parse_args().quick else 400
    device = jax.devices()[0].device_kind
    print(f"{platform.machine()}, {os.cpu_count()} cores, {device}, jax {jax.__version__}")
    print("\ntraining, 12 tokens, 1000 samples an epoch, 64 hidden units")
    plain = 0.0
    for precision in ("float32", "float64"):
        seconds, compiling, states = epoch_seconds(scaling(12), precision, epochs)
        if not plain:
            plain = plain_rate(states.policy, 5.0)
            print(f"  {'plain loop, sampling only, expressions/s':<46} {plain:,.0f}")
        print(f"  {precision + ', ms an epoch':<46} {1e3 * seconds:.1f}")
        print(f"  {precision + ', expressions/s, gradient and all':<46} {1e3 / seconds:,.0f}")
        print(f"  {precision + ', ratio to the plain loop':<46} {1e3 / seconds / plain:,.0f}")
        print(f"  {precision + ', compiling, s':<46} {compiling:.1f}")
    print("\nthe paper's other experiments, 10 runs, float64")
    for kind in ("simple", "constants"):
        seconds, _, _ = epoch_seconds(tabled(kind, "quadratic"), "float64", epochs // 4)
        print(f"  {kind + ', ms an epoch of all runs':<46} {1e3 * seconds:.1f}")


if __name__ == "__main__":
    main()

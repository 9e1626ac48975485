"""Trees a second by the number of threads, in one run: for batches of the sizes that a default fit
has, and for large ones.

    python -m benchmarks.threads [--threads 1,2] [--rounds 7]

Each number of threads takes its turn on the same trees, round after round, and the best round of
each counts: what other work on the machine takes away, it takes from single rounds. The values must
be the same bits for every number of threads.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from dvisr import DVISRRegressor
from dvisr.marginal import Engine
from dvisr.search.from_prior import PriorSampler
from dvisr.types import Dataset

ROWS = (10, 100, 1000)
# Neighbours of one step, the changes of one tree, a part of the likeliest trees.
BATCHES = (140, 500, 2_000, 10_000)
_MOST_POINTS = 1_000_000


def measured(
    rows: int, count: int, threads: list[int], rounds: int
) -> tuple[dict[int, float], bool]:
    """Trees a second for each number of threads, and whether all found the same values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (rows, 2))
    y = 2.5 * X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(rows)
    problem = DVISRRegressor()._problem_of(Dataset.create(X, y), None)
    trees = PriorSampler(problem.grammar, problem.tree_prior).draw(count, rng)
    engines = {number: Engine.of(problem, num_threads=number) for number in threads}
    seconds = dict.fromkeys(threads, float("inf"))
    found = []
    for _ in range(rounds):
        for number, engine in engines.items():
            began = time.perf_counter()
            found.append(engine.fit(trees).log_marginal)
            seconds[number] = min(seconds[number], time.perf_counter() - began)
    is_same = all(np.array_equal(values, found[0], equal_nan=True) for values in found)
    return {number: count / seconds[number] for number in threads}, is_same


def main() -> None:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, 2, cores}))))
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    threads = [int(text) for text in arguments.threads.split(",")]
    print(f"{cores} cores, of which {os.getloadavg()[0]:.1f} were busy with other work")
    for rows in ROWS:
        for count in BATCHES:
            if rows * count > _MOST_POINTS:
                continue
            speeds, is_same = measured(rows, count, threads, arguments.rounds)
            told = "  ".join(
                f"{number}: {speed:8.0f}/s ({speed / speeds[threads[0]]:.2f})"
                for number, speed in speeds.items()
            )
            same = "the same bits" if is_same else "NOT THE SAME BITS"
            print(f"{rows:>5} rows, {count:>6} trees  {told}  {same}", flush=True)


if __name__ == "__main__":
    main()

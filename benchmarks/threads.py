"""Trees a second by the number of threads, in one run: for batches of the sizes that a default fit
has, and for large ones.

    python -m benchmarks.threads run [--threads 1,2] [--rounds 7]
    python -m benchmarks.threads show

Each number of threads takes its turn on the same trees, round after round, and the best round of
each counts: what other work on the machine takes away, it takes from single rounds. The values must
be the same bits for every number of threads. `run` keeps docs/threads.json, `show` writes the table
in docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.pages import with_tables
from dvisr import DVISRRegressor
from dvisr.marginal import Engine
from dvisr.search.from_prior import PriorSampler
from dvisr.types import Dataset

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "speed.md", DOCS / "threads.json"
ROWS = (10, 100, 1000)
# Neighbours of one step, the refinements of one tree, a part of the likeliest trees.
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


def run(threads: list[int], rounds: int) -> list[dict[str, Any]]:
    found = []
    for rows in ROWS:
        for count in BATCHES:
            if rows * count > _MOST_POINTS:
                continue
            speeds, is_same = measured(rows, count, threads, rounds)
            found.append({"rows": rows, "trees": count, "a_second": speeds, "is_same": is_same})
            print(found[-1], flush=True)
    return found


def table(found: list[dict[str, Any]]) -> str:
    numbers = list(found[0]["a_second"])
    heads = "".join(f" {number} thread{'' if number == '1' else 's'} |" for number in numbers)
    lines = [f"| rows | trees at once |{heads} times as many | the same bits |"]
    lines.append("| --- " * (4 + len(numbers)) + "|")
    for row in found:
        speeds = [row["a_second"][number] for number in numbers]
        told = " | ".join(f"{speed:,.0f}" for speed in speeds)
        same = "yes" if row["is_same"] else "no"
        times = f"{speeds[-1] / speeds[0]:.2f}"
        lines.append(f"| {row['rows']:,} | {row['trees']:,} | {told} | {times} | {same} |")
    return "\n".join(lines) + "\n"


def show() -> None:
    made = table(json.loads(FOUND.read_text()))
    PAGE.write_text(with_tables(PAGE.read_text(), {"threads": made}))


def main() -> None:
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, 2, cores}))))
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    if asked.what == "run":
        print(f"{cores} cores, of which {os.getloadavg()[0]:.1f} were busy with other work")
        found = run([int(text) for text in asked.threads.split(",")], asked.rounds)
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
    show()


if __name__ == "__main__":
    main()

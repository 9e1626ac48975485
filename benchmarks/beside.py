"""This revision beside another, in turns on one machine: the kernel's trees a second, and a fit of
the planets in a new process and in one that has made a fit before.

    git worktree add ../earlier 80d98ab
    python -m benchmarks.beside run ../earlier --rounds 3
    python -m benchmarks.beside show

Each measurement is a process of its own, first of one revision, then of the other. What Numba
compiles is compiled before and kept, and so is Python's byte code, as where a package is installed;
what JAX compiles is kept if the revision itself keeps it.
Seconds of a cold fit are those of the whole command, `dvisr fit examples/planets.csv`. The results
go into docs/beside.json; `show` writes a table of them in docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.pages import with_tables

ROOT = Path(__file__).parent.parent
PAGE, FOUND = ROOT / "docs" / "speed.md", ROOT / "docs" / "beside.json"

WARM = """
import time, warnings
import pandas as pd
from dvisr import DVISRRegressor
warnings.simplefilter("ignore")
table = pd.read_csv("examples/planets.csv")
for seed in range(2):
    began = time.perf_counter()
    DVISRRegressor(random_state=seed).fit(table[["a"]], table["period"])
    seconds = time.perf_counter() - began
print(seconds)
"""
KERNEL = """
import time
import numpy as np
from dvisr.constants import Decades
from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine
from dvisr.prior import size_balanced
from dvisr.search.from_prior import PriorSampler
operators = ("+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt")
library = Library.create(operators, ["x0"], constants=True)
grammar = Grammar(library, 9, ["default", "max-constants=3"])
trees = PriorSampler(grammar, size_balanced(grammar)).draw(20_000, np.random.default_rng(0))
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.1, 3.0, 20))
y = 2.37 * x + np.sin(3.0 * x) + 0.1 * rng.standard_normal(20)
engine = Engine(library, x[:, None], make_likelihood(y, "infer"), Decades())
engine.fit(trees[:10])
best = np.inf
for _ in range(3):
    began = time.perf_counter()
    engine.fit(trees)
    best = min(best, time.perf_counter() - began)
print(len(trees) / best)
"""
COLD = "from dvisr.cli import main; main()"
FIT = ("fit", "examples/planets.csv", "--target", "period", "--features", "a", "--seed", "0")


def run(folder: Path, code: str, *arguments: str) -> tuple[str, float]:
    """What a process printed last, and its seconds."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    return done.stdout.strip().splitlines()[-1], seconds


def measure(folder: Path) -> dict[str, float]:
    return {
        "trees a second": float(run(folder, KERNEL)[0]),
        "planets, cold": run(folder, COLD, *FIT)[1],
        "planets, warm": float(run(folder, WARM)[0]),
    }


def table(found: dict[str, Any]) -> str:
    lines = [
        f"| | this revision | {found['other']} | times as fast |",
        "| --- | --- | --- | --- |",
    ]
    for key, own in found["medians"]["this"].items():
        other = found["medians"]["other"][key]
        is_rate = key == "trees a second"
        times = own / other if is_rate else other / own
        shown = [f"{value:,.0f}" if is_rate else f"{value:.1f} s" for value in (own, other)]
        lines.append(f"| {key} | {shown[0]} | {shown[1]} | {times:.1f} |")
    return "\n".join(lines) + "\n"


def show() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), {"beside": table(json.loads(FOUND.read_text()))}))


def compared(other: Path, num_rounds: int) -> dict[str, Any]:
    folders = {"this": ROOT, "other": other.resolve()}
    for folder in folders.values():
        measure(folder)  # compiles
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
    for _ in range(num_rounds):
        for name, folder in folders.items():
            rounds[name].append(measure(folder))
            print(name, rounds[name][-1], flush=True)
    medians = {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for name, rows in rounds.items()
    }
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=folders["other"], capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    return {"other": revision, "medians": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("other", type=Path, help="A checkout of another revision.")
    running.add_argument("--rounds", type=int, default=3)
    commands.add_parser("show")
    asked = parser.parse_args()
    if asked.command == "run":
        found = compared(asked.other, asked.rounds)
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
    show()


if __name__ == "__main__":
    main()

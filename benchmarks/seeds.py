"""Whether seeds agree: five fits of one table, and how far their posteriors are apart.

    python -m benchmarks.seeds

Laws that are met often, 25 points, noise of a tenth of the spread, default settings. The distance
of two fits is the total variation between their functions. A function is several canonical forms
that the fit took for one and the same; functions of two fits that have a form in common are one.
The table goes to docs/prior.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parent.parent / "docs" / "prior.md"
POINTS, SEEDS = 25, 5

Shares = list[tuple[list[str], float]]  # of each function: its forms, and its probability
Law = tuple[str, tuple[float, float], Callable[[np.ndarray], np.ndarray]]
LAWS: dict[str, Law] = {
    "Michaelis-Menten": ("S", (0.2, 8.0), lambda s: 2.1 * s / (1.3 + s)),
    "damped oscillation": ("t", (0.0, 8.0), lambda t: 1.6 * np.exp(-0.35 * t) * np.cos(2.4 * t)),
    "logistic growth": ("t", (0.0, 10.0), lambda t: 4.2 / (1.0 + np.exp(-1.1 * (t - 4.5)))),
    "Arrhenius": ("T", (1.0, 4.0), lambda t: 9.0 * np.exp(-3.2 / t)),
    "power law with offset": ("x", (0.5, 6.0), lambda x: 0.8 * x**1.7 + 2.5),
}


def table_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    _, (low, high), law = LAWS[name]
    rng = np.random.default_rng(list(LAWS).index(name))
    x = np.sort(rng.uniform(low, high, POINTS))
    clean = law(x)
    return x, clean + 0.1 * clean.std() * rng.standard_normal(POINTS)


def fit(case: tuple[str, int]) -> dict[str, Any]:
    import pandas as pd

    from dvisr import DVISRRegressor
    from dvisr.expression import Expression, canonical_form
    from dvisr.fitting.fitters import SearchFitter

    name, seed = case
    x, y = table_of(name)
    model = DVISRRegressor(random_state=seed, n_jobs=1, warm_start=True)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pd.DataFrame({LAWS[name][0]: x}), y)
    seconds = time.perf_counter() - began
    fitter = model._fitter
    assert isinstance(fitter, SearchFitter)
    assert fitter.search is not None
    library, trees = model._problem.grammar.library, fitter.search.visited.form_tree

    def form(number: int) -> str:
        tokens = tuple(int(token) for token in trees[number] if token >= 0)
        return canonical_form(Expression(library, tokens), symmetric_constants=True)

    shares = [
        (sorted({form(number) for number in function.forms}), function.probability)
        for function in model._posterior.functions
    ]
    return {
        "law": name,
        "seed": seed,
        "seconds": seconds,
        "shares": shares,
        "verdict": model.verdict_.word,
        "first": str(model.functions_["equation"].iloc[0]),
        "probability": float(model.functions_["probability"].iloc[0]),
    }


def distance(one: Shares, two: Shares) -> float:
    """The total variation; what neither lists is taken as shared as far as it can be."""
    groups: list[tuple[set[str], list[float]]] = []
    for side, shares in enumerate((one, two)):
        for forms, share in shares:
            own, totals = set(forms), [0.0, 0.0]
            totals[side] = share
            for group in [group for group in groups if group[0] & own]:
                groups.remove(group)
                own |= group[0]
                totals = [totals[0] + group[1][0], totals[1] + group[1][1]]
            groups.append((own, totals))
    apart = sum(abs(first - second) for _, (first, second) in groups)
    rest = abs(sum(share for _, share in one) - sum(share for _, share in two))
    return 0.5 * (apart + rest)


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| law | first, of seed 0 | probability | total variation, median (largest) | verdicts | "
        "seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    every: list[float] = []
    for name in LAWS:
        own = [row for row in rows if row["law"] == name]
        apart = [distance(a["shares"], b["shares"]) for a, b in itertools.combinations(own, 2)]
        every += apart
        words = ", ".join(sorted(row["verdict"] for row in own))
        seconds = statistics.median(row["seconds"] for row in own)
        lines.append(
            f"| {name} | `{own[0]['first']}` | {own[0]['probability']:.2f} | "
            f"{statistics.median(apart):.3f} ({max(apart):.3f}) | {words} | {seconds:.0f} |"
        )
    lines += ["", f"Median of all pairs: {statistics.median(every):.3f}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a file for what was found, as JSON")
    asked = parser.parse_args()
    cases = [(name, seed) for name in LAWS for seed in range(SEEDS)]
    rows = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for row in pool.map(fit, cases):
            rows.append(row)
            print({k: v for k, v in row.items() if k != "shares"}, flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(rows, indent=1) + "\n")
    text, start, end = PAGE.read_text(), "<!-- seeds -->\n", "<!-- end of seeds -->"
    before, rest = text.split(start)
    PAGE.write_text(f"{before}{start}{table(rows)}\n{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()

"""Fits of noisy data: known laws, coverage of intervals, published data, speed of the kernel.

    python -m benchmarks.fits laws --seeds 10
    python -m benchmarks.fits coverage --laws 200
    python -m benchmarks.fits data --data DIR
    python -m benchmarks.fits kernel
    python -m benchmarks.fits nist --found FILE
    python -m benchmarks.fits show

All but the last measure, and put what they find into docs/fits.json; the last writes the tables in
docs/fits.md and in the README of it.

`data` needs a folder (--data, or DVISR_DATA) with hubble.csv (D in Mpc, v in km/s: Hubble 1929),
leavitt.csv (logP, M: Leavitt 1912) and tully.csv (DV, M: Tully and Fisher 1977), as in the public
EmpiricalBench collection, and cosmic_chronometers.csv (z, H, H_err), as in the public repository of
exhaustive symbolic regression (ESR).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fits_shown
from benchmarks.feynman import is_law
from dvisr.constants import Normal
from dvisr.constraints import Grammar
from dvisr.data import dataset_from_table, read_table
from dvisr.estimator import DVISRRegressor, FitWarning
from dvisr.estimator.table import OPERATORS
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.library import Kind, Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine
from dvisr.prior import science, size_balanced
from dvisr.search.from_prior import PriorSampler
from dvisr.types import Dataset

RESULTS = Path("docs/fits.json")
Values = Callable[[np.ndarray], np.ndarray]

# name: columns, domain, the law, its formula, points, and (for the small ones) the noise
LAWS: dict[str, tuple[tuple[str, ...], tuple[float, float], Values, str, int, float | None]] = {
    "2.37 x + 3.02": (
        ("x",), (-3.0, 3.0), lambda X: 2.37 * X[:, 0] + 3.02, "2.37 * x + 3.02", 20, 0.1,
    ),
    "x + sin(5.5 x)": (
        ("x",), (-3.0, 3.0), lambda X: X[:, 0] + np.sin(5.5 * X[:, 0]), "x + sin(5.5 * x)", 20, 0.1,
    ),
    "sqrt(x^2 + y^2)": (
        ("x", "y"), (-3.0, 3.0), lambda X: np.hypot(X[:, 0], X[:, 1]), "sqrt(x**2 + y**2)", 20,
        0.1,
    ),
    "x0^2 - x1 + 0.5 x2^2": (
        ("x0", "x1", "x2"), (-3.0, 3.0), lambda X: X[:, 0] ** 2 - X[:, 1] + 0.5 * X[:, 2] ** 2,
        "x0**2 - x1 + 0.5 * x2**2", 100, None,
    ),
    "6 sin(x0) cos(x1)": (
        ("x0", "x1"), (-3.0, 3.0), lambda X: 6.0 * np.sin(X[:, 0]) * np.cos(X[:, 1]),
        "6 * sin(x0) * cos(x1)", 100, None,
    ),
    "1.5 exp(x0) + 5 cos(x1)": (
        ("x0", "x1"), (-3.0, 3.0), lambda X: 1.5 * np.exp(X[:, 0]) + 5.0 * np.cos(X[:, 1]),
        "1.5 * exp(x0) + 5 * cos(x1)", 100, None,
    ),
    "q1 q2 / r^2": (
        ("q1", "q2", "r"), (1.0, 3.0), lambda X: X[:, 0] * X[:, 1] / X[:, 2] ** 2,
        "q1 * q2 / r**2", 100, None,
    ),
}  # fmt: skip


def laws(seeds: int, names: list[str]) -> list[dict[str, Any]]:
    """Each law from as many seeds; of the small ones also how it goes on outside the data."""
    _warm()
    rows = []
    for name in names or list(LAWS):
        runs = [_law(name, seed) for seed in range(seeds)]
        rows.append(
            {
                "law": name,
                "seeds": seeds,
                "recovered": sum(run["recovered"] for run in runs),
                "rounded": sum(run["rounded"] for run in runs),
                "listed": sum(run["listed"] for run in runs),
                "probability": statistics.median(run["probability"] for run in runs),
                "least_r2": min(run["r2"] for run in runs),
                "median_r2": statistics.median(run["r2"] for run in runs),
                "seconds": statistics.median(run["seconds"] for run in runs),
                "longest": max(run["seconds"] for run in runs),
                "verdicts": sorted(run["verdict"] for run in runs),
                "tops": sorted({run["top"] for run in runs}),
            }
        )
        print(rows[-1], flush=True)
    return rows


def _table(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Columns, target, and what a fit of the law is given."""
    columns, (low, high), law, _, points, noise = LAWS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (points, len(columns)))
    clean = law(X)
    sigma = 0.05 * clean.std() if noise is None else noise
    limits = {"max_tokens": 9, "max_constants": 3} if noise else {}
    return X, clean + sigma * rng.standard_normal(points), limits


def problem_of(name: str, seed: int) -> Any:
    X, y, limits = _table(name, seed)
    data = Dataset.create(X, y, feature_names=list(LAWS[name][0]))
    return DVISRRegressor(**limits)._problem_of(data, None)


def _law(name: str, seed: int) -> dict[str, Any]:
    columns, (low, high), law, formula, _, _ = LAWS[name]
    X, y, limits = _table(name, seed)
    model = DVISRRegressor(random_state=seed, **limits)
    frame = _frame(X, columns)
    began = time.perf_counter()
    model.fit(frame, y)
    seconds = time.perf_counter() - began
    middle, half = 0.5 * (low + high), 0.75 * (high - low)  # half again as wide
    wide = np.random.default_rng(10_000 + seed).uniform(
        middle - half, middle + half, (100, len(columns))
    )
    if low > 0.0:
        wide = np.maximum(wide, 0.25 * low)
    truth = law(wide)
    mean = model.predict(_frame(wide, columns))
    # What is undefined outside the data has no mean there, and counts as wrong.
    left = np.where(np.isfinite(mean), mean - truth, np.inf)
    listed = model._posterior.functions
    places = [
        i for i, f in enumerate(listed) if is_law(model._problem, f.expression.tokens, formula)
    ]
    return {
        "recovered": places[:1] == [0],
        "rounded": places[:1] != [0] and _is_rounded(model._problem, listed[0], formula),
        "listed": bool(places),
        "probability": float(model.functions_["probability"].iloc[places[0]]) if places else 0.0,
        "r2": float(1.0 - (left**2).sum() / ((truth - truth.mean()) ** 2).sum()),
        "seconds": seconds,
        "verdict": model.diagnostics_["verdict"],
        "top": str(model.functions_["expression"].iloc[0]),
    }


def _is_rounded(problem: Any, function: Any, formula: str) -> bool:
    """Whether it is the law with a number of the language in the place of a constant: 3 for 3.02,
    which 20 noisy points can't tell apart."""
    library = problem.grammar.library
    freed = tuple(
        library.constant_id if library[token].kind is Kind.LITERAL else token
        for token in function.expression.tokens
    )
    return is_law(problem, freed, formula)


def _frame(X: np.ndarray, columns: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=list(columns))


def _warm() -> None:
    """Compile before anything is timed, as a second fit in one process would find it."""
    x = np.linspace(0.0, 1.0, 8)[:, None]
    for width in (1, 2, 3):
        X = np.concatenate([x + 0.1 * i for i in range(width)], axis=1)
        every: list[dict[str, Any]] = [{"max_tokens": 9, "max_constants": 3}, {}]
        for limits in every:
            DVISRRegressor(num_steps=1, random_state=0, **limits).fit(X, x[:, 0])


COVERED: dict[str, Any] = {"max_tokens": 9, "max_constants": 2}


def coverage(count: int, workers: int) -> dict[str, Any]:
    """Laws drawn from the prior, 30 noisy points each; how many of 30 new points fall inside the
    90 % interval."""
    if workers > 1:
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            found = pool.map(_covered, range(count), chunksize=1)
    else:
        found = [_covered(number) for number in range(count)]
    inside = [share for share, _ in found]
    verdicts = [verdict for _, verdict in found]
    row = {
        "laws": count,
        "coverage": float(np.mean(inside)),
        "stderr": float(np.std(inside) / np.sqrt(count)),
        "ok": verdicts.count("ok"),
        "caution": verdicts.count("caution"),
        "do-not-trust": verdicts.count("do-not-trust"),
    }
    print(row, flush=True)
    return row


def _covered(number: int) -> tuple[float, str]:
    warnings.simplefilter("ignore", FitWarning)
    prior = Normal(0.0, 2.0)
    rng = np.random.default_rng([0, number])
    names = [f"x{place}" for place in range(rng.integers(1, 4))]
    library = Library.create(OPERATORS, names, constants=True)
    grammar = Grammar(library, COVERED["max_tokens"], ["default", "max-constants=2"])
    sampler = PriorSampler(grammar, science(grammar))
    while True:
        tree = sampler.draw(1, rng)[0]
        bare = Expression(library, tuple(int(t) for t in tree if t >= 0))
        expression = bare.with_constants(prior.sample(rng, (bare.num_constants,)).tolist())
        X = rng.uniform(0.3, 3.0, (60, len(names)))
        values, defined = evaluate(expression, X)
        values = np.broadcast_to(values, (60,))
        if defined.all() and np.abs(values).max() < 1e6:
            break
    sigma = 0.1 * (float(values.std()) or 1.0)
    y = values + sigma * rng.standard_normal(60)
    model = DVISRRegressor(constant_prior=prior, random_state=number, n_jobs=1, **COVERED)
    model.fit(X[:30], y[:30])
    low, high = model.predict_interval(X[30:], 0.9).T
    inside = float(((y[30:] >= low) & (y[30:] <= high)).mean())
    return inside, model.diagnostics_["verdict"]


DATA = {
    "hubble": ("hubble.csv", "v", ["D"], None),
    "leavitt": ("leavitt.csv", "M", ["logP"], None),
    "tully": ("tully.csv", "M", ["DV"], None),
    "chronometers": ("cosmic_chronometers.csv", "H", ["z"], "H_err"),
}


# What formulas looked like before the default prior knew: the language and the prior of that time.
BEFORE = {
    "operators": ("+", "-", "*", "/", "sin", "cos", "exp", "log", "sqrt"),
    "tree_prior": "size-balanced",
}


def data(folder: Path) -> list[dict[str, Any]]:
    """Published data, and two laws made up, with the default prior and with the one before."""
    tables = {
        name: dataset_from_table(read_table(folder / file), target, features=features, err=err)
        for name, (file, target, features, err) in DATA.items()
    }
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 5.0, 40)
    decay = 1.7 * np.exp(-0.8 * x) + 0.4
    noisy = decay + 0.05 * decay.std() * rng.standard_normal(40)
    tables["1.7 exp(-0.8 x) + 0.4"] = Dataset.create(x[:, None], noisy, feature_names=["x"])
    X = np.stack([rng.uniform(1.0, 5.0, 30), rng.uniform(0.5, 3.0, 30)], axis=1)
    spring = 0.5 * X[:, 0] * X[:, 1] ** 2
    noisy = spring + 0.02 * spring.std() * rng.standard_normal(30)
    tables["k x^2 / 2"] = Dataset.create(X, noisy, feature_names=["k", "x"])
    return [
        row
        for name, table in tables.items()
        for prior, words in (("science", {}), ("size-balanced", BEFORE))
        for row in _first_rows(name, table, prior, words)
    ]


def _first_rows(
    name: str, table: Dataset, prior: str, words: dict[str, Any]
) -> list[dict[str, Any]]:
    noise = "infer" if table.y_err is None else 1.0
    model = DVISRRegressor(random_state=0, noise=noise, **words)
    began = time.perf_counter()
    model.fit(_frame(table.X, table.feature_names), table.y, y_err=table.y_err)
    seconds = time.perf_counter() - began
    rows = []
    for rank, function in enumerate(model._posterior.functions[:5], 1):
        limits = function.weighed.quantiles(np.array([0.05, 0.95]))
        rows.append(
            {
                "data": name,
                "prior": prior,
                "rank": rank,
                "equation": str(function.modal),
                "expression": str(function.expression),
                "probability": function.probability,
                "constants": [
                    [float(m), float(lo), float(hi)]
                    for m, lo, hi in zip(function.weighed.mean, *limits, strict=True)
                ],
                "verdict": model.diagnostics_["verdict"],
                "r2": model.diagnostics_["r2"],
                "seconds": seconds,
            }
        )
        print(rows[-1], flush=True)
    return rows


def kernel() -> list[dict[str, Any]]:
    """Trees a second: up to 9 tokens from the prior, up to 3 constants, 8 starts."""
    rows = []
    library = Library.create(OPERATORS, ["x0"], constants=True)
    grammar = Grammar(library, 9, ["default", "max-constants=3"])
    trees = PriorSampler(grammar, size_balanced(grammar)).draw(20_000, np.random.default_rng(0))
    for points in (20, 1000):
        rng = np.random.default_rng(0)
        x = np.sort(rng.uniform(0.1, 3.0, points))
        y = 2.37 * x + np.sin(3.0 * x) + 0.1 * rng.standard_normal(points)
        engine = Engine(library, x[:, None], make_likelihood(y, "infer"), _decades())
        some = trees if points < 100 else trees[:2000]
        engine.fit(some[:10])
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            engine.fit(some)
            seconds.append(time.perf_counter() - began)
        with_constants = float((some == library.constant_id).any(axis=1).mean())
        rows.append(
            {
                "points": points,
                "trees_a_second": len(some) / min(seconds),
                "with_constants": with_constants,
            }
        )
        print(rows[-1], flush=True)
    return rows


def nist(sets: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each certified set the worst parameter."""
    return [
        {
            "set": name,
            "formula": row["formula"],
            "mode_off": max(row["at_the_mode"]["mode_off"]),
            "curvature_std_off": max(row["at_the_mode"]["curvature_std_off"]),
            "prior_std": row["posterior"]["prior_std"],
            "mean_off": max(row["posterior"]["mean_off"]),
            "std_off": max(row["posterior"]["std_off"]),
        }
        for name, row in sets.items()
    ]


def _decades() -> Any:
    from dvisr.constants import Decades

    return Decades()


def record(path: Path, name: str, found: Any) -> None:
    if not path.name.endswith(".json"):
        return
    held = json.loads(path.read_text()) if path.exists() else {}
    if name == "laws" and "laws" in held:
        new = {row["law"] for row in found}
        found = [row for row in held["laws"] if row["law"] not in new] + found
        found.sort(key=lambda row: list(LAWS).index(row["law"]))
    held[name] = found
    path.write_text(json.dumps(held, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["laws", "coverage", "data", "kernel", "nist", "show"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--laws", type=int, default=200, help="how many for the coverage")
    parser.add_argument("--workers", type=int, default=1, help="processes, for the coverage")
    parser.add_argument("--names", default="", help="laws to take, separated by ;")
    parser.add_argument("--data", type=Path, default=os.environ.get("DVISR_DATA"))
    parser.add_argument("--found", type=Path, help="what benchmarks.nist --nuts --out wrote")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FitWarning)
    if asked.what == "show":
        fits_shown.show(json.loads(asked.results.read_text()))
        return
    found: Any
    if asked.what == "laws":
        found = laws(asked.seeds, [name for name in asked.names.split(";") if name])
    elif asked.what == "coverage":
        found = coverage(asked.laws, asked.workers)
    elif asked.what == "kernel":
        found = kernel()
    elif asked.what == "nist":
        found = nist(json.loads(asked.found.read_text()))
    else:
        files = [file for file, *_ in DATA.values()]
        if asked.data is None or not all((Path(asked.data) / file).exists() for file in files):
            sys.exit(f"SKIPPED: --data must name a folder with {', '.join(files)}\n{__doc__}")
        found = data(Path(asked.data))
    record(asked.results, asked.what, found)


if __name__ == "__main__":
    main()

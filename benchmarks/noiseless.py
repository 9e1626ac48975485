"""Formulas without noise that symbolic regression is compared on: Nguyen, Nguyen with constants,
Livermore and R (rational functions), with the operators that their papers have.

    python -m benchmarks.noiseless run --sets nguyen,livermore --max-time 60
    python -m benchmarks.noiseless show

Of Uy et al. (2011), and of Mundhenk et al. (2021) for the others. The noise is given as a hundred
thousandth of the spread: where it is inferred, its prior expects about a thousandth, and what comes
that near the formula is as good as the formula itself. A formula is recovered if the
likeliest function, its constants at their likeliest values, has the formula's values at 1,000 new
points of the domain, to a millionth of their spread.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import with_tables

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "fits.md", DOCS / "noiseless.json"
OPERATORS = ("+", "-", "*", "/", "sin", "cos", "exp", "log")
MAX_TOKENS = 30
NOISE = 1e-5  # of the spread
SAME = 1e-6  # of the spread
NUM_NEW = 1000
SETS = {
    "nguyen": "Nguyen",
    "constants": "Nguyen with constants",
    "livermore": "Livermore",
    "r": "R",
}


@dataclasses.dataclass(frozen=True)
class Formula:
    group: str
    name: str
    text: str
    function: Callable[..., np.ndarray]
    domain: tuple[float, float] = (-1.0, 1.0)
    rows: int = 20
    columns: int = 1
    is_grid: bool = False  # rows are equally far apart, not drawn

    def table(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, len(self.text), self.rows])
        low, high = self.domain
        if self.is_grid:
            X = np.linspace(low, high, self.rows)[:, None]
        else:
            X = rng.uniform(low, high, (self.rows, self.columns))
        return X, self.function(*X.T)

    def new_points(self) -> tuple[np.ndarray, np.ndarray]:
        X = np.random.default_rng(99).uniform(*self.domain, (NUM_NEW, self.columns))
        return X, self.function(*X.T)


def _powers(*exponents: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: sum((x**k for k in exponents), np.zeros_like(x))


def _nguyen() -> list[Formula]:
    def made(number: int, text: str, function: Any, *domain: float, columns: int = 1) -> Formula:
        low, high = domain or (-1.0, 1.0)
        return Formula("nguyen", f"Nguyen-{number}", text, function, (low, high), columns=columns)

    return [
        made(1, "x^3 + x^2 + x", _powers(1, 2, 3)),
        made(2, "x^4 + x^3 + x^2 + x", _powers(1, 2, 3, 4)),
        made(3, "x^5 + x^4 + x^3 + x^2 + x", _powers(1, 2, 3, 4, 5)),
        made(4, "x^6 + x^5 + x^4 + x^3 + x^2 + x", _powers(1, 2, 3, 4, 5, 6)),
        made(5, "sin(x^2) cos(x) - 1", lambda x: np.sin(x**2) * np.cos(x) - 1),
        made(6, "sin(x) + sin(x + x^2)", lambda x: np.sin(x) + np.sin(x + x**2)),
        made(7, "log(x + 1) + log(x^2 + 1)", lambda x: np.log(x + 1) + np.log(x**2 + 1), 0, 2),
        made(8, "sqrt(x)", np.sqrt, 0, 4),
        made(9, "sin(x) + sin(y^2)", lambda x, y: np.sin(x) + np.sin(y**2), 0, 1, columns=2),
        made(10, "2 sin(x) cos(y)", lambda x, y: 2 * np.sin(x) * np.cos(y), 0, 1, columns=2),
        made(11, "x^y", lambda x, y: x**y, 0, 1, columns=2),
        made(12, "x^4 - x^3 + y^2/2 - y", lambda x, y: x**4 - x**3 + y**2 / 2 - y, 0, 1, columns=2),
    ]


def _nguyen_with_constants() -> list[Formula]:
    def made(number: int, text: str, function: Any, *domain: float, columns: int = 1) -> Formula:
        low, high = domain or (-1.0, 1.0)
        name = f"Nguyen-{number}c"
        return Formula("constants", name, text, function, (low, high), columns=columns)

    return [
        made(1, "3.39 x^3 + 2.12 x^2 + 1.78 x", lambda x: 3.39 * x**3 + 2.12 * x**2 + 1.78 * x),
        made(5, "sin(x^2) cos(x) - 0.75", lambda x: np.sin(x**2) * np.cos(x) - 0.75),
        made(7, "log(x + 1.4) + log(x^2 + 1.3)",
             lambda x: np.log(x + 1.4) + np.log(x**2 + 1.3), 0, 2),
        made(8, "sqrt(1.23 x)", lambda x: np.sqrt(1.23 * x), 0, 4),
        made(10, "sin(1.5 x) cos(0.5 y)",
             lambda x, y: np.sin(1.5 * x) * np.cos(0.5 * y), 0, 1, columns=2),
    ]  # fmt: skip


def _livermore() -> list[Formula]:
    def made(number: int, text: str, function: Any, *domain: float, **more: Any) -> Formula:
        low, high = domain or (-1.0, 1.0)
        return Formula("livermore", f"Livermore-{number}", text, function, (low, high), **more)

    def sines(constant: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: np.sin(x**2) * np.cos(x) - constant

    def both(factor: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return lambda x, y: factor * np.sin(x) * np.cos(y)

    return [
        made(1, "1/3 + x + sin(x^2)", lambda x: 1 / 3 + x + np.sin(x**2), -10, 10, rows=1000),
        made(2, "sin(x^2) cos(x) - 2", sines(2.0)),
        made(3, "sin(x^3) cos(x^2) - 1", lambda x: np.sin(x**3) * np.cos(x**2) - 1),
        made(4, "log(x + 1) + log(x^2 + 1) + log(x)",
             lambda x: np.log(x + 1) + np.log(x**2 + 1) + np.log(x), 0, 2),
        made(5, "x^4 - x^3 + x^2 - y", lambda x, y: x**4 - x**3 + x**2 - y, 0, 1, columns=2),
        made(6, "4 x^4 + 3 x^3 + 2 x^2 + x", lambda x: 4 * x**4 + 3 * x**3 + 2 * x**2 + x),
        made(7, "sinh(x)", np.sinh),
        made(8, "cosh(x)", np.cosh),
        made(9, "x^9 + x^8 + ... + x", _powers(*range(1, 10))),
        made(10, "6 sin(x) cos(y)", both(6.0), 0, 1, columns=2),
        made(11, "x^2 y^2 / (x + y)", lambda x, y: x**2 * y**2 / (x + y), rows=50, columns=2),
        made(12, "x^5 / y^3", lambda x, y: x**5 / y**3, rows=50, columns=2),
        made(13, "x^(1/3)", np.cbrt, 0, 4),
        made(14, "x^3 + x^2 + x + sin(x) + sin(x^2)",
             lambda x: x**3 + x**2 + x + np.sin(x) + np.sin(x**2)),
        made(15, "x^(1/5)", lambda x: x**0.2, 0, 4),
        made(16, "x^(2/5)", lambda x: x**0.4, 0, 4),
        made(17, "4 sin(x) cos(y)", both(4.0), 0, 1, columns=2),
        made(18, "sin(x^2) cos(x) - 5", sines(5.0)),
        made(19, "x^5 + x^4 + x^2 + x", _powers(1, 2, 4, 5)),
        made(20, "exp(-x^2)", lambda x: np.exp(-(x**2))),
        made(21, "x^8 + x^7 + ... + x", _powers(*range(1, 9))),
        made(22, "exp(-x^2 / 2)", lambda x: np.exp(-0.5 * x**2)),
    ]  # fmt: skip


def _rational() -> list[Formula]:
    def made(number: int, text: str, function: Any) -> Formula:
        return Formula("r", f"R{number}", text, function, is_grid=True)

    return [
        made(1, "(x + 1)^3 / (x^2 - x + 1)", lambda x: (x + 1) ** 3 / (x**2 - x + 1)),
        made(2, "(x^5 - 3 x^3 + 1) / (x^2 + 1)", lambda x: (x**5 - 3 * x**3 + 1) / (x**2 + 1)),
        made(3, "(x^6 + x^5) / (x^4 + x^3 + x^2 + x + 1)",
             lambda x: (x**6 + x**5) / (x**4 + x**3 + x**2 + x + 1)),
    ]  # fmt: skip


FORMULAS = [*_nguyen(), *_nguyen_with_constants(), *_livermore(), *_rational()]


def fitted(formula: Formula, seed: int, max_time: float, **more: Any) -> Any:
    from dvisr import DVISRRegressor

    X, y = formula.table(seed)
    model = DVISRRegressor(**_words(y), max_time=max_time, random_state=seed, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def problem_of(formula: Formula, seed: int = 0) -> Any:
    """As `fitted` has it."""
    from dvisr import DVISRRegressor
    from dvisr.types import Dataset

    X, y = formula.table(seed)
    return DVISRRegressor(**_words(y))._problem_of(Dataset.create(X, y), None)


def _words(y: np.ndarray) -> dict[str, Any]:
    return {"operators": OPERATORS, "max_tokens": MAX_TOKENS, "noise": NOISE * float(y.std())}


def is_recovered(formula: Formula, predict: Callable[[np.ndarray], np.ndarray]) -> bool:
    X, y = formula.new_points()
    with np.errstate(all="ignore"):
        found = np.asarray(predict(X), dtype=np.float64)
    # Next to a pole single values are so large that their spread says nothing of the others.
    spread = min(y.std(), 10.0 * float(np.median(np.abs(y - np.median(y)))))
    return bool(np.abs(found - y).max() <= SAME * spread)


def measure(formula: Formula, seed: int, max_time: float) -> dict[str, Any]:
    began = time.perf_counter()
    model = fitted(formula, seed, max_time)
    seconds = time.perf_counter() - began
    return {
        "set": formula.group,
        "name": formula.name,
        "formula": formula.text,
        "seed": seed,
        "is_recovered": is_recovered(formula, lambda X: model.predict(X, index=0)),
        "first": str(model.functions_["equation"].iloc[0]),
        "probability": round(float(model.functions_["probability"].iloc[0]), 4),
        "seconds": round(seconds, 1),
        "verdict": model.verdict_.word,
    }


def run(names: list[str], seed: int, max_time: float, path: Path) -> None:
    for formula in FORMULAS:
        if formula.group not in names and formula.name not in names:
            continue
        row = measure(formula, seed, max_time)
        print(row, flush=True)
        rows = json.loads(path.read_text()) if path.exists() else []
        rows = [old for old in rows if (old["name"], old["seed"]) != (row["name"], seed)]
        path.write_text("[\n" + ",\n".join(json.dumps(r) for r in [*rows, row]) + "\n]\n")


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| set | formulas | recovered | not recovered | seconds, median (longest) |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for group, name in SETS.items():
        own = [row for row in rows if row["set"] == group]
        if not own:
            continue
        missed = ", ".join(row["name"] for row in own if not row["is_recovered"])
        seconds = [row["seconds"] for row in own]
        count = sum(row["is_recovered"] for row in own)
        lines.append(
            f"| {name} | {len(own)} | {count} | {missed} | "
            f"{np.median(seconds):.1f} ({max(seconds):.1f}) |"
        )
    return "\n".join(lines) + "\n"


def show() -> None:
    made = table(json.loads(FOUND.read_text()))
    PAGE.write_text(with_tables(PAGE.read_text(), {"noiseless": made}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--sets", default=",".join(SETS), help="Sets, or single formulas.")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--max-time", type=float, default=60.0)
    running.add_argument("--results", type=Path, default=FOUND)
    commands.add_parser("show")
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.sets.split(","), asked.seed, asked.max_time, asked.results)
    else:
        show()


if __name__ == "__main__":
    main()

"""Many rows and many columns.

    python -m benchmarks.size rows       seconds and answers at 500, 20,000 and 100,000 rows
    python -m benchmarks.size columns    laws of three columns among thirty
    python -m benchmarks.size show       the tables of docs/fits.md from docs/size.json

Each fit is made in a process of its own, after a first one of another table. Ratios of seconds are
what counts, and on a machine that others use those of the processor's seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "fits.md", DOCS / "size.json"
SIZES = (500, 20_000, 100_000)
FEWEST_ROWS, _MOST_HELD_AGAINST = SIZES[:2]  # between these, answers are worked out anew
COLUMN_ROWS, NUM_COLUMNS, NOISE = 300, 30, 0.05
_AS_GOOD = 0.02  # of the spread of y: how far the first function may be from the law elsewhere


@dataclasses.dataclass(frozen=True)
class Law:
    name: str
    columns: tuple[int, ...]
    value: Callable[[np.ndarray], np.ndarray]
    is_correlated: bool = False

    def table(self, rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
        """Columns between 0.5 and 3; correlated ones share seven tenths of what they are."""
        X = rng.uniform(0.5, 3.0, (rows, width))
        return 0.3 * X + 0.7 * rng.uniform(0.5, 3.0, (rows, 1)) if self.is_correlated else X


OF_ROWS = Law("2.5 x0 x2 + sin(x4)", (0, 2, 4), lambda X: 2.5 * X[:, 0] * X[:, 2] + np.sin(X[:, 4]))
OF_COLUMNS = (
    Law(
        "2.5 x3 x17 + sin(x21)",
        (3, 17, 21),
        lambda X: 2.5 * X[:, 3] * X[:, 17] + np.sin(X[:, 21]),
    ),
    Law("x5 / x11 + x28", (5, 11, 28), lambda X: X[:, 5] / X[:, 11] + X[:, 28]),
    Law(
        "sqrt(x2^2 + x9^2) x25",
        (2, 9, 25),
        lambda X: np.sqrt(X[:, 2] ** 2 + X[:, 9] ** 2) * X[:, 25],
    ),
    Law(
        "1.7 exp(-0.8 x14) x8 + x20",
        (8, 14, 20),
        lambda X: 1.7 * np.exp(-0.8 * X[:, 14]) * X[:, 8] + X[:, 20],
        is_correlated=True,
    ),
)
LAWS = (OF_ROWS, *OF_COLUMNS)


def fitted(X: np.ndarray, y: np.ndarray, seed: int, **options: Any) -> Any:
    from dvisr import DVISRRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DVISRRegressor(random_state=seed, **options).fit(X, y)


def measured(number: int, rows: int, width: int, seed: int) -> dict[str, Any]:
    """One fit of a law of `LAWS`, and what came of it."""
    law, rng = LAWS[number], np.random.default_rng(seed)
    other = np.random.default_rng(0).uniform(size=(50, width))
    fitted(other, np.arange(50.0), 0, num_steps=1)
    X = law.table(rng, rows, width)
    clean = law.value(X)
    y = clean + NOISE * clean.std() * rng.normal(size=rows)
    began, busy = time.perf_counter(), time.process_time()
    model = fitted(X, y, seed)
    first = model._posterior.functions[0]
    new = law.table(rng, 1000, width)
    truth = law.value(new)
    from dvisr.evaluation import evaluate

    values, defined = evaluate(first.modal, new)
    off = float(np.sqrt(np.mean((values - truth) ** 2)) / truth.std())
    library = model._problem.grammar.library
    used = {library[t].column for t in first.expression.tokens if library[t].column >= 0}
    found = model.diagnostics_
    row = {
        "law": law.name,
        "rows": rows,
        "seed": seed,
        "seconds": round(time.perf_counter() - began, 1),
        "busy": round(time.process_time() - busy, 1),
        "first": str(first.expression),
        "probability": round(first.probability, 3),
        "is_right": bool(np.all(defined)) and off < _AS_GOOD,
        "columns_are_right": used == set(law.columns),
        "verdict": model.verdict_.word,
        "steps": found["num_steps"],
        "raced": found["num_raced_rows"],
        "forms": found["num_forms_visited"],
        "on_all_rows": found["num_forms_on_all_rows"],
        "network": found["network"],
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }
    if FEWEST_ROWS < rows <= _MOST_HELD_AGAINST:
        row["off"] = furthest_off(model)
    return row


def furthest_off(model: Any, most: int = 5) -> float:
    """Nats between the log p(y | tree) of listed functions and the same worked out on all rows from
    starts of their own: the largest."""
    from dvisr.marginal import Engine, weigh

    engine, worst = Engine.of(model._problem), 0.0
    for function in model._posterior.functions[:most]:
        tokens = np.array(function.expression.tokens, dtype=np.int8)
        found = weigh(engine, tokens, np.random.default_rng(1))
        worst = max(worst, abs(found.log_marginal - function.weighed.log_marginal))
    return worst


def alone(*arguments: Any) -> dict[str, Any]:
    """`measured` in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, *arguments).result()


def measure_rows(sizes: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(seeds):
        for size in sizes:
            yield alone(LAWS.index(OF_ROWS), size, 5, seed)


def measure_columns(seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(seeds):
        for law in OF_COLUMNS:
            row = alone(LAWS.index(law), COLUMN_ROWS, NUM_COLUMNS, seed)
            yield {**row, "is_correlated": law.is_correlated}


# Shown -----------------------------------------------------------------------------------------


def rows_table(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    lines = [
        "| rows | raced on | law first | verdicts | seconds, median | of the processor | times "
        "those of the fewest rows | forms | of them on all rows | listed functions off by at most "
        "| peak memory |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    ]
    sizes = sorted({row["rows"] for row in found})
    of_size = {size: [row for row in found if row["rows"] == size] for size in sizes}
    busy = {s: statistics.median(row["busy"] for row in of_size[s]) for s in sizes}
    for size, own in of_size.items():
        right = sum(row["is_right"] and row["columns_are_right"] for row in own)
        off = [row["off"] for row in own if "off" in row]
        lines.append(
            f"| {size:,} | {own[0]['raced']:,} | {right} of {len(own)} | {_verdicts(own)} | "
            f"{_middle(own, 'seconds')} | {busy[size]:.0f} | {busy[size] / busy[sizes[0]]:.2f} | "
            f"{_middle(own, 'forms'):,} | {_middle(own, 'on_all_rows'):,} | "
            f"{f'{max(off):.3f} nats' if off else ''} | {max(row['megabytes'] for row in own)} MB "
            f"|\n"
        )
    return "".join(lines)


def columns_table(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    lines = [
        "| law, 300 rows | columns | first function is the law | its columns are the law's | "
        "probability | seconds, median (longest) | of the processor | verdicts |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    ]
    for law in dict.fromkeys(row["law"] for row in found):
        own = [row for row in found if row["law"] == law]
        seconds = [row["seconds"] for row in own]
        kind = "correlated" if own[0]["is_correlated"] else "independent"
        lines.append(
            f"| {law} | {kind} | {sum(row['is_right'] for row in own)} of {len(own)} | "
            f"{sum(row['columns_are_right'] for row in own)} of {len(own)} | "
            f"{statistics.median(row['probability'] for row in own):.2f} | "
            f"{statistics.median(seconds):.1f} ({max(seconds):.1f}) | "
            f"{_middle(own, 'busy')} | {_verdicts(own)} |\n"
        )
    return "".join(lines)


def _middle(rows: list[dict[str, Any]], name: str) -> int:
    return round(float(statistics.median(row[name] for row in rows)))


def _verdicts(rows: list[dict[str, Any]]) -> str:
    words = [row["verdict"] for row in rows]
    return ", ".join(f"{word} {words.count(word)}" for word in sorted(set(words)))


def with_tables(text: str, held: dict[str, Any]) -> str:
    """The text with each table between its marks."""
    tables = {
        "rows": rows_table(held.get("rows", [])),
        "columns": columns_table(held.get("columns", [])),
    }
    for name, table in tables.items():
        start, end = f"<!-- size: {name} -->\n", "<!-- end of size -->"
        before, mark, after = text.partition(start)
        if mark:
            text = before + mark + table + end + after.partition(end)[2]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rows", "columns", "show"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    if asked.what == "rows":
        measuring = measure_rows(tuple(asked.sizes), asked.seeds)
    else:
        measuring = measure_columns(asked.seeds) if asked.what == "columns" else iter(())
    for row in measuring:
        print(row, flush=True)
        found.append(row)
        held = json.loads(FOUND.read_text()) if FOUND.exists() else {}
        FOUND.write_text(json.dumps({**held, asked.what: found}, indent=1) + "\n")
    PAGE.write_text(with_tables(PAGE.read_text(), json.loads(FOUND.read_text())))


if __name__ == "__main__":
    main()

"""What the network that reads the data is worth.

    python -m benchmarks.network draws --data FOLDER     draws alone, two seconds of them
    python -m benchmarks.network again                   the laws from the prior, as many draws
    python -m benchmarks.network fits --data FOLDER      whole fits, with and without it
    python -m benchmarks.network trace --data FOLDER     when the law comes first
    python -m benchmarks.network show                    tables and figure of docs/network.md

`FOLDER` holds `feynman10`: laws of the Feynman Symbolic Regression Database with ten noisy rows
each. The other laws are drawn from the prior with a seed that no training had.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.feynman import feynman_cases, is_law, law_log_joint
from benchmarks.pages import with_tables
from dvisr.fitting.limits import Limit

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "network.md", DOCS / "network.json"
SECONDS, BATCH = 2.0, 256
_HELD_OUT_SEED = 1_000_003
_AS_GOOD = 1.0  # nats
MOST_SECONDS = 6.0  # of a trace


# Tables of numbers -----------------------------------------------------------------------------


def drawn_laws(count: int) -> list[dict[str, Any]]:
    """Laws and tables that no training saw, of every size, number of columns, rows and noise."""
    import jax

    from dvisr.pretraining.laws import LawMaker, LawSettings
    from dvisr.pretraining.training import draw_good
    from dvisr.prior.named import tree_prior

    maker = LawMaker.create(lambda g: tree_prior("science", g), LawSettings(), max_tokens=15)
    laws = draw_good(maker, jax.random.key(_HELD_OUT_SEED), count, 4.0)
    made = []
    for number in range(count):
        rows = np.asarray(laws.table.is_row[number])
        columns = np.asarray(laws.table.is_column[number])
        tokens = np.asarray(laws.tokens[number])
        made.append(
            {
                "tokens": tokens[tokens >= 0].tolist(),
                "X": np.asarray(laws.table.X[number], dtype=np.float64)[rows][:, columns],
                "y": np.asarray(laws.table.y[number], dtype=np.float64)[rows],
            }
        )
    return made


def problem_of(data: Any) -> Any:
    from dvisr import DVISRRegressor
    from dvisr.problem import make_problem

    own = DVISRRegressor()
    return make_problem(
        data, operators=own.operators, constants=True, max_tokens=own.max_tokens,
        max_constants=own.max_constants, constraints=own.constraints, tree_prior=own.tree_prior,
        constant_prior=own.constant_prior, noise=own.noise,
    )  # fmt: skip


# Draws alone -----------------------------------------------------------------------------------


def drawn_from(problem: Any, count: int | None = None) -> tuple[Any, int, float]:
    """The search whose visited trees the draws are, how many were made, and the seconds that
    drawing took, reading the table included, compiling not. So many, or as many as two seconds
    allow."""
    from dvisr.fitting.data_network import PretrainedNetwork
    from dvisr.fitting.search import Search
    from dvisr.settings import FitSettings

    settings = FitSettings()
    search = Search(problem, settings, num_samples=BATCH, seed=0)
    one_batch = dataclasses.replace(settings.search, first_batches=1)
    if count is None:
        PretrainedNetwork(problem, one_batch, BATCH, seed=1)._read_and_draw()  # compiles
    network = PretrainedNetwork(problem, one_batch, BATCH, seed=0)
    began = time.perf_counter()
    trees = network._read_and_draw()
    while _goes_on(len(trees) * BATCH, count, time.perf_counter() - began):
        trees.append(network.draw()[0])
    seconds = time.perf_counter() - began
    drawn = np.concatenate(trees)
    search.visited.visit(drawn)
    return search, len(drawn), seconds


def _goes_on(made: int, count: int | None, seconds: float) -> bool:
    return seconds < SECONDS if count is None else made < count


def measure_drawn(law: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    """The law is first if the likeliest form has the same best fit, on the rows and beside them:
    x^c where the law is x x x^c is the law."""
    from dvisr.expression import Expression
    from dvisr.fitting.merging import merged, probe_rows
    from dvisr.types import Dataset

    problem = problem_of(Dataset.create(law["X"], law["y"]))
    search, number, seconds = drawn_from(problem, count)
    visited = search.visited
    own = np.full((1, problem.grammar.max_tokens), -1, dtype=np.int8)
    own[0, : len(law["tokens"])] = law["tokens"]
    best = int(np.argmax(visited.form_log_joint))
    first, of_first = visited.form_tree[best].copy(), float(visited.form_log_joint[best])
    place = int(visited.visit(own)[0])
    form = int(visited.tree_form[place])
    alike = merged(search.engine, np.stack([first, own[0]]), probe_rows(problem.X))
    return {
        "law": str(Expression(problem.grammar.library, tuple(law["tokens"]))),
        "first": str(Expression(problem.grammar.library, tuple(int(t) for t in first if t >= 0))),
        "size": len(law["tokens"]),
        "columns": law["X"].shape[1],
        "rows": len(law["y"]),
        "is_first": form == best or len(alike) == 1,
        "log_joint_of_law": float(visited.form_log_joint[form]),
        "log_joint_of_first": of_first,
        "draws": number,
        "seconds": round(seconds, 2),
    }


def count_again(before: list[dict[str, Any]], processes: int) -> list[dict[str, Any]]:
    """As many draws as two seconds gave before: that can be done beside other work."""
    rows = []
    laws, counts = drawn_laws(len(before)), [row["draws"] for row in before]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for row, earlier in zip(pool.map(measure_drawn, laws, counts), before, strict=True):
            rows.append({**row, "seconds": earlier["seconds"]})
            print(rows[-1], flush=True)
    return rows


def measure_draws(folder: Path, count: int) -> dict[str, Any]:
    from dvisr.data import dataset_from_table, read_table
    from dvisr.expression import Expression

    feynman, drawn = [], []
    for path, formula in feynman_cases(folder / "feynman10"):
        problem = problem_of(dataset_from_table(read_table(path), "target"))
        search, number, seconds = drawn_from(problem)
        best = int(np.argmax(search.visited.form_log_joint))
        tokens = tuple(int(t) for t in search.visited.form_tree[best] if t >= 0)
        row = {
            "law": path.stem,
            "is_first": is_law(problem, tokens, formula),
            "first": str(Expression(problem.grammar.library, tokens)),
            "log_joint_of_law": law_log_joint(problem, formula),
            "log_joint_of_first": float(search.visited.form_log_joint[best]),
            "draws": number,
            "seconds": round(seconds, 2),
        }
        print(row, flush=True)
        feynman.append(row)
    for law in drawn_laws(count):
        drawn.append(measure_drawn(law))
        print(drawn[-1], flush=True)
    return {"feynman": feynman} | ({"drawn": drawn} if drawn else {})


# Whole fits ------------------------------------------------------------------------------------


def measure_fit(
    path: Path, formula: str, network: str, max_time: float, compiled: set[tuple[str, int]]
) -> dict[str, Any]:
    """Of a process that has fitted a table of as many columns before: `compiled` remembers."""
    from dvisr import DVISRRegressor, FitSettings
    from dvisr.data import dataset_from_table, read_table
    from dvisr.settings import SearchSettings

    data = dataset_from_table(read_table(path), "target")
    settings = FitSettings(search=SearchSettings(network=network))

    def fitted() -> Any:
        model = DVISRRegressor(random_state=0, max_time=max_time, settings=settings)
        model.fit_table(data, None)
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (network, data.X.shape[1]) not in compiled:
            compiled.add((network, data.X.shape[1]))
            fitted()
        began = time.perf_counter()
        model = fitted()
    first = model._posterior.functions[0].expression
    found = model.diagnostics_
    return {
        "law": path.stem,
        "network": network,
        "max_time": max_time,
        "is_first": is_law(model._problem, first.tokens, formula),
        "first": str(first),
        "verdict": model.verdict_.word,
        "seconds": round(time.perf_counter() - began, 2),
        "steps": found["num_steps"],
        # None where there was no time for fresh draws.
        "gap": model.log_evidence_ - found["elbo"] if "elbo" in found else None,
        "effective_share": found.get("effective_sample_size", 0.0) / found.get("num_fresh", 1),
        "total_variation": found.get("total_variation"),
    }


def measure_fits(folder: Path, max_time: float) -> list[dict[str, Any]]:
    rows, compiled = [], set[tuple[str, int]]()
    for network in ("pretrained", "plain"):
        for path, formula in feynman_cases(folder / "feynman10"):
            rows.append(measure_fit(path, formula, network, max_time, compiled))
            print(rows[-1], flush=True)
    return rows


# When the law comes first ----------------------------------------------------------------------

KINDS = ("network alone", "search alone", "both")


def measure_trace(
    path: Path, formula: str, kind: str, compiled: set[tuple[str, int]]
) -> dict[str, Any]:
    """Seconds at which the likeliest form so far changed, and whether it is the law then. Of a
    process that has traced a table of as many columns before: `compiled` remembers."""
    from dvisr.data import dataset_from_table, read_table

    problem = problem_of(dataset_from_table(read_table(path), "target"))
    if (kind, problem.X.shape[1]) not in compiled:
        compiled.add((kind, problem.X.shape[1]))
        _traced(problem, kind, seconds=1.0)
    changes = _traced(problem, kind)
    judged = [(round(seconds, 2), is_law(problem, tokens, formula)) for seconds, tokens in changes]
    return {"law": path.stem, "kind": kind, "changes": judged}


class _Until(Limit):
    """A search alone, with nothing after it."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._search_end = end


def _traced(
    problem: Any, kind: str, seconds: float = MOST_SECONDS
) -> list[tuple[float, tuple[int, ...]]]:
    from dvisr.fitting.data_network import PretrainedNetwork
    from dvisr.fitting.search import Search
    from dvisr.settings import FitSettings

    settings = FitSettings()
    search = Search(problem, settings, num_samples=BATCH, seed=0)
    changes: list[tuple[float, tuple[int, ...]]] = []
    visit = search.visited.visit

    def noting(*arguments: Any, **options: Any) -> np.ndarray:
        found = visit(*arguments, **options)
        best = int(np.argmax(search.visited.form_log_joint))
        tokens = tuple(int(t) for t in search.visited.form_tree[best] if t >= 0)
        if not changes or changes[-1][1] != tokens:
            changes.append((time.perf_counter() - began, tokens))
        return found

    search.visited.visit = noting  # type: ignore[method-assign]
    if kind == "network alone":
        network = PretrainedNetwork(problem, settings.search, BATCH, seed=0)
        network.compile()
        began = time.perf_counter()
        network.begin(search, lambda: False)
        while time.perf_counter() - began < seconds:
            search.visited.visit(network.draw()[0])
        return changes
    if kind == "both":  # without `prepare` there is no network
        search.prepare()
    began = time.perf_counter()
    search.run(1000, _Until(began + seconds))
    return changes


def measure_traces(folder: Path) -> list[dict[str, Any]]:
    rows, compiled = [], set[tuple[str, int]]()
    for path, formula in feynman_cases(folder / "feynman10"):
        for kind in KINDS:
            rows.append(measure_trace(path, formula, kind, compiled))
            print(rows[-1], flush=True)
    return rows


def draw_figure(rows: list[dict[str, Any]]) -> None:
    from dvisr.plots.style import BLUE, GREEN, ORANGE, new_figure

    seconds = np.linspace(0.0, MOST_SECONDS, 300)
    figure = new_figure(6.0, 3.6)
    axes = figure.subplots()
    for colour, kind in zip((ORANGE, BLUE, GREEN), KINDS, strict=True):
        own = [row["changes"] for row in rows if row["kind"] == kind]
        shares = [np.mean([_is_first_at(changes, when) for changes in own]) for when in seconds]
        axes.step(seconds, shares, where="post", color=colour, label=kind)
    axes.set(xlabel="seconds", ylabel="share of laws that come first", ylim=(0.0, 1.0))
    axes.legend(frameon=False)
    figure.savefig(DOCS / "network.png", dpi=150, metadata={"Software": None})


def _is_first_at(changes: list[Any], when: float) -> bool:
    latest = [is_first for seconds, is_first in changes if seconds <= when]
    return bool(latest and latest[-1])


def trace_table(rows: list[dict[str, Any]]) -> str:
    """How many laws are first after so many seconds."""
    moments = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
    lines = [
        "| laws first, after seconds | " + " | ".join(f"{when:g}" for when in moments) + " |",
        "| --- |" + " --- |" * len(moments),
    ]
    for kind in KINDS:
        own = [row["changes"] for row in rows if row["kind"] == kind]
        counts = [sum(_is_first_at(changes, when) for changes in own) for when in moments]
        lines.append(f"| {kind}, of {len(own)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n"


# Tables ----------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> str:
    parts = []
    if "draws" in found:
        feynman, drawn = found["draws"]["feynman"], found["draws"]["drawn"]
        draws = statistics.median(row["draws"] for row in feynman)
        parts += [
            f"Two seconds of draws on two cores, {draws:.0f} trees, weighed; no search.",
            "",
            "| laws | number | the law first | first what is likelier than the law | the law, or "
            "something no more than 1 nat below it |",
            "| --- | --- | --- | --- | --- |",
            _drawn_line("Feynman, ten rows, 1 % noise", feynman),
        ]
        for name, low, high in (("1 to 5", 1, 5), ("6 to 9", 6, 9), ("10 to 15", 10, 15)):
            rows = [row for row in drawn if low <= row["size"] <= high]
            parts.append(_drawn_line(f"drawn from the prior, {name} tokens", rows))
        parts += [_drawn_line("drawn from the prior, all", drawn), ""]
    if "fits" in found:
        limit = found["fits"][0]["max_time"]
        parts += [
            f"Fits of the Feynman laws, at most {limit:.0f} s each on two cores, compiled before:",
            "",
            "| network | the law first | ELBO within 1 nat of the evidence | within 3 | "
            "effective draws at least a tenth | seconds, median |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for network in ("pretrained", "plain"):
            rows = [row for row in found["fits"] if row["network"] == network]
            count = len(rows)
            parts.append(
                f"| {network} | {sum(row['is_first'] for row in rows)} of {count} | "
                f"{_num_within(rows, 1.0)} | {_num_within(rows, 3.0)} | "
                f"{sum(row['effective_share'] >= 0.1 for row in rows)} | "
                f"{statistics.median(row['seconds'] for row in rows):.1f} |"
            )
    return "\n".join(parts)


def _num_within(rows: list[dict[str, Any]], nats: float) -> int:
    return sum(row["gap"] is not None and row["gap"] < nats for row in rows)


def _drawn_line(name: str, rows: list[dict[str, Any]]) -> str:
    first, good = sum(r["is_first"] for r in rows), sum(_is_as_good(r) for r in rows)
    likelier = sum(_is_likelier(row) for row in rows)
    return f"| {name} | {len(rows)} | {first} | {likelier} | {good} |"


def _is_likelier(row: dict[str, Any]) -> bool:
    """Another function is, and was drawn."""
    law = row["log_joint_of_law"]
    return bool(not row["is_first"] and law is not None and row["log_joint_of_first"] > law)


def _is_as_good(row: dict[str, Any]) -> bool:
    law = row["log_joint_of_law"]
    return bool(row["is_first"] or (law is not None and row["log_joint_of_first"] > law - _AS_GOOD))


def show() -> None:
    found = json.loads(FOUND.read_text())
    if "trace" in found:
        draw_figure(found["trace"])
        traced = {"trace": trace_table(found["trace"])}
        PAGE.write_text(with_tables(PAGE.read_text(), traced))
    begin, end = "<!-- network -->", "<!-- end of network -->"
    text = PAGE.read_text()
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n{tables(found)}\n{end}{after}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["draws", "again", "fits", "trace", "show"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--laws", type=int, default=200, help="drawn from the prior")
    parser.add_argument("--processes", type=int, default=2, help="for counting again")
    parser.add_argument("--max-time", type=float, default=15.0)
    options = parser.parse_args()
    if options.what != "show":
        found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
        if options.what == "draws":
            found["draws"] = {**found.get("draws", {}), **measure_draws(options.data, options.laws)}
        elif options.what == "again":
            found["draws"]["drawn"] = count_again(found["draws"]["drawn"], options.processes)
        elif options.what == "trace":
            found["trace"] = measure_traces(options.data)
        else:
            found["fits"] = measure_fits(options.data, options.max_time)
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
    show()


if __name__ == "__main__":
    main()

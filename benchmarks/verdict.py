"""The verdict: how often good fits are flagged, faults noticed, and missed laws called ok.

    python -m benchmarks.verdict run [--data DIR] [--only KIND] [--processes N]
    python -m benchmarks.verdict show

`run` makes fits and puts what was measured into docs/verdicts.json, one row a fit; `show` writes
the tables in docs/verdicts.md of it, and a sentence in docs/trust.md and the README. Good fits are
of data drawn from a law in the language of the fit, with its noise model; planted ones have one
fault. With a folder (--data, or DVISR_DATA) that holds `feynman10` (ten rows each of laws of the
Feynman Symbolic Regression Database with 1 % noise, as the public AI-Descartes repository has them,
and laws.csv with `name,formula`), each of those laws is fitted with default settings, and its own
log joint compared with what was listed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import multiprocessing
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.feynman import feynman_cases, is_law, law_log_joint, law_values

RESULTS = Path("docs/verdicts.json")
PAGE = Path("docs/verdicts.md")
IN_SHORT = (Path("docs/trust.md"), Path("README.md"))
GOOD = "good"
_ROWS = (12, 20, 40, 100)
_NOISE = (0.02, 0.05, 0.15)  # of the spread of the law
_OF_EACH_FAULT = 25
_OF_EACH_GOOD = 20
_MISSED = 1.0  # nats by which a law is likelier than all that is listed, if it was missed


@dataclasses.dataclass(frozen=True)
class Law:
    """A law with a space that holds it and has few enough trees to be listed."""

    name: str
    columns: int
    values: Callable[[np.ndarray], np.ndarray]
    operators: tuple[str, ...]
    max_tokens: int
    max_constants: int
    low: float = 0.5
    high: float = 5.0


LAWS = (
    Law("line", 1, lambda X: 2.3 * X[:, 0] + 1.1, ("+", "*"), 7, 2),
    Law("parabola", 1, lambda X: 0.7 * X[:, 0] ** 2 + 1.5, ("+", "*"), 7, 2),
    Law("decay", 1, lambda X: 3.0 * np.exp(-0.6 * X[:, 0]), ("*", "exp", "+"), 6, 2),
    Law("hyperbola", 1, lambda X: 2.0 / (X[:, 0] + 0.7), ("/", "+"), 7, 2),
    Law("wave", 1, lambda X: 2.0 * np.sin(1.7 * X[:, 0]), ("*", "sin"), 6, 2),
    Law("root", 1, lambda X: 1.8 * np.sqrt(X[:, 0] + 1.3), ("*", "+", "sqrt"), 6, 2),
    Law("product", 2, lambda X: 1.4 * X[:, 0] * X[:, 1], ("*", "+"), 5, 2),
    Law("ratio", 2, lambda X: 2.5 * X[:, 0] / X[:, 1], ("*", "/"), 5, 2),
    Law("sum", 2, lambda X: 1.2 * X[:, 0] + X[:, 1] ** 2, ("*", "+"), 7, 1),
    Law("logarithm", 1, lambda X: 1.5 * np.log(X[:, 0]) + 4.0, ("*", "+", "log"), 6, 2),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """One fit to be made."""

    kind: str  # good, or the fault
    law: str
    seed: int


@dataclasses.dataclass
class Table:
    """What a fit is given."""

    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any]
    y_err: np.ndarray | None = None


def _clean(law: Law, rng: np.random.Generator, rows: int | None = None) -> tuple[Any, ...]:
    n = int(rng.choice(_ROWS)) if rows is None else rows
    X = rng.uniform(law.low, law.high, (n, law.columns))
    values = law.values(X)
    sigma = float(rng.choice(_NOISE)) * float(values.std())
    options = {
        "operators": law.operators,
        "max_tokens": law.max_tokens,
        "max_constants": law.max_constants,
    }
    return X, values, sigma, options


def good(law: Law, rng: np.random.Generator) -> Table:
    """Noise as the model has it: Gaussian, given or inferred, by row, Student, or relative."""
    X, values, sigma, options = _clean(law, rng)
    kind = str(rng.choice(["infer", "infer", "infer", "given", "bars", "student", "relative"]))
    n = len(values)
    if kind == "relative" and (values > 0.0).all():
        y = values * np.exp(0.1 * rng.standard_normal(n))
        return Table(X, y, {**options, "noise": "relative"})
    if kind == "student":
        return Table(X, values + sigma * rng.standard_t(4, n), {**options, "noise": "student"})
    if kind == "bars":
        bars = sigma * np.exp(0.7 * rng.standard_normal(n))
        y = values + bars * rng.standard_normal(n)
        return Table(X, y, {**options, "noise": 1.0}, bars)
    y = values + sigma * rng.standard_normal(n)
    return Table(X, y, {**options, "noise": sigma if kind == "given" else "infer"})


def outliers(law: Law, rng: np.random.Generator) -> Table:
    """A tenth of the rows thrown off by 10 to 30 standard deviations."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([20, 40, 100])))
    y = values + sigma * rng.standard_normal(len(values))
    count = max(2, len(values) // 10)
    rows = rng.choice(len(values), count, replace=False)
    y[rows] += sigma * rng.uniform(10.0, 30.0, count) * rng.choice([-1.0, 1.0], count)
    return Table(X, y, options)


def heavy_tails(law: Law, rng: np.random.Generator) -> Table:
    """Cauchy noise."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([30, 60, 100])))
    return Table(X, values + 0.5 * sigma * rng.standard_cauchy(len(values)), options)


def growing_spread(law: Law, rng: np.random.Generator) -> Table:
    """Noise that grows tenfold from the smallest prediction to the largest."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([40, 60, 100])))
    rank = np.argsort(np.argsort(values)) / (len(values) - 1.0)
    return Table(
        X, values + sigma * 10.0 ** (rank - 0.7) * rng.standard_normal(len(values)), options
    )


def copies(law: Law, rng: np.random.Generator) -> Table:
    """Eight rows, each copied ten times."""
    X, values, sigma, options = _clean(law, rng, 8)
    y = values + sigma * rng.standard_normal(8)
    return Table(np.repeat(X, 10, axis=0), np.repeat(y, 10), options)


def noise_too_small(law: Law, rng: np.random.Generator) -> Table:
    """The noise is given as a third of what it is."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([12, 20, 40, 100])))
    y = values + sigma * rng.standard_normal(len(values))
    return Table(X, y, {**options, "noise": sigma / 3.0})


def noise_too_large(law: Law, rng: np.random.Generator) -> Table:
    """The noise is given as three times what it is."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([12, 20, 40, 100])))
    y = values + sigma * rng.standard_normal(len(values))
    return Table(X, y, {**options, "noise": 3.0 * sigma})


def missing_term(law: Law, rng: np.random.Generator) -> Table:
    """A wave of three times the noise along the first column, which the operators can't make."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([40, 100])))
    wave = 3.0 * sigma * np.sin(2.0 * math.pi * 1.5 * (X[:, 0] - law.low) / (law.high - law.low))
    y = values + wave + sigma * rng.standard_normal(len(values))
    plain = tuple(name for name in options["operators"] if name != "sin")
    plain = plain if len(plain) > 1 else ("*", "+")
    return Table(X, y, {**options, "operators": plain})


def drift(law: Law, rng: np.random.Generator) -> Table:
    """The target drifts by five standard deviations from the first row to the last."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([20, 40, 100])))
    slope = np.linspace(-2.5, 2.5, len(values)) * sigma
    return Table(X, values + slope + sigma * rng.standard_normal(len(values)), options)


def lasting_noise(law: Law, rng: np.random.Generator) -> Table:
    """Noise that lasts from row to row: an autoregression of 0.9."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([40, 100])))
    noise = np.empty(len(values))
    noise[0] = rng.standard_normal()
    for row in range(1, len(values)):
        noise[row] = 0.9 * noise[row - 1] + math.sqrt(1 - 0.81) * rng.standard_normal()
    return Table(X, values + sigma * noise, options)


def few_rows(law: Law, rng: np.random.Generator) -> Table:
    """Three or four rows, for formulas of up to two constants and the noise."""
    X, values, sigma, options = _clean(law, rng, int(rng.choice([3, 4])))
    return Table(X, values + sigma * rng.standard_normal(len(values)), options)


def relative_as_gaussian(law: Law, rng: np.random.Generator) -> Table:
    """Noise in proportion to a target over two decades, fitted as Gaussian: y = c x^3."""
    n = int(rng.choice([40, 60, 100]))
    X = np.exp(rng.uniform(0.0, math.log(6.0), (n, 1)))
    y = 1.7 * X[:, 0] ** 3 * np.exp(0.15 * rng.standard_normal(n))
    return Table(X, y, {"operators": ("*", "+"), "max_tokens": 7, "max_constants": 1})


def short_search(law: Law, rng: np.random.Generator) -> Table:
    """Three steps of a search with sixteen samples: a law of eleven tokens is missed."""
    X = rng.uniform(0.5, 3.0, (40, 3))
    clean = np.sqrt(X[:, 0] ** 2 + X[:, 1] ** 2) * np.sin(X[:, 2]) + X[:, 1] / X[:, 0]
    y = clean + 0.02 * clean.std() * rng.standard_normal(40)
    return Table(X, y, {"num_steps": 3, "num_samples": 16})


FAULTS: dict[str, Callable[[Law, np.random.Generator], Table]] = {
    "outliers": outliers,
    "heavy tails": heavy_tails,
    "growing spread": growing_spread,
    "relative noise fitted as Gaussian": relative_as_gaussian,
    "copied rows": copies,
    "noise given too small": noise_too_small,
    "noise given too large": noise_too_large,
    "missing term": missing_term,
    "drift along the rows": drift,
    "lasting noise": lasting_noise,
    "few rows": few_rows,
    "search too short": short_search,
}


def cases() -> Iterator[Case]:
    for law in LAWS:
        for seed in range(_OF_EACH_GOOD):
            yield Case(GOOD, law.name, seed)
    for kind in FAULTS:
        for seed in range(_OF_EACH_FAULT):
            yield Case(kind, LAWS[seed % len(LAWS)].name, seed)


def measure(case: Case) -> dict[str, Any]:
    from dvisr import DVISRRegressor

    law = next(law for law in LAWS if law.name == case.law)
    number = [GOOD, *FAULTS].index(case.kind)
    rng = np.random.default_rng([number, LAWS.index(law), case.seed])
    table = (good if case.kind == GOOD else FAULTS[case.kind])(law, rng)
    began = time.perf_counter()
    model = DVISRRegressor(random_state=case.seed, n_jobs=1, **table.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.X, table.y, y_err=table.y_err)
    return {
        "kind": case.kind,
        "law": case.law,
        "seed": case.seed,
        "rows": len(table.y),
        "noise": str(table.options.get("noise", "infer")),
        "seconds": round(time.perf_counter() - began, 2),
        **_judged(model),
    }


def _judged(model: Any) -> dict[str, Any]:
    return {
        "verdict": model.verdict_.word,
        "flagged": [check.name for check in model.verdict_.checks if check.grade],
        "first": str(model.functions_["expression"].iloc[0]),
        "r2": model.diagnostics_["r2"],
    }


def measure_feynman(case: tuple[Path, str]) -> dict[str, Any]:
    """A fit with default settings, and the law itself under the same priors."""
    from dvisr import DVISRRegressor
    from dvisr.data import dataset_from_table, read_table

    path, formula = case
    data = dataset_from_table(read_table(path), "target")
    model = DVISRRegressor(random_state=0)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_table(data, None)
    seconds = time.perf_counter() - began
    first = model._posterior.functions[0].expression
    best = float(model.functions_["log_joint"].iloc[0])
    law = law_log_joint(model._problem, formula)
    is_first = is_law(model._problem, first.tokens, formula)
    return {
        "kind": "feynman",
        "law": path.stem,
        "seed": 0,
        "rows": len(data.y),
        "noise": "infer",
        "seconds": round(seconds, 2),
        "is_first": is_first,
        "log_joint_of_law": law,
        "log_joint_of_first": best,
        "is_missed": law is not None and not is_first and law > best + _MISSED,
        "steps": model.n_iter_,
        **_covered(model, data, formula),
        **_judged(model),
    }


def _covered(model: Any, data: Any, formula: str) -> dict[str, float]:
    """The share of the law's clean values that lie in 90 % intervals: of the curve, and of a new
    observation. Rounding aside: a law without constants has a curve without width."""
    clean = law_values(formula, data.feature_names, data.X)
    rounding = 1e-9 * float(np.abs(clean).max())
    found = {}
    for name, kind in (("curve_covers", "function"), ("observation_covers", "observation")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an array has no names of columns
            low, high = model.predict_interval(data.X, 0.9, kind=kind).T
        inside = (clean >= low - rounding) & (clean <= high + rounding)
        found[name] = float(inside.mean())
    return found


# Tables ----------------------------------------------------------------------------------------


def tables(rows: list[dict[str, Any]]) -> str:
    planted = [row for row in rows if row["kind"] not in (GOOD, "feynman")]
    fine = [row for row in rows if row["kind"] == GOOD]
    parts = [
        "| fits | number | flagged | caution | do-not-trust |",
        "| --- | --- | --- | --- | --- |",
    ]
    parts.append(_line("good", fine))
    for kind in FAULTS:
        own = [row for row in planted if row["kind"] == kind]
        if own:
            parts.append(_line(kind, own))
    named: dict[str, int] = {}
    for row in fine:
        for name in row["flagged"]:
            named[name] = named.get(name, 0) + 1
    listed = ", ".join(f"{name} {count}" for name, count in sorted(named.items()))
    parts += ["", f"What flagged good fits: {listed or 'nothing'}."]
    feynman = [row for row in rows if row["kind"] == "feynman"]
    if feynman:
        parts += ["", *_feynman(feynman)]
    return "\n".join(parts)


def in_short(rows: list[dict[str, Any]]) -> str:
    fine = [row["verdict"] for row in rows if row["kind"] == GOOD]
    planted = [row["verdict"] for row in rows if row["kind"] in FAULTS]
    noticed = sum(word != "ok" for word in planted)
    counts = {word: fine.count(word) for word in ("ok", "caution", "do-not-trust")}
    return (
        f"Of {len(fine)} good fits in small languages, all trees weighed, the verdict is ok for "
        f"{counts['ok']}, caution for {counts['caution']} and do-not-trust for "
        f"{counts['do-not-trust']}. Of {len(planted)} with a planted fault ({len(FAULTS)} kinds: "
        f"outliers, a missing term, a search that was too short, ...) it is not ok for {noticed}."
    )


def with_short(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with the sentence between its marks."""
    marked = re.compile(r"(<!-- verdicts: in short -->\n).*?(<!-- end of verdicts -->)", re.DOTALL)
    return marked.sub(lambda m: m.group(1) + in_short(rows) + "\n" + m.group(2), page)


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    words = [row["verdict"] for row in rows]
    flagged = sum(word != "ok" for word in words)
    return (
        f"| {name} | {len(rows)} | {flagged / len(rows):.0%} | {words.count('caution')} | "
        f"{words.count('do-not-trust')} |"
    )


def _feynman(rows: list[dict[str, Any]]) -> list[str]:
    inside = [row for row in rows if row["log_joint_of_law"] is not None]
    parts = [
        "| laws of ten rows | number | ok | caution | do-not-trust |",
        "| --- | --- | --- | --- | --- |",
    ]
    groups = {
        "the law is first": [row for row in inside if row["is_first"]],
        "another function is first, and as likely or likelier": [
            row for row in inside if not row["is_first"] and not row["is_missed"]
        ],
        "a likelier law was missed": [row for row in inside if row["is_missed"]],
        "the law is larger than the fit's formulas": [
            row for row in rows if row["log_joint_of_law"] is None
        ],
    }
    for name, own in groups.items():
        words = [row["verdict"] for row in own]
        counts = " | ".join(str(words.count(w)) for w in ("ok", "caution", "do-not-trust"))
        parts.append(f"| {name} | {len(own)} | {counts} |")
    if not all("steps" in row for row in rows):  # seconds of several fits side by side
        return parts
    seconds = [row["seconds"] for row in rows]
    all_first = sum(row["is_first"] for row in rows)
    parts += [
        "",
        f"The law is first in {all_first} of {len(rows)}, those larger than the fit's formulas "
        f"included, which may come as others with the same values. A fit took "
        f"{statistics.median(seconds):.1f} s (median; the longest {max(seconds):.0f} s), one after "
        f"the other in one process on all cores.",
    ]
    return parts


def show() -> None:
    rows = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    marked = re.compile(r"(<!-- verdicts -->\n).*?(\n<!-- end of verdicts -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda m: m.group(1) + tables(rows) + m.group(2), page))
    for path in IN_SHORT:
        path.write_text(with_short(path.read_text(), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("--data", default=os.environ.get("DVISR_DATA"))
    parser.add_argument("--only", help="one kind: good, feynman or a fault")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    if asked.what == "show":
        show()
        return
    chosen = [case for case in cases() if asked.only in (None, case.kind)]
    of_data: list[tuple[Path, str]] = []
    if asked.only in (None, "feynman"):
        if asked.data and (Path(asked.data) / "feynman10" / "laws.csv").is_file():
            of_data = feynman_cases(Path(asked.data) / "feynman10")
        else:
            print("no --data with feynman10: those laws are left out", file=sys.stderr)
    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    done = {case.kind for case in chosen} | ({"feynman"} if of_data else set())
    rows = [row for row in kept if row["kind"] not in done]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with context.Pool(asked.processes) as pool:
        for found in pool.imap_unordered(measure, chosen):
            rows.append(found)
            print(json.dumps(found), flush=True)
    for case in of_data:  # one after the other, on all cores
        rows.append(measure_feynman(case))
        print(json.dumps(rows[-1]), flush=True)
    order = [GOOD, *FAULTS, "feynman"]
    rows.sort(key=lambda row: (order.index(row["kind"]), row["law"], row["seed"]))
    text = ",\n".join(json.dumps(row) for row in rows)
    RESULTS.write_text(f"[\n{text}\n]\n")
    print(tables(rows))


if __name__ == "__main__":
    main()

"""The moves of a search: what each takes, what share of the posterior each is the first to visit in
a second, and what a search of as many seconds finds without it.

    python -m benchmarks.moves run --data FOLDER [--seconds 5] [--processes 2] [--missing]
    python -m benchmarks.moves powers --data FOLDER    products of powers, which came later
    python -m benchmarks.moves inside --data FOLDER    functions with a constant inside, which came
                                                       last, on laws that have some
    python -m benchmarks.moves show

`FOLDER` holds `feynman10`: laws of the Feynman Symbolic Regression Database with ten noisy rows
each. The other cases are the seven laws of docs/fits.md, the formulas without noise of
`benchmarks.noiseless`; for what came last, laws with constants inside. A search ends after so
many seconds; nothing is weighed or taught after it. Programs are compiled before. Each process has
one of the cores, so that all searches of a run have the same; of one core the start alone takes two
seconds and more. What was measured goes to docs/moves.json as it comes (`--missing` goes on with a
run that was broken off), and `show` makes tables of docs/speed.md of it. The file also has what was
found of kinds of moves that were dropped because of it, by the search that still had them, and of
kinds that were added since.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import noiseless
from benchmarks.feynman import feynman_cases, is_law
from benchmarks.network import problem_of
from benchmarks.pages import with_tables
from benchmarks.watched import FUNCTIONS, INNER, POWERS, PRIOR, WITHOUT, Watched

DOCS = Path(__file__).parent.parent / "docs"
FOUND, PAGE = DOCS / "moves.json", DOCS / "speed.md"
_LAWS, _SEVEN, _NOISELESS = "laws of ten rows", "laws of docs/fits.md", "formulas without noise"
_INSIDE = "laws with constants inside"
# By what is measured: its place in the file, and the kinds of move that are left out in turn.
ADDED = {"powers": ("added", (POWERS,)), "inside": ("inside", (INNER,))}
# As they were typed when such functions began to be looked for: 40 rows, noise of a hundredth.
INSIDE: dict[str, Callable[..., Any]] = {
    "2.5 exp(-0.7 a) + 1.3 b": lambda a, b: 2.5 * np.exp(-0.7 * a) + 1.3 * b,
    "3 sin(1.7 a) + 0.5 a": lambda a: 3.0 * np.sin(1.7 * a) + 0.5 * a,
    "5 / (1 + exp(-1.8 (a - 3)))": lambda a: 5.0 / (1.0 + np.exp(-1.8 * (a - 3.0))),
    "4.2 a / (1.7 + a)": lambda a: 4.2 * a / (1.7 + a),
    "3 exp(-0.4 a) cos(2.3 a)": lambda a: 3.0 * np.exp(-0.4 * a) * np.cos(2.3 * a),
    "2 exp(-1.3 (a - 2.4)^2)": lambda a: 2.0 * np.exp(-1.3 * (a - 2.4) ** 2),
    "3 exp(-2.1 a) + 1.5 exp(-0.3 a)": lambda a: 3.0 * np.exp(-2.1 * a) + 1.5 * np.exp(-0.3 * a),
    "1.4 sin(1.5 a) cos(0.8 b)": lambda a, b: 1.4 * np.sin(1.5 * a) * np.cos(0.8 * b),
    "1.4 sin(1.5 a) + 0.9 cos(2.2 b)": lambda a, b: 1.4 * np.sin(1.5 * a) + 0.9 * np.cos(2.2 * b),
    "3 a exp(-0.6 b) / (1.2 + a)": lambda a, b: 3.0 * a * np.exp(-0.6 * b) / (1.2 + a),
    "2 a sqrt(1.7 + b^2)": lambda a, b: 2.0 * a * np.sqrt(1.7 + b**2),
    "2 log(1.3 + a) - 0.4 a b": lambda a, b: 2.0 * np.log(1.3 + a) - 0.4 * a * b,
    "7 exp(-2.2 / a) b^1.3": lambda a, b: 7.0 * np.exp(-2.2 / a) * b**1.3,
    "1.5 sin(2.4 a + 0.7) + 3": lambda a: 1.5 * np.sin(2.4 * a + 0.7) + 3.0,
}
_INSIDE_NOISE = 0.01  # of the spread; as far as a function may be from the law, by root mean square


@dataclasses.dataclass(frozen=True)
class Case:
    """A table whose formula is known.

    Parameters
    ----------
    group, name : str
    problem : Problem
    is_found : callable
        Of a search's tokens and the engine: whether they are the formula.
    """

    group: str
    name: str
    problem: Any
    is_found: Callable[[tuple[int, ...], Any], bool]


def names(folder: Path, kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    """Of the cases that these kinds of move are tried on: group and name."""
    from benchmarks.fits import LAWS

    if INNER in kinds:
        return [(_INSIDE, name) for name in INSIDE]
    found = [(_LAWS, path.stem) for path, _ in feynman_cases(folder / "feynman10")]
    found += [(_SEVEN, name) for name in LAWS]
    return found + [(_NOISELESS, formula.name) for formula in noiseless.FORMULAS]


def case_of(folder: Path, group: str, name: str) -> Case:
    from benchmarks import fits
    from dvisr.data import dataset_from_table, read_table

    if group == _NOISELESS:
        formula = next(one for one in noiseless.FORMULAS if one.name == name)
        return Case(group, name, noiseless.problem_of(formula), _recovers(formula))
    if group == _INSIDE:
        return _inside_case(name)
    if group == _SEVEN:
        text = fits.LAWS[name][3]
        problem = fits.problem_of(name, seed=0)
    else:
        path, text = next(
            (path, text) for path, text in feynman_cases(folder / "feynman10") if path.stem == name
        )
        problem = problem_of(dataset_from_table(read_table(path), "target"))
    return Case(group, name, problem, lambda tokens, engine: is_law(problem, tokens, text))


def _inside_case(name: str) -> Case:
    from dvisr.types import Dataset

    law, number = INSIDE[name], list(INSIDE).index(name)
    columns = ["a", "b"][: law.__code__.co_argcount]
    rng = np.random.default_rng([number, 0])
    X = rng.uniform(0.3, 5.0, (40, len(columns)))
    y = law(*X.T)
    spread = float(np.std(y))
    data = Dataset.create(X, y + _INSIDE_NOISE * spread * rng.standard_normal(40), None, columns)
    new = np.random.default_rng(99).uniform(0.3, 5.0, (1000, len(columns)))

    def is_near(predict: Callable[[np.ndarray], np.ndarray]) -> bool:
        gaps = predict(new) - law(*new.T)
        return bool(np.sqrt((gaps**2).mean()) < _INSIDE_NOISE * spread)

    return Case(_INSIDE, name, problem_of(data), _checked(is_near))


def _recovers(formula: noiseless.Formula) -> Callable[[tuple[int, ...], Any], bool]:
    return _checked(lambda predict: noiseless.is_recovered(formula, predict))


def _checked(
    is_right: Callable[[Callable[[np.ndarray], np.ndarray]], bool],
) -> Callable[[tuple[int, ...], Any], bool]:
    """Of what a tree predicts, its constants at their likeliest values."""

    def check(tokens: tuple[int, ...], engine: Any) -> bool:
        from dvisr.evaluation import evaluate
        from dvisr.expression import Expression

        constants = engine.polish(np.array(tokens, dtype=np.int8))

        def predict(X: np.ndarray) -> np.ndarray:
            expression = Expression(engine.library, tokens)
            return np.asarray(
                evaluate(expression, X, list(constants)[: expression.num_constants])[0]
            )

        return is_right(predict)

    return check


def measured(
    folder: Path, group: str, name: str, seconds: float, kinds: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The whole search, and one without each of these kinds of move."""
    rows = []
    case = case_of(folder, group, name)
    Watched(case.problem, None).run(seconds)  # so that what is compiled and listed once is there
    for without in (None, *kinds):
        watched = Watched(case.problem, without)
        tokens = watched.run(seconds)
        rows.append(
            {
                "group": group,
                "name": name,
                "without": without,
                "seconds": seconds,
                "is_found": case.is_found(tokens, watched.search.engine),
                **watched.found(),
            }
        )
        vars(watched.search).clear()  # hundreds of megabytes that know of each other
        gc.collect()
    return rows


def measure(
    folder: Path, seconds: float, processes: int, done: set[str], kinds: tuple[str, ...]
) -> Iterator[list[dict[str, Any]]]:
    spawned = multiprocessing.get_context("spawn")
    cores, own = spawned.SimpleQueue(), sorted(os.sched_getaffinity(0))
    for number in range(processes):
        cores.put(own[number % len(own)])
    with ProcessPoolExecutor(processes, spawned, _keep_to_a_core, (cores,)) as pool:
        cases = names(folder, kinds)
        left = [(group, name) for group, name in cases if name not in done]
        for work in [pool.submit(measured, folder, *one, seconds, kinds) for one in left]:
            yield work.result()


def _keep_to_a_core(cores: Any) -> None:
    os.sched_setaffinity(0, {cores.get()})


def table(rows: list[dict[str, Any]]) -> str:
    """Of one group."""
    whole = {row["name"]: row for row in rows if row["without"] is None}
    firsts = sum(row["is_found"] for row in whole.values())
    lines = [
        f"{rows[0]['group'].capitalize()}, {len(whole)} of them, {rows[0]['seconds']:g} s of "
        f"search each. With all moves the formula comes first for {firsts}.",
        "",
        "| move | seconds | of the posterior, visited by it first | in a second | it was the first "
        "to visit the likeliest | without it the formula comes first for | and the likeliest is "
        "worse, better by more than 1 nat for |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    measured = list(dict.fromkeys(row["without"] for row in rows if row["without"] is not None))
    for kind in (*measured[:1], FUNCTIONS, *measured[1:], PRIOR):
        own = {row["name"]: row for row in rows if row["without"] == kind}
        lines.append(f"| {kind} | {_of_the_whole(kind, whole)} | {_without(own, whole)} |")
    return "\n".join(lines) + "\n"


def _of_the_whole(kind: str, whole: dict[str, dict[str, Any]]) -> str:
    """Of a kind of move among all: seconds, share of the posterior, share in a second, and how
    often it was the first to visit the likeliest."""
    seconds = float(np.mean([row["spent"].get(kind, 0.0) for row in whole.values()]))
    if kind == FUNCTIONS:
        return f"{seconds:.2f} | | | "
    share = float(np.mean([row["shares"].get(kind, 0.0) for row in whole.values()]))
    rate = share / seconds if seconds else 0.0
    first = sum(row["found_by"] == kind for row in whole.values())
    return f"{seconds:.2f} | {100 * share:.1f} % | {100 * rate:.1f} % | {first}"


def _without(own: dict[str, dict[str, Any]], whole: dict[str, dict[str, Any]]) -> str:
    """Of searches without a kind of move: how often the formula comes first, and how often the
    likeliest is worse, and better, than with all."""
    if not own:
        return " | "
    gains = np.array([row["log_joint"] - whole[name]["log_joint"] for name, row in own.items()])
    worse, better = (gains < -1.0).sum(), (gains > 1.0).sum()
    return f"{sum(row['is_found'] for row in own.values())} | {worse}, {better}"


def dropped_table(rows: list[dict[str, Any]]) -> str:
    """Of kinds of moves that the search no longer has: all cases in one line."""
    whole = {row["name"]: row for row in rows if row["without"] is None}
    lines = [
        "| move that was dropped | cases | of the posterior, visited by it first | it was the "
        "first to visit the likeliest | the formula comes first for, with it | without it | and "
        "the likeliest is worse, better by more than 1 nat for |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind in dict.fromkeys(row["without"] for row in rows if row["without"] is not None):
        own = {row["name"]: row for row in rows if row["without"] == kind}
        share = float(np.mean([row["shares"].get(kind, 0.0) for row in whole.values()]))
        first = sum(row["found_by"] == kind for row in whole.values())
        found = sum(row["is_found"] for row in whole.values())
        lines.append(
            f"| {kind} | {len(own)} | {100 * share:.1f} % | {first} | {found} | "
            f"{_without(own, whole)} |"
        )
    return "\n".join(lines) + "\n"


def added_table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Of the kinds of move that were added later: for each a line for each group of cases."""
    lines = [
        "| with all moves, and without one kind | cases | seconds | of the posterior, visited by "
        "it first | in a second | it was the first to visit the likeliest | the formula comes "
        "first for, with it | without it | and the likeliest is worse, better by more than 1 nat "
        "for |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    of_kind = [(kind, found.get(place, [])) for place, (kind,) in ADDED.values()]
    groups = [(k, rows, g) for k, rows in of_kind for g in dict.fromkeys(r["group"] for r in rows)]
    for kind, rows, group in groups:
        own = [row for row in rows if row["group"] == group]
        whole = {row["name"]: row for row in own if row["without"] is None}
        others = {row["name"]: row for row in own if row["without"] == kind}
        firsts = sum(row["is_found"] for row in whole.values())
        lines.append(
            f"| {kind} | {group}, {len(whole)} of them | {_of_the_whole(kind, whole)} | {firsts} | "
            f"{_without(others, whole)} |"
        )
    return "\n".join(lines) + "\n"


def tables(found: dict[str, list[dict[str, Any]]]) -> str:
    rows = found["searches"]
    groups = dict.fromkeys(row["group"] for row in rows)
    made = [table([row for row in rows if row["group"] == group]) for group in groups]
    return "\n".join([*made, added_table(found), dropped_table(found["dropped"])])


def _write(found: dict[str, list[dict[str, Any]]]) -> None:
    """A line a search."""
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in found.items()
    ]
    FOUND.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def show() -> None:
    made = tables(json.loads(FOUND.read_text()))
    PAGE.write_text(with_tables(PAGE.read_text(), {"moves": made}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", *ADDED, "show"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--missing", action="store_true", help="only what was not measured yet")
    asked = parser.parse_args()
    if asked.what != "show":
        found: dict[str, list[Any]] = {"searches": [], "added": [], "inside": [], "dropped": []}
        found |= json.loads(FOUND.read_text()) if FOUND.exists() else {}
        others = tuple(kind for kind in WITHOUT if kind not in (POWERS, INNER))
        place, kinds = ADDED.get(asked.what, ("searches", others))
        found[place] = found[place] if asked.missing else []
        done = {row["name"] for row in found[place]}
        for made in measure(asked.data, asked.seconds, asked.processes, done, kinds):
            found[place] += made
            print(f"{made[0]['group']}: {made[0]['name']}", flush=True)
            _write(found)
    show()


if __name__ == "__main__":
    main()

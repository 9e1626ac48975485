"""The moves of a search: what each takes, what each is the first to find, and what a search of as
many seconds finds without it.

    python -m benchmarks.moves run --data FOLDER [--seconds 5] [--processes 2] [--missing]
    python -m benchmarks.moves show

`FOLDER` holds `feynman10`: laws of the Feynman Symbolic Regression Database with ten noisy rows
each. The other cases are the seven laws of docs/fits.md and the formulas without noise of
`benchmarks.noiseless`. A search ends after so many seconds; nothing is weighed or taught after it.
Programs are compiled before. Each process has one of the cores, so that all searches of a run have
the same; of one core the start alone takes two seconds and more. What was measured goes to
docs/moves.json as it comes (`--missing` goes on with a run that was broken off), and `show` prints
tables of it.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import noiseless
from benchmarks.feynman import feynman_cases, is_law
from benchmarks.network import BATCH, problem_of
from dvisr.fitting.limits import Limit
from dvisr.search.table import OutOfTime

DOCS = Path(__file__).parent.parent / "docs"
FOUND = DOCS / "moves.json"
_LAWS, _SEVEN, _NOISELESS = "laws of ten rows", "laws of docs/fits.md", "formulas without noise"
_TIMES_AS_LONG = {_LAWS: 1.0, _SEVEN: 1.0, _NOISELESS: 1.5}  # larger formulas take longer

LISTED, NETWORK, PRIOR = "likeliest trees before the data", "the network's draws", "prior's draws"
CONTEXTS, PAIRS = "likely contexts filled", "pairs of functions"
NEIGHBOURS, HOLES = "neighbours", "contexts of good trees filled"
SWEEPS, REFINED = "all small changes of good trees", "constants replaced by subtrees"
# By kind of move: the settings without it. The prior's draws cost next to nothing, and start it.
WITHOUT: dict[str, dict[str, Any]] = {
    LISTED: {"likeliest_trees": 10},
    NETWORK: {},  # a search that was not prepared has none
    CONTEXTS: {"matched_at_start": 0},
    PAIRS: {"paired_at_start": 0},
    NEIGHBOURS: {"neighbours": 0},
    HOLES: {"matched_trees": 0},
    SWEEPS: {"swept": 0},
    REFINED: {"refined": 0},
}


class Watched:
    """A search of which is known what kind of move was the first to visit a tree, and how long
    each kind took."""

    def __init__(self, problem: Any, without: str | None) -> None:
        from dvisr.fitting.search import Search
        from dvisr.settings import FitSettings

        own = FitSettings()
        changed = dataclasses.replace(own.search, **WITHOUT.get(without or "", {}))
        settings = dataclasses.replace(own, search=changed)
        self.search = Search(problem, settings, num_samples=BATCH, seed=0, num_threads=1)
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self._beside: dict[str, float] = collections.defaultdict(float)  # of another thread
        self.first: list[str] = []  # of each form: the kind that visited it
        self._kinds = [LISTED]
        self._origin: dict[bytes, str] = {}  # of trees that are visited among others
        if without != NETWORK:
            self.search.prepare()
        self._watch()

    def _watch(self) -> None:
        search = self.search
        self._timed(search, "_explore", NEIGHBOURS)
        self._timed(search, "_match", HOLES)
        if search.network is not None:
            self._timed(search.network, "begin", NETWORK)
        through = search._go_through

        def go_through(parents: Any, done: Any, room: int, changes: Any, island: int) -> None:
            kind = SWEEPS if changes == search.sweep.changes else REFINED
            with self._kind(kind):
                through(parents, done, room, changes, island)

        search._go_through = go_through  # type: ignore[method-assign]
        self._marked(search.sampler, "draw", PRIOR)
        search._pairs = self._pairs_of(search)  # type: ignore[method-assign]
        visit = search.visited.visit

        def noting(trees: np.ndarray, *arguments: Any, **options: Any) -> np.ndarray:
            found = visit(trees, *arguments, **options)
            for number in range(len(self.first), search.visited.num_forms):
                kind = self._kinds[-1]
                if kind in (LISTED, NEIGHBOURS):  # pairs and draws are visited among these
                    tree = search.visited.likeliest_tree(number).tobytes()
                    kind = self._origin.get(tree, kind)
                self.first.append(kind)
            return found

        search.visited.visit = noting  # type: ignore[method-assign]

    def _pairs_of(self, search: Any) -> Callable[[], np.ndarray]:
        """Contexts and pairs are worked out beside the rest, one after the other."""
        own, matching = search.settings.search, type(search).matching

        def found() -> np.ndarray:
            from dvisr.search.pairing import Pairing

            began, parts = time.perf_counter(), []
            nothing = np.zeros((0, search.problem.grammar.max_tokens), dtype=np.int8)
            try:
                table = matching.__get__(search)
            except OutOfTime:
                return nothing
            if own.matched_at_start:
                made = table.likeliest(own.matched_at_start, search._is_late)
                self._beside[CONTEXTS] += time.perf_counter() - began
                parts.append(self._remembered(made, CONTEXTS))
            began = time.perf_counter()
            if own.paired_at_start:
                pairing = Pairing(search.problem, table, own.pair_functions)
                threads = search.engine.num_threads
                made = pairing.likeliest(own.paired_at_start, threads, search._is_late)
                self._beside[PAIRS] += time.perf_counter() - began
                parts.append(self._remembered(made, PAIRS))
            return np.concatenate([nothing, *parts])

        return found

    def _remembered(self, trees: np.ndarray, kind: str) -> np.ndarray:
        for tree in trees:
            self._origin.setdefault(tree.tobytes(), kind)
        return trees

    @contextmanager
    def _kind(self, name: str) -> Iterator[None]:
        """While it lasts, what is visited is of that kind; seconds go to the innermost."""
        began, within = time.perf_counter(), sum(self.seconds.values())
        self._kinds.append(name)
        try:
            yield
        finally:
            self._kinds.pop()
            spent = time.perf_counter() - began
            self.seconds[name] += spent - (sum(self.seconds.values()) - within)

    def _timed(self, owner: Any, name: str, kind: str) -> None:
        function = getattr(owner, name)

        def run(*arguments: Any) -> Any:
            with self._kind(kind):
                return function(*arguments)

        setattr(owner, name, run)

    def _marked(self, owner: Any, name: str, kind: str) -> None:
        function = getattr(owner, name)

        def run(*arguments: Any) -> Any:
            with self._kind(kind):
                return self._remembered(function(*arguments), kind)

        setattr(owner, name, run)

    def run(self, seconds: float) -> tuple[int, ...]:
        """The tokens of the likeliest form after so many seconds."""
        limit = Limit()
        limit._search_end = time.perf_counter() + seconds
        self.search.run(1000, limit)
        return tuple(int(t) for t in self.search.visited.form_tree[self.best] if t >= 0)

    def spent(self) -> dict[str, float]:
        """Seconds by kind of move."""
        return {**self.seconds, **self._beside}

    @property
    def best(self) -> int:
        return int(np.argmax(self.search.visited.form_log_joint))


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


def names(folder: Path) -> list[tuple[str, str]]:
    """Of all cases: group and name."""
    from benchmarks.fits import LAWS

    found = [(_LAWS, path.stem) for path, _ in feynman_cases(folder / "feynman10")]
    found += [(_SEVEN, name) for name in LAWS]
    return found + [(_NOISELESS, formula.name) for formula in noiseless.FORMULAS]


def case_of(folder: Path, group: str, name: str) -> Case:
    from benchmarks import fits
    from dvisr.data import dataset_from_table, read_table

    if group == _NOISELESS:
        formula = next(one for one in noiseless.FORMULAS if one.name == name)
        return Case(group, name, noiseless.problem_of(formula), _recovers(formula))
    if group == _SEVEN:
        text = fits.LAWS[name][3]
        problem = fits.problem_of(name, seed=0)
    else:
        path, text = next(
            (path, text) for path, text in feynman_cases(folder / "feynman10") if path.stem == name
        )
        problem = problem_of(dataset_from_table(read_table(path), "target"))
    return Case(group, name, problem, lambda tokens, engine: is_law(problem, tokens, text))


def _recovers(formula: noiseless.Formula) -> Callable[[tuple[int, ...], Any], bool]:
    def check(tokens: tuple[int, ...], engine: Any) -> bool:
        from dvisr.evaluation import evaluate
        from dvisr.expression import Expression

        constants = engine.polish(np.array(tokens, dtype=np.int8))

        def predict(X: np.ndarray) -> np.ndarray:
            expression = Expression(engine.library, tokens)
            return np.asarray(
                evaluate(expression, X, list(constants)[: expression.num_constants])[0]
            )

        return noiseless.is_recovered(formula, predict)

    return check


def measured(folder: Path, group: str, name: str, seconds: float) -> list[dict[str, Any]]:
    """The whole search, and one without each kind of move."""
    rows = []
    case = case_of(folder, group, name)
    seconds *= _TIMES_AS_LONG[group]
    Watched(case.problem, None).run(seconds)  # so that what is compiled and listed once is there
    for without in (None, *WITHOUT):
        watched = Watched(case.problem, without)
        tokens = watched.run(seconds)
        rows.append(
            {
                "group": group,
                "name": name,
                "without": without,
                "seconds": seconds,
                "is_found": case.is_found(tokens, watched.search.engine),
                "log_joint": float(watched.search.visited.form_log_joint[watched.best]),
                "found_by": watched.first[watched.best],
                "spent": {kind: round(spent, 3) for kind, spent in watched.spent().items()},
                "steps": len(watched.search.history),
            }
        )
        vars(watched.search).clear()  # hundreds of megabytes that know of each other
        gc.collect()
    return rows


def measure(
    folder: Path, seconds: float, processes: int, done: set[str]
) -> Iterator[list[dict[str, Any]]]:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawned) as pool:
        left = [(group, name) for group, name in names(folder) if name not in done]
        for work in [pool.submit(measured, folder, *one, seconds) for one in left]:
            yield work.result()


def table(rows: list[dict[str, Any]]) -> str:
    """Of one group."""
    whole = {row["name"]: row for row in rows if row["without"] is None}
    firsts = sum(row["is_found"] for row in whole.values())
    lines = [
        f"{rows[0]['group'].capitalize()}, {len(whole)} of them, {rows[0]['seconds']:g} s of "
        f"search each on one core. With all moves the formula comes first for {firsts}.",
        "",
        "| move | seconds | the likeliest formula was first visited by it | without it: the "
        "formula comes first for | without it: the likeliest is worse by more than 1 nat for |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind in (*WITHOUT, PRIOR):
        own = {row["name"]: row for row in rows if row["without"] == kind}
        spent = np.mean([row["spent"].get(kind, 0.0) for row in whole.values()])
        found = sum(row["found_by"] == kind for row in whole.values())
        shown = "" if kind == LISTED else f"{spent:.1f}"
        if not own:
            lines.append(f"| {kind} | {shown} | {found} | | |")
            continue
        first = sum(row["is_found"] for row in own.values())
        worse = sum(row["log_joint"] < whole[name]["log_joint"] - 1.0 for name, row in own.items())
        lines.append(f"| {kind} | {shown} | {found} | {first} | {worse} |")
    return "\n".join(lines) + "\n"


def tables(rows: list[dict[str, Any]]) -> str:
    groups = dict.fromkeys(row["group"] for row in rows)
    return "\n".join(table([row for row in rows if row["group"] == group]) for group in groups)


def show() -> None:
    print(tables(json.loads(FOUND.read_text())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--missing", action="store_true", help="only what was not measured yet")
    asked = parser.parse_args()
    if asked.what == "run":
        rows = json.loads(FOUND.read_text()) if asked.missing else []
        done = {row["name"] for row in rows}
        for made in measure(asked.data, asked.seconds, asked.processes, done):
            rows += made
            print(f"{made[0]['group']}: {made[0]['name']}", flush=True)
            FOUND.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    show()


if __name__ == "__main__":
    main()

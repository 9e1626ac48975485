"""The moves of a search: what each takes, what each is the first to find, and what a search of as
many seconds finds without it.

    python -m benchmarks.moves run --data FOLDER [--seconds 5]
    python -m benchmarks.moves show

`FOLDER` holds `feynman10`: laws of the Feynman Symbolic Regression Database with ten noisy rows
each. A search ends after so many seconds; nothing is weighed or taught after it. Programs are
compiled before. What was measured goes to docs/moves.json; `show` prints a table of it.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.feynman import feynman_cases, is_law
from benchmarks.network import BATCH, problem_of
from dvisr.fitting.limits import Limit

FOUND = Path(__file__).parent.parent / "docs" / "moves.json"

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
        self.search = Search(problem, settings, num_samples=BATCH, seed=0)
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
            table = matching.__get__(search)
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
            nothing = np.zeros((0, search.problem.grammar.max_tokens), dtype=np.int8)
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


def measure(folder: Path, seconds: float) -> Iterator[dict[str, Any]]:
    from dvisr.data import dataset_from_table, read_table

    compiled: set[int] = set()
    for path, formula in feynman_cases(folder / "feynman10"):
        problem = problem_of(dataset_from_table(read_table(path), "target"))
        if problem.X.shape[1] not in compiled:
            compiled.add(problem.X.shape[1])
            Watched(problem, None).run(seconds)
        for without in (None, *WITHOUT):
            watched = Watched(problem, without)
            tokens = watched.run(seconds)
            yield {
                "law": path.stem,
                "without": without,
                "seconds": seconds,
                "is_first": is_law(problem, tokens, formula),
                "log_joint": float(watched.search.visited.form_log_joint[watched.best]),
                "found_by": watched.first[watched.best],
                "spent": {kind: round(spent, 3) for kind, spent in watched.spent().items()},
                "steps": len(watched.search.history),
            }


def table(rows: list[dict[str, Any]]) -> str:
    whole = {row["law"]: row for row in rows if row["without"] is None}
    count = len(whole)
    firsts = sum(row["is_first"] for row in whole.values())
    lines = [
        f"{count} laws of ten rows, {rows[0]['seconds']:g} s of search each; the law is first in "
        f"{firsts}.",
        "",
        "| move | seconds | the likeliest formula was first visited by it | without it: the law "
        "first | without it: likeliest formula worse by more than 1 nat |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind in (*WITHOUT, PRIOR):
        own = {row["law"]: row for row in rows if row["without"] == kind}
        spent = np.mean([row["spent"].get(kind, 0.0) for row in whole.values()])
        found = sum(row["found_by"] == kind for row in whole.values())
        shown = "" if kind == LISTED else f"{spent:.1f}"
        if not own:
            lines.append(f"| {kind} | {shown} | {found} | | |")
            continue
        first = sum(row["is_first"] for row in own.values())
        worse = sum(row["log_joint"] < whole[law]["log_joint"] - 1.0 for law, row in own.items())
        lines.append(f"| {kind} | {shown} | {found} | {first} | {worse} |")
    return "\n".join(lines) + "\n"


def show() -> None:
    print(table(json.loads(FOUND.read_text())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    if asked.what == "run":
        rows = []
        for row in measure(asked.data, asked.seconds):
            rows.append(row)
            print(row, flush=True)
        FOUND.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    show()


if __name__ == "__main__":
    main()

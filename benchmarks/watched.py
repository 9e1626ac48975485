"""A search that is watched: what kind of move was the first to visit a tree, and what each took of
the processor's seconds: those of the thread that it ran in, so that nothing counts twice; the
network has what no other kind has had."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.network import BATCH
from dvisr.fitting.beside import is_busy
from dvisr.fitting.limits import Limit
from dvisr.fitting.matched import filled_with_inner
from dvisr.fitting.search import Search
from dvisr.search.pairing import Pairing
from dvisr.search.table import OutOfTime
from dvisr.settings import FitSettings

LISTED, NETWORK, PRIOR = "likeliest trees before the data", "the network's draws", "prior's draws"
FUNCTIONS = "likely functions listed, for contexts and pairs"
CONTEXTS, PAIRS = "likely contexts filled", "pairs of functions"
POWERS, INNER = "products of powers", "functions with a constant inside"
NEIGHBOURS, HOLES = "neighbours", "contexts of good trees filled"
REFINED = "small trees in the place of constants"
# By kind of move: the settings without it. The prior's draws cost next to nothing, and start it.
WITHOUT: dict[str, dict[str, Any]] = {
    LISTED: {"likeliest_trees": 10},
    NETWORK: {},  # a search that was not prepared has none
    CONTEXTS: {"matched_at_start": 0},
    PAIRS: {"paired_at_start": 0},
    POWERS: {"powers_at_start": 0, "powers_a_step": 0},
    INNER: {"inner_at_start": 0, "inner_a_step": 0},
    NEIGHBOURS: {"neighbours": 0},
    HOLES: {"matched_trees": 0},
    REFINED: {"refined": 0},
}
_MIXED = (LISTED, NEIGHBOURS)  # what other kinds have made is visited among these


class Watched:
    """A search with one thread, without one kind of move or with all."""

    def __init__(self, problem: Any, without: str | None) -> None:
        own = FitSettings()
        changed = dataclasses.replace(own.search, **WITHOUT.get(without or "", {}))
        settings = dataclasses.replace(own, search=changed)
        self.search = Search(problem, settings, num_samples=BATCH, seed=0, num_threads=1)
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._beside: dict[str, float] = collections.defaultdict(float)  # of the pairs' thread
        self._first: list[str] = []  # of each form: the kind that visited it
        self._kinds = [LISTED]
        self._origin: dict[bytes, str] = {}  # of trees that are visited among others
        self._watch()
        self._has_network = without != NETWORK
        self._began = time.process_time(), time.thread_time()
        if self._has_network:
            self.search.prepare()
            self._timed(self.search.network, "begin", NETWORK)

    def run(self, seconds: float) -> tuple[int, ...]:
        """The tokens of the likeliest form after so many seconds."""
        limit = Limit()
        limit._search_end = time.perf_counter() + seconds
        self.search.run(1000, limit)
        if self._has_network:
            of_all, own = self._began
            others = time.process_time() - of_all - (time.thread_time() - own)
            self._seconds[NETWORK] += max(0.0, others - sum(self._beside.values()))
        while is_busy():  # what it began must not go on beside the next search
            time.sleep(0.01)
        return tuple(int(t) for t in self.search.visited.form_tree[self._best] if t >= 0)

    def found(self) -> dict[str, Any]:
        """What came of it: seconds and shares of the posterior are by kind of move."""
        joint = self.search.visited.form_log_joint
        weights = np.exp(joint - joint.max())
        shares: dict[str, float] = collections.defaultdict(float)
        for kind, weight in zip(self._first, weights / weights.sum(), strict=True):
            shares[kind] += float(weight)
        spent = {
            kind: self._seconds[kind] + self._beside[kind]
            for kind in {*self._seconds, *self._beside}
        }
        return {
            "log_joint": float(joint[self._best]),
            "found_by": self._first[self._best],
            "spent": {kind: round(seconds, 3) for kind, seconds in sorted(spent.items())},
            "shares": {kind: round(share, 4) for kind, share in sorted(shares.items())},
            "steps": len(self.search.history),
        }

    @property
    def _best(self) -> int:
        return int(np.argmax(self.search.visited.form_log_joint))

    def _watch(self) -> None:
        search = self.search
        self._timed(search, "_explore", NEIGHBOURS)
        self._timed(search, "_match", HOLES)
        self._timed(search, "_multiply", POWERS)
        self._timed(search, "_fill_with_inner", INNER)
        self._timed(search, "_refine", REFINED)
        phase, draw = search.teller.phase, search.sampler.draw

        @contextmanager
        def told(name: str) -> Iterator[Any]:
            kind = FUNCTIONS if name == "listing likely functions" else self._kinds[-1]
            with self._kind(kind), phase(name) as tell:
                yield tell

        def drawn(count: int, rng: np.random.Generator) -> np.ndarray:
            with self._kind(PRIOR):
                return self._remembered(draw(count, rng), PRIOR)

        search.teller.phase = told  # type: ignore[method-assign]
        search.sampler.draw = drawn  # type: ignore[method-assign]
        search._pairs = self._pairs  # type: ignore[method-assign]
        self._visit, search.visited.visit = search.visited.visit, self._noting  # type: ignore[method-assign]

    def _noting(self, trees: np.ndarray, *arguments: Any, **options: Any) -> np.ndarray:
        """Visits trees, and notes who made those of new forms; seconds are shared out by trees."""
        kind, began = self._kinds[-1], time.thread_time()
        numbers = self._visit(trees, *arguments, **options)
        spent = time.thread_time() - began
        kinds = [kind] * len(trees)
        if kind in _MIXED:
            kinds = [self._origin.get(tree.tobytes(), kind) for tree in trees]
        for one in kinds:
            self._seconds[one] += spent / len(kinds)
        visited = self.search.visited
        for number in range(len(self._first), visited.num_forms):
            own = kind
            if kind in _MIXED:
                own = self._origin.get(visited.likeliest_tree(number).tobytes(), kind)
            self._first.append(own)
        return numbers

    def _pairs(self) -> np.ndarray:
        """Contexts and pairs, as a search makes them beside the rest, one after the other."""
        search, own = self.search, self.search.settings.search
        parts = [np.zeros((0, search.problem.grammar.max_tokens), dtype=np.int8)]
        try:
            table, is_late = search.matching, search._is_late
            threads = search.engine.num_threads
            with self._apart(CONTEXTS if own.matched_at_start else POWERS):
                contexts = table.likely_contexts(is_late)
            if own.matched_at_start:
                with self._apart(CONTEXTS):
                    made = table.filled(contexts, own.matched_at_start, None, is_late)
                parts.append(self._remembered(made, CONTEXTS))
            if own.powers_at_start:
                most = own.powers_at_start
                with self._apart(POWERS):
                    pairs = own.power_pairs
                    made = search.powers.filled(contexts, most, pairs, threads, is_late)
                    made = np.concatenate([made, search.powers.pairs(most, threads, is_late)])
                parts.append(self._remembered(made, POWERS))
            if own.inner_at_start:
                with self._apart(INNER):
                    made = np.concatenate(filled_with_inner(search, contexts, is_late))
                parts.append(self._remembered(made, INNER))
            if own.paired_at_start:
                with self._apart(PAIRS):
                    pairing = Pairing(search.problem, table, own.pair_functions)
                    made = pairing.likeliest(own.paired_at_start, threads, is_late)
                parts.append(self._remembered(made, PAIRS))
        except OutOfTime:
            pass
        return np.concatenate(parts)

    @contextmanager
    def _apart(self, kind: str) -> Iterator[None]:
        """Seconds of what is worked out beside the rest."""
        began = time.thread_time()
        yield
        self._beside[kind] += time.thread_time() - began

    def _remembered(self, trees: np.ndarray, kind: str) -> np.ndarray:
        for tree in trees:
            self._origin.setdefault(tree.tobytes(), kind)
        return trees

    @contextmanager
    def _kind(self, name: str) -> Iterator[None]:
        """While it lasts, what is visited is of that kind; seconds go to the innermost."""
        began, within = time.thread_time(), sum(self._seconds.values())
        self._kinds.append(name)
        try:
            yield
        finally:
            self._kinds.pop()
            spent = time.thread_time() - began
            self._seconds[name] += spent - (sum(self._seconds.values()) - within)

    def _timed(self, owner: Any, name: str, kind: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def run(*arguments: Any) -> Any:
            with self._kind(kind):
                return function(*arguments)

        setattr(owner, name, run)

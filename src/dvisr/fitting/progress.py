"""What a fit tells of itself while it is made: its phases, how far each is, and the best so far."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.expression import Expression, infix
from dvisr.search.matching import Tell
from dvisr.settings import SearchSettings

if TYPE_CHECKING:
    from dvisr.marginal import Engine
    from dvisr.search.visited import VisitedTrees

_DIGITS = 4  # of the constants in the best formula
_NOTHING = 1e-6  # of the posterior: forms that have less are not looked at one by one
_EVERY = 0.2  # seconds between two looks at what was visited


@dataclasses.dataclass(frozen=True)
class StepReport:
    step: int
    seconds: float
    num_trees: int
    num_forms: int
    log_evidence: float  # of what was visited
    best_log_joint: float
    elbo: float  # of this step's draws; NaN without a network
    moved: float  # the probability that this step moved between forms: their total variation


def likely_forms(visited: VisitedTrees) -> dict[int, float]:
    """The share of the posterior of each form that has any to speak of."""
    return visited.posterior(_NOTHING)


def report_of(
    step: int, seconds: float, elbo: float, visited: VisitedTrees, before: Mapping[int, float]
) -> StepReport:
    """What stands after a step; `before` are the likely forms before it."""
    joint, after = visited.form_log_joint, likely_forms(visited)
    moved = sum(abs(after.get(k, 0.0) - before.get(k, 0.0)) for k in {**before, **after})
    return StepReport(
        step=step,
        seconds=seconds,
        num_trees=len(visited.trees),
        num_forms=visited.num_forms,
        log_evidence=log_total(joint),
        best_log_joint=float(joint.max()),
        elbo=elbo,
        moved=0.5 * moved,
    )


def is_still(history: Sequence[StepReport], own: SearchSettings) -> bool:
    """Whether there were steps enough, and the last two moved next to nothing."""
    if len(history) < max(2, own.fewest_steps) or not math.isfinite(history[-1].log_evidence):
        return False
    return max(report.moved for report in history[-2:]) <= own.still


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    done: float | None  # the share of it; None where that is not known


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a fit stands. Times are those of `time.perf_counter`.

    Parameters
    ----------
    phases : tuple of Phase
        What is being done; several where threads work side by side.
    num_steps, planned : int
        Steps that were made, and that there are in all, as far as is known; 0 for none yet.
    num_functions : int
        Functions that were visited.
    log_evidence, elbo : float
        Of what was visited, or of the network's draws; NaN for what there is none of.
    best : str
        The likeliest function so far, as a formula with its constants; empty before there is one.
    steps_end, latest_end : float, optional
        When the steps will have been made, should they go on at this pace; and when the fit ends at
        the latest. None where it is not known.
    """

    phases: tuple[Phase, ...] = ()
    num_steps: int = 0
    planned: int = 0
    num_functions: int = 0
    log_evidence: float = math.nan
    elbo: float = math.nan
    best: str = ""
    steps_end: float | None = None
    latest_end: float | None = None


Progress = Callable[[Status], None]  # called from any thread


class Teller:
    """Tells a `Progress` what changes. Without one it does nothing, at no cost; with one a fit
    makes the same answer, to the last bit.

    Parameters
    ----------
    progress : callable, optional
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._phases: dict[str, Phase] = {}
        self._status = Status()
        self._best = b""
        self._looked = -math.inf
        self._first: tuple[int, float] | None = None  # steps made, and when, before the others

    def tell(self, **changes: object) -> None:
        if self._progress is None:
            return
        with self._lock:
            phases = tuple(self._phases.values())
            self._status = dataclasses.replace(self._status, phases=phases, **changes)  # type: ignore[arg-type]
            status = self._status
        self._progress(status)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[Tell]:
        """While it lasts; gives a function that is told how much of it is done."""
        self._set(name, Phase(name, None))
        try:
            yield lambda done: self._set(name, Phase(name, min(1.0, max(0.0, done))))
        finally:
            self._set(name, None)

    def _set(self, name: str, phase: Phase | None) -> None:
        if self._progress is None:
            return
        with self._lock:
            if phase is None:
                self._phases.pop(name, None)
            else:
                self._phases[name] = phase
        self.tell()

    def steps(self, made: int, planned: int, latest_end: float | None = None) -> None:
        """Before the first of some steps, and after each."""
        now = time.perf_counter()
        if self._first is None or self._first[0] > made:
            self._first = (made, now)
        before, began = self._first
        pace = (now - began) / (made - before) if made > before else None
        end = None if pace is None else now + pace * (planned - made)
        self.tell(num_steps=made, planned=planned, steps_end=end, latest_end=latest_end)

    def look(self, visited: VisitedTrees, engine: Engine, *, is_due: bool = False) -> None:
        """At what was visited, but not too often, unless it is due."""
        now = time.perf_counter()
        is_soon = now - self._looked < _EVERY and not is_due
        if self._progress is None or is_soon or visited.num_forms == 0:
            return
        self._looked = now
        joint = visited.form_log_joint
        tree = visited.likeliest_tree(int(joint.argmax()))
        changes: dict[str, object] = {}
        if tree.tobytes() != self._best and math.isfinite(joint.max()):
            self._best = tree.tobytes()
            changes["best"] = _formula(tree, engine)
        count, total = visited.num_forms, log_total(joint)
        self.tell(num_functions=count, log_evidence=total, **changes)


def _formula(tree: np.ndarray, engine: Engine) -> str:
    bare = Expression(engine.library, tuple(int(token) for token in tree if token >= 0))
    constants = engine.fit(tree[None]).constants[0, : bare.num_constants]
    return infix(bare.with_constants(constants.tolist()), digits=_DIGITS)

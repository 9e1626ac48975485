"""One fit from beginning to end: search, weigh, teach, check."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dvisr.fitting.checking import diagnose, fresh_draws, moved, teach
from dvisr.fitting.finish import Finish
from dvisr.fitting.loop import Progress, Search
from dvisr.posterior.answer import Posterior

_RESERVED = 0.3  # of the time, for what comes after the search
_MOST_RESERVED = 5.0  # seconds
_ROUNDS = 2  # of fresh draws; the last is reported


@dataclasses.dataclass(frozen=True)
class Outcome:
    posterior: Posterior
    diagnostics: dict[str, Any]
    elbo: float
    is_interrupted: bool


def run(
    search: Search,
    num_steps: int,
    *,
    max_time: float | None = None,
    progress: Progress = lambda done, steps, evidence: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """The search may have been run before: it goes on. Time counts from when all is compiled."""
    search.prepare()
    began = time.perf_counter()
    deadline = None if max_time is None else began + max_time
    search_until = None
    if deadline is not None and max_time is not None:
        search_until = deadline - min(_RESERVED * max_time, _MOST_RESERVED)
    is_whole = search.run(num_steps, search_until, progress, should_stop)
    finish = Finish(search)
    finish.complete()
    finish.weigh(deadline)
    answer = finish.posterior(deadline)
    checked: dict[str, Any] = {}
    if search.network is not None:
        before = finish.function_shares()
        teach(search, deadline)
        for _ in range(_ROUNDS):
            checked = fresh_draws(search, deadline)
        finish.complete()
        finish.weigh(deadline)
        answer = finish.posterior(deadline)
        checked["moved"] = moved(before, finish.function_shares())
    diagnostics = diagnose(search, finish, answer, checked, is_whole)
    return Outcome(
        posterior=answer,
        diagnostics=diagnostics,
        elbo=checked.get("elbo", answer.log_evidence),
        is_interrupted=not is_whole,
    )


@contextmanager
def heeding_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM are noted and heeded at the next step; a second one is obeyed at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted = threading.Event()

    def note(number: int, frame: Any) -> None:
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, note) for kind in kinds]
    try:
        yield noted.is_set
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)

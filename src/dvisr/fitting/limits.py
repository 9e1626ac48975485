"""When a fit must end: its time is up, or someone said stop."""

from __future__ import annotations

import collections
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_AFTER_SEARCH = (0.3, 5.0)  # for what comes after the search: of the time, and seconds at most
_AFTER_ALL = (0.1, 1.0)  # for what is done once the time is up: the answer is put together
_AFTER_STOP = 1.0  # seconds for weighing what was found, once someone said stop
_STOPPING = "dvisr: stopping; what was found so far follows (once more to abandon it)"
TERMINATED = 128 + signal.SIGTERM  # what a program ends with that was told to end


class Limit:
    """The search is over somewhat before the time is, so that what it found can be weighed; and
    that somewhat before, so that the answer can be put together.

    Parameters
    ----------
    max_time : float, optional
        Seconds from the beginning on.
    should_stop : callable, optional
        Whether someone said stop.
    began : float, optional
        When the time began, by `time.perf_counter`; now, if not given.
    """

    def __init__(
        self,
        max_time: float | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        began: float | None = None,
    ) -> None:
        self._should_stop = should_stop
        self._end = self._search_end = self._latest = self._weighing_end = math.inf
        if max_time is not None:
            began = time.perf_counter() if began is None else began
            self._latest = began + max_time
            self._end = began + max_time - _kept_of(max_time, _AFTER_ALL)
            self._search_end = began + max_time - _kept_of(max_time, _AFTER_SEARCH)

    @property
    def end(self) -> float | None:
        """When the time is up, by `time.perf_counter`; None where there is no limit."""
        return self._latest if math.isfinite(self._latest) else None

    def is_stopped(self) -> bool:
        return self._should_stop()

    def is_over(self) -> bool:
        return self._is_past(self._end)

    def part(self, share: float) -> Callable[[], bool]:
        """Whether that share of what is left of the time from now on is over."""
        now = time.perf_counter()
        end = now + share * (self._end - now)
        return lambda: self.is_over() or self._is_past(end)

    def weighing_is_over(self) -> bool:
        """After a stop the likeliest of what was found are still weighed, for a moment."""
        now = time.perf_counter()
        if self._should_stop():
            self._weighing_end = min(self._weighing_end, now + _AFTER_STOP)
        return now >= min(self._end, self._weighing_end)

    def search_is_over(self) -> bool:
        return self._is_past(self._search_end)

    def extend(self, seconds: float) -> None:
        self._end += seconds
        self._search_end += seconds
        self._latest += seconds

    @contextlib.contextmanager
    def compiling_apart(self) -> Iterator[None]:
        """The time that host code takes to be compiled for the first time does not count."""
        from numba.core import event

        with event.install_listener("numba:compile", _listener(self.extend)):
            yield

    def _is_past(self, end: float) -> bool:
        return self._should_stop() or time.perf_counter() >= end


def _kept_of(max_time: float, kept: tuple[float, float]) -> float:
    share, most = kept
    return min(share * max_time, most)


def _listener(tell: Callable[[float], None]) -> Any:
    """Tells how long something was being compiled: functions that call others begin before these
    do and end after them, and in other threads they wait for each other."""
    from numba.core import event  # here, since files that import it at once count as compiled code

    lock, open_since = threading.Lock(), [0.0]
    begun: collections.Counter[int] = collections.Counter()  # by thread

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            with lock:
                if not begun:
                    open_since[0] = time.perf_counter()
                begun[threading.get_ident()] += 1

        def on_end(self, event: Any) -> None:
            own = threading.get_ident()
            with lock:
                if own not in begun:  # it began before anyone listened
                    return
                begun[own] -= 1
                if begun[own] == 0:
                    del begun[own]
                if not begun:
                    tell(time.perf_counter() - open_since[0])

    return Listener()


class Heard:
    """Signals that came while a fit was at work."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def is_any(self) -> bool:
        return self._number is not None

    def note(self, number: int, frame: Any) -> None:
        """The first is noted, to be heeded soon; a second one is obeyed at once."""
        if self._number is not None:
            raise KeyboardInterrupt
        self._number = number
        with contextlib.suppress(Exception):  # standard error may be closed
            print(_STOPPING, file=sys.stderr, flush=True)

    def pass_on(self) -> None:
        """Once the fit is kept: what was told to end ends here, as it would have without a fit, or
        as its own handler says. After Ctrl-C it goes on with what it has."""
        if self._number != signal.SIGTERM:
            return
        before = self._before.get(signal.SIGTERM)
        if callable(before):
            before(signal.SIGTERM, None)
        elif before != signal.SIG_IGN:
            raise SystemExit(TERMINATED)

    @contextlib.contextmanager
    def listening(self) -> Iterator[Heard]:
        """In the main thread; in others signals can't be heard."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        kinds = (signal.SIGINT, signal.SIGTERM)
        self._before = {kind: signal.signal(kind, self.note) for kind in kinds}
        try:
            yield self
        finally:
            for kind, handler in self._before.items():
                # None is a handler that was not set by Python, and can't be set by it again.
                signal.signal(kind, signal.SIG_DFL if handler is None else handler)

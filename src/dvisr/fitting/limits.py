"""When a fit must end: its time is up, or someone said stop."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_RESERVED = 0.3  # of the time, for what comes after the search
_MOST_RESERVED = 5.0  # seconds
_STOPPING = "dvisr: stopping; what was found so far follows (once more to abandon it)"
TERMINATED = 128 + signal.SIGTERM  # what a program ends with that was told to end


class Limit:
    """The search is over somewhat before the time is, so that what it found can be weighed.

    Parameters
    ----------
    max_time : float, optional
        Seconds from now on.
    should_stop : callable, optional
        Whether someone said stop.
    """

    def __init__(
        self, max_time: float | None = None, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        now = time.perf_counter()
        self._should_stop = should_stop
        self.end = None if max_time is None else now + max_time  # by `time.perf_counter`
        self._search_end = self.end
        if max_time is not None:
            self._search_end = now + max_time - min(_RESERVED * max_time, _MOST_RESERVED)

    def is_stopped(self) -> bool:
        return self._should_stop()

    def is_over(self) -> bool:
        return self._is_past(self.end)

    def search_is_over(self) -> bool:
        return self._is_past(self._search_end)

    def _is_past(self, end: float | None) -> bool:
        return self._should_stop() or (end is not None and time.perf_counter() >= end)


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
                signal.signal(kind, handler)

"""Progress of a fit on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from dvisr.fitting.progress import Progress, Status
from dvisr.reporting.progress import best_line, found_line, left_line, phase_line, step_line

_WIDTH = 119  # of the line that is written over
_EVERY = 0.2  # seconds between two of them


def progress_for(verbose: Any) -> AbstractContextManager[Progress | None]:
    """Of the parameter of that name."""
    if not isinstance(verbose, (bool, int, np.integer)):
        raise ValueError(f"verbose must be 0 or 1, not {verbose!r}")
    return _shown() if verbose else nullcontext()


@contextmanager
def _shown() -> Iterator[Progress]:
    """A line that is written over where there is a terminal, one line a step elsewhere."""
    began, written, num_steps = time.perf_counter(), 0.0, 0

    def write_over(status: Status) -> None:
        nonlocal written
        if time.perf_counter() - written >= _EVERY:
            written = time.perf_counter()
            text = _text(status, began)[:_WIDTH]
            print(f"\r{text:<{_WIDTH}}", end="", file=sys.stderr, flush=True)

    def write_below(status: Status) -> None:
        nonlocal num_steps
        if status.num_steps > num_steps:
            num_steps = status.num_steps
            print(_text(status, began), file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield write_below
        return
    yield write_over
    print(file=sys.stderr)


def _text(status: Status, began: float) -> str:
    now = time.perf_counter()
    parts = [
        step_line(status),
        phase_line(status),
        found_line(status),
        f"{now - began:.0f} s",
        left_line(status, now),
        best_line(status),
    ]
    return ", ".join(part for part in parts if part)

"""Progress of a fit on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int, float], None]


@contextmanager
def no_progress() -> Iterator[Progress]:
    yield lambda done, steps, evidence: None


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A line that is written over where there is a terminal, one line a step elsewhere."""
    began = time.perf_counter()
    is_terminal = sys.stderr.isatty()

    def show(done: int, steps: int, evidence: float) -> None:
        seconds = time.perf_counter() - began
        left = seconds / done * (steps - done)
        text = (
            f"step {done}/{steps}, log evidence {evidence:.3f}, {seconds:.0f} s, {left:.0f} s left"
        )
        print(f"\r{text:<78}" if is_terminal else text, end="" if is_terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip

    yield show
    if is_terminal:
        print(file=sys.stderr)

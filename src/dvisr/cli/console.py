"""What the commands share: the terminal, progress, numbers and names made safe to print."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dvisr.checks import QUESTIONS, Verdict

_QUIET_SECONDS = 2.0


@contextmanager
def late_progress(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error with the time left, once two seconds have passed."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%, elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(what, total=1.0)
    # A timer rather than a look at the clock: the first step alone may take longer than that.
    timer = threading.Timer(_QUIET_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda fraction: bar.update(task, completed=fraction)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def fit_progress(what: str) -> Iterator[Callable[[int, int, float], None]]:
    """The same for a fit, which says how many steps are done and what the evidence is by then."""
    with late_progress(what) as show:
        yield lambda done, steps, evidence: show(done / steps)


def finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # for `main` to end on


def new_console() -> Console:
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=120)


def printable(text: str) -> str:
    """Control characters, as a column's name may hold them, shown rather than obeyed."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, a line for each of its two questions, and the reasons below."""
    lines = [f"verdict: {verdict.word}"]
    for group, question in QUESTIONS.items():
        lines.append(f"  {question} {verdict.group_word(group)}")
        lines += [f"    {check.name}: {check.sentence}" for check in verdict.doubts(group)]
    return lines

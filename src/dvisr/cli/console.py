"""What the commands share: the terminal, progress, numbers and names made safe to print."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from dvisr.checks import Verdict

_QUIET_SECONDS = 2.0


@contextmanager
def late_progress(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error with the time left, once two seconds have passed."""
    with _late_bar(what) as show:
        yield lambda fraction: show(what, fraction)


@contextmanager
def fit_progress() -> Iterator[Callable[[int, int, float], None]]:
    """The same for a fit, through all of its phases: before its first step it is getting ready,
    after its last it weighs what was found. Steps say what the evidence is by then."""
    with _late_bar("getting ready (a first fit compiles)") as show:

        def report(done: int, steps: int, evidence: float) -> None:
            if done >= steps:
                show(f"weighing, log evidence {evidence:.2f}", None)
            else:
                show(f"step {done} of {steps}, log evidence {evidence:.2f}", done / steps)

        yield report


_Show = Callable[[str, float | None], None]


@contextmanager
def _late_bar(first: str) -> Iterator[_Show]:
    """Shows a text and a fraction of the work, or None where that is not known. Nothing where
    standard error is no terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(first, total=None)
    # A timer rather than a look at the clock: the first step alone may take longer than that.
    timer = threading.Timer(_QUIET_SECONDS, bar.start)
    timer.daemon = True
    timer.start()

    def show(text: str, fraction: float | None) -> None:
        bar.tasks[0].total = None if fraction is None else 1.0  # `update` can't take it away
        bar.update(task, description=text, completed=fraction)

    try:
        yield show
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def finite(value: Any) -> Any:
    """For JSON, which has neither infinity nor NaN."""
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


def number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"


def with_error(value: float, error: float) -> str:
    """A number to the digits that its error leaves."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0.0):
        return number(value)
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 8 or abs(value) >= 1e8:
        return f"{value:.6g} ± {error:.1g}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, a line for each of its two questions, and the reasons below."""
    from dvisr.checks import QUESTIONS

    lines = [f"verdict: {verdict.word}"]
    for group, question in QUESTIONS.items():
        lines.append(f"  {question} {verdict.group_word(group)}")
        lines += [f"    {check.name}: {check.sentence}" for check in verdict.doubts(group)]
    return lines

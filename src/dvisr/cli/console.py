"""What the commands share: the terminal, progress, numbers and names made safe to print."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dvisr.text import printable

if TYPE_CHECKING:
    from dvisr.fitting.progress import Status

_QUIET_SECONDS = 2.0


@contextmanager
def late_progress(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error with the time left, once two seconds have passed."""
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
    task = bar.add_task(what, total=None)

    def show(fraction: float) -> None:
        bar.update(task, total=1.0, completed=fraction)

    with _late(bar):
        yield show


@contextmanager
def fit_progress() -> Iterator[Callable[[Status], None] | None]:
    """Where a fit stands, on standard error, through all of its phases, once two seconds have
    passed. Gives what is to be told of it; None where standard error is no terminal: then there is
    nothing to tell."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    shown = _Shown()
    live = Live(
        console=console,
        transient=True,
        get_renderable=shown.lines,
        refresh_per_second=5,
        redirect_stdout=False,  # the answer goes there
    )
    with _late(live):
        yield shown.note


class _Shown:
    """The latest word on a fit, as lines."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._began = time.perf_counter()

    def note(self, status: Status) -> None:
        self._status = status

    def lines(self) -> Group:
        status, now = self._status, time.perf_counter()
        so_far = f"{now - self._began:.0f} s so far"
        if status is None:  # what can word it is being imported
            return Group(_line(f"getting ready (a first fit compiles), {so_far}"))
        from dvisr.reporting import progress

        first = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(1, status.planned), completed=status.num_steps, width=12)
        left = progress.left_line(status, now)
        first.add_row(bar, _line(f"{progress.step_line(status)}, {so_far}, {left}"))
        texts = [
            progress.phase_line(status),
            progress.found_line(status),
            progress.best_line(status),
        ]
        return Group(first, *(_line(text) for text in texts if text))


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


@contextmanager
def _late(shown: Progress | Live) -> Iterator[None]:
    """Show it once two seconds have passed: by a timer rather than a look at the clock, as the
    first step alone may take longer than that."""
    timer = threading.Timer(_QUIET_SECONDS, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """With what does not fit on a line further in below it."""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        pieces = Text(printable(line.strip())).wrap(console, max(20, console.width - indent - 2))
        for place, piece in enumerate(pieces):
            shift = indent if place == 0 else indent + 2
            console.print(Text(" " * shift + piece.plain.rstrip()), soft_wrap=True)


def finite(value: Any) -> Any:
    """For JSON, which has neither infinity nor NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # for `main` to end on


def new_console() -> Console:
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=120)

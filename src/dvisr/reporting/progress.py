"""Where a fit stands, in words."""

from __future__ import annotations

import math

from dvisr.fitting.progress import Status
from dvisr.text import printable

READY = "getting ready (a first fit compiles)"


def step_line(status: Status) -> str:
    """Which step of how many; before the first of them, that it is getting ready."""
    if status.num_steps == 0:
        return "before the first step" if status.phases or status.num_functions else READY
    if status.steps_end is None and status.num_steps >= status.planned:
        return f"{_steps(status.num_steps)} made"
    return f"step {status.num_steps} of {status.planned} made"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def phase_line(status: Status) -> str:
    """What is being done, and how far each of it is, as far as that is known."""
    return "; ".join(
        phase.name if phase.done is None else f"{phase.name} {100 * phase.done:.0f} %"
        for phase in status.phases
    )


def found_line(status: Status) -> str:
    """Functions visited, and their evidence; empty before there are any."""
    parts = [f"{status.num_functions:,} functions visited"] if status.num_functions else []
    if math.isfinite(status.log_evidence):
        parts.append(f"log evidence {status.log_evidence:.2f}")
    if math.isfinite(status.elbo):
        parts.append(f"ELBO {status.elbo:.2f}")
    return ", ".join(parts)


def best_line(status: Status) -> str:
    """The likeliest function so far; empty before there is one."""
    return f"best so far: {printable(status.best)}" if status.best else ""


def left_line(status: Status, now: float) -> str:
    """How long it will take yet: of the steps, by their pace so far; of what comes after them
    nothing is known but the limit, where there is one."""
    limit = ""
    if status.latest_end is not None:
        limit = f"at most {seconds(status.latest_end - now)} left (max_time)"
    if status.steps_end is None:
        return limit or "time left not known yet"
    steps = f"about {seconds(status.steps_end - now)} of steps left, then weighing"
    return f"{steps}; {limit}" if limit else steps


def seconds(duration: float) -> str:
    whole = max(0, round(duration))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02} s" if whole < 3600 else f"{whole / 3600:.1f} h"

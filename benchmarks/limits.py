"""Whether a fit ends when it is told to: by max_time, and by Ctrl-C at random moments.

For each table, in a process of its own: fits with max_time, the first of them cold, and how long
they took; then fits without a limit that are interrupted at moments spread over a whole fit, and
how long until that was said and until the answer was there. max_time shall hold to within a tenth
and a second, a first compilation aside; an interrupt shall be answered within three seconds.

"cpu after" are the seconds that all threads of the process worked after the time was up, or after
the signal. On a machine that has nothing else to do an answer takes no longer than that, unless it
waits; on a busy one the seconds taken say more of the machine.

    python -m benchmarks.limits run [--tables 10x2,10x6] [--times 2,5,10] [--signals 8]
    python -m benchmarks.limits show

`run` keeps docs/limits.json, `show` writes the table in docs/speed.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.pages import with_tables

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FOUND = DOCS / "speed.md", DOCS / "limits.json"

# Rows and columns; "small" and "listed" are spaces of which every tree is weighed.
TABLES = ("10x2", "10x6", "100x3", "1000x3", "10x30", "small", "listed")
_SPACES: dict[str, dict[str, Any]] = {
    "small": {"operators": ("+", "*", "sin"), "max_tokens": 9},
    "listed": {"operators": ("+", "-", "*", "/", "exp", "log"), "max_tokens": 7},
}
_ANSWERED = 3.0  # seconds


class _Noted(io.StringIO):
    """Standard error that knows when it was first written to."""

    def __init__(self) -> None:
        super().__init__()
        self.at: float | None = None

    def write(self, text: str) -> int:
        self.at = time.perf_counter() if self.at is None else self.at
        return super().write(text)


class _At:
    """What the clocks showed at a moment to come; a signal may be sent then."""

    def __init__(self, seconds: float, number: int | None = None) -> None:
        self.clock, self.cpu = float("nan"), float("nan")
        self._number = number
        self._timer = threading.Timer(seconds, self._note)
        self._timer.daemon = True
        self._timer.start()

    def _note(self) -> None:
        self.clock, self.cpu = time.perf_counter(), time.process_time()
        if self._number is not None:
            os.kill(os.getpid(), self._number)

    def cancel(self) -> None:
        self._timer.cancel()


def data(name: str) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """A table without an easy answer, and the settings of its fit."""
    rows, columns = (20, 1) if name in _SPACES else map(int, name.split("x"))
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (rows, columns))
    y = 2.5 * X[:, 0] * X[:, 1 % columns] / (1.0 + X[:, 2 % columns]) + 0.3 * np.sin(X[:, 0])
    return X, y + 0.02 * rng.standard_normal(rows), _SPACES.get(name, {})


def _fit(name: str, **settings: Any) -> Any:
    from dvisr import DVISRRegressor

    X, y, own = data(name)
    return DVISRRegressor(random_state=0, **own, **settings).fit(X, y)


def _timed(name: str, max_time: float, is_first: bool) -> dict[str, Any]:
    began = time.perf_counter()
    up = _At(max_time)
    model = _fit(name, max_time=max_time)
    taken, cpu = time.perf_counter() - began, time.process_time()
    up.cancel()
    return {
        "asked": max_time, "taken": taken, "cpu_after": max(0.0, cpu - up.cpu),
        "is_first": is_first, "steps": model.n_iter_, "verdict": model.diagnostics_["verdict"],
    }  # fmt: skip


def _interrupted(name: str, seconds: float) -> dict[str, Any] | None:
    """None where the fit was over before the signal came, or just as it came."""
    kept, sys.stderr = sys.stderr, _Noted()
    sent = _At(seconds, signal.SIGINT)
    try:
        model = _fit(name)
        ended, cpu = time.perf_counter(), time.process_time()
        sent.cancel()
    except KeyboardInterrupt:  # outside of the fit itself: the program's own affair
        if sys.stderr.at is not None:
            raise AssertionError("a fit that had heard the signal was lost") from None
        return None
    finally:
        said, sys.stderr = sys.stderr.at, kept
    if said is None:
        return None
    assert len(model.functions_) > 0
    assert np.isfinite(model.predict(data(name)[0])).all()
    return {
        "after": seconds, "said": said - sent.clock, "answered": ended - sent.clock,
        "cpu_after": cpu - sent.cpu, "steps": model.n_iter_,
    }  # fmt: skip


def measured(name: str, times: list[float], num_signals: int) -> dict[str, Any]:
    """In this process, which shall be new."""
    import dvisr.estimator  # noqa: F401

    warnings.simplefilter("ignore")
    timed = [_timed(name, times[0], True), *(_timed(name, asked, False) for asked in times)]
    began = time.perf_counter()
    model = _fit(name)
    whole = time.perf_counter() - began
    assert (model.n_iter_ == 0) == (name in _SPACES)
    moments = whole * (np.arange(num_signals) + np.random.default_rng(0).uniform()) / num_signals
    found = [_interrupted(name, float(moment)) for moment in moments if num_signals]
    return {
        "times": timed, "whole": whole, "signals": [one for one in found if one is not None],
        "num_allowed": model.diagnostics_["num_allowed"],
    }  # fmt: skip


def show(name: str, found: dict[str, Any]) -> bool:
    """Print what was found; whether all of it held."""
    is_good = True
    for one in found["times"]:
        most = 1.1 * one["asked"] + 1.0
        is_over = one["taken"] > most and not one["is_first"]
        is_good &= not is_over
        print(
            f"{name:>8}  max_time {one['asked']:4.0f} {'cold' if one['is_first'] else 'warm'}  "
            f"taken {one['taken']:6.2f} of {most:5.2f}  ratio {one['taken'] / one['asked']:5.2f}  "
            f"cpu after {one['cpu_after']:5.2f}  steps {one['steps']:2}  {one['verdict']}"
            f"{'  OVER' if is_over else ''}"
        )
    signals = found["signals"]
    if signals:
        worst = {key: max(one[key] for one in signals) for key in ("said", "answered", "cpu_after")}
        is_good &= worst["answered"] <= _ANSWERED
        print(
            f"{name:>8}  Ctrl-C at {len(signals)} moments of {found['whole']:.1f} s: said after "
            f"{worst['said']:.2f} s, answered after {worst['answered']:.2f} s, cpu after "
            f"{worst['cpu_after']:.2f} s, at worst"
            f"{'  OVER' if worst['answered'] > _ANSWERED else ''}",
            flush=True,
        )
        for one in sorted(signals, key=lambda one: -one["answered"])[:2]:
            print(f"          {json.dumps({key: round(one[key], 2) for key in one})}", flush=True)
    return is_good


def table(found: dict[str, Any]) -> str:
    """The worst of each table."""
    lines = [
        "| rows x columns | max_time: seconds asked and taken | steps then | a whole fit | Ctrl-C "
        "at so many moments | answered after, at most | processor's seconds after it, at most |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in found.items():
        warm = [row for row in one["times"] if not row["is_first"]]
        times = ", ".join(f"{row['asked']:g}: {row['taken']:.1f}" for row in warm)
        steps = ", ".join(str(row["steps"]) for row in warm)
        signals = one["signals"]
        answered = max((row["answered"] for row in signals), default=float("nan"))
        after = max((row["cpu_after"] for row in signals), default=float("nan"))
        shown = name.replace("x", " x ")
        if name in _SPACES:
            shown = f"20 x 1, {one['num_allowed']:,} trees, all weighed"
        lines.append(
            f"| {shown} | {times} | {steps} | "
            f"{one['whole']:.1f} s | {len(signals)} | {answered:.2f} s | {after:.2f} s |"
        )
    return "\n".join(lines) + "\n"


def run(tables: list[str], times: str, num_signals: int) -> dict[str, Any]:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, of which {load:.1f} were busy with other work at the start", flush=True)
    found, is_good = {}, True
    for name in tables:
        command = [sys.executable, "-m", "benchmarks.limits", "inside", "--tables", name]
        command += ["--times", times, "--signals", str(num_signals)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[name] = json.loads(done.stdout.splitlines()[-1])
        is_good &= show(name, found[name])
    print("all within their limits" if is_good else "some are over")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    # "inside": one table's numbers, as JSON
    parser.add_argument("what", choices=["run", "show", "inside"])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--times", default="2,5,10")
    parser.add_argument("--signals", type=int, default=8)
    asked = parser.parse_args()
    if asked.what == "inside":
        times = [float(text) for text in asked.times.split(",")]
        print(json.dumps(measured(asked.tables, times, asked.signals)))
        return
    if asked.what == "run":
        found = run(asked.tables.split(","), asked.times, asked.signals)
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
    made = table(json.loads(FOUND.read_text()))
    PAGE.write_text(with_tables(PAGE.read_text(), {"limits": made}))


if __name__ == "__main__":
    main()

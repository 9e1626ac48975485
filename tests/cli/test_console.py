"""Progress is shown on a terminal, through every phase, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from dvisr.cli import console
from dvisr.cli.fit import fitted
from dvisr.fitting.progress import Phase, Status
from dvisr.types import Dataset
from tests.fitting.problems import LINE, X, searching


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> io.StringIO:
    """What is written to a standard error that is a terminal, or is none."""
    file = io.StringIO()

    def made(**_: Any) -> Console:
        return Console(file=file, force_terminal=request.param, width=120)

    monkeypatch.setattr(console, "Console", made)
    monkeypatch.setattr(console, "_QUIET_SECONDS", 0.0)
    return file


def wait_for(file: io.StringIO, text: str) -> bool:
    until = time.monotonic() + 10.0
    while text not in file.getvalue() and time.monotonic() < until:
        time.sleep(0.02)
    return text in file.getvalue()


@pytest.mark.parametrize("shown", [True], indirect=True)
def test_every_phase_of_a_fit_is_shown(shown: io.StringIO) -> None:
    with console.fit_progress() as report:
        assert report is not None
        assert wait_for(shown, "getting ready")
        reading = (Phase("reading", 0.25), Phase("matching", None))
        report(Status(phases=reading, planned=10))
        assert wait_for(shown, "reading 25 %; matching")
        assert wait_for(shown, "time left not known yet")
        report(
            Status(
                num_steps=3,
                planned=10,
                num_functions=12_345,
                log_evidence=-12.345,
                best="1.5 * [red]",
                steps_end=time.perf_counter() + 20.4,
            )
        )
        assert wait_for(shown, "step 3 of 10")
        assert wait_for(shown, "about 20 s of steps left, then weighing")
        assert wait_for(shown, "12,345 functions visited, log evidence -12.3")
        assert wait_for(shown, "best so far: 1.5 * [red]")  # no markup
        end = time.perf_counter() + 185.4
        report(Status(phases=(Phase("weighing", 0.5),), num_steps=10, planned=10, latest_end=end))
        assert wait_for(shown, "10 steps made")
        assert wait_for(shown, "weighing 50 %")
        assert wait_for(shown, "at most 3 min 05 s left (max_time)")
        report(Status(num_steps=11, planned=20))  # it goes on after all
        assert wait_for(shown, "step 11 of 20")


@pytest.mark.parametrize("shown", [False], indirect=True)
def test_nothing_is_shown_where_there_is_no_terminal(shown: io.StringIO) -> None:
    with console.fit_progress() as report:
        assert report is None  # so that nothing is worked out for it
        time.sleep(0.2)
    with console.late_progress("summing") as show:
        show(0.5)
    assert shown.getvalue() == ""


@pytest.mark.parametrize("shown", [True], indirect=True)
def test_a_fit_shows_what_it_has_found(shown: io.StringIO) -> None:
    data = Dataset.create(X[:, None], LINE)
    made = fitted(
        data, "y", operators=("+", "*", "sin"), max_tokens=7, max_constants=2, num_steps=6,
        tree_prior="size-balanced", random_state=0, settings=searching(),
    )  # fmt: skip
    text = shown.getvalue()
    assert made.model.n_iter_ == 6
    assert re.search(r"step [1-6] of 6 made|6 steps made", text)
    assert re.search(r"[\d,]+ functions visited, log evidence -?\d", text)
    assert re.search(r"best so far: .*x0", text)
    assert "time left not known yet" in text
    assert re.search(r"compiling|listing|fitting|matching|searching|weighing", text)


@pytest.mark.slow
def test_progress_on_a_terminal_of_its_own(tmp_path: Path) -> None:
    """A pseudo-terminal; and standard output has the answer alone."""
    table = tmp_path / "line.csv"
    pd.DataFrame({"x": X, "y": LINE}).to_csv(table, index=False)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable, "-c", "from dvisr.cli import main; main()", "fit", str(table),
            "--target", "y", "--num-steps", "3", "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen: list[bytes] = []
    reading = threading.Thread(target=read_all, args=(ours, seen))
    reading.start()
    out, _ = process.communicate()
    reading.join()
    os.close(ours)
    text = b"".join(seen).decode()
    assert process.returncode == 0, text
    assert json.loads(out)["num_steps"] == 3
    for part in ("functions visited", "best so far", "time left not known yet"):
        assert part in text


def read_all(terminal: int, seen: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # which is how a terminal ends
        while part := os.read(terminal, 65536):
            seen.append(part)

"""Progress is shown on a terminal, through every phase, and nowhere else."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from dvisr.cli import console


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
        assert wait_for(shown, "getting ready")
        report(3, 10, -12.345)
        assert wait_for(shown, "step 3 of 10, log evidence -12.3")
        assert wait_for(shown, "30%")
        report(10, 10, -11.5)
        assert wait_for(shown, "weighing, log evidence -11.50")
        shown.truncate(0)
        assert wait_for(shown, "weighing")
        assert "%" not in shown.getvalue()
        report(11, 20, -11.25)  # it goes on after all
        assert wait_for(shown, "step 11 of 20, log evidence -11.25")
        assert wait_for(shown, "55%")


@pytest.mark.parametrize("shown", [False], indirect=True)
def test_nothing_is_shown_where_there_is_no_terminal(shown: io.StringIO) -> None:
    with console.fit_progress() as report:
        report(3, 10, -12.345)
        time.sleep(0.2)
    with console.late_progress("summing") as show:
        show(0.5)
    assert shown.getvalue() == ""


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.23456, 0.0123, "1.235 ± 0.012"),
        (1.23456, 0.0, "1.23456"),
        (float("nan"), 0.1, "-"),
        (12345.6, 120.0, "12346 ± 120"),
        (3.2e-20, 1.1e-21, "3.2e-20 ± 1e-21"),
        (2.5e12, 1e10, "2.5e+12 ± 1e+10"),
    ],
)
def test_numbers_with_errors(value: float, error: float, text: str) -> None:
    assert console.with_error(value, error) == text

"""The command as a user runs it: in a process of its own, or (to save its start) in this one."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

from dvisr.cli import run


def in_a_process(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from dvisr.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        check=False,
    )


def dvisr(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same request without an end of the process: what it writes and its exit status."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["dvisr", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run()
    return subprocess.CompletedProcess(["dvisr", *arguments], code, out.getvalue(), err.getvalue())

"""The README's examples are run, and what they print is what it says they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

CONSOLE = re.findall(r"```console\n\$ dvisr (.+)\n((?:(?!```).*\n)*)```", README)
PYTHON = re.findall(r"```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```", README)


def test_there_are_examples() -> None:
    assert len(CONSOLE) >= 1
    assert len(PYTHON) >= 2


@pytest.mark.parametrize(("arguments", "output"), CONSOLE)
def test_commands(arguments: str, output: str) -> None:
    code = "from dvisr.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(arguments)],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert [line.rstrip() for line in done.stdout.splitlines()] == output.splitlines()


@pytest.mark.parametrize(("code", "output"), PYTHON)
def test_python(code: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert [line.rstrip() for line in done.stdout.splitlines()] == output.splitlines()

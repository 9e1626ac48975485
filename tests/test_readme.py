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


SHOWN = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n((?:(?!```).*\n)*)```", README)
    for line in block.splitlines()
    if line.removeprefix("$ ").startswith("dvisr ")
]


def test_commands_are_shown() -> None:
    assert len(SHOWN) >= 6


@pytest.mark.parametrize("line", SHOWN)
def test_the_commands_that_are_shown_exist(line: str) -> None:
    """With their options; what follows a pipe is another's."""
    import click

    from dvisr.cli import cli

    name, *words = shlex.split(line.partition("|")[0], comments=True)[1:]
    command = cli.get_command(click.Context(cli), name)
    if name.startswith("-"):
        assert name in ("--help", "--version")
        return
    assert command is not None, line
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= {*known, "--help"}, line

"""The examples of the README and of the pages are run, and give what is shown below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from dvisr.cli import cli
from dvisr.data import cooling_table
from tests.examples import ROOT, blocks_of, examples_of, outputs_of, place_with_tables, same

README = ROOT / "README.md"
DOCS = ROOT / "docs"
TOUR = ("start.md", "posterior.md")  # the second reads what the first has saved
ALONE = ("trust.md", "choosing.md", "coming-from.md", "oracle.md")
TO_THE_LETTER = ("README.md", "oracle.md")
USERS = [README, *(DOCS / name for name in (*TOUR, *ALONE, "runs.md", "report.md", "paper.md"))]


def check(pages: list[Path], folder: Path) -> None:
    for page in pages:
        examples = examples_of(page.read_text("utf-8"))
        for example, printed in zip(examples, outputs_of(examples, folder), strict=True):
            if example.shown is None:
                continue
            if page.name in TO_THE_LETTER:
                lines = [line.rstrip() for line in printed.splitlines()]
                assert lines == example.shown.splitlines(), example.typed
            else:
                assert same(example.shown, printed), f"{example.typed}\n{printed}"


def test_there_are_examples() -> None:
    counts = {page: len(examples_of((DOCS / page).read_text("utf-8"))) for page in (*TOUR, *ALONE)}
    assert min(counts.values()) >= 1, counts
    assert len(examples_of(README.read_text("utf-8"))) == 1


def test_the_readme(tmp_path: Path) -> None:
    check([README], place_with_tables(tmp_path))


@pytest.mark.slow
def test_the_tour(tmp_path: Path) -> None:
    check([DOCS / name for name in TOUR], place_with_tables(tmp_path))


@pytest.mark.parametrize("name", ALONE)
def test_a_page(name: str, tmp_path: Path) -> None:
    check([DOCS / name], place_with_tables(tmp_path))


def test_a_page_that_shows_something_else_is_noticed() -> None:
    shown = "a * sqrt(a)   0.99\n1,234 trees"
    assert same(shown, "a * sqrt(a) 0.985\n\n 1,300 trees\n")
    assert not same(shown, "a * sqrt(a) 0.96\n1,234 trees")
    assert not same(shown, "a * sqrt(b) 0.99\n1,234 trees")
    assert not same(shown, "a * sqrt(a) 0.99")
    assert not same("x + 0.5", "x + 0.5 0.5")


def test_the_table_of_the_tour_is_that_of_the_demo() -> None:
    import pandas as pd

    table = pd.read_csv(ROOT / "examples" / "cooling.csv")
    pd.testing.assert_frame_equal(table, cooling_table().round(2))


def test_the_readme_has_two_screens() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 110


def commands_in(block: str) -> list[str]:
    """The lines after a `$`; where there is none, all lines are typed."""
    typed = re.findall(r"^\$ (.+)$", block, flags=re.MULTILINE) or block.splitlines()
    return [line for line in typed if line.startswith("dvisr ")]


SHOWN = [
    line
    for page in USERS
    for kind, block in blocks_of(page.read_text("utf-8"))
    if kind in ("", "console")
    for line in commands_in(block)
]


def test_commands_are_shown() -> None:
    assert len(SHOWN) >= 12


@pytest.mark.parametrize("line", SHOWN)
def test_the_commands_that_are_shown_exist(line: str) -> None:
    """With their options; what follows a pipe is another's."""
    for part in re.split(r"[|;]", line):
        name, *words = shlex.split(part, comments=True)[1:]
        if name.startswith("-"):
            assert name in ("--help", "--version")
            continue
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= {*known, "--help"}, line

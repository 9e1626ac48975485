"""`dvisr report`."""

from __future__ import annotations

from pathlib import Path

import click

from dvisr.cli.saved import check_run, load_run, run_argument

NAME = "report.html"  # as `runs.folder` has it, which takes long to import


@click.command
@run_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help=f"The file to write; by default {NAME} in the folder.",
)
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=click.IntRange(min=1, max=20),
    help="Functions that are shown one by one.",
)
def report(run: Path, out: Path | None, top: int) -> None:
    """Write a report on a fit: data and predictions, functions with their probabilities, residuals,
    constants, checks, what the prior did, and the command that made it. One file, which needs no
    network.

    RUN is the folder that `dvisr fit --out` or `save` wrote.
    """
    folder = run.parent if run.is_file() else run
    path = folder / NAME if out is None else out
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file, as in -o {path / NAME}")
    check_run(folder)
    load_run(folder).report(path, top=top)
    click.echo(str(path))

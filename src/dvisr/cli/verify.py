"""`dvisr verify`."""

from __future__ import annotations

from pathlib import Path

import click

from dvisr.cli.saved import check_run, run_argument
from dvisr.cli.status import FAILED_CHECK
from dvisr.text import printable


@click.command
@run_argument
def verify(run: Path) -> int | None:
    """Check that every file of a run is as it was written.

    RUN is the folder that `dvisr fit --out` or `save` wrote. Files that are not as they were
    written are named, and the command then exits with 1.
    """
    from dvisr.runs import folder

    check_run(run)
    if not folder.is_run(run):
        raise ValueError(f"there is no run in {str(run)!r}: give the folder of dvisr fit --out")
    wrong = folder.verify(run)
    for name, fault in wrong.items():
        click.echo(printable(f"{name}: {fault}"))
    if wrong:
        return FAILED_CHECK
    others = folder.strangers(run)
    click.echo(f"all {len(folder.read_manifest(run))} files are as they were written")
    if others:
        click.echo(printable(f"not part of the run, and not checked: {', '.join(others)}"))
    return None

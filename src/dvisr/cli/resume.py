"""`dvisr resume`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dvisr.cli.fit import finished, present
from dvisr.cli.options import COUNT, SECONDS
from dvisr.cli.saved import check_run, run_argument

if TYPE_CHECKING:
    from dvisr.estimator.table import TableRegressor
    from dvisr.fitting.progress import Progress


@click.command
@run_argument
@click.option("--num-steps", type=COUNT, help="Steps in all, those made before included.")
@click.option(
    "--max-time",
    type=SECONDS,
    help="Seconds more after which to stop; as many as the fit was given, if left out.",
)
@click.option("--top", default=10, show_default=True, type=COUNT, help="Functions to list.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def resume(
    run: Path, num_steps: int | None, max_time: float | None, top: int, as_json: bool
) -> int | None:
    """Go on with a fit that was broken off, or give it more steps. The answer is that of a fit that
    was not broken off, for the same number of steps.

    RUN is the folder that `dvisr fit --out` wrote; the table is not needed any more.
    """
    check_run(run)
    began = time.perf_counter()

    def go_on(progress: Progress | None, made: list[TableRegressor]) -> None:
        from dvisr.estimator.resuming import resume_run

        resume_run(run, progress, made, num_steps=num_steps, max_time=max_time)

    done = finished(go_on)
    return present(done, run, top, as_json, time.perf_counter() - began)

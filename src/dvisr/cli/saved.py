"""A fit that was saved, for the commands that go on from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dvisr.estimator import DVISRRegressor

run_argument = click.argument("run", type=click.Path(path_type=Path))
index_option = click.option(
    "--index",
    "indices",
    multiple=True,
    type=click.IntRange(min=0),
    help="A function by its place, 0 the likeliest; give several for more.",
)


def check_run(run: Path) -> None:
    """Before what takes long to import."""
    if not run.is_dir():
        raise ValueError(f"there is no folder {str(run)!r}: give the one of dvisr fit --out")


def load_run(run: Path) -> DVISRRegressor:
    from dvisr.estimator import load

    return load(run)


def chosen_functions(model: Any, indices: tuple[int, ...], top: int | None = None) -> list[int]:
    """The places of the functions that were asked for, or of the first."""
    count = len(model.functions_)
    for index in indices:
        if index >= count:
            raise ValueError(
                f"--index {index} is not there: the fit lists functions 0 to {count - 1}"
            )
    return list(dict.fromkeys(indices)) or list(range(min(count, top or count)))

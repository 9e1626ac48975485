"""`dvisr demo`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from dvisr.cli.console import new_console
from dvisr.cli.fit import check_saved, fitted, status_of
from dvisr.cli.output import check_folder
from dvisr.cli.report import NAME

if TYPE_CHECKING:
    from rich.console import Console

    from dvisr.cli.fit import Fitted
    from dvisr.estimator.table import TableRegressor

FOLDER = Path("dvisr-demo")
_OPERATORS = ("+", "-", "*", "/", "sqrt", "exp", "log")
_OPENERS = {"darwin": "open", "win32": "start"}  # elsewhere xdg-open


@click.command
@click.argument("table", type=click.Choice(("planets", "cooling")), default="planets")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    help="The folder to keep the fit and its report in.",
)
def demo(table: str, out: Path) -> int | None:
    """Fit a small built-in table and write a report on it.

    planets (unless another is named): the distances from the Sun and the years of eight planets.
    cooling: made by a formula, with noise, so that the answer can be held against it.
    """
    check_folder(out)
    console = new_console()
    made = _planets(console, out) if table == "planets" else _cooling(console, out)
    check_saved(made, out)
    if (status := status_of(made)) is not None:
        return status
    _write_report(console, made.model, out)
    console.print("\nYour own table: dvisr fit DATA.csv --target COLUMN --out FOLDER")
    return None


def _write_report(console: Console, model: TableRegressor, out: Path) -> None:
    """And say where it is, and how to open it."""
    path = model.report(out / NAME)
    opener = _OPENERS.get(sys.platform, "xdg-open")
    for line in (
        f"\nThe fit is kept in {out}, and a report on it in {path}.",
        f"To look at it: {opener} {shlex.quote(str(path))}",
        f"or give a browser the address {path.resolve().as_uri()}",
    ):
        console.print(Text(line), soft_wrap=True)  # an address is in one piece


def _planets(console: Console, out: Path) -> Fitted:
    from dvisr.cli.answer import print_answer
    from dvisr.data import PLANETS, dataset_from_table

    console.print(
        "Eight planets: a, the distance from the Sun (astronomical units), and the period"
    )
    console.print("(years). Noise and constants are unknown. Kepler found in 1619: period² = a³.\n")
    dataset = dataset_from_table(PLANETS, "period", features=["a"])
    made = fitted(
        dataset, "period", operators=_OPERATORS, max_tokens=9, random_state=0, run_dir=out
    )
    print_answer(console, made.model, 5, "period")
    _print_law(console, made.model)
    return made


def _print_law(console: Console, model: TableRegressor) -> None:
    """The constant of the law, should it have one beside the exponent."""
    from dvisr.comparing import compare

    data = model._problem.data
    formula = ["a * sqrt(a) * c"]
    law = compare(data.X, data.y, formula, feature_names=data.feature_names, random_state=0)
    found = law.constants.iloc[0]
    console.print(
        f"\nKepler's constant, if it were unknown: period = a^1.5 * {found['mode']:.6f}, "
        f"between {found['low']:.6f} and {found['high']:.6f} with 90 % probability."
    )


def _cooling(console: Console, out: Path) -> Fitted:
    from dvisr.cli.answer import print_answer
    from dvisr.data import cooling_table, dataset_from_table

    console.print("A cup that cools: t (minutes) and warmth (degrees above the room), 24 rows made")
    console.print("by warmth = 62 * exp(-0.11 * t) and noise of half a degree.\n")
    dataset = dataset_from_table(cooling_table(), "warmth")
    made = fitted(
        dataset, "warmth", operators=_OPERATORS, max_tokens=7, random_state=0, run_dir=out
    )
    print_answer(console, made.model, 5, "warmth")
    return made

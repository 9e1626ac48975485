"""`dvisr demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dvisr.cli.console import new_console
from dvisr.cli.fit import fitted

if TYPE_CHECKING:
    from rich.console import Console

    from dvisr.estimator import DVISRRegressor


@click.command
@click.argument("table", type=click.Choice(("planets", "cooling")), default="planets")
def demo(table: str) -> None:
    """Fit a small built-in table and show what comes of it.

    planets (unless another is named): the distances from the Sun and the years of eight planets.
    cooling: made by a formula, with noise, so that the answer can be held against it.
    """
    console = new_console()
    if table == "planets":
        _planets(console)
    else:
        _cooling(console)
    console.print("\nYour own table: dvisr fit DATA.csv --target COLUMN --out FOLDER")


def _planets(console: Console) -> None:
    from dvisr.cli.answer import print_answer
    from dvisr.data import PLANETS, dataset_from_table

    console.print(
        "Eight planets: a, the distance from the Sun (astronomical units), and the period"
    )
    console.print("(years). Noise and constants are unknown. Kepler found in 1619: period² = a³.\n")
    operators = ("+", "-", "*", "/", "sqrt", "exp", "log")
    dataset = dataset_from_table(PLANETS, "period", features=["a"])
    model = fitted(dataset, "period", operators=operators, max_tokens=9, random_state=0).model
    print_answer(console, model, 5, "period")
    _print_law(console, model)


def _print_law(console: Console, model: DVISRRegressor) -> None:
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


def _cooling(console: Console) -> None:
    from dvisr.cli.answer import print_answer
    from dvisr.data import cooling_table, dataset_from_table

    console.print("A cup that cools: t (minutes) and warmth (degrees above the room), 24 rows made")
    console.print("by warmth = 62 * exp(-0.11 * t) and noise of half a degree.\n")
    dataset = dataset_from_table(cooling_table(), "warmth")
    operators = ("+", "-", "*", "/", "sqrt", "exp", "log")
    model = fitted(dataset, "warmth", operators=operators, max_tokens=7, random_state=0).model
    print_answer(console, model, 5, "warmth")

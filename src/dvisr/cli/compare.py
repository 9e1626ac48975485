"""`dvisr compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, late_progress, new_console, print_lines
from dvisr.cli.options import SEED, chosen_noise, noise_option, table_options
from dvisr.text import printable

if TYPE_CHECKING:
    from dvisr.comparing import Comparison


@click.command
@table_options
@click.option(
    "--expression",
    "expressions",
    multiple=True,
    required=True,
    help='A formula such as "c * x0 + c" or "a * x0 + b": every c, and every name that is no '
    "column, is a constant to be found; give several.",
)
@noise_option()
@click.option(
    "--constant-prior",
    default="decades",
    show_default=True,
    help="decades, decades:LOW,HIGH (sizes) or normal:MEAN,STD.",
)
@click.option(
    "--coverage", default=0.9, show_default=True, help="Of the intervals of the constants."
)
@click.option("--seed", default=0, show_default=True, type=SEED)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def compare(
    data: str,
    target: str,
    expressions: tuple[str, ...],
    features: tuple[str, ...] | None,
    err: str | None,
    seed: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Which of these formulas the data support, by how much, and with which constants.

    DATA is a table with a header: CSV, Parquet or .xlsx, also with .gz, or - for standard input.
    """
    from dvisr.data import dataset_from_table, read_table

    table = read_table(data)
    dataset = dataset_from_table(table, target, features=features, err=err)
    settings["noise"] = chosen_noise(settings["noise"], err)
    others = {str(name): "is a column that is not among --features" for name in table.columns}
    others |= {target: "is the target"} | ({} if err is None else {err: "is the error bar"})
    with late_progress("weighing formulas"):
        from dvisr.comparing import check_names
        from dvisr.comparing import compare as compare_formulas

        check_names(expressions, dataset.feature_names, others)
        found = compare_formulas(
            dataset.X,
            dataset.y,
            expressions,
            y_err=dataset.y_err,
            feature_names=dataset.feature_names,
            random_state=seed,
            **settings,
        )
    if as_json:
        click.echo(json.dumps(_as_json(found), allow_nan=False))
    else:
        _print(found, settings["coverage"])


def _as_json(found: Comparison) -> dict[str, Any]:
    return {
        "expressions": [
            _formula_as_json(found, row) for row in found.table.to_dict(orient="records")
        ],
        "verdict": found.verdict,
        "reasons": found.reasons,
        "checks": [check.as_dict() for check in found.verdict_.checks],
        "assumptions": found.assumptions,
    }


def _formula_as_json(found: Comparison, row: dict[Any, Any]) -> dict[str, Any]:
    own = found.constants[found.constants["expression"] == row["expression"]]
    kept = own[["constant", "mean", "std", "low", "high", "mode"]].to_dict(orient="records")
    plain = [
        "expression", "equation", "log_evidence", "log_evidence_stderr", "probability",
        "bayes_factor", "log_bayes_factor", "complexity", "r2", "elpd_loo", "elpd_loo_se",
        "max_pareto_k",
    ]  # fmt: skip
    return {
        **{name: finite(row[name]) for name in plain},
        "constants": [{str(name): finite(value) for name, value in one.items()} for one in kept],
        "noise_std": {"mean": finite(row["noise_std"]), "std": finite(row["noise_std_std"])},
    }


def _print(found: Comparison, coverage: float) -> None:
    from dvisr.reporting.words import verdict_lines

    console = new_console()
    console.print("Formulas, best first, with their likeliest constants")
    _print_formulas(console, found)
    if len(found.constants):
        console.print(
            f"\nConstants: the likeliest values, as in the formulas and in their order, with "
            f"intervals of {100.0 * coverage:g} %"
        )
        _print_constants(console, found)
    print_lines(console, [*verdict_lines(found.verdict_), *found.assumptions])


def _print_formulas(console: Console, found: Comparison) -> None:
    from dvisr.reporting.words import with_spread

    table = Table()
    table.add_column("#", justify="right")
    table.add_column("formula", overflow="fold")
    heads = ("probability", "log evidence", "log Bayes factor", "noise", "elpd, one left out", "R²")
    for head in heads:
        table.add_column(head, justify="right")
    for rank, row in enumerate(found.table.to_dict(orient="records"), 1):
        probability = row["probability"]
        # As `Text`, so that a column called [red] is no markup.
        table.add_row(
            str(rank),
            Text(printable(row["equation"])),
            f"{probability:.6f}" if probability >= 5e-7 else f"{probability:.2e}",
            with_spread(row["log_evidence"], row["log_evidence_stderr"]),
            with_spread(row["log_bayes_factor"], 0.0),
            with_spread(row["noise_std"], row["noise_std_std"]),
            with_spread(row["elpd_loo"], row["elpd_loo_se"]),
            with_spread(row["r2"], 0.0),
        )
    console.print(table)


def _print_constants(console: Console, found: Comparison) -> None:
    """By the formulas' places, as these are printed with numbers for the constants' names."""
    table = Table()
    columns = {"mode": "likeliest", "std": "standard deviation", "low": "low", "high": "high"}
    for head in ("formula", "constant", *columns.values()):
        table.add_column(head, justify="right")
    places = {text: place for place, text in enumerate(found.table["expression"], 1)}
    for row in found.constants.to_dict(orient="records"):
        numbers = [f"{row[name]:.6g}" for name in columns]
        table.add_row(str(places[row["expression"]]), Text(row["constant"]), *numbers)
    console.print(table)

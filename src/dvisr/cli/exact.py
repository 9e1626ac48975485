"""`dvisr exact`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, late_progress, new_console
from dvisr.cli.options import grammar_options, noise_option, table_options
from dvisr.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from dvisr.exact import ExactPosterior
    from dvisr.types import Dataset


@click.command
@table_options
@click.option("--operators", default="+,*,sin", show_default=True, help="Operators and numbers.")
@click.option("--max-tokens", default=12, show_default=True, help="The largest expression.")
@click.option("--constants", is_flag=True, help="Allow the constant c, integrated out.")
@grammar_options(constraints="paper", tree_prior="uniform")
@noise_option(
    "Standard deviation of Gaussian noise (with --err, a factor of it), infer, student, "
    "student:NU or relative; 1 unless given."
)
@click.option(
    "--max-constants", type=click.IntRange(min=0), help="The most constants; by default any number."
)
@click.option(
    "--constant-prior",
    help="decades, decades:LOW,HIGH or normal:MEAN,STD; by default the Normal below.",
)
@click.option(
    "--constant-prior-mean", default=0.0, show_default=True, help="Mean of the Normal prior of c."
)
@click.option(
    "--constant-prior-std", default=10.0, show_default=True, help="Its standard deviation."
)
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=1), help="Rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def exact(
    data: str,
    target: str,
    features: tuple[str, ...] | None,
    err: str | None,
    top: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Sum over every expression of up to --max-tokens tokens, and print which are how probable.

    DATA is a table with a header: CSV, Parquet or .xlsx, also with .gz, or - for standard input.
    """
    from dvisr.data import dataset_from_table, read_table

    dataset = dataset_from_table(read_table(data), target, features=features, err=err)
    settings["noise"] = settings["noise"] or "1"
    settings["operators"] = [name for name in settings["operators"].split(",") if name.strip()]
    posterior = _solved(dataset, settings)
    if as_json:
        click.echo(json.dumps(_as_json(posterior, top), allow_nan=False))
    else:
        _print(posterior, top)
        click.echo(_settings(settings, err))


def _settings(settings: dict[str, Any], err: str | None) -> str:
    """What the numbers rest on."""
    noise = settings["noise"]
    text = "noise inferred" if noise == "infer" else f"noise {noise}"
    if err is not None:
        text += f" times column {err!r}"
    text += f", {settings['tree_prior']} prior of trees, constraints {settings['constraints']}"
    if settings["constants"] or "c" in settings["operators"]:
        mean, std = settings["constant_prior_mean"], settings["constant_prior_std"]
        text += f", constants {settings['constant_prior'] or f'Normal({mean:g}, {std:g})'}"
    return text


def _solved(dataset: Dataset, settings: dict[str, Any]) -> ExactPosterior:
    with late_progress("summing over expressions") as progress:
        from dvisr.exact import exact_posterior

        return exact_posterior(
            dataset.X,
            dataset.y,
            y_err=dataset.y_err,
            feature_names=dataset.feature_names,
            progress=progress,
            **settings,
        )


def _as_json(posterior: ExactPosterior, top: int) -> dict[str, Any]:
    columns = ["expression", "probability", "log_joint"]
    rows = posterior.table(top)[columns].to_dict(orient="records")
    merged = posterior.functions(top)[[*columns, "num_trees"]].to_dict(orient="records")
    return {
        "log_evidence": finite(posterior.log_evidence),
        "log_evidence_error": finite(posterior.log_evidence_error),
        "num_trees": posterior.num_trees,
        "num_allowed": posterior.num_allowed,
        "num_functions": posterior.num_functions,
        "posterior": [{str(key): finite(value) for key, value in row.items()} for row in rows],
        "functions": [{str(key): finite(value) for key, value in row.items()} for row in merged],
    }


def _print(posterior: ExactPosterior, top: int) -> None:
    console = new_console()
    functions = posterior.functions(top)
    shown = min(1.0, float(functions["probability"].sum()))
    share = "all" if shown > 1.0 - 1e-9 else f"{math.floor(shown * 1e4) / 1e2:.2f} %"
    console.print(f"Functions, likeliest first; these hold {share} of the posterior")
    _print_table(console, functions, "function", "num_trees", "trees", "{:,}")
    console.print("\nSingle trees, likeliest first")
    _print_table(console, posterior.table(top), "expression", "log_joint", "log joint", "{:.6f}")
    error = posterior.log_evidence_error
    margin = f" ± {error:.1g}" if error > 0.0 else ""
    console.print(f"log evidence {posterior.log_evidence:.10f}{margin}")
    console.print(_counts(posterior))


def _print_table(
    console: Console, rows: pd.DataFrame, head: str, last: str, last_head: str, last_format: str
) -> None:
    table = Table()
    table.add_column("#", justify="right")
    table.add_column(head, overflow="fold")
    table.add_column("probability", justify="right")
    table.add_column(last_head, justify="right")
    columns = (rows["expression"], rows["probability"], rows[last])
    for rank, (expression, probability, value) in enumerate(zip(*columns, strict=True), 1):
        shown = f"{probability:.8f}" if probability >= 5e-9 else f"{probability:.2e}"
        # As `Text`, so that a column called [red] is no markup.
        table.add_row(str(rank), Text(printable(expression)), shown, last_format.format(value))
    console.print(table)


def _counts(posterior: ExactPosterior) -> str:
    text = f"{posterior.num_trees:,} trees, {posterior.num_allowed:,} allowed"
    if posterior.num_functions is not None:
        text += f", {posterior.num_functions:,} distinct functions on these data"
    return text

"""`dvisr fit` and `dvisr demo`."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, fit_progress, new_console, printable, verdict_lines
from dvisr.cli.options import chosen_noise, grammar_options, noise_option, table_options
from dvisr.data import PLANETS, dataset_from_table, read_table
from dvisr.estimator import DVISRRegressor, FitWarning
from dvisr.estimator.regressor import OPERATORS
from dvisr.types import Dataset

INTERRUPTED = 130
_DEFAULT = DVISRRegressor()


@click.command(short_help="The posterior over formulas for your data.")
@table_options
@click.option("--operators", default=",".join(OPERATORS), show_default=True)
@click.option("--constants/--no-constants", default=True, help="Whether to allow the constant c.")
@click.option("--max-tokens", default=_DEFAULT.max_tokens, show_default=True)
@click.option("--max-constants", default=_DEFAULT.max_constants, show_default=True)
@grammar_options(constraints="default", tree_prior="science")
@click.option(
    "--constant-prior",
    default="decades",
    show_default=True,
    help="decades, decades:LOW,HIGH, or normal:MEAN,STD.",
)
@noise_option()
@click.option("--recipe", default="default", show_default=True, help="default, paper, ...")
@click.option("--num-steps", type=int, help="Steps; by default the recipe's own.")
@click.option("--num-samples", type=int, help="Trees a step; by default the recipe's own.")
@click.option("--max-time", type=float, help="Seconds after which to stop, compiling aside.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="A folder to save the model in.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=1), help="Rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def fit(
    data: Path,
    target: str,
    features: tuple[str, ...] | None,
    err: str | None,
    top: int,
    as_json: bool,
    seed: int,
    out: Path | None,
    noise: str | None,
    **settings: Any,
) -> int | None:
    """Search the formulas for those that the data make likely, and print them with their
    probabilities, constants and a verdict.

    DATA is a CSV file with a header, or a Parquet file. Ctrl-C ends the search and keeps what was
    found so far.
    """
    dataset = dataset_from_table(read_table(data), target, features=features, err=err)
    settings["operators"] = tuple(
        name.strip() for name in settings["operators"].split(",") if name.strip()
    )
    settings["noise"] = chosen_noise(noise, err)
    model = DVISRRegressor(random_state=seed, run_dir=out, **settings)
    seconds = _fitted(model, dataset, target)
    if as_json:
        click.echo(json.dumps(as_object(model, top, seconds), allow_nan=False))
    else:
        print_model(new_console(), model, top, target)
    return INTERRUPTED if model.interrupted_ and settings["max_time"] is None else None


def _fitted(model: DVISRRegressor, dataset: Dataset, target: str) -> float:
    import time

    began = time.perf_counter()
    with fit_progress("searching formulas") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the verdict is printed
        command = shlex.join(["dvisr", *sys.argv[1:]])
        model.fit_table(dataset, progress, target=target, command=command)
    return time.perf_counter() - began


@click.command(short_help="Kepler's third law from eight planets.")
def demo() -> None:
    """Find the law between the planets' distances from the Sun and their years."""
    console = new_console()
    console.print(
        "Eight planets: a, the distance from the Sun (astronomical units), and the period"
    )
    console.print("(years). Noise and constants are unknown. Kepler found in 1619: period² = a³.\n")
    dataset = dataset_from_table(PLANETS, "period", features=["a"])
    model = DVISRRegressor(
        operators=("+", "-", "*", "/", "sqrt", "exp", "log"), max_tokens=9, random_state=0
    )
    _fitted(model, dataset, "period")
    print_model(console, model, 5, "period")
    _print_law(console, model)


def _print_law(console: Console, model: DVISRRegressor) -> None:
    """The constant of the law, should it have one beside the exponent."""
    from dvisr.comparing import compare

    data = model._problem.data
    frame = pd.DataFrame(data.X, columns=list(data.feature_names))
    found = compare(frame, data.y, ["a * sqrt(a) * c"], random_state=0).constants.iloc[0]
    console.print(
        f"\nKepler's constant, if it were unknown: period = a^1.5 * {found['mean']:.6f}, "
        f"between {found['low']:.6f} and {found['high']:.6f} with 90 % probability."
    )


def print_model(console: Console, model: DVISRRegressor, top: int, target: str) -> None:
    functions = model.functions_.head(top)
    console.print(Text(f"Functions of {printable(target)}, likeliest first"))  # no markup in names
    table = Table()
    table.add_column("#", justify="right")
    table.add_column("function", overflow="fold")
    for head in ("probability", "log prior", "log likelihood"):
        table.add_column(head, justify="right")
    table.add_column("constants, mean ± standard deviation", overflow="fold")
    for rank, row in enumerate(functions.to_dict("records"), 1):
        pairs = zip(row["constants"], row["constants_std"], strict=True)
        constants = ", ".join(with_spread(mean, std) for mean, std in pairs)
        table.add_row(
            str(rank),
            Text(printable(str(row["equation"]))),
            f"{row['probability']:.4f}",
            *(f"{row[name]:.1f}" for name in ("log_prior", "log_likelihood")),
            constants,
        )
    console.print(table)
    for line in summary(model):
        console.print(Text(printable(line)))


def with_spread(mean: float, std: float) -> str:
    """To two digits of the standard deviation."""
    if not (np.isfinite(mean) and np.isfinite(std) and std > 0.0):
        return f"{mean:.6g}"
    digits = int(np.floor(np.log10(abs(mean) / std))) + 2 if mean != 0.0 else 2
    return f"{mean:.{max(2, min(digits, 12))}g} ± {std:.2g}"


def summary(model: DVISRRegressor) -> list[str]:
    found = model.diagnostics_
    noise, problem = model.noise_, model._problem
    has_bars = problem.data.y_err is not None
    kind = "noise factor" if has_bars else "noise"
    lines = [
        *verdict_lines(model.verdict_),
        f"log evidence {model.log_evidence_:.4f} ± {model.log_evidence_stderr_:.2g}"
        + (" (exact: every tree was weighed)" if found["exact"] else " (of what was visited)"),
        f"{kind} {with_spread(noise['mean'], noise['std'])}, R² {found['r2']:.4f}",
        _visited(found),
        f"prior of constants: {problem.constant_prior}",
        f"noise model: {problem.describe_noise()}",
    ]
    if len(model.inclusion_) > 1:
        shown = [f"{name} {share:.3f}" for name, share in model.inclusion_.items() if share >= 5e-4]
        others = len(model.inclusion_) - len(shown)
        rest = f"; {others} others less than 0.001" if others else ""
        lines.append(f"probability that a variable appears: {', '.join(shown)}{rest}")
    if model.interrupted_:
        steps = "1 step" if model.n_iter_ == 1 else f"{model.n_iter_} steps"
        lines.append(f"stopped after {steps}: this is what was found by then")
    return lines


def _visited(found: dict[str, Any]) -> str:
    if found["exact"]:
        return f"all {found['num_allowed']:,} trees weighed"
    text = f"{found['num_trees_visited']:,} trees visited of {_large(found['num_allowed'])}"
    count = found.get("num_listed", 0)
    return f"{text}; the {count:,} likeliest of the prior among them" if count else text


def _large(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def as_object(model: DVISRRegressor, top: int, seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "functions": [_row(row) for row in model.functions_.head(top).to_dict("records")],
        "expressions": [_row(row) for row in model.posterior_.head(top).to_dict("records")],
        "log_evidence": finite(model.log_evidence_),
        "log_evidence_stderr": finite(model.log_evidence_stderr_),
        "elbo": finite(model.elbo_),
        "noise_std": {name: finite(value) for name, value in model.noise_.items()},
        "inclusion": {str(name): finite(share) for name, share in model.inclusion_.items()},
        "diagnostics": {name: finite(value) for name, value in model.diagnostics_.items()},
        "num_steps": model.n_iter_,
        "interrupted": model.interrupted_,
        "seconds": seconds,
    }


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    shown = {
        str(name): finite(value)
        for name, value in row.items()
        if name not in ("constants", "constants_std")
    }
    means, stds = row["constants"] or (), row["constants_std"] or ()
    shown["constants"] = [
        {"mean": finite(mean), "std": finite(std)} for mean, std in zip(means, stds, strict=True)
    ]
    return shown

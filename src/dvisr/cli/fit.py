"""`dvisr fit`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import gc
import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click
from rich.text import Text

from dvisr.cli.console import fit_progress, new_console
from dvisr.cli.options import (
    COUNT,
    SECONDS,
    SEED,
    chosen_noise,
    grammar_options,
    noise_option,
    table_options,
)
from dvisr.cli.output import check_folder
from dvisr.cli.report import NAME
from dvisr.cli.status import INTERRUPTED
from dvisr.text import printable

if TYPE_CHECKING:
    from dvisr.estimator.table import TableRegressor
    from dvisr.fitting.progress import Progress
    from dvisr.types import Dataset

# The estimator's own, which takes long to import; a test holds them equal.
_OPERATORS = "+,-,*,/,^,square,sqrt,exp,log,sin,cos,neg,1,2,3,4,pi"


@click.command
@table_options
@click.option("--operators", default=_OPERATORS, show_default=True, help="Operators and numbers.")
@click.option("--constants/--no-constants", default=True, help="Whether to allow the constant c.")
@click.option(
    "--max-tokens",
    default=20,
    show_default=True,
    type=click.IntRange(1, 200),
    help="The largest formula: operators, columns, numbers and constants together.",
)
@click.option(
    "--max-constants",
    default=4,
    show_default=True,
    type=click.IntRange(min=0),
    help="The most constants in one.",
)
@grammar_options(constraints="default", tree_prior="science")
@click.option(
    "--constant-prior",
    default="decades",
    show_default=True,
    help="decades, decades:LOW,HIGH, or normal:MEAN,STD.",
)
@noise_option()
@click.option("--recipe", default="default", show_default=True, help="default, paper, ...")
@click.option("--num-steps", type=COUNT, help="Steps; by default the recipe's own.")
@click.option(
    "--num-samples", type=click.IntRange(min=2), help="Trees a step; by default the recipe's own."
)
@click.option(
    "--max-time",
    type=SECONDS,
    help="Seconds after which to stop, compiling aside; 60 for a search without --num-steps.",
)
@click.option("--seed", default=0, show_default=True, type=SEED, help="For the same answer again.")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    help="A folder to keep the fit in; another fit that is in it is replaced.",
)
@click.option("--top", default=10, show_default=True, type=COUNT, help="Functions to list.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def fit(
    data: str,
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

    DATA is a table with a header: CSV, Parquet or .xlsx, also with .gz, or - for standard input.
    Ctrl-C ends the search and keeps what was found so far.
    """
    from dvisr.data import dataset_from_table, read_table

    dataset = dataset_from_table(read_table(data), target, features=features, err=err)
    if out is not None:
        check_folder(out)
    settings["operators"] = tuple(
        name.strip() for name in settings["operators"].split(",") if name.strip()
    )
    settings["noise"] = chosen_noise(noise, err)
    began = time.perf_counter()
    with _worked_out_beside(dataset, settings):
        made = fitted(dataset, target, random_state=seed, run_dir=out, **settings)
    return present(made, out, top, as_json, time.perf_counter() - began)


_WORDS = (
    "operators", "constants", "max_tokens", "max_constants", "constraints", "tree_prior",
    "constant_prior", "noise",
)  # fmt: skip


@contextlib.contextmanager
def _worked_out_beside(dataset: Dataset, settings: dict[str, Any]) -> Iterator[None]:
    """What hangs on the language alone, while what else a fit needs is imported."""
    if settings["recipe"] != "default":
        yield
        return
    from dvisr.fitting.beforehand import work_out
    from dvisr.fitting.beside import beside

    words = {name: settings[name] for name in _WORDS}
    (work,) = beside(functools.partial(work_out, dataset, words))
    try:
        yield
    finally:
        concurrent.futures.wait([work])


def present(made: Fitted, out: Path | None, top: int, as_json: bool, seconds: float) -> int | None:
    """Print the answer; what the command exits with."""
    model = made.model
    if as_json:
        from dvisr.cli.answer import as_object

        found = {**as_object(model, top), "seconds": seconds}
        click.echo(json.dumps(found, allow_nan=False))
    else:
        from dvisr.cli.answer import print_answer

        console = new_console()
        print_answer(console, model, top, model._target)
        if made.failure is None:
            for line in _next(out, model.interrupted_):
                console.print(Text(printable(line)), soft_wrap=True)  # commands are in one piece
    check_saved(made, out)
    return status_of(made)


def status_of(made: Fitted) -> int | None:
    """What the command exits with, the answer being there."""
    if made.told_to_end is not None:
        return made.told_to_end
    return INTERRUPTED if made.model.diagnostics_.get("stopped_by") == "signal" else None


def check_saved(made: Fitted, out: Path | None) -> None:
    """Once the answer is printed: a `ValueError` where it could not be saved."""
    if made.failure is not None:
        reason = made.failure.strerror or str(made.failure)
        raise ValueError(
            f"the answer is above, but it was not saved in {str(out)!r} ({reason}): make room "
            f"there, or choose another folder and fit again"
        )


class Fitted(NamedTuple):
    model: TableRegressor
    failure: OSError | None  # why it could not be saved
    told_to_end: int | None  # by a signal: what the command then exits with


def fitted(dataset: Dataset, target: str, **settings: Any) -> Fitted:
    def fit_it(progress: Progress | None, made: list[TableRegressor]) -> None:
        from dvisr.estimator.table import TableRegressor

        made.append(TableRegressor(**settings))
        command = shlex.join(["dvisr", *sys.argv[1:]])
        made[0].fit_table(dataset, progress, target=target, command=command)

    return finished(fit_it)


def finished(work: Callable[[Progress | None, list[TableRegressor]], None]) -> Fitted:
    """What comes of work that puts its model into a list before it fits it: an answer, even if it
    could not be saved."""
    failure, told_to_end = None, None
    made: list[TableRegressor] = []
    with fit_progress() as progress, warnings.catch_warnings():
        from dvisr.estimator.table import FitWarning

        gc.freeze()  # what was imported stays: it need not be gone through after the fit
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("ignore", FitWarning)  # the verdict is printed
        warnings.showwarning = _said
        try:
            work(progress, made)
        except OSError as error:
            if not (made and made[0].__sklearn_is_fitted__()):
                raise
            failure = error
        except SystemExit as told:  # the answer is printed first
            if not (made and made[0].__sklearn_is_fitted__()):
                raise
            told_to_end = told.code if isinstance(told.code, int) else INTERRUPTED
    return Fitted(made[0], failure, told_to_end)


def _said(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """What a user should know, in a line; other packages' warnings are not for them."""
    if issubclass(category, UserWarning):
        click.echo(f"dvisr: {printable(str(message))}", err=True)


def _next(out: Path | None, is_interrupted: bool) -> list[str]:
    """Where the answer is, and what can be done with it."""
    if out is None:
        return ["not saved: with --out FOLDER there are a report, predictions and exports of it"]
    run = shlex.quote(str(out))
    more = (f"dvisr resume {run} --num-steps N", "more steps, N in all")
    if is_interrupted:
        more = (f"dvisr resume {run}", "goes on where it was stopped")
    offers = {
        f"dvisr report {run}": f"writes {out / NAME}, a page to look at and to send",
        f"dvisr predict {run} NEW.csv": "new rows, with intervals",
        more[0]: more[1],
        f"dvisr export {run} --format latex": "its formulas",
    }
    width = max(map(len, offers))
    return [f"saved in {out}", *(f"  {line:<{width}}  {what}" for line, what in offers.items())]

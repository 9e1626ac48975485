"""`dvisr reproduce`: the paper's experiments, side by side with the paper."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, new_console
from dvisr.cli.status import FAILED_CHECK, INTERRUPTED
from dvisr.text import printable

if TYPE_CHECKING:
    from dvisr.experiments import Reproduction, Result

_LIMITS = (
    "pass: KL at most 1.25 times the published one, or 1.25 times 0.001 if that is smaller; "
    "1e-6 up to 4 tokens"
)
GROUPS = ("simple", "constants", "scaling", "all")


class _Recipe(click.ParamType):
    """The name of a recipe: looked up when it is given, since recipes take long to import."""

    name = "NAME"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from dvisr.recipes import OLDER_NAMES, find_recipe

        name = OLDER_NAMES.get(value, str(value))
        try:
            find_recipe(name, "simple")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return name


def _sizes(_: Any, __: Any, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    from dvisr.experiments import LARGEST_SIZE

    low, separator, high = value.partition("-")
    try:
        first, last = int(low), int(high if separator else low)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no range of sizes: write 1-12 or 7") from None
    if not 1 <= first <= last <= LARGEST_SIZE:
        raise click.BadParameter(
            f"sizes go from 1 to {LARGEST_SIZE}, the smaller first, not {value!r}"
        )
    return tuple(range(first, last + 1))


@click.command
@click.argument("group", type=click.Choice(GROUPS), default="all")
@click.option(
    "--recipe",
    default="paper",
    show_default=True,
    type=_Recipe(),
    help="Policy, objective, optimiser and schedule.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Runs of each experiment; by default the paper's: 10, and 1 for scaling.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Steps of a run, else the paper's.")
@click.option("--samples", type=click.IntRange(min=2), help="Samples a step, else the paper's.")
@click.option("--sizes", callback=_sizes, help="Sizes of the scaling experiments: 1-12, or 7.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0, max=2**31 - 1))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for results, figures and index.html; an interrupted run goes on there.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def reproduce(
    context: click.Context,
    group: str,
    recipe: str,
    runs: int | None,
    steps: int | None,
    samples: int | None,
    sizes: tuple[int, ...] | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run the paper's experiments and print their tables: the paper's number, the exact one, ours.

    Without a group, all of them: about ten minutes on two cores. Exit status 1 if anything falls
    short.

    Recipes: paper has the paper's hyperparameters, with stratified draws in the scaling
    experiments and exploring ones where there are constants; paper-literal draws as the authors'
    code does; paper-ewma has the baseline that the paper's text names. network is ours (default is
    an older name of it): a policy that sees its place, Adam with cosine decay, trajectory balance
    with replay (with constants, trees filled several times), and a network that depends on the
    budget of steps and samples. shallow has one layer (of 128 units in the scaling experiments);
    the others are shallow with one thing changed: a transformer, another objective.
    """
    from dvisr.experiments import SCALING_SIZES, everything_in, experiments, write_pages
    from dvisr.experiments import reproduce as run_all

    if sizes is not None and group not in ("scaling", "all"):
        raise click.BadParameter(f"--sizes is for the scaling experiments, not for {group}")
    chosen = experiments(group, SCALING_SIZES if sizes is None else sizes, runs)
    console = new_console()
    found: list[Reproduction] = []
    interrupted = False

    try:
        with _Progress() as progress:

            def on_result(one: Reproduction) -> None:
                found.append(one)
                if not as_json and one.experiment.kind != "scaling":
                    with progress.paused():
                        _print_table(console, one)

            run_all(
                chosen,
                recipe,
                seed,
                num_steps=steps,
                num_samples=samples,
                out=out,
                on_progress=progress.report,
                on_result=on_result,
                on_note=progress.note,
            )
    except KeyboardInterrupt:
        interrupted = True
    passed = not interrupted and not any(one.failures for one in found)
    if as_json:
        click.echo(json.dumps(_as_json(found, passed), allow_nan=False))
    else:
        _print_scaling(console, [one for one in found if one.experiment.kind == "scaling"])
    if interrupted:
        kept = "nothing is kept without --out" if out is None else "the same command goes on"
        done = f"{len(found)} of {len(chosen)} experiments are finished"
        click.echo(f"dvisr: interrupted: {done}; {kept}", err=True)
        context.exit(INTERRUPTED)
    if out is not None:
        page = write_pages(everything_in(out, found), out)
        click.echo(f"tables and figures: {page}", err=True)
    if not as_json:
        _print_verdict(console, found)
    context.exit(0 if passed else FAILED_CHECK)


class _Progress:
    """A bar with the time left where there is a terminal, else a line for each experiment."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%, elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=1.0)
        self._latest = ""

    def report(self, name: str, fraction: float) -> None:
        if name != self._latest and not self._console.is_terminal:
            self._console.print(f"{name} ({fraction:.0%} of the work is done)")
        self._latest = name
        self._bar.update(self._task, description=name, completed=fraction)

    def note(self, text: str) -> None:
        self._console.print(Text(printable(text)))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While standard output, which may be the same terminal, is written to."""
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _as_json(found: Sequence[Reproduction], passed: bool) -> dict[str, Any]:
    return {
        "experiments": [
            {
                "name": one.experiment.name,
                "runs": len(one.result.kl),
                "log_evidence": one.result.log_evidence,
                "expressions": [
                    {
                        "expression": row.expression,
                        "paper": row.paper,
                        "exact": row.exact,
                        "q_median": finite(row.q_median),
                        "q_iqr": [finite(quartile) for quartile in row.q_iqr],
                    }
                    for row in one.result.rows
                ],
                "kl": [finite(kl) for kl in one.result.kl],
                "seconds": one.result.seconds,
            }
            for one in found
            if one.experiment.kind != "scaling"
        ],
        "scaling": [
            {
                "max_tokens": one.experiment.max_tokens,
                "log_evidence": one.result.log_evidence,
                "kl": finite(one.result.median_kl),
                "kl_stderr": finite(one.result.kl_stderr),
                "kl_method": one.result.kl_method,
                "kl_elbo": finite(one.result.median_kl_elbo),
                "published_kl": one.experiment.published_kl,
                "seconds": one.result.seconds,
                "kl_runs": [finite(kl) for kl in one.result.kl],
            }
            for one in found
            if one.experiment.kind == "scaling"
        ],
        "passed": passed,
    }


def _print_table(console: Console, one: Reproduction) -> None:
    result = one.result
    table = Table(title=one.experiment.name, title_justify="left")
    table.add_column("expression")
    for head in ("paper", "exact", "q, median", "q, 25 %", "q, 75 %"):
        table.add_column(head, justify="right")
    for row in result.rows:
        paper = "" if row.paper is None else f"{row.paper:.8f}"
        numbers = (row.exact, row.q_median, *row.q_iqr)
        table.add_row(row.expression, paper, *(f"{number:.8f}" for number in numbers))
    console.print(table)
    console.print(
        f"{_verdict(one)}\nlog evidence {result.log_evidence:.10f}, {result.seconds:.1f} s; KL "
        f"median {result.median_kl:.1e}, worst of {result.runs_in_words} {result.worst_kl:.1e}\n"
    )


def _verdict(one: Reproduction) -> str:
    return "FAIL: " + "; ".join(one.failures) if one.failures else "pass"


def _print_scaling(console: Console, found: Sequence[Reproduction]) -> None:
    from dvisr.experiments import kl_limit

    if not found:
        return
    table = Table(title="scaling: y = x0^2, by the maximum number of tokens", title_justify="left")
    for head in (
        "tokens", "log evidence", "published KL", "KL", "KL, samples", "method", "published s",
        "seconds", "",
    ):  # fmt: skip
        table.add_column(head, justify="right")
    for one in found:
        result, experiment = one.result, one.experiment
        published, seconds = experiment.published_kl, experiment.published_seconds
        verdict = "" if kl_limit(experiment) is None else ("FAIL" if one.failures else "pass")
        table.add_row(
            str(experiment.max_tokens),
            f"{result.log_evidence:.10f}",
            "" if published is None else f"{published:.3g}",
            _kl_of_runs(result),
            f"{result.median_kl_elbo:.3g}",
            result.kl_method,
            "" if seconds is None else f"{seconds:,.0f}",
            f"{result.seconds:.1f}",
            verdict,
        )
    console.print(table)
    console.print(_LIMITS + "\n")


def _kl_of_runs(result: Result) -> str:
    if len(result.kl) == 1:
        return f"{result.median_kl:.3g}"
    return f"{result.median_kl:.3g} ({min(result.kl):.2g} to {result.worst_kl:.2g})"


def _print_verdict(console: Console, found: Sequence[Reproduction]) -> None:
    good = sum(not one.failures for one in found)
    seconds = sum(one.result.seconds for one in found)
    console.print(
        f"{good} of {len(found)} experiments pass, in {seconds / 60:.1f} minutes of training"
    )

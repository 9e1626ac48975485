"""What a fit found, on the screen and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, print_lines
from dvisr.reporting.subject import COVERAGE, Subject, constants_of
from dvisr.reporting.words import ends, fact_lines, verdict_lines
from dvisr.text import printable

if TYPE_CHECKING:
    from dvisr.estimator.table import TableRegressor

_MOST_FUNCTIONS = 3  # whose constants are listed
_LIKELY = 0.05


def print_answer(console: Console, model: TableRegressor, top: int, target: str) -> None:
    """Functions, their constants, the verdict, and what the numbers rest on. A constant has one
    number, in the formula and in the list: where the posterior is highest. (Medians or means of
    several constants need not lie anywhere near the posterior together.)"""
    title = f"Functions of {printable(target)}, likeliest first, with their likeliest constants"
    console.print(Text(title))  # no markup in names
    console.print(_function_table(model, top))
    constants = _constant_table(model, top)
    if constants.row_count:
        console.print(
            f"Constants: the likeliest values, as in the formulas, c0 the first from the left, and "
            f"intervals of {100 * COVERAGE:g} %"
        )
        console.print(constants)
        if _num_with_constants(model, top) > len(set(constants.columns[0].cells)):
            console.print("constants of the other functions: --json, or the report")
    print_lines(console, summary(model._subject()))


def _function_table(model: TableRegressor, top: int) -> Table:
    table = Table()
    table.add_column("#", justify="right")
    table.add_column("function", overflow="fold")
    for head in ("probability", "log prior", "log likelihood"):
        table.add_column(head, justify="right")
    for rank, row in enumerate(model.functions_.head(top).to_dict("records"), 1):
        table.add_row(
            str(rank),
            Text(printable(str(row["equation"]))),
            f"{row['probability']:.4f}",
            *(f"{row[name]:.1f}" for name in ("log_prior", "log_likelihood")),
        )
    return table


def _constant_table(model: TableRegressor, top: int) -> Table:
    """Of the first functions, as far as they are likely."""
    table = Table()
    for head in ("function", "constant", "likeliest", "low", "high"):
        table.add_column(head, justify="right")
    likely = [one for one in model.functions_["probability"].head(top) if one >= _LIKELY]
    for rank in range(min(max(1, len(likely)), _MOST_FUNCTIONS)):
        for place, constant in enumerate(constants_of(model._posterior.functions[rank])):
            table.add_row(str(rank + 1), f"c{place}", f"{constant.mode:.6g}", *ends(constant))
    return table


def _num_with_constants(model: TableRegressor, top: int) -> int:
    """Of the functions that are shown."""
    shown = model._posterior.functions[:top]
    return sum(function.expression.num_constants > 0 for function in shown)


def summary(subject: Subject) -> list[str]:
    """The verdict first: it says how the rest is to be read."""
    problem = subject.problem
    return [
        *verdict_lines(subject.outcome.verdict),
        *fact_lines(subject),
        f"prior of constants: {problem.constant_prior}",
        f"noise model: {problem.describe_noise()}",
    ]


def as_object(model: TableRegressor, top: int) -> dict[str, Any]:
    """What `--json` prints."""
    functions = [_row(row) for row in model.functions_.head(top).to_dict("records")]
    for index, row in enumerate(functions):
        known = constants_of(model._posterior.functions[index])
        for shown, constant in zip(row["constants"], known, strict=True):
            shown |= {name: finite(value) for name, value in vars(constant).items()}
    return {
        "functions": functions,
        "expressions": [_row(row) for row in model.posterior_.head(top).to_dict("records")],
        "log_evidence": finite(model.log_evidence_),
        "log_evidence_stderr": finite(model.log_evidence_stderr_),
        "elbo": finite(model.elbo_),
        "noise_std": {name: finite(value) for name, value in model.noise_.items()},
        "inclusion": {str(name): finite(share) for name, share in model.inclusion_.items()},
        "diagnostics": {name: finite(value) for name, value in model.diagnostics_.items()},
        "num_steps": model.n_iter_,
        "interrupted": model.interrupted_,
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

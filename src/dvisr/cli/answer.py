"""What a fit found, on the screen and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dvisr.cli.console import finite, printable, verdict_lines, with_error

if TYPE_CHECKING:
    from dvisr.estimator import DVISRRegressor

COVERAGE = 0.9  # of the intervals of constants
_MOST_FUNCTIONS = 3  # whose constants are listed
_LIKELY = 0.05


def print_answer(console: Console, model: DVISRRegressor, top: int, target: str) -> None:
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
    for line in summary(model):
        console.print(Text(printable(line)))


def _function_table(model: DVISRRegressor, top: int) -> Table:
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


def _constant_table(model: DVISRRegressor, top: int) -> Table:
    """Of the first functions, as far as they are likely."""
    table = Table()
    for head in ("function", "constant", "likeliest", "low", "high"):
        table.add_column(head, justify="right")
    likely = [one for one in model.functions_["probability"].head(top) if one >= _LIKELY]
    for rank in range(min(max(1, len(likely)), _MOST_FUNCTIONS)):
        for place, (mode, low, high) in enumerate(constants_of(model, rank)):
            digits = _digits(low, high)
            ends = (f"{end:.{digits}g}" for end in (low, high))
            table.add_row(str(rank + 1), f"c{place}", f"{mode:.6g}", *ends)
    return table


def constants_of(model: DVISRRegressor, index: int) -> list[tuple[float, float, float]]:
    """Of each constant of a function: the likeliest value and the ends of its interval."""
    weighed = model._posterior.functions[index].weighed
    low, high = weighed.quantiles(np.array([0.5 - 0.5 * COVERAGE, 0.5 + 0.5 * COVERAGE]))
    columns = (weighed.mode, low, high)
    return [(float(m), float(a), float(b)) for m, a, b in zip(*columns, strict=True)]


def _digits(low: float, high: float) -> int:
    """Enough to tell the ends of an interval apart."""
    size, width = max(abs(low), abs(high)), high - low
    if not (math.isfinite(size) and width > 0.0):
        return 6
    return min(12, max(3, math.ceil(math.log10(size / width)) + 2))


def summary(model: DVISRRegressor) -> list[str]:
    found = model.diagnostics_
    noise, problem = model.noise_, model._problem
    has_bars = problem.data.y_err is not None
    kind = "noise factor" if has_bars else "noise"
    lines = [
        *verdict_lines(model.verdict_),
        f"log evidence {model.log_evidence_:.4f} ± {model.log_evidence_stderr_:.2g}"
        + (" (exact: every tree was weighed)" if found["exact"] else " (of what was visited)"),
        f"{kind} {with_error(noise['mean'], noise['std'])} (mean and standard deviation), "
        f"R² {found['r2']:.4f}",
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


def as_object(model: DVISRRegressor, top: int) -> dict[str, Any]:
    """What `--json` prints."""
    functions = [_row(row) for row in model.functions_.head(top).to_dict("records")]
    for index, row in enumerate(functions):
        for constant, (mode, low, high) in zip(
            row["constants"], constants_of(model, index), strict=True
        ):
            constant |= {"mode": finite(mode), "low": finite(low), "high": finite(high)}
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

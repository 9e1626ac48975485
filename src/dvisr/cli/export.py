"""`dvisr export`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import dvisr
from dvisr.cli.output import write_text
from dvisr.cli.saved import check_run, chosen_functions, index_option, load_run, run_argument

if TYPE_CHECKING:
    import pandas as pd

    from dvisr.estimator import DVISRRegressor

_DIGITS = 6
_DRAWS = 2000


@click.command
@run_argument
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(("text", "latex", "python", "sympy", "json", "csv", "draws", "netcdf")),
    help="What to write.",
)
@index_option
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(min=1), help="Functions, at most."
)
@click.option("--out", "-o", type=click.Path(allow_dash=True), help="A file to write.")
def export(run: Path, form: str, indices: tuple[int, ...], top: int, out: str | None) -> None:
    """Write out what `dvisr fit --out RUN` saved, in another form.

    text, latex and sympy give a formula a line, likeliest first, at its likeliest constants; python
    a function of NumPy arrays for each; json what dvisr fit --json prints but for the seconds, with
    LaTeX; csv a row a function, with probabilities, constants and their intervals of 90 %. draws
    are equally likely draws from the posterior as CSV, of the constants and the noise: of all
    formulas together, or with --index of one. netcdf is for ArviZ and needs --out.
    """
    check_run(run)
    if form == "netcdf" and (out is None or out == "-"):
        raise ValueError("netcdf is no text: give a file with --out")
    model = load_run(run)
    chosen = chosen_functions(model, indices, top)
    if form == "netcdf":
        assert out is not None
        _write_netcdf(model, Path(out))
    elif form == "draws":
        if len(indices) > 1:
            raise ValueError("draws are of all formulas or of one: give one --index")
        frame = _function_draws(model, chosen[0]) if indices else _posterior_draws(model)
        write_text(frame.to_csv(index=False), out)
    else:
        write_text(_WRITERS[form](model, chosen), out)


def _text(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    return "\n".join(str(model.expression(index)) for index in chosen)


def _latex(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    return "\n".join(model.latex(index, digits=_DIGITS) for index in chosen)


def _sympy(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    return "\n".join(_sympy_text(model, index) for index in chosen)


def _sympy_text(model: DVISRRegressor, index: int) -> str:
    """As SymPy prints it; where a column has a name that SymPy would read as something else, as
    SymPy spells it out, so that reading it back executes nothing."""
    import sympy

    formula = model.sympy(index)
    is_plain = all(
        symbol.name.isascii() and symbol.name.isidentifier() and not hasattr(sympy, symbol.name)
        for symbol in formula.free_symbols
    )
    return str(formula) if is_plain else str(sympy.srepr(formula))


def _python(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    from dvisr.expression import python_arguments, python_source

    pairs = python_arguments(model.expression(chosen[0]))
    columns = [f"#   {argument}: {name!a}" for argument, name in pairs]
    parts = [
        f"# Formulas found by dvisr {dvisr.__version__}, likeliest first, at their likeliest "
        "constants.\n# Each takes all columns, as arrays or numbers:\n" + "\n".join(columns),
        "import numpy as np",
    ]
    for index in chosen:
        share = model.functions_["probability"].iloc[index]
        source = python_source(model.expression(index), f"function_{index}")
        parts.append(f"\n# probability {share:.4g}\n{source}")
    return "\n\n".join(parts) + "\n"


def _json(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    from dvisr.cli.answer import as_object

    found = as_object(model, max(chosen) + 1)
    found["functions"] = [
        {**found["functions"][index], "latex": model.latex(index, digits=_DIGITS)}
        for index in chosen
    ]
    found["features"] = list(model._problem.data.feature_names)
    return json.dumps(found, allow_nan=False, indent=1)


def _csv(model: DVISRRegressor, chosen: Sequence[int]) -> str:
    import pandas as pd

    from dvisr.reporting.subject import constants_of

    rows = []
    for index in chosen:
        row = model.functions_.drop(columns=["constants", "constants_std"]).iloc[index]
        constants = {
            f"c{place}{end}": value
            for place, one in enumerate(constants_of(model._posterior.functions[index]))
            for end, value in (("", one.mode), ("_low", one.low), ("_high", one.high))
        }
        plain = {str(name): value for name, value in row.items()}
        rows.append({"index": index, **plain, **constants})
    return pd.DataFrame(rows).to_csv(index=False)


_WRITERS: dict[str, Callable[[DVISRRegressor, Sequence[int]], str]] = {
    "text": _text,
    "latex": _latex,
    "sympy": _sympy,
    "python": _python,
    "json": _json,
    "csv": _csv,
}


def _posterior_draws(model: DVISRRegressor) -> pd.DataFrame:
    import pandas as pd

    draws = model._posterior.draws
    noise, unit = model._problem.likelihood.noise_unit
    texts = [str(expression) for expression in draws.expressions]
    own = [expression.num_constants for expression in draws.expressions]
    frame = pd.DataFrame({"expression": [texts[tree] for tree in draws.tree]})
    counts = pd.Series([own[tree] for tree in draws.tree])
    for place in range(draws.constants.shape[1]):
        frame[f"c{place}"] = pd.Series(draws.constants[:, place]).where(counts > place)
    frame[noise] = unit * draws.noise_factor
    return frame


def _function_draws(model: DVISRRegressor, index: int) -> pd.DataFrame:
    from dvisr.marginal import Engine
    from dvisr.posterior.arviz import tree_datatree

    function = model._posterior.functions[index]
    engine = Engine.of(model._problem)
    tree = tree_datatree(engine, function.expression, function.weighed, count=_DRAWS, seed=0)
    frame: pd.DataFrame = tree["posterior"].to_dataset().to_dataframe()
    return frame


def _write_netcdf(model: DVISRRegressor, out: Path) -> None:
    from dvisr.runs.files import whole

    with whole(out) as place:
        model.to_datatree().to_netcdf(place, engine="h5netcdf")

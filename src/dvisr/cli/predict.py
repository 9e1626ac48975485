"""`dvisr predict`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dvisr.cli.output import write_text
from dvisr.cli.saved import check_run, chosen_functions, index_option, load_run, run_argument
from dvisr.text import printable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from dvisr.estimator import DVISRRegressor


@click.command
@run_argument
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "--coverage",
    default=0.9,
    show_default=True,
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    help="Of the intervals.",
)
@click.option("--err", help="A column with the standard deviation of each new row's noise.")
@index_option
@click.option("--out", "-o", type=click.Path(allow_dash=True), help="A CSV file to write.")
def predict(
    run: Path,
    data: str,
    coverage: float,
    err: str | None,
    indices: tuple[int, ...],
    out: str | None,
) -> None:
    """Predict new rows by a fit that `dvisr fit --out RUN` saved; print CSV.

    DATA is a table with the columns that were fitted, in any order, or - for standard input.

    After the fitted columns come mean (averaged over the posterior), std (of a new observation,
    noise included), low and high (the interval of a new observation), curve_low and curve_high (of
    the curve alone), and undefined (the share of the posterior that is undefined at the row and was
    left out). With --index there is one column for each function that was asked for, function_0,
    function_1, ..., at its likeliest constants; empty where it is undefined.
    """
    from dvisr.data import read_table

    check_run(run)
    table = read_table(data)
    model = load_run(run)
    rows, bars = _rows(model, table, err)
    if indices:
        if err is not None:
            raise ValueError("--err goes with the whole posterior: leave out --index")
        columns: dict[str, Any] = {
            f"function_{index}": model.predict(rows, index=index)
            for index in chosen_functions(model, indices)
        }
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            columns = _predictions(model, rows, bars, coverage)
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            click.echo(f"dvisr: {printable(text)}", err=True)
    write_text(_joined(model, rows, columns).to_csv(index=False), out)


def _rows(
    model: DVISRRegressor, table: pd.DataFrame, err: str | None
) -> tuple[Any, np.ndarray | None]:
    """The fitted columns by their names, and error bars."""
    import numpy as np
    import pandas as pd

    from dvisr.data import check_columns
    from dvisr.types import as_numbers

    table = table.set_axis([str(name) for name in table.columns], axis=1)
    names = list(model._problem.data.feature_names)
    check_columns(list(table.columns), [*names, *([] if err is None else [err])])
    numbers = {name: as_numbers(table[name], f"column {name!r}") for name in names}
    bars = None if err is None else as_numbers(table[err], f"column {err!r}")
    if hasattr(model, "feature_names_in_"):
        return pd.DataFrame(numbers), bars
    return np.stack([numbers[name] for name in names], axis=1), bars


def _predictions(
    model: DVISRRegressor, rows: Any, bars: np.ndarray | None, coverage: float
) -> dict[str, Any]:
    mean, std = model.predict(rows, return_std=True, y_err=bars)
    interval = model.predict_interval(rows, coverage, y_err=bars)
    curve = model.predict_interval(rows, coverage, kind="function")
    return {
        "mean": mean,
        "std": std,
        "low": interval[:, 0],
        "high": interval[:, 1],
        "curve_low": curve[:, 0],
        "curve_high": curve[:, 1],
        "undefined": model.predict_undefined(rows),
    }


def _joined(model: DVISRRegressor, rows: Any, columns: dict[str, Any]) -> pd.DataFrame:
    """The fitted columns and the predictions; one that is called like a column is told apart."""
    import pandas as pd

    names = list(model._problem.data.feature_names)
    given = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=names)
    own = {f"predicted_{name}" if name in names else name: v for name, v in columns.items()}
    return pd.concat([given, pd.DataFrame(own)], axis=1)

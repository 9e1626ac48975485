"""The functions: all of them as a bar chart, the first of them one by one."""

from __future__ import annotations

import numpy as np

from dvisr.expression import mathml
from dvisr.expression.mathml import constant_name
from dvisr.posterior import Function
from dvisr.reporting import figures, numbers
from dvisr.reporting.markup import bar, density, figure, key, paragraphs, section, table, text
from dvisr.reporting.sections import Figures, axis_choice, fit_figure, row_numbers, typeset
from dvisr.reporting.subject import Subject, constants_of
from dvisr.reporting.words import digits_of, number, share, with_interval

_LISTED = 10  # functions with a bar
_DRAWN, _PAIRED = 4000, 600  # draws of the constants, and of a pair of them
_RESIDUALS = (
    "What is left of each row, in units of the noise; of Gaussian noise, one row in twenty lies "
    "outside the dotted lines."
)


def functions(subject: Subject, top: int) -> str:
    """The bar chart: each function with its probability."""
    listed = subject.posterior.functions[:_LISTED]
    rows = []
    for place, function in enumerate(listed):
        button = (
            f"<button data-choose='{place}' data-go='each' aria-pressed='{_is(place == 0)}' "
            f"title='show this function below'>{place + 1}</button>"
            if place < min(top, len(listed))
            else f"{place + 1}"
        )
        rows.append(
            (
                f"<span class='rank'>{button}</span>",
                f"<div class='formula'>{mathml(function.expression, left=subject.target)}</div>",
                bar(function.probability),
                f"<span class='number'>{share(function.probability)}</span>",
            )
        )
    rest = 1.0 - sum(function.probability for function in listed)
    if rest > 0.0005:
        rows.append(("", "all others together", bar(rest), share(rest)))
    return section(
        "functions", "The functions",
        paragraphs(
            "Formulas that are the same function are counted once. The letters c stand for "
            "constants, whose values follow for each function. Choose a number to see its function."
        ),
        table(("", "function", "probability", ""), rows, "functions"),
    )  # fmt: skip


def _is(value: bool) -> str:
    return "true" if value else "false"


def each_function(subject: Subject, made: Figures, top: int) -> str:
    """For each of the first: fit, residuals and the posterior of its constants."""
    shown = subject.posterior.functions[:top]
    buttons = "".join(
        f"<button data-choose='{place}' aria-pressed='{_is(place == 0)}'>"
        f"{place + 1}: {share(function.probability)}</button>"
        for place, function in enumerate(shown)
    )
    axis = "" if len(subject.columns) == 1 else axis_choice(subject)
    panels = "".join(_panel(subject, made, place, one) for place, one in enumerate(shown))
    return section(
        "each", "Each function by itself",
        paragraphs("As if it were the right one: its curve, what is left, and its constants."),
        "<div class='choices' role='group' aria-label='function'><span>Function</span>"
        f"{buttons}</div>", axis, panels,
    )  # fmt: skip


def _panel(subject: Subject, made: Figures, place: int, function: Function) -> str:
    fit, left = f"fit-{place}", f"residuals-{place}"
    is_one = len(subject.columns) == 1
    made.add(fit, fit_figure(subject, function))
    residuals = numbers.residuals_of(subject, function)
    rows = numbers.shown_rows(subject)
    at = subject.problem.X[rows, 0] if is_one else numbers.rows_of(subject, function).middle
    name = subject.columns[0] if is_one else ""
    made.add(left, figures.residual_figure(at, residuals, row_numbers(subject), x_name=name))
    kind = "" if is_one else "against"
    against = ""
    if not is_one:
        axis = f"{text(subject.target)}, predicted"
        against = f" Against: <span class='axis-name'>{axis}</span>."
    chosen = " chosen" if place == 0 else ""
    legend = key("data", "data") + key("line", "at the most probable constants")
    legend += key("band", "90 % of new observations")
    return (
        f"<div class='panel{chosen}' data-place='{place}'>"
        f"<div class='formula headline'>{typeset(function, subject)}</div>"
        f"<p class='soft'>Probability {share(function.probability)}, "
        f"{function.expression.complexity} tokens.</p>"
        f"<div class='two'>{figure(fit, legend + against, kind)}"
        f"{figure(left, _RESIDUALS + against, kind)}</div>"
        f"{_constants(subject, made, place, function)}</div>"
    )


def _constants(subject: Subject, made: Figures, place: int, function: Function) -> str:
    found = constants_of(function)
    if not found:
        return "<p>It has no constants.</p>"
    places = function.weighed.resampled(_DRAWN, np.random.default_rng(0))
    draws = function.weighed.constants[places]
    digits = digits_of(function)
    rows = [
        (
            f"<math>{constant_name(index, len(found))}</math>",
            f"<span class='number'>{text(with_interval(constant, digits))}</span>",
            density(draws[:, index], constant),
        )
        for index, constant in enumerate(found)
    ]
    symbols = mathml(function.expression, left=subject.target)
    listed = (
        f"<h3>Its constants</h3><div class='formula'>{symbols}</div>"
        + table(("", "most probable value (90 % interval)", "posterior"), rows, "constants")
        + "<p class='soft'>The line marks the most probable value, which is the one in the "
        "formula; the shade is the central 90 % interval.</p>"
    )
    if len(found) < 2:
        return listed
    one, two, r = _closest(draws)
    name = f"pair-{place}"
    made.add(name, figures.pair_figure(
        draws[:_PAIRED, one], draws[:_PAIRED, two], (f"c{one}", f"c{two}"),
    ))  # fmt: skip
    caption = (
        f"Draws of the two constants that depend on each other most, rank correlation "
        f"{number(r, 0.1)}."
    )
    return f"<div class='two'><div>{listed}</div>{figure(name, caption)}</div>"


def _closest(draws: np.ndarray) -> tuple[int, int, float]:
    """The two columns with the largest rank correlation, and that."""
    ranks = draws.argsort(axis=0).argsort(axis=0).astype(float)
    with np.errstate(all="ignore"):
        r = np.nan_to_num(np.corrcoef(ranks.T))
    pairs = [(i, j) for i in range(len(r)) for j in range(i + 1, len(r))]
    one, two = max(pairs, key=lambda pair: abs(r[pair]))
    return one, two, float(r[one, two])

"""The first half of the report: what was found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dvisr.checks import QUESTIONS
from dvisr.expression import mathml
from dvisr.expression.mathml import constant_name
from dvisr.posterior import Function
from dvisr.posterior.of_function import function_draws
from dvisr.reporting import figures, numbers
from dvisr.reporting.markup import bar, density, figure, key, paragraphs, section, table, text
from dvisr.reporting.subject import Subject, constants_of
from dvisr.reporting.words import number, share, with_interval, with_spread

_LISTED = 15  # functions with a bar
_OFFERED = 12  # columns that a figure can be plotted against
_MOST = 0.95  # of the probability, for "nearly all"
_PAIRED = 600  # draws of a pair of constants


class Figures:
    """Those of one page: Bokeh models by the place where they stand."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self.columns: list[list[float]] = []  # rows of the columns that can be chosen

    def add(self, place: str, model: Any) -> None:
        self._models[place] = model

    def items(self) -> list[Any]:
        from bokeh.embed import json_item

        return [json_item(model, place) for place, model in self._models.items()]


def offered(subject: Subject) -> list[int]:
    """Numbers of the columns that figures can be plotted against, likeliest to matter first."""
    inclusion = subject.posterior.inclusion
    shares = [-float(inclusion.get(name, 0.0)) for name in subject.columns]
    return np.argsort(shares, kind="stable")[:_OFFERED].tolist()


def row_numbers(subject: Subject) -> np.ndarray:
    """Of the rows that are drawn, in the table that they came from, from 1."""
    places, position = numbers.shown_rows(subject), subject.problem.position
    return (places if position is None else np.asarray(position)[places]).astype(np.int32) + 1


def head(subject: Subject) -> str:
    """What was asked, the answer in two sentences, the verdict, and the first numbers."""
    columns = [text(name) for name in subject.columns]
    of = ", ".join(columns[:6]) + (f" and {len(columns) - 6} more" if len(columns) > 6 else "")
    first = subject.posterior.functions[0]
    found = subject.outcome.diagnostics
    facts = [
        ("observations", f"{found['num_rows']:g}"),
        ("noise", _noise(subject)),
        ("variance explained", f"{found['r2']:.1%}" if math.isfinite(found["r2"]) else "none"),
        ("log evidence", f"{subject.posterior.log_evidence:.2f}"),
        ("formulas weighed", _visited(found)),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{text(fact)}</dd></div>" for name, fact in facts)
    return (
        f"<header><h1>{text(subject.target)} as a function of {of}</h1>"
        f"<p class='soft'>Formulas that the data make probable, with how sure each of them is.</p>"
        f"<p>{_sureness(subject)}</p>"
        f"<div class='formula headline'>{mathml(first.modal, left=subject.target)}</div>"
        f"{_verdict(subject)}<dl class='facts'>{shown}</dl></header>"
        "<noscript><p>Figures need JavaScript; the text and the tables do not.</p></noscript>"
    )


def _noise(subject: Subject) -> str:
    size = with_spread(subject.noise["mean"], subject.noise["std"])
    likelihood = subject.problem.likelihood
    if likelihood.y_err is not None:
        return f"{size} times the error bars"
    return f"{size} of the value" if likelihood.noise.link == "log" else size


def _visited(found: dict[str, Any]) -> str:
    count = int(found["num_trees_visited"])
    return f"all {count:,}" if found.get("exact") else f"{count:,}"


def _sureness(subject: Subject) -> str:
    shares = np.array([function.probability for function in subject.posterior.functions])
    first = share(float(shares[0]))
    if shares[0] >= _MOST:
        return f"One formula has nearly all of the probability ({first}):"
    reached = np.cumsum(shares)
    if reached[-1] < 0.9:
        return (
            f"No single formula stands out. The most probable has probability {first}, and the "
            f"{len(shares)} that are listed have {share(float(reached[-1]))} together:"
        )
    many = int(np.searchsorted(reached, 0.9)) + 1
    together = share(float(reached[many - 1]))
    return (
        f"The most probable formula has probability {first}; it takes {many} formulas to hold "
        f"{together} of it. The most probable one:"
    )


def _verdict(subject: Subject) -> str:
    """The badge, the two questions, and what is doubtful."""
    found = subject.outcome.verdict
    kind = found.word.replace(" ", "-")
    meaning = {
        "ok": "No check found anything wrong.",
        "caution": "Use the answer with care: some checks found something.",
        "do-not-trust": "Do not rely on this answer before what is below is mended.",
    }.get(found.word, "Nothing was checked.")
    questions = "".join(
        f"<p>{text(question[0].upper() + question[1:])} {badge(found.group_word(group))}</p>"
        for group, question in QUESTIONS.items()
    )
    reasons = "".join(f"<li>{text(reason)}</li>" for reason in found.reasons)
    listed = f"<ul>{reasons}</ul>" if reasons else ""
    stopped = (
        "<p>The search was stopped before its end.</p>" if subject.outcome.is_interrupted else ""
    )
    return (
        f"<div class='verdict {kind}' id='verdict'><strong>Verdict: {text(found.word)}.</strong> "
        f"<span style='color:var(--text)'>{meaning}</span>{stopped}{questions}{listed}</div>"
    )


def badge(word: str) -> str:
    return f"<span class='badge {word.replace(' ', '-')}'>{text(word)}</span>"


def data(subject: Subject, made: Figures) -> str:
    """The data and the posterior predictive band."""
    legend = (
        key("data", "data")
        + key("line", "posterior mean")
        + key("band", "90 % of new observations")
    )
    if len(subject.columns) == 1:
        made.add("data-figure", _band(subject, None))
        legend += key("inner", "90 % of curves")
        words = (
            "All formulas together, each as much as it is probable. Drag to pan, choose a tool "
            "above the figure to zoom, point at a row to read it."
        )
        return section(
            "data", "The data and what is predicted",
            figure("data-figure", f"{legend}<br>{words}"), _thinned(subject),
        )  # fmt: skip
    for column in offered(subject):
        values = subject.problem.X[numbers.shown_rows(subject), column]
        made.columns.append([float(f"{value:.6g}") for value in values])
    made.add("data-figure", _rows(subject, None))
    legend += key("grey", "observed = predicted")
    return section(
        "data", "The data and what is predicted",
        figure("data-figure", "", "against"), axis_choice(subject),
        f"<p class='soft'>{legend}<br>All formulas together, each as much as it is probable. "
        "Choose below the figure what it is plotted against.</p>",
        _thinned(subject), _inclusion(subject),
    )  # fmt: skip


def axis_choice(subject: Subject) -> str:
    """The name of the horizontal axis, which is a control where there are several columns."""
    options = [("predicted", f"{subject.target}, predicted")]
    options += [(str(i), subject.columns[column]) for i, column in enumerate(offered(subject))]
    listed = "".join(f"<option value='{value}'>{text(name)}</option>" for value, name in options)
    return (
        "<label class='axis-choice'>horizontal axis: "
        f"<select class='axis'>{listed}</select></label>"
    )


def _thinned(subject: Subject) -> str:
    count, shown = len(subject.problem.data.y), len(numbers.shown_rows(subject))
    if shown == count:
        return ""
    return f"<p class='soft'>Of {count:,} rows, {shown:,} are drawn, evenly spaced.</p>"


def _inclusion(subject: Subject) -> str:
    """Which columns matter."""
    shares = subject.posterior.inclusion
    order = shares.sort_values(ascending=False)
    rows = [
        (text(name), f"<span class='number'>{share(float(p))}</span>", bar(float(p)))
        for name, p in order.head(20).items()
    ]
    return "<h3>Which columns matter</h3>" + table(
        ("column", "probability that it appears", ""), rows, "columns"
    )


def _band(subject: Subject, function: Function | None) -> Any:
    places, table_ = numbers.shown_rows(subject), subject.problem.data
    return figures.band_figure(
        numbers.curve_over(subject, function),
        table_.X[places, 0],
        table_.y[places],
        row_numbers(subject),
        y_err=None if table_.y_err is None else table_.y_err[places],
        names=(subject.columns[0], subject.target),
    )


def _rows(subject: Subject, function: Function | None) -> Any:
    rows = numbers.rows_of(subject, function)
    y = subject.problem.data.y[rows.places]
    return figures.rows_figure(rows, y, row_numbers(subject), name=subject.target)


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
                mathml(function.expression, left=subject.target),
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
        f"<div class='choices' role='group' aria-label='function'>{buttons}</div>", axis, panels,
    )  # fmt: skip


def _panel(subject: Subject, made: Figures, place: int, function: Function) -> str:
    fit, left = f"fit-{place}", f"residuals-{place}"
    is_one = len(subject.columns) == 1
    made.add(fit, _band(subject, function) if is_one else _rows(subject, function))
    residuals = numbers.residuals_of(subject, function)
    rows = numbers.shown_rows(subject)
    at = subject.problem.X[rows, 0] if is_one else numbers.rows_of(subject, function).middle
    name = subject.columns[0] if is_one else ""
    made.add(left, figures.residual_figure(at, residuals, row_numbers(subject), x_name=name))
    kind = "" if is_one else "against"
    against = (
        ""
        if is_one
        else f" Against: <span class='axis-name'>{text(subject.target)}, predicted</span>."
    )
    chosen = " chosen" if place == 0 else ""
    legend = key("data", "data") + key("line", "at the most probable constants")
    legend += key("band", "90 % of new observations")
    return (
        f"<div class='panel{chosen}' data-place='{place}'>"
        f"<div class='formula headline'>{mathml(function.modal, left=subject.target)}</div>"
        f"<p class='soft'>Probability {share(function.probability)}, "
        f"{function.expression.complexity} tokens.</p>"
        f"<div class='two'>{figure(fit, legend + against, kind)}"
        f"{figure(left, f'What is left of each row, in units of the noise; of Gaussian noise, one row in twenty lies outside the dotted lines.{against}', kind)}</div>"
        f"{_constants(subject, made, place, function)}</div>"
    )


def _constants(subject: Subject, made: Figures, place: int, function: Function) -> str:
    found = constants_of(function)
    if not found:
        return "<p>It has no constants.</p>"
    draws = function_draws(subject.problem, subject.posterior, function).constants
    rows = [
        (
            f"<math>{constant_name(index, len(found))}</math>",
            f"<span class='number'>{text(with_interval(constant))}</span>",
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

"""The beginning of the report: the answer in short, the data, and what is predicted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dvisr.checks import QUESTIONS
from dvisr.expression import mathml
from dvisr.posterior import Function
from dvisr.reporting import figures, numbers
from dvisr.reporting.markup import bar, figure, key, section, table, text
from dvisr.reporting.subject import Subject
from dvisr.reporting.words import digits_of, share, with_spread

_OFFERED = 12  # columns that a figure can be plotted against
_MOST = 0.95  # of the probability, for "nearly all"


class Figures:
    """Those of one page: Bokeh models by the place where they stand."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self.columns: list[list[float]] = []  # rows of the columns that can be chosen

    def add(self, place: str, model: Any) -> None:
        self._models[place] = model

    def items(self) -> list[Any]:
        """As Bokeh's script reads them; the same figures give the same bytes."""
        from bokeh.embed import json_item

        known: dict[str, str] = {}
        return [
            _renumbered(json_item(model, place), known) for place, model in self._models.items()
        ]


def _renumbered(part: Any, known: dict[str, str]) -> Any:
    """With models numbered from 1: Bokeh goes on counting for as long as a process lives."""
    if isinstance(part, dict):
        return {
            name: known.setdefault(value, f"p{len(known) + 1}")
            if name in ("id", "root_id")
            else _renumbered(value, known)
            for name, value in part.items()
        }
    return [_renumbered(one, known) for one in part] if isinstance(part, (list, tuple)) else part


def offered(subject: Subject) -> list[int]:
    """Numbers of the columns that figures can be plotted against, likeliest to matter first."""
    inclusion = subject.posterior.inclusion
    shares = [-float(inclusion.get(name, 0.0)) for name in subject.columns]
    return [int(place) for place in np.argsort(shares, kind="stable")[:_OFFERED]]


def typeset(function: Function, subject: Subject) -> str:
    """At its most probable constants."""
    return mathml(function.modal, digits=digits_of(function), left=subject.target)


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
        ("noise, standard deviation", _noise(subject)),
        ("variance explained", f"{found['r2']:.1%}" if math.isfinite(found["r2"]) else "none"),
        ("log evidence", f"{subject.posterior.log_evidence:.2f}"),
        ("formulas weighed", _visited(found)),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{text(fact)}</dd></div>" for name, fact in facts)
    return (
        f"<header><h1>{text(subject.target)} as a function of {of}</h1>"
        f"<p class='soft'>Formulas that the data make probable, with how sure each of them is.</p>"
        f"<p>{_sureness(subject)}</p>"
        f"<div class='formula headline'>{typeset(first, subject)}</div>"
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
            f"No single formula stands out: the most probable, below, has probability {first}, and "
            f"the {len(shares)} that are listed have {share(float(reached[-1]))} together."
        )
    many = int(np.searchsorted(reached, 0.9)) + 1
    if many == 1:
        return f"One formula has most of the probability ({first}):"
    together = share(float(reached[many - 1]))
    return (
        f"No single formula is certain: the most probable, below, has probability {first}, and the "
        f"first {many} have {together} together."
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
        made.add("data-figure", fit_figure(subject, height=380))
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
    made.add("data-figure", fit_figure(subject, height=380))
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
        for name, p in order.head(_OFFERED).items()
    ]
    others = order.iloc[_OFFERED:]
    if len(others):
        told = f"each of {len(others)} others"
        rows.append((told, f"at most {share(float(others.max()))}", bar(float(others.max()))))
    return "<h3>Which columns matter</h3>" + table(
        ("column", "probability that it appears", ""), rows, "columns"
    )


def fit_figure(subject: Subject, function: Function | None = None, **options: Any) -> Any:
    """The data over what one function predicts, or all of them: a curve over the only column, or
    observed against predicted."""
    places, table_ = numbers.shown_rows(subject), subject.problem.data
    y, row = table_.y[places], row_numbers(subject)
    if len(subject.columns) > 1:
        found = numbers.rows_of(subject, function)
        return figures.rows_figure(found, y, row, name=subject.target, **options)
    return figures.band_figure(
        numbers.curve_over(subject, function),
        table_.X[places, 0],
        y,
        row,
        y_err=None if table_.y_err is None else table_.y_err[places],
        names=(subject.columns[0], subject.target),
        **options,
    )

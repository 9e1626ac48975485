"""The second half of the report: what the answer rests on."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from typing import Any

import numpy as np
import pandas as pd

from dvisr.checks import QUESTIONS, Check
from dvisr.expression import Expression, ParseError, mathml, parse
from dvisr.fitting.checks import replication
from dvisr.reporting import figures
from dvisr.reporting.markup import figure, key, paragraphs, section, table, text
from dvisr.reporting.numbers import shown_problem
from dvisr.reporting.sections import Figures, badge
from dvisr.reporting.subject import Subject
from dvisr.reporting.words import evidence_line, share, visited_line

_SEED = 0
_STEPS = 1000  # of a training that are drawn


def predictive_checks(subject: Subject, made: Figures) -> str:
    """Data replicated from the posterior against the data."""
    title = "Predictive checks"
    rep = replication(shown_problem(subject), subject.posterior, _SEED)
    if not rep.is_usable:
        return section(
            "checks", title,
            paragraphs("No draw of the posterior is defined on all rows: nothing can be compared."),
        )  # fmt: skip
    rep = rep.observations
    made.add("calibration", figures.calibration_figure(rep.left_out.pit))
    made.add("quantiles", figures.quantile_figure(rep))
    first = (
        key("line", "rows")
        + key("chance", "90 % of good fits")
        + "<br>Each row predicted from the "
        "others: the share of rows that lie below each predicted level. On the diagonal, "
        "predictions are as sure as they should be; steep in the middle, they are too wide, steep "
        "at the ends, too sure."
    )
    second = (
        key("data", "rows") + key("chance", "90 % of replicated data") + "<br>Residuals from the "
        "smallest to the largest against those of data replicated from the posterior. Rows far off "
        "at either end are outliers."
    )
    return section(
        "checks", title,
        f"<div class='two'>{figure('calibration', first)}{figure('quantiles', second)}</div>",
    )  # fmt: skip


def verdict(subject: Subject) -> str:
    """Every check in words, with what to do where it is not ok."""
    found = subject.outcome.verdict
    parts = [
        paragraphs(
            f"The verdict is {badge(found.word)}: the worst grade of these checks. Where one is "
            "not ok, its sentence says what to do."
        )
    ]
    for group, question in QUESTIONS.items():
        own = [check for check in found.checks if check.group == group]
        if own:
            rows = [_check(check) for check in own]
            parts.append(f"<h3>{text(question[0].upper() + question[1:])}</h3>")
            parts.append(table(("", "check", "what was found"), rows, "checks"))
    return section("verdict-checks", "Can the answer be trusted?", *parts)


def _check(check: Check) -> tuple[str, str, str]:
    was_measured = math.isfinite(check.measured)
    word = check.grade.word if was_measured else "not measured"
    kind = badge(word) if was_measured else f"<span class='badge not-checked'>{word}</span>"
    return kind, text(check.name), text(check.sentence)


def search(subject: Subject, made: Figures) -> str:
    """Evidence over time, and accuracy against complexity."""
    history, front = subject.outcome.history, subject.outcome.front
    lines = [f"{text(visited_line(subject.outcome.diagnostics))}; {text(evidence_line(subject))}."]
    parts = []
    over_time = _over_time(history)
    if over_time is not None:
        made.add("evidence", figures.history_figure(*over_time))
        parts.append(
            figure("evidence", "What the formulas found by then explain. Flat at the end: the "
                   "search had settled.")
        )  # fmt: skip
    elif subject.outcome.diagnostics.get("exact"):
        lines.append("There were few enough formulas to weigh them all, so nothing was searched.")
    if len(front):
        columns = [front[name].to_numpy(float) for name in ("complexity", "loss", "probability")]
        made.add("front", figures.front_figure(*columns))
        parts.append(
            figure("front", "The best fit of each size, larger where it is more probable. Closer "
                   "fits are not always more probable: see the functions above.")
        )  # fmt: skip
    lines[0] = lines[0][0].upper() + lines[0][1:]
    return section(
        "search", "The search", paragraphs(*lines), f"<div class='two'>{''.join(parts)}</div>"
    )


def _over_time(history: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, str, str] | None:
    """When, what by then, and the names of both; None where there are not two steps to show."""
    where = "seconds" if "seconds" in history.columns else "step"
    what, name = ("log_evidence", "log evidence")
    if what not in history.columns:
        what, name = ("elbo", "ELBO")
    if what not in history.columns or where not in history.columns:
        return None
    at, values = history[where].to_numpy(float), history[what].to_numpy(float)
    kept = np.flatnonzero(np.isfinite(values))
    if len(kept) < 2:
        return None
    kept = kept[np.linspace(0, len(kept) - 1, min(len(kept), _STEPS)).astype(int)]
    return at[kept], values[kept], where, name


def prior(subject: Subject) -> str:
    """What the answer would be under other priors over formulas."""
    others: dict[str, Any] = subject.outcome.diagnostics.get("other_priors") or {}
    own = {str(f.expression): f for f in subject.posterior.functions}
    problem = subject.problem
    lines = [
        f"What was assumed before the data. Formulas: the prior "
        f"<em>{text(problem.tree_prior.name)}</em>. Constants: {text(problem.constant_prior)}. "
        f"Noise: {text(problem.describe_noise())}.",
    ]
    first = subject.posterior.functions[:5]
    known = [f for f in first if math.isfinite(f.log_prior)]
    parts = []
    if known:
        rows = [
            (
                mathml(f.expression, left=subject.target),
                *(f"<span class='number'>{value:.1f}</span>"
                  for value in (f.log_prior, f.log_joint - f.log_prior, f.log_joint)),
            )
            for f in known
        ]  # fmt: skip
        head = ("function", "log prior", "log likelihood", "sum")
        parts.append("<h3>What the prior and what the data say</h3>" + table(head, rows, "prior"))
        parts.append(
            "<p class='soft'>A function is the more probable the larger the sum; a difference of "
            "2.3 is a factor of ten.</p>"
        )
    if others:
        parts.append("<h3>Under other priors over formulas</h3>")
        lines.append(
            "Where the first function stays among the first under other priors, the data decide; "
            "where it does not, the prior does."
        )
        parts.append(_other_priors(subject, others, own))
    return section("prior", "What the prior did", paragraphs(*lines), *parts)


def _other_priors(subject: Subject, others: dict[str, Any], own: dict[str, Any]) -> str:
    names = list(others)
    shares = {
        name: {row["expression"]: row["probability"] for row in others[name]} for name in names
    }
    listed = list(own)[:3]
    for name in names:
        listed += [row["expression"] for row in others[name][:3] if row["expression"] not in listed]
    rows = []
    for expression in listed[:9]:
        cells = [share(own[expression].probability) if expression in own else "–"]
        cells += [
            share(float(shares[name][expression])) if expression in shares[name] else "–"
            for name in names
        ]
        rows.append(
            (_typeset(subject, expression), *(f"<span class='number'>{c}</span>" for c in cells))
        )
    heads = ("function", f"{text(subject.problem.tree_prior.name)} (this fit)", *map(text, names))
    return table(heads, rows, "priors") + (
        "<p class='soft'>A dash: not among the first five under that prior, or not listed by this "
        "fit.</p>"
    )


def _typeset(subject: Subject, expression: str) -> str:
    try:
        read: Expression = parse(expression, subject.problem.grammar.library)
    except ParseError:
        return f"<code>{text(expression)}</code>"
    return mathml(read, left=subject.target)


def settings(subject: Subject) -> str:
    """Parameters, versions, and what to type for the same again."""
    rows = [(text(name), text(value)) for name, value in subject.settings.items()]
    made_by = [("call", "In Python", subject.call + ".fit(X, y)")]
    if subject.command is not None:
        made_by.insert(0, ("command", "The command that made it", subject.command))
    shown = "".join(
        f"<h3>{title}</h3><pre><code id='{name}'>{text_block(content)}</code></pre>"
        f"<button data-copy='{name}'>copy</button>"
        for name, title, content in made_by
    )
    return section(
        "settings", "How it was made", shown,
        f"<details><summary>all settings</summary>{table(('', ''), rows, 'settings')}</details>",
    )  # fmt: skip


def text_block(content: str) -> str:
    """Of several lines."""
    return "\n".join(text(line) for line in content.splitlines())


_READING = {
    "probability of a function": "How probable it is, given the data, that this function is the "
    "right one, among all that the chosen operators and size can write and under the prior. It is "
    "no statement on functions that they can not write.",
    "90 % interval": "From the lowest to the highest value that the data leave credible, with 5 % "
    "of the probability on either side.",
    "noise": "What the observations scatter about the curve by.",
    "log evidence": "The logarithm of how probable the data are under all formulas together. It "
    "compares fits to the same data: a difference of 2.3 is a factor of ten.",
    "verdict": "Whether the search can have missed something, and whether the data look like what "
    "the formulas predict. It can not see a column that was never measured, nor what happens "
    "outside the range of the data.",
}


def reading() -> str:
    """What the words mean."""
    listed = "".join(
        f"<dt>{text(word)}</dt><dd>{text(told)}</dd>" for word, told in _READING.items()
    )
    return section("reading", "How to read this report", f"<dl class='reading'>{listed}</dl>")


def footer() -> str:
    versions = f"dvisr {importlib.metadata.version('dvisr')}, Python {platform.python_version()}"
    return (
        f"<footer>Made by {text(versions)}. This file needs no network, and holds the rows that it "
        "shows.</footer>"
    )

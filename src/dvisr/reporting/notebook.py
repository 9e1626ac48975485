"""A fitted model in a notebook: verdict and first functions."""

from __future__ import annotations

from html import escape

from dvisr.reporting.sections import typeset
from dvisr.reporting.subject import Subject
from dvisr.reporting.words import evidence_line, noise_line, share
from dvisr.text import printable

_SHOWN = 5
_COLOURS = {"ok": "#2e7d4f", "caution": "#b26a00", "do-not-trust": "#c0392b"}
_CELL = "text-align:left;padding:.25em .9em .25em 0"


def as_html(subject: Subject) -> str:
    verdict = subject.outcome.verdict
    colour = _COLOURS.get(verdict.word, "#777777")
    rows = "".join(
        f'<tr><td style="{_CELL};text-align:right">{escape(share(function.probability))}</td>'
        f'<td style="{_CELL}">{typeset(function, subject)}</td></tr>'
        for function in subject.posterior.functions[:_SHOWN]
    )
    reasons = "".join(f"<li>{escape(printable(reason))}</li>" for reason in verdict.reasons)
    return (
        f'<div class="dvisr-fit"><p><b>DVISRRegressor</b>, fitted: verdict '
        f'<b style="color:{colour}">{escape(verdict.word)}</b></p>'
        f"{f'<ul>{reasons}</ul>' if reasons else ''}"
        f'<table><thead><tr><th style="{_CELL}">probability</th><th style="{_CELL}">function, '
        f"at its most probable constants</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{escape(noise_line(subject))}; {escape(evidence_line(subject))}</p></div>"
    )

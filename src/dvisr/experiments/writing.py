"""One page of tables and figures, to lay beside the paper."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from dvisr.experiments.checks import kl_limit
from dvisr.experiments.figures import Drawn, draw_figures
from dvisr.experiments.hyperparameters import HYPERPARAMETERS
from dvisr.experiments.paper import LAWS
from dvisr.experiments.reproducing import Reproduction

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd;
         font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
figure { display: inline-block; width: 48%; min-width: 24rem; margin: 1rem 0; vertical-align: top; }
figure.wide { width: 100%; }
figure img { width: 100%; } figcaption { font-size: .85rem; color: #555; }
.pass { color: #27713f; font-weight: 600; } .fail { color: #b3261e; font-weight: 600; }
"""


def write_pages(found: Sequence[Reproduction], out: Path) -> Path:
    """The figures under `out/figures`, and `out/index.html`."""
    drawn = draw_figures(found, out / "figures")
    by_experiment: dict[str, list[Drawn]] = {}
    for figure in drawn:
        by_experiment.setdefault(figure.experiment, []).append(figure)
    parts = [_summary(found), *_wide(by_experiment.get("trace", []))]
    for kind, title in [
        ("simple", "Simple experiments, without constants"),
        ("scaling", "Scaling experiments"),
        ("constants", "Experiments with constants"),
    ]:
        of_kind = [one for one in found if one.experiment.kind == kind]
        if not of_kind:
            continue
        parts.append(f"<h2>{title}</h2>")
        if kind == "scaling":
            parts.append(_scaling_table(of_kind))
            parts += _wide(by_experiment.get("scaling", []))
        for one in of_kind if kind != "scaling" else ():
            parts += [_tabled(one), *map(_figure, by_experiment.get(one.experiment.name, []))]
        parts.append(_hyperparameters(kind, of_kind[0].result.settings))
    parts.append(_machine())
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>DVISR, reproduced</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
    path = out / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _summary(found: Sequence[Reproduction]) -> str:
    failed = [one for one in found if one.failures]
    settings = found[0].result.settings
    seconds = sum(one.result.seconds for one in found)
    published = sum((one.experiment.published_seconds or 0.0) * len(one.result.kl) for one in found)
    lines = [
        "<h1>Deep Variational Inference Symbolic Regression, reproduced</h1>",
        "<p><em>Paper</em> is what Butterworth, Grigorian and DiazDelaO print, <em>published</em> "
        "what the logs of their public runs (repository jamesbut/DVISR-ICLR2026) show. Everything "
        "else was computed by <code>dvisr reproduce</code>: <em>exact</em> is what enumeration and "
        "integration give, <em>q</em> what the trained network says. KL divergences of 1e-15 "
        "either side of zero are zero up to rounding.</p>",
        f"<p>Recipe <code>{html.escape(str(settings['recipe']))}</code>, seed "
        f"{html.escape(str(settings['seed']))}.</p>",
        f"<p>{_verdict(not failed)}: {len(found) - len(failed)} of {len(found)} experiments, in "
        f"{_duration(seconds)}. The authors' logs show {_duration(published)} for as many runs of "
        f"them, on their machine.</p>",
    ]
    for one in failed:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in one.failures)
        lines.append(f"<p>{html.escape(one.experiment.name)}</p><ul>{items}</ul>")
    return "\n".join(lines)


def _tabled(one: Reproduction) -> str:
    experiment, result = one.experiment, one.result
    rows = [
        [
            row.expression,
            "" if row.paper is None else f"{row.paper:.8f}",
            f"{row.exact:.8f}",
            f"{row.q_median:.8f}",
            f"[{row.q_iqr[0]:.8f}, {row.q_iqr[1]:.8f}]",
            "" if row.kl_of_constants is None else f"{max(row.kl_of_constants):.1e}",
        ]
        for row in result.rows
    ]
    heads = ["expression", "paper", "exact", "q, median", "q, IQR"]
    last = "worst KL of c given the tree"
    if not experiment.has_constants:
        rows = [row[:-1] for row in rows]
    table = _table([*heads, last] if experiment.has_constants else heads, rows)
    return (
        f"<h3>{html.escape(LAWS[experiment.law])}</h3>{table}"
        f"<p>{_verdict(not one.failures)}. Log evidence {result.log_evidence:.12f}. KL over "
        f"{result.runs_in_words}: median {result.median_kl:.1e}, worst {result.worst_kl:.1e}. "
        f"{result.seconds:.1f} s.</p>"
    )


def _scaling_table(found: Sequence[Reproduction]) -> str:
    rows = []
    for one in found:
        result, published = one.result, one.experiment.published_kl
        limit, seconds = kl_limit(one.experiment), one.experiment.published_seconds
        rows.append(
            [
                str(one.experiment.max_tokens),
                f"{result.log_evidence:.10f}",
                "" if published is None else f"{published:.3g}",
                f"{result.median_kl:.3g}",
                f"{result.median_kl / published:.2f}" if published else "",
                f"{result.median_kl_elbo:.3g}",
                result.kl_method,
                "" if limit is None else f"{limit:.3g}",
                "" if seconds is None else f"{seconds:,.0f}",
                f"{result.seconds:.1f}",
                "" if limit is None else ("pass" if not one.failures else "fail"),
            ]
        )
    heads = [
        "tokens", "log evidence", "published KL", "KL", "ratio", "KL by 50,000 samples", "method",
        "limit", "published s", "s", "",
    ]  # fmt: skip
    note = (
        "<p>y = x0², one row a maximum size. The limit is 1.25 times the published KL, or 1.25 "
        "times 0.001 where that is smaller, and 1e-6 where it is below 1e-6. KL is exact unless "
        "the method says otherwise.</p>"
    )
    return note + _table(heads, rows)


def _hyperparameters(kind: str, settings: Mapping[str, Any]) -> str:
    """The paper's table, for a recipe that follows it; else what the recipe is made of."""
    is_papers = settings["budget"] == [None, None]
    if not (str(settings["recipe"]).startswith("paper") and is_papers):
        names = ("num_steps", "policy", "objective", "optimiser", "schedule", "from_prior")
        parts = [[name, str(settings[name])] for name in names if name in settings]
        table = _table(["part", "what it is"], parts)
        return f"<details><summary>The recipe</summary>{table}</details>"
    rows = [[name, f"{value:g}" if isinstance(value, float) else str(value)]
            for name, value in HYPERPARAMETERS[kind].items()]  # fmt: skip
    note = (
        ""
        if kind == "constants"
        else "<p>The baseline that the authors' code ran here was the mean of the batch, whatever "
        "the table says, and so does the recipe <code>paper</code>; <code>paper-ewma</code> runs "
        "the moving average.</p>"
    )
    note += {
        "simple": "",
        "scaling": "<p>The samples of a batch are stratified, where the authors' code draws them "
        "one by one; <code>paper-literal</code> does that.</p>",
        "constants": "<p>One token in twenty is drawn evenly from the legal ones, and weighted "
        "accordingly, where the authors' code draws all from q; <code>paper-literal</code> does "
        "that.</p>",
    }[kind]
    table = _table(["hyperparameter", "value"], rows)
    return f"<details><summary>Hyperparameters, as in the paper</summary>{table}{note}</details>"


def _machine() -> str:
    device = jax.devices()[0]
    packages = ", ".join(f"{name} {version(name)}" for name in ("dvisr", "jax", "numpy"))
    return (
        f"<p><small>{html.escape(platform.machine())}, {os.cpu_count()} cores, "
        f"{html.escape(device.device_kind)}, Python {platform.python_version()}, "
        f"{html.escape(packages)}.</small></p>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _figure(drawn: Drawn, kind: str = "") -> str:
    name = html.escape(drawn.stem)
    return (
        f'<figure class="{kind}"><a href="figures/{name}.svg"><img src="figures/{name}.png" '
        f'alt="{html.escape(drawn.caption)}"></a><figcaption>{html.escape(drawn.caption)}'
        f"</figcaption></figure>"
    )


def _wide(drawn: Iterable[Drawn]) -> list[str]:
    return [_figure(figure, "wide") for figure in drawn]


def _verdict(passed: bool) -> str:
    word = "pass" if passed else "fail"
    return f'<span class="{word}">{word}</span>'


def _duration(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.1f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200.0 else f"{seconds / 3600:.1f} hours"

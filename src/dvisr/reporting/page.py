"""The report: one HTML file that works without a network. Scripts are allowed by their digests, so
that nothing else on the page can run, whatever a column is called."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from dvisr.reporting import one_by_one, sections, support
from dvisr.reporting.markup import text
from dvisr.reporting.subject import Subject
from dvisr.runs.files import whole


def write_report(subject: Subject, path: Path, top: int) -> Path:
    """Write the file, whole or not at all."""
    page = report(subject, top)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as place:
        place.write_text(page, encoding="utf-8")
    return path


def report(subject: Subject, top: int = 5) -> str:
    """The page as text."""
    made = sections.Figures()
    body = "".join(
        (
            sections.head(subject),
            sections.data(subject, made),
            one_by_one.functions(subject, top),
            one_by_one.each_function(subject, made, top),
            support.predictive_checks(subject, made),
            support.verdict(subject),
            support.search(subject, made),
            support.prior(subject),
            support.settings(subject),
            support.reading(),
            support.footer(),
        )
    )
    library = _library()
    script = resources.files("dvisr.reporting").joinpath("page.js").read_text("utf-8")
    style = resources.files("dvisr.reporting").joinpath("page.css").read_text("utf-8")
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(library, script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>{text(subject.target)}: formulas and how sure they are</title>"
        f"<style>{style}</style></head>"
        f"<body><main>{body}</main>"
        f'<script type="application/json" id="figures">{_as_json(made.items())}</script>'
        f'<script type="application/json" id="columns">{_as_json(made.columns)}</script>'
        f"<script>{library}</script><script>{script}</script></body></html>\n"
    )


def _library() -> str:
    """Bokeh's own script, as its package ships it."""
    from bokeh.resources import Resources

    (script,) = Resources(mode="inline", components=["bokeh"], log_level="error").js_raw[:1]
    # A script's text ends at the first "</script", wherever that stands.
    return str(script).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(*scripts: str) -> str:
    """Nothing from anywhere; only these scripts."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def _as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it begins a tag."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

"""Pieces of HTML. Whatever came from a user goes through `text`, which leaves no markup in it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from dvisr.diagnostics import bulk
from dvisr.reporting.subject import Constant
from dvisr.text import printable

_BINS = 48
_WIDTH, _HEIGHT = 220, 44


def text(value: object) -> str:
    """Escaped, and with control characters shown."""
    return html.escape(printable(str(value)))


def paragraphs(*lines: str) -> str:
    return "".join(f"<p>{line}</p>" for line in lines if line)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Of cells that are markup already."""
    top = "".join(f"<th scope='col'>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<div class='wide'><table class='{kind}'><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def section(name: str, title: str, *parts: str) -> str:
    return f"<section id='{name}'><h2>{title}</h2>{''.join(parts)}</section>"


def bar(share: float) -> str:
    """As wide as a probability."""
    width = 100.0 * min(1.0, max(0.0, share))
    return f"<span class='bar' aria-hidden='true'><span style='width:{width:.2f}%'></span></span>"


def key(kind: str, label: str) -> str:
    """What a colour in a figure means."""
    return f"<span class='key'><span class='swatch {kind}'></span>{label}</span>"


def figure(name: str, caption: str, kind: str = "") -> str:
    """The place of a figure, which the page's script fills."""
    return (
        f"<figure class='{kind}'><div class='plot' id='{name}'></div>"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def density(draws: np.ndarray, constant: Constant) -> str:
    """A histogram of one constant's draws, its interval shaded and its mode marked."""
    reach = 0.6 * (constant.high - constant.low)  # a far tail would leave the rest one thin line
    low, high = bulk(draws)
    if reach > 0.0:
        low, high = max(low, constant.low - reach), min(high, constant.high + reach)
    heights, edges = np.histogram(draws, bins=_BINS, range=(low, high))
    scale = _HEIGHT / max(1, int(heights.max()))

    def across(value: float) -> float:
        return float(np.clip((value - low) / (high - low), 0.0, 1.0)) * _WIDTH

    steps = " ".join(
        f"{across(edge):.1f},{_HEIGHT - height * scale:.1f}"
        for height, left, right in zip(heights, edges[:-1], edges[1:], strict=True)
        for edge in (left, right)
    )
    start, end = across(constant.low), across(constant.high)
    mode = across(constant.mode)
    return (
        f"<svg class='density' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' "
        f"aria-label='posterior density'>"
        f"<rect class='inside' x='{start:.1f}' y='0' width='{max(0.0, end - start):.1f}' "
        f"height='{_HEIGHT}'/><polygon points='0,{_HEIGHT} {steps} {_WIDTH},{_HEIGHT}'/>"
        f"<line x1='{mode:.1f}' x2='{mode:.1f}' y1='0' y2='{_HEIGHT}'/></svg>"
    )

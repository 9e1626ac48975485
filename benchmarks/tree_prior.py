"""Which surroundings of a token to look at: the log probability of equations that were left out.

    python -m benchmarks.tree_prior

The equations that come with the package, in a language of usual operators with two columns, in ten
parts: each is scored by frequencies counted in the other nine. The table goes to docs/prior.md.
"""

from __future__ import annotations

import argparse
import collections
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dvisr.library import Library
from dvisr.prior.corpus import COLUMN, CONSTANT, NUMBER, Formula, Translator, named_equations
from dvisr.prior.science import RARE_SHARE, REPEATS

PAGE = Path(__file__).parent.parent / "docs" / "prior.md"
LANGUAGE = (
    "+", "-", "*", "/", "^", "square", "sqrt", "exp", "log", "sin", "cos", "neg",
    "1", "2", "3", "4", "pi",
)  # fmt: skip
PARTS = 10
STRENGTHS = (10.0, 30.0, 100.0)


class Place(NamedTuple):
    token: str
    parent: str
    side: int
    sibling: str
    kind: str
    grandparent: str
    depth: int


def kind_of(name: str) -> str:
    if name in ("+", "-"):
        return "sum"
    if name in ("*", "/"):
        return "product"
    if name in ("^", "square", "sqrt"):
        return "power"
    return "function" if name else ""


Level = Callable[[Place], Any]
_PARENT: Level = lambda p: p.parent  # noqa: E731
_SIDE: Level = lambda p: (p.parent, p.side)  # noqa: E731
_KIND: Level = lambda p: (p.parent, p.side, p.kind)  # noqa: E731
_SIBLING: Level = lambda p: (p.parent, p.side, p.sibling)  # noqa: E731
CHOSEN = "parent, side, kind of the left sibling, kind of the grandparent"
CONTEXTS: dict[str, list[Level]] = {
    "the token alone": [],
    "parent": [_PARENT],
    "parent, depth": [_PARENT, lambda p: (p.parent, min(p.depth, 4))],
    "parent, grandparent": [_PARENT, lambda p: (p.parent, p.grandparent)],
    "parent, side": [_PARENT, _SIDE],
    "parent, side, kind of the left sibling": [_PARENT, _SIDE, _KIND],
    "parent, side, left sibling": [_PARENT, _SIDE, _SIBLING],
    "parent, side, kind of the grandparent": [
        _PARENT, _SIDE, lambda p: (p.parent, p.side, kind_of(p.grandparent)),
    ],
    "parent, side, kind of the left sibling, depth": [
        _PARENT, _SIDE, _KIND, lambda p: (p.parent, p.side, p.kind, min(p.depth, 4)),
    ],
    CHOSEN: [_PARENT, _SIDE, _KIND, lambda p: (p.parent, p.side, p.kind, kind_of(p.grandparent))],
    "parent, side, kind of the left sibling, grandparent": [
        _PARENT, _SIDE, _KIND, lambda p: (p.parent, p.side, p.kind, p.grandparent),
    ],
    "parent, side, left sibling, grandparent": [
        _PARENT, _SIDE, _SIBLING, lambda p: (p.parent, p.side, p.sibling, p.grandparent),
    ],
}  # fmt: skip


def places(formula: Formula) -> list[Place]:
    found: list[Place] = []

    def name(node: Formula) -> str:
        return str(node[1]) if node[0] == NUMBER else str(node[0])

    def walk(
        node: Formula, parent: str, side: int, left: Formula | None, grand: str, depth: int
    ) -> None:
        kind = (
            "" if left is None else left[0] if left[0] in (COLUMN, CONSTANT, NUMBER) else "operator"
        )
        sibling = "" if left is None else name(left)
        found.append(Place(name(node), parent, side, sibling, kind, grand, depth))
        if node[0] in (COLUMN, CONSTANT, NUMBER):
            return
        walk(node[1], name(node), 0, None, parent, depth + 1)
        if len(node) == 3:
            walk(node[2], name(node), 1, node[1], parent, depth + 1)

    walk(formula, "", 0, None, "", 0)
    return found


def read(library: Library) -> list[tuple[float, list[tuple[float, list[Place]]]]]:
    """Of each equation that the library can say: how often it occurs, and its readings."""
    translator = Translator(library)
    equations = []
    for count, equation in named_equations():
        readings = [(share, places(said)) for share, said in translator.readings(equation)]
        if readings:
            equations.append((count, readings))
    return equations


def score(
    equations: list[tuple[float, list[tuple[float, list[Place]]]]],
    levels: list[Level],
    strength: float,
    num_tokens: int,
) -> tuple[float, float]:
    """The mean log probability of a left-out token, and of a left-out equation's tokens."""
    part_of = np.random.default_rng(0).integers(PARTS, size=len(equations))
    of_tokens = of_equations = tokens = total = 0.0
    for part in range(PARTS):
        overall: collections.Counter[str] = collections.Counter()
        counts: list[collections.Counter[Any]] = [collections.Counter() for _ in levels]
        totals: list[collections.Counter[Any]] = [collections.Counter() for _ in levels]
        for (count, readings), own in zip(equations, part_of, strict=True):
            for share, rows in readings if own != part else ():
                weight = share * count**REPEATS
                for place in rows:
                    overall[place.token] += weight
                    for level, by, whole in zip(levels, counts, totals, strict=True):
                        by[level(place), place.token] += weight
                        whole[level(place)] += weight
        known = sum(overall.values())
        for (count, readings), own in zip(equations, part_of, strict=True):
            for share, rows in readings if own == part else ():
                weight, value = share * count**REPEATS, 0.0
                for place in rows:
                    p = (overall[place.token] / known + RARE_SHARE) / (1 + num_tokens * RARE_SHARE)
                    for level, by, whole in zip(levels, counts, totals, strict=True):
                        here = level(place)
                        p = (by[here, place.token] + strength * p) / (whole[here] + strength)
                    value += math.log(p)
                of_tokens, tokens = of_tokens + weight * value, tokens + weight * len(rows)
                of_equations, total = of_equations + weight * value, total + weight
    return of_tokens / tokens, of_equations / total


def table() -> str:
    library = Library.create(LANGUAGE, ["x", "y"], constants=True)
    equations = read(library)
    num_tokens = len(library) - 1  # the columns are one token here
    lines = [
        f"{len(equations)} of {len(named_equations())} equations can be said in "
        f"`{' '.join(LANGUAGE)}`.",
        "",
        "| what is looked at | a token | an equation | strength |",
        "| --- | --- | --- | --- |",
        f"| nothing, every token alike | {-math.log(num_tokens):.3f} | | |",
    ]
    for name, levels in CONTEXTS.items():
        found = [(*score(equations, levels, s, num_tokens), s) for s in STRENGTHS]
        token, equation, strength = max(found)
        shown = f"**{name}**" if name == CHOSEN else name
        by = f"{strength:g}" if levels else ""
        lines.append(f"| {shown} | {token:.3f} | {equation:.2f} | {by} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    text = PAGE.read_text()
    start, end = "<!-- contexts -->\n", "<!-- end of contexts -->"
    before, rest = text.split(start)
    PAGE.write_text(f"{before}{start}{table()}\n{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()

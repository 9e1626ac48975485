"""The figures and tables of docs/beyond.md, of what `beyond.py` has measured."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.sweep import table as sweep_table
from dvisr.experiments.paper import SCALING_SIZES, scaling

Row = dict[str, Any]
WANTED = {8: 1e-5, 12: 5e-4, 16: 4e-3, 20: 1e-2}  # median KL at the paper's budget
_STRONG = {"paper": "black", "default": "crimson"}
ORDER = (
    "paper",
    "default",
    "shallow",
    "reinforce",
    "transformer",
    "tree-inputs",
    "from-prior",
    "ppo",
    "grpo",
    "replay",
    "risk-seeking",
)


def figures(rows: Sequence[Row], folder: Path) -> None:
    _scaling(rows, folder / "scaling.png")
    _seconds(rows, folder / "seconds.png")


def _scaling(rows: Sequence[Row], path: Path) -> None:
    """KL by size: lines for recipes, whiskers over the seeds, bars for what was published."""
    figure, axes = plt.subplots(figsize=(9.5, 5.6), layout="constrained")
    published = {size: scaling(size).published_kl for size in SCALING_SIZES}
    shown = {size: kl for size, kl in published.items() if kl is not None and kl > 1e-8}
    axes.bar(list(shown), list(shown.values()), 0.8, color="0.85", label="published", zorder=0)
    names = _ordered({row["name"] for row in rows if row["group"] == "scaling"})
    others = _colours()
    for name in names:
        own = sorted(_of(rows, "scaling", name), key=lambda row: row["x"])
        sizes = [row["x"] for row in own]
        medians = [statistics.median(_kl(row)) for row in own]
        spans = [
            [m - min(_kl(row)) for m, row in zip(medians, own, strict=True)],
            [max(_kl(row)) - m for m, row in zip(medians, own, strict=True)],
        ]
        axes.errorbar(
            sizes,
            medians,
            yerr=spans,
            marker="o" if name in _STRONG else ".",
            linewidth=2.4 if name in _STRONG else 1.1,
            color=_STRONG[name] if name in _STRONG else next(others),
            capsize=2,
            label=name,
        )
    axes.scatter(
        list(WANTED),
        list(WANTED.values()),
        marker="_",
        s=400,
        color="blue",
        label="to reach",
        zorder=5,
    )
    axes.set_yscale("log")
    axes.set_ylim(3e-10, 1e2)
    axes.set_xticks(range(2, 21, 2))
    axes.set_xlabel("maximum number of tokens")
    axes.set_ylabel("KL(q || posterior), against exact evidence")
    axes.set_title("2000 steps of 1000 samples; median, lowest and highest of the seeds")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _seconds(rows: Sequence[Row], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    published = scaling(12).published_kl
    assert published is not None
    others = _colours()
    for name in _ordered({row["name"] for row in rows if row["group"] == "seconds"}):
        (row,) = _of(rows, "seconds", name)
        times, kls = [c[0] for c in row["curve"]], [c[2] for c in row["curve"]]
        axes.plot(
            times,
            kls,
            marker=".",
            label=name,
            color=_STRONG[name] if name in _STRONG else next(others),
        )
    axes.axhline(published, color="0.6", linestyle="--")
    axes.annotate(
        "published, after 10.4 hours", (1.0, published), xycoords=("axes fraction", "data"),
        textcoords="offset points", xytext=(-4, 4), ha="right", color="0.4",
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="seconds, compiling included", ylabel="KL, size 12")
    axes.set_title("one run each, on 2 cores")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _colours() -> Iterator[Any]:
    """For all but the strong ones; there is no other red."""
    colours = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]
    return itertools.cycle(colours[:3] + colours[4:])


def tables(rows: Sequence[Row], sweep: dict[str, Any] | None) -> dict[str, str]:
    """The tables of docs/beyond.md by name. Each stands there between two comments."""
    found = {
        "numbers": _numbers(rows),
        "recipes": _by_x(rows, "scaling", "recipe", lambda x: f"size {x}"),
        "ladder": _by_x(rows, "ladder", "change", lambda x: f"size {x}"),
        "constants": _by_x(rows, "constants", "constants", lambda x: f"size {x}"),
        "variables": _by_x(rows, "variables", "recipe", _variables),
        "largest": _largest(rows),
        "quick": _quick(rows),
        "seconds": _reached(rows),
    }
    if sweep is not None:
        found["sweep"] = sweep_table(sweep) + "\n"
    return {name: table for name, table in found.items() if table}


def _variables(count: int) -> str:
    return f"{count} variable" + ("" if count == 1 else "s")


def _numbers(rows: Sequence[Row]) -> str:
    found = {row["x"]: row for row in _of(rows, "scaling", "default")}
    paper = {row["x"]: row for row in _of(rows, "scaling", "paper")}
    lines = []
    for size, wanted in WANTED.items():
        if size not in found:
            continue
        published = scaling(size).published_kl
        row = found[size]
        median, worst = statistics.median(_kl(row)), max(_kl(row))
        met = "yes" if median <= wanted and worst <= 3.0 * median else "no"
        lines.append(
            [
                str(size),
                "-" if published is None else f"{published:.1e}",
                _cell(paper.get(size)),
                f"{wanted:.0e}",
                f"{median:.2e}",
                f"{worst:.2e}",
                row["method"],
                met,
            ]
        )
    heads = ["size", "published", "paper", "to reach", "default", "worst seed", "KL by", "met"]
    return _table(heads, lines)


def _by_x(rows: Sequence[Row], group: str, head: str, label: Callable[[int], str]) -> str:
    own = [row for row in rows if row["group"] == group]
    xs = sorted({row["x"] for row in own})
    names = _ordered({row["name"] for row in own})
    lines = []
    for name in names:
        cells = {row["x"]: row for row in own if row["name"] == name}
        lines.append([name, *(_cell(cells.get(x)) for x in xs)])
    return _table([head, *(label(x) for x in xs)], lines) if lines else ""


def _largest(rows: Sequence[Row]) -> str:
    lines = [
        [
            str(row["x"]),
            f"{row['num_trees']:,}",
            f"{row['steps']} x {row['samples']}",
            f"{row['kl'][0]:.2e} ± {row['stderr']:.0e}",
            f"{row['seconds']:.0f} ({row['device']})",
        ]
        for row in rows
        if row["group"] == "largest"
    ]
    heads = ["size", "trees", "steps x samples", "KL", "seconds"]
    return _table(heads, lines) if lines else ""


def _quick(rows: Sequence[Row]) -> str:
    lines = [
        [
            str(row["x"]),
            f"{row['steps']} x {row['samples']}",
            str(len(row["kl"])),
            f"{statistics.median(_kl(row)):.1e}",
            f"{max(_kl(row)):.1e}",
            f"{statistics.median(row['times']):.1f}",
            f"{max(row['times']):.1f}",
        ]
        for row in rows
        if row["group"] == "quick"
    ]
    heads = ["size", "steps x samples", "seeds", "KL", "worst", "seconds", "longest"]
    return _table(heads, lines) if lines else ""


def _reached(rows: Sequence[Row]) -> str:
    """After how many seconds a curve was first below, and where it was when it was left."""
    marks = [0.081, 0.01, 0.001]
    lines = []
    for name in _ordered({row["name"] for row in rows if row["group"] == "seconds"}):
        (row,) = _of(rows, "seconds", name)
        times = [next((c[0] for c in row["curve"] if c[2] <= mark), None) for mark in marks]
        last = row["curve"][-1]
        cells = ["-" if found is None else f"{found:.0f}" for found in times]
        lines.append([name, *cells, f"{last[2]:.1e} at {last[0]:.0f} s, step {last[1]}"])
    heads = ["recipe", *(f"below {mark:g}" for mark in marks), "left at"]
    return _table(heads, lines) if lines else ""


def _kl(row: Row) -> list[float]:
    return [float(kl) for kl in row["kl"]]


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    median, worst = statistics.median(_kl(row)), max(_kl(row))
    return f"{median:.1e}" if len(row["kl"]) == 1 else f"{median:.1e} ({worst:.1e})"


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _of(rows: Sequence[Row], group: str, name: str) -> list[Row]:
    return [row for row in rows if row["group"] == group and row["name"] == name]


def _ordered(names: Iterable[str]) -> list[str]:
    """Known ones in their order, then rungs of the ladder as they were climbed."""
    from benchmarks.beyond import constants_recipes, ladder

    order = [*ORDER, *ladder(), *constants_recipes()]
    known = [*dict.fromkeys(order)]
    return sorted(
        names, key=lambda name: (known.index(name) if name in known else len(known), name)
    )

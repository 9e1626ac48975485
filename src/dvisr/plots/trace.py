"""One sampled expression, drawn step by step: what went into the network, what came out, the tree.

The drawing has the plan of the paper's first figure: A the steps, B the library, C the tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from dvisr.plots.style import BLUE, GREEN, GREY, ORANGE


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """The inputs as text ("-" for none), the distributions, and what was drawn from them."""

    inputs: tuple[tuple[str, str], ...]  # ("previous", "x0"), ...
    probabilities: np.ndarray  # (tokens,)
    constants: tuple[np.ndarray, np.ndarray] | None  # values and q's density over them
    token: int
    value: float | None  # of the constant, where the token is one
    parent: int | None  # the step that wrote this token's parent


def draw_trace(figure: Figure, library: Sequence[str], steps: Sequence[TraceStep]) -> None:
    has_constants = any(step.constants is not None for step in steps)
    rows = 3 if has_constants else 2
    grid = figure.add_gridspec(
        rows + 1,
        len(steps) + 1,
        width_ratios=[1.0] * len(steps) + [0.85],
        height_ratios=[1.0] * (rows - 1) + [0.5, 0.8],
    )
    for column, step in enumerate(steps):
        token_axes = figure.add_subplot(grid[0, column])
        _bars(token_axes, library, step)
        token_axes.set_title(f"{'A   ' if column == 0 else ''}step {column + 1}", fontsize=9)
        if has_constants:
            _constant(figure.add_subplot(grid[1, column]), step)
        if column == 0:
            token_axes.set_ylabel("q(token)", fontsize=8)
    for column, step in enumerate(steps):
        is_last = column == len(steps) - 1
        _network(figure.add_subplot(grid[rows - 1, column]), column == 0, is_last)
        _inputs(figure.add_subplot(grid[rows, column]), step)
    _library(figure.add_subplot(grid[0, -1]), library)
    _tree(figure.add_subplot(grid[1:, -1]), library, steps)


def _bars(axes: Axes, library: Sequence[str], step: TraceStep) -> None:
    places = np.arange(len(library))
    colours = [BLUE if place == step.token else GREY for place in places]
    axes.bar(places, step.probabilities, color=colours)
    axes.set_xticks(places, library, fontsize=8)
    axes.set_ylim(0.0, 1.12)
    axes.tick_params(axis="y", labelsize=7)
    height = step.probabilities[step.token]
    axes.text(step.token, height + 0.02, f"{height:.3f}", ha="center", fontsize=7, color=BLUE)
    axes.spines[["top", "right"]].set_visible(False)


def _constant(axes: Axes, step: TraceStep) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_yticks([])
    axes.tick_params(labelsize=7)
    if step.constants is None:
        axes.set_axis_off()
        return
    values, density = step.constants
    is_used = step.value is not None
    axes.plot(values, density, color=BLUE if is_used else GREY, linewidth=1.2)
    axes.set_ylim(bottom=0.0)
    if step.value is not None:
        axes.axvline(step.value, color=ORANGE, linewidth=1.2)
        axes.set_title(f"c = {step.value:.3f} drawn", fontsize=8, color=ORANGE)
    else:
        axes.set_title("q(constant), not used", fontsize=8, color=GREY)


def _network(axes: Axes, is_first: bool, is_last: bool) -> None:
    """A box, with arrows from the inputs, to the outputs, and to the next step's."""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _box(axes, 0.28, 0.25, 0.44, 0.5, BLUE)
    axes.text(0.5, 0.5, "GRU", ha="center", va="center", fontsize=10)
    _arrow(axes, (0.5, -0.05), (0.5, 0.24))
    _arrow(axes, (0.5, 0.76), (0.5, 1.05))
    if not is_first:
        _arrow(axes, (-0.25, 0.5), (0.27, 0.5))
    if not is_last:
        axes.plot([0.73, 1.05], [0.5, 0.5], color="black", linewidth=1.0, clip_on=False)


def _inputs(axes: Axes, step: TraceStep) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    height = 1.0 / len(step.inputs)
    for row, (name, content) in enumerate(step.inputs):
        bottom = 1.0 - (row + 1) * height
        is_given = content not in ("-", "0")
        _box(axes, 0.12, bottom + 0.02, 0.76, height - 0.05, GREEN if is_given else GREY)
        axes.text(0.5, bottom + height / 2, f"{name}: {content}", ha="center", va="center",
                  fontsize=8)  # fmt: skip


def _library(axes: Axes, library: Sequence[str]) -> None:
    axes.set_axis_off()
    axes.set_title("B   library", fontsize=9)
    axes.text(0.5, 0.5, "\n".join(library), ha="center", va="center", fontsize=10,
              linespacing=1.6, transform=axes.transAxes)  # fmt: skip


def _tree(axes: Axes, library: Sequence[str], steps: Sequence[TraceStep]) -> None:
    axes.set_axis_off()
    axes.set_title("C   expression", fontsize=9)
    places = _layout(steps)
    for number, step in enumerate(steps):
        x, y = places[number]
        if step.parent is not None:
            axes.plot(*zip(places[step.parent], (x, y), strict=True), color=GREY, zorder=1)
        label = library[step.token] if step.value is None else f"{step.value:.3f}"
        axes.text(x, y, label, ha="center", va="center", fontsize=11, zorder=2,
                  bbox={"boxstyle": "round,pad=0.35", "facecolor": "white",
                        "edgecolor": BLUE if step.value is None else ORANGE})  # fmt: skip
    xs, ys = zip(*places, strict=True)
    axes.set_xlim(min(xs) - 0.8, max(xs) + 0.8)
    axes.set_ylim(min(ys) - 0.8, max(ys) + 0.8)


def _layout(steps: Sequence[TraceStep]) -> list[tuple[float, float]]:
    """Leaves from left to right at equal distances, a node in the middle above its operands."""
    children: list[list[int]] = [[] for _ in steps]
    depth = [0] * len(steps)
    for number, step in enumerate(steps):
        if step.parent is not None:
            children[step.parent].append(number)
            depth[number] = depth[step.parent] + 1
    x = [0.0] * len(steps)
    leaves = [number for number, below in enumerate(children) if not below]
    for place, number in enumerate(leaves):
        x[number] = float(place)
    for number in reversed(range(len(steps))):  # prefix order: operands come after
        if children[number]:
            x[number] = float(np.mean([x[below] for below in children[number]]))
    return [(x[number], -float(depth[number])) for number in range(len(steps))]


def _box(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.01,rounding_size=0.03",
                       facecolor=colour, alpha=0.18, edgecolor="none")
    )  # fmt: skip


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color="black", lw=1.0,
                        clip_on=False)
    )  # fmt: skip

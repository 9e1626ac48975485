"""Parts of a table's rows that stand for all of them: nested, and weighed so that sums over a part
estimate sums over the table.

Rows are taken by priority sampling: a row's priority is its size over a uniform number, and the
highest are taken. Its size is the observations that it stands for, by half as such and by half as
far as their error bars let them count; so what few rows decide is not left to chance.
"""

from __future__ import annotations

import numpy as np

from dvisr.likelihood import Likelihood

FACTOR = 4  # times the rows of a part: those of the next


def part_sizes(num_rows: int, fewest: int) -> list[int]:
    """Rows of each part, the smallest first; none where there are not twice as many rows as the
    fewest. The last has half of the rows at most."""
    sizes = [fewest] if num_rows >= 2 * fewest else []
    while sizes and 2 * FACTOR * sizes[-1] <= num_rows:
        sizes.append(FACTOR * sizes[-1])
    return sizes


def nested_parts(
    likelihood: Likelihood, fewest: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, Likelihood]]:
    """Of each part the numbers of its rows, in order, and their likelihood, with as many
    observations as so many rows have on average."""
    count = len(likelihood.y)
    sizes = part_sizes(count, fewest)
    if not sizes:
        return []
    counts = np.ones(count) if likelihood.weights is None else np.asarray(likelihood.weights)
    informed = counts / np.asarray(likelihood.scale) ** 2
    size = 0.5 * counts / counts.sum() + 0.5 * informed / informed.sum()
    priority = size / rng.uniform(size=count)
    order = np.argsort(-priority, kind="stable")
    parts = []
    for number in sizes:
        rows = np.sort(order[:number])
        stands_for = counts[rows] * np.maximum(size[rows], priority[order[number]]) / size[rows]
        weights = stands_for * likelihood.count * number / (count * stands_for.sum())
        parts.append((rows, likelihood.some(rows, weights)))
    return parts


def standing_for(part: Likelihood, observations: float) -> Likelihood:
    """A part whose rows count as so many observations: log likelihoods are on that scale then."""
    assert part.weights is not None
    weights = np.asarray(part.weights) * observations / part.count
    return part.some(np.arange(len(weights)), weights)

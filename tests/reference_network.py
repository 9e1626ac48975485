"""q written a second time: NumPy, loops, one tree at a time, from PyTorch's documentation of
GRUCell and Linear and from the paper's description of the inputs. The mask is brute force: a token
may come next if some legal tree begins like that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dvisr.library import Library


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1.0 / (1.0 + np.exp(-x))
    return found


def gru_cell(
    x: np.ndarray,
    h: np.ndarray,
    weight_ih: np.ndarray,
    weight_hh: np.ndarray,
    bias_ih: np.ndarray,
    bias_hh: np.ndarray,
) -> np.ndarray:
    """Rows of the weights: reset, update, new, as PyTorch stacks them."""
    n = len(h)
    i, j = weight_ih @ x + bias_ih, weight_hh @ h + bias_hh
    r = sigmoid(i[:n] + j[:n])
    z = sigmoid(i[n : 2 * n] + j[n : 2 * n])
    new = np.tanh(i[2 * n :] + r * j[2 * n :])
    after: np.ndarray = (1 - z) * new + z * h
    return after


def parents_and_siblings(library: Library, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """For each place in prefix order the places of its parent and left sibling, -1 for none."""
    found: list[tuple[int, int]] = []

    def read(place: int, parent: int, sibling: int) -> int:
        found.append((parent, sibling))
        after = place + 1
        left = -1
        for _ in range(library[tokens[place]].arity):
            start = after
            after = read(start, place, left)
            left = start
        return after

    assert read(0, -1, -1) == len(tokens)
    return found


def log_q(
    policy: Any, library: Library, legal: set[tuple[int, ...]], tokens: Sequence[int], values: Any
) -> float:
    """log q of a tree whose constants have these values (by place)."""
    (cell,) = policy.cells
    parts = (cell.input_weight, cell.hidden_weight, cell.input_bias, cell.hidden_bias)
    weights = [np.asarray(part, dtype=np.float64) for part in parts]
    h = np.zeros(weights[1].shape[1])
    num_tokens, constant = len(library), library.constant_id
    relatives = parents_and_siblings(library, tokens)
    total = 0.0
    for place, token in enumerate(tokens):
        x = np.zeros(3 * num_tokens + (2 if library.has_constants else 0))
        places = (place - 1, *relatives[place])  # previous, parent, sibling
        for part, other in enumerate(places):
            if other >= 0:
                x[part * num_tokens + tokens[other]] = 1.0
        if library.has_constants:
            for slot, other in ((-2, places[0]), (-1, places[2])):
                if other >= 0 and tokens[other] == constant:
                    x[slot] = values[other]
        h = gru_cell(x, h, *weights)
        logits = np.asarray(policy.token_layer.weight) @ h + np.asarray(policy.token_layer.bias)
        prefix = tuple(tokens[:place])
        may = [
            t for t in range(num_tokens) if any(tree[: place + 1] == (*prefix, t) for tree in legal)
        ]
        total += logits[token] - np.log(np.exp(logits[may]).sum())
        if token == constant:
            layer = policy.constant_layer
            mean, raw = np.asarray(layer.weight) @ h + np.asarray(layer.bias)
            std = np.log1p(np.exp(raw))
            z = (values[place] - mean) / std
            total += -0.5 * z * z - np.log(std) - 0.5 * np.log(2 * np.pi)
    return float(total)

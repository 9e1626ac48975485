"""A plain loop that samples one expression at a time: NumPy, Python, no gradient.

What an epoch costs when nothing is batched or compiled, as a yardstick that travels between
machines. It draws from the same distribution as the package: the same network, the same rule
against nested trigonometry, the same limit of size; and it evaluates the likelihood of each
expression.
"""

from __future__ import annotations

import numpy as np

NAMES = ("+", "*", "sin", "x0")
ARITIES = (2, 2, 1, 0)
X = np.arange(11) / 10.0
Y = X**2


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1.0 / (1.0 + np.exp(-x))
    return found


class PlainSampler:
    def __init__(self, hidden: int, max_tokens: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        bound = 1.0 / np.sqrt(hidden)
        shapes = [(3 * hidden, 12), (3 * hidden, hidden), (3 * hidden,), (3 * hidden,)]
        self.cell = [self.rng.uniform(-bound, bound, shape) for shape in shapes]
        self.head = [self.rng.uniform(-bound, bound, shape) for shape in [(4, hidden), (4,)]]
        self.hidden, self.max_tokens = hidden, max_tokens

    def sample(self) -> tuple[list[int], float]:
        """One expression, token by token, and its log q."""
        tokens: list[int] = []
        log_q = 0.0
        h = np.zeros(self.hidden)
        # Open slots: (parent, left sibling or the place where it will be, inside a sine).
        slots: list[tuple[int, int, bool]] = [(-1, -1, False)]
        while slots:
            parent, sibling, inside = slots.pop()
            x = np.zeros(12)
            for part, place in enumerate((len(tokens) - 1, parent, sibling)):
                if place >= 0:
                    x[4 * part + tokens[place]] = 1.0
            h = self._step(x, h)
            logits = self.head[0] @ h + self.head[1]
            room = self.max_tokens - len(tokens) - 1 - len(slots)
            allowed = [arity <= room and not (inside and name == "sin")
                       for name, arity in zip(NAMES, ARITIES, strict=True)]  # fmt: skip
            weights = np.where(allowed, np.exp(logits), 0.0)
            probs = weights / weights.sum()
            token = int(self.rng.choice(4, p=probs))
            log_q += float(np.log(probs[token]))
            here = len(tokens)
            tokens.append(token)
            below = inside or NAMES[token] == "sin"
            if ARITIES[token] == 2:
                slots.append((here, here + 1, below))
            if ARITIES[token] >= 1:
                slots.append((here, -1, below))
        return tokens, log_q

    def _step(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        n = self.hidden
        i = self.cell[0] @ x + self.cell[2]
        j = self.cell[1] @ h + self.cell[3]
        reset, update = sigmoid(i[:n] + j[:n]), sigmoid(i[n : 2 * n] + j[n : 2 * n])
        new = np.tanh(i[2 * n :] + reset * j[2 * n :])
        after: np.ndarray = (1 - update) * new + update * h
        return after


def log_likelihood(tokens: list[int]) -> float:
    def value(place: int) -> tuple[np.ndarray, int]:
        token = tokens[place]
        if token == 3:
            return X, place + 1
        first, place = value(place + 1)
        if token == 2:
            return np.sin(first), place
        second, place = value(place)
        return (first + second if token == 0 else first * second), place

    residuals = Y - value(0)[0]
    return float(-0.5 * (residuals**2).sum() - 5.5 * np.log(2 * np.pi))

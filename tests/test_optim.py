"""RMSprop and ReduceLROnPlateau, step by step, against the rules that PyTorch publishes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvisr.optim import ReduceOnPlateau, RMSprop


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.9, 1e-6), (0.99, 1e-8), (0.0, 1e-3)])
def test_rmsprop(alpha: float, epsilon: float) -> None:
    """v <- alpha v + (1 - alpha) g^2; theta <- theta - lr g / (sqrt(v) + eps), v = 0 at first."""
    rng = np.random.default_rng(0)
    theta = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    v = {name: np.zeros_like(value) for name, value in theta.items()}
    optimiser = RMSprop(alpha, epsilon)
    parameters = jax.tree.map(jnp.asarray, theta)
    state = optimiser.start(parameters)
    for number in range(50):
        lr = 1e-2 * 0.9**number
        # Gradients from huge to vanishing: epsilon matters at the end.
        gradient = {
            name: rng.normal(size=w.shape) * 10.0 ** (2 - number / 5) for name, w in theta.items()
        }
        for name, g in gradient.items():
            v[name] = alpha * v[name] + (1 - alpha) * g * g
            theta[name] = theta[name] - lr * g / (np.sqrt(v[name]) + epsilon)
        parameters, state = optimiser(
            parameters, jax.tree.map(jnp.asarray, gradient), state, jnp.asarray(lr)
        )
        for name in theta:
            np.testing.assert_allclose(parameters[name], theta[name], rtol=1e-13, atol=1e-15)


class Plateau:
    """The published rule, as a plain object: count epochs that are not better by the relative
    threshold; once the count exceeds the patience, reduce and begin again."""

    def __init__(
        self, lr: float, factor: float, patience: int, min_lr: float, threshold: float, eps: float
    ) -> None:
        self.lr, self.factor, self.patience = lr, factor, patience
        self.min_lr, self.threshold, self.eps = min_lr, threshold, eps
        self.best, self.bad = float("inf"), 0

    def step(self, metric: float) -> float:
        if metric < self.best * (1.0 - self.threshold):
            self.best, self.bad = metric, 0
        else:
            self.bad += 1
        if self.bad > self.patience:
            new = max(self.lr * self.factor, self.min_lr)
            if self.lr - new > self.eps:
                self.lr = new
            self.bad = 0
        return self.lr


@given(
    metrics=st.lists(st.floats(-20.0, 20.0), min_size=1, max_size=60),
    factor=st.floats(0.05, 0.95),
    patience=st.integers(0, 6),
    min_lr=st.sampled_from([0.0, 1e-6, 4e-3, 9.99e-3]),
)
def test_plateau(metrics: list[float], factor: float, patience: int, min_lr: float) -> None:
    schedule = ReduceOnPlateau(1e-2, factor, patience, min_lr)
    plain = Plateau(1e-2, factor, patience, min_lr, 1e-4, 1e-8)
    state = schedule.start(jnp.float64)
    for metric in metrics:
        state = schedule(state, jnp.asarray(metric))
        assert float(state.learning_rate) == pytest.approx(plain.step(metric), rel=1e-14)


def test_the_count_must_exceed_the_patience() -> None:
    schedule = ReduceOnPlateau(1.0, 0.5, patience=3)
    state = schedule.start(jnp.float64)
    rates = []
    for _ in range(10):
        state = schedule(state, jnp.asarray(5.0))
        rates.append(float(state.learning_rate))
    # The first is better than infinity; then three bad ones are borne, and the fourth is not.
    assert rates == [1.0] * 4 + [0.5] * 4 + [0.25] * 2


def test_a_negative_metric_never_reduces() -> None:
    """PyTorch's own trap, kept: -1 is below -1 * (1 - 1e-4)."""
    schedule = ReduceOnPlateau(1.0, 0.5, patience=0)
    state = schedule.start(jnp.float64)
    for _ in range(20):
        state = schedule(state, jnp.asarray(-1.0))
    assert float(state.learning_rate) == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: RMSprop(1.0, 1e-6),
        lambda: RMSprop(0.9, 0.0),
        lambda: ReduceOnPlateau(0.0),
        lambda: ReduceOnPlateau(1e-2, factor=1.0),
        lambda: ReduceOnPlateau(1e-2, patience=-1),
    ],
)
def test_wrong_settings_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|can't"):
        make()  # type: ignore[operator]

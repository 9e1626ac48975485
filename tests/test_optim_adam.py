"""Adam step by step against the published rule; the cosine against its formula."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.optim import Adam, CosineDecay


@pytest.mark.parametrize(
    "settings", [(0.9, 0.999, 1e-8), (0.95, 0.95, 1e-8), (0.0, 0.5, 1e-3), None]
)
def test_adam(settings: tuple[float, float, float] | None) -> None:
    """Kingma and Ba: m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; both divided by 1 - b^t;
    theta <- theta - lr m / (sqrt(v) + eps)."""
    optimiser = Adam() if settings is None else Adam(*settings)
    first, second, epsilon = (0.95, 0.95, 1e-8) if settings is None else settings
    rng = np.random.default_rng(0)
    theta = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    m = {name: np.zeros_like(value) for name, value in theta.items()}
    v = {name: np.zeros_like(value) for name, value in theta.items()}
    parameters = jax.tree.map(jnp.asarray, theta)
    state = optimiser.start(parameters)

    @jax.jit
    def step(*given: Any) -> tuple[Any, Any]:
        return optimiser(*given)

    for number in range(1, 51):
        rate = 1e-2 * 0.9**number
        # Gradients from huge to vanishing: epsilon matters at the end.
        gradient = {
            name: rng.normal(size=w.shape) * 10.0 ** (2 - number / 5) for name, w in theta.items()
        }
        for name, g in gradient.items():
            m[name] = first * m[name] + (1 - first) * g
            v[name] = second * v[name] + (1 - second) * g * g
            m_hat, v_hat = m[name] / (1 - first**number), v[name] / (1 - second**number)
            theta[name] = theta[name] - rate * m_hat / (np.sqrt(v_hat) + epsilon)
        parameters, state = step(
            parameters, jax.tree.map(jnp.asarray, gradient), state, jnp.asarray(rate)
        )
        for name in theta:
            np.testing.assert_allclose(parameters[name], theta[name], rtol=1e-12, atol=1e-14)


def test_the_first_step_of_adam_is_the_rate_whatever_the_gradient() -> None:
    parameters = jnp.zeros(3)
    optimiser = Adam(epsilon=1e-30)
    gradient = jnp.asarray([1e-9, -3.0, 1e6])
    moved, _ = optimiser(parameters, gradient, optimiser.start(parameters), jnp.asarray(0.25))
    np.testing.assert_allclose(moved, [-0.25, 0.25, -0.25], rtol=1e-12)


def test_cosine_decay() -> None:
    """Half a period from the first rate to zero, and zero after that, whatever the metric."""
    num_steps, rate = 40, 0.3
    schedule = CosineDecay(rate, num_steps)
    rng = np.random.default_rng(1)
    state, other = schedule.start(jnp.float64), schedule.start(jnp.float64)
    found = []
    for _ in range(num_steps + 6):
        found.append(float(schedule.learning_rate(state)))
        assert float(schedule.learning_rate(other)) == found[-1]
        state = schedule(state, jnp.asarray(rng.normal() * 1e3))
        other = schedule(other, jnp.asarray(np.nan))
    expected = [0.5 * rate * (1.0 + math.cos(math.pi * n / num_steps)) for n in range(num_steps)]
    np.testing.assert_allclose(found, expected + [0.0] * 6, rtol=1e-12, atol=1e-16)
    assert found[0] == rate
    assert found[num_steps // 2] == pytest.approx(0.5 * rate, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Adam(momentum=1.0), "momentum"),
        (lambda: Adam(momentum=-0.1), "momentum"),
        (lambda: Adam(decay=1.0), "decay"),
        (lambda: Adam(decay=-0.1), "decay"),
        (lambda: Adam(epsilon=0.0), "epsilon"),
        (lambda: CosineDecay(0.0, 10), "learning rate"),
        (lambda: CosineDecay(math.nan, 10), "learning rate"),
        (lambda: CosineDecay(0.1, 0), "at least 1 step"),
    ],
)
def test_wrong_settings_are_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]

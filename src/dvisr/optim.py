"""Optimisers and learning-rate schedules: the paper's, exactly as PyTorch has them, and ours.

RMSprop is Optax's, with PyTorch's conventions: the accumulator starts at zero and epsilon is added
outside the square root. ReduceLROnPlateau is written here, because Optax's differs in three ways:
it fires when the count of bad steps reaches the patience (PyTorch's: exceeds it), it applies the
new rate to the very step that triggered it (PyTorch's: to the next), and it has no least change.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

if TYPE_CHECKING:
    import optax


def _applied(parameters: Any, step: Any) -> Any:
    import optax

    return optax.apply_updates(parameters, step)


class AbstractOptimiser(eqx.Module):
    @abc.abstractmethod
    def start(self, parameters: Any) -> Any: ...

    @abc.abstractmethod
    def __call__(
        self, parameters: Any, gradient: Any, state: Any, learning_rate: Float[Array, ""]
    ) -> tuple[Any, Any]:
        """The parameters one step down the gradient, and the state afterwards."""


class AbstractSchedule(eqx.Module):
    @abc.abstractmethod
    def start(self, dtype: Any) -> Any: ...

    @abc.abstractmethod
    def learning_rate(self, state: Any) -> Float[Array, ""]: ...

    def with_steps(self, num_steps: int) -> AbstractSchedule:
        """The same for a training of so many steps."""
        return self

    @abc.abstractmethod
    def __call__(self, state: Any, metric: Float[Array, ""]) -> Any:
        """The state after a step whose metric, -ELBO, was this."""


class RMSprop(AbstractOptimiser):
    """`torch.optim.RMSprop(lr, alpha=decay, eps=epsilon)`: no momentum, not centred."""

    decay: float = eqx.field(static=True, default=0.99)
    epsilon: float = eqx.field(static=True, default=1e-8)

    def __check_init__(self) -> None:
        if not (0.0 <= self.decay < 1.0 and self.epsilon > 0.0):
            raise ValueError(
                f"RMSprop needs a decay of at least 0 and below 1 and an epsilon above 0, "
                f"not {self.decay} and {self.epsilon}"
            )

    def _transformation(self) -> optax.GradientTransformation:
        import optax  # when it is first used: a fit has a table to look at before

        return optax.scale_by_rms(
            decay=self.decay, eps=self.epsilon, initial_scale=0.0, eps_in_sqrt=False
        )

    def start(self, parameters: Any) -> Any:
        return self._transformation().init(parameters)

    def __call__(
        self, parameters: Any, gradient: Any, state: Any, learning_rate: Float[Array, ""]
    ) -> tuple[Any, Any]:
        direction, state = self._transformation().update(gradient, state)
        step = jax.tree.map(lambda d: -learning_rate * d, direction)
        return _applied(parameters, step), state


class PlateauState(eqx.Module):
    learning_rate: Float[Array, ""]
    best: Float[Array, ""]
    num_bad: Int[Array, ""]


class ReduceOnPlateau(AbstractSchedule):
    """`torch.optim.lr_scheduler.ReduceLROnPlateau`, mode "min", threshold mode "rel", no cooldown.

    A metric counts as better if it is below `best * (1 - threshold)`. For a negative metric that
    is above the best, so nearly everything is better and the rate is never reduced: PyTorch's own
    behaviour, kept. (The paper's metric, -ELBO, is positive.)
    """

    first_rate: float = eqx.field(static=True)
    factor: float = eqx.field(static=True, default=0.1)
    patience: int = eqx.field(static=True, default=10)
    min_learning_rate: float = eqx.field(static=True, default=0.0)
    threshold: float = eqx.field(static=True, default=1e-4)
    least_change: float = eqx.field(static=True, default=1e-8)

    def __check_init__(self) -> None:
        if not self.first_rate > 0.0:
            raise ValueError(f"the learning rate must be above 0, not {self.first_rate}")
        if not 0.0 < self.factor < 1.0:
            raise ValueError(f"the factor must be between 0 and 1, not {self.factor}")
        if self.patience < 0 or self.min_learning_rate < 0.0:
            raise ValueError("patience and the least learning rate can't be below 0")

    def start(self, dtype: Any) -> PlateauState:
        return PlateauState(
            learning_rate=jnp.full((), self.first_rate, dtype=dtype),
            best=jnp.full((), jnp.inf, dtype=dtype),
            num_bad=jnp.zeros((), dtype=jnp.int32),
        )

    def learning_rate(self, state: PlateauState) -> Float[Array, ""]:
        return state.learning_rate

    def __call__(self, state: PlateauState, metric: Float[Array, ""]) -> PlateauState:
        is_better = metric < state.best * (1.0 - self.threshold)
        num_bad = jnp.where(is_better, 0, state.num_bad + 1)
        is_due = num_bad > self.patience
        lower = jnp.maximum(state.learning_rate * self.factor, self.min_learning_rate)
        is_change = is_due & (state.learning_rate - lower > self.least_change)
        return PlateauState(
            learning_rate=jnp.where(is_change, lower, state.learning_rate),
            best=jnp.where(is_better, metric, state.best),
            num_bad=jnp.where(is_due, 0, num_bad),
        )


class Adam(AbstractOptimiser):
    """Optax's Adam, with a short memory of the gradient's size.

    The gradient of the ELBO and its noise shrink by orders of magnitude as q comes close to the
    posterior. With the usual decay of 0.999 a step is measured by the gradients of a thousand steps
    ago and is far too small (`python -m benchmarks.beyond ladder` shows what that costs).
    """

    momentum: float = eqx.field(static=True, default=0.95)
    decay: float = eqx.field(static=True, default=0.95)
    epsilon: float = eqx.field(static=True, default=1e-8)

    def __check_init__(self) -> None:
        if not (0.0 <= self.momentum < 1.0 and 0.0 <= self.decay < 1.0 and self.epsilon > 0.0):
            raise ValueError(
                "Adam needs a momentum and a decay of at least 0 and below 1 and an epsilon above "
                f"0, not {self.momentum}, {self.decay} and {self.epsilon}"
            )

    def _transformation(self) -> optax.GradientTransformation:
        import optax  # when it is first used: a fit has a table to look at before

        return optax.scale_by_adam(self.momentum, self.decay, self.epsilon)

    def start(self, parameters: Any) -> Any:
        return self._transformation().init(parameters)

    def __call__(
        self, parameters: Any, gradient: Any, state: Any, learning_rate: Float[Array, ""]
    ) -> tuple[Any, Any]:
        # Optax raises a float to a power that is a 32-bit count; strict promotion forbids it.
        with jax.numpy_dtype_promotion("standard"):
            direction, state = self._transformation().update(gradient, state)
        step = jax.tree.map(lambda d: -learning_rate * d, direction)
        return _applied(parameters, step), state


class CosineDecay(AbstractSchedule):
    """From the first rate to zero over the steps of a training, whatever the metric: half a period
    of a cosine. Its state is the number of steps made."""

    first_rate: float = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not (self.first_rate > 0.0 and self.num_steps >= 1):
            raise ValueError(
                "a cosine decay needs a learning rate above 0 and at least 1 step, not "
                f"{self.first_rate} and {self.num_steps}"
            )

    def with_steps(self, num_steps: int) -> AbstractSchedule:
        return dataclasses.replace(self, num_steps=num_steps)

    def start(self, dtype: Any) -> Float[Array, ""]:
        return jnp.zeros((), dtype=dtype)

    def learning_rate(self, state: Float[Array, ""]) -> Float[Array, ""]:
        done = jnp.minimum(state / self.num_steps, 1.0)
        return self.first_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * done))

    def __call__(self, state: Float[Array, ""], metric: Float[Array, ""]) -> Float[Array, ""]:
        return state + 1.0

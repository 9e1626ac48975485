"""A constant's distribution as a policy states it: numbers out of a network, made a density."""

from __future__ import annotations

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

_HASTE = 5.0  # of the weights of a mixture


class AbstractConstantHead(eqx.Module):
    """Any distribution over the reals with a density can stand here: `tests/contracts.py` says
    what it must hold to. `outputs` are the network's, unbounded."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int: ...

    @property
    @abc.abstractmethod
    def grid(self) -> tuple[float, ...]:
        """Evenly spaced points by which a network is to see the values drawn, or none."""

    @abc.abstractmethod
    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def sample(
        self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def path(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """How a draw depends on the outputs it was drawn from: the same value as a differentiable
        function of them, and the log probability of what was chosen on the way (zero where nothing
        was). The slope of the mean of f(draw) is the mean of

            slope of f(value) + f(value) * slope of the log probability.
        """

    @abc.abstractmethod
    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        """The width of the bulk: quadrature over the constant works in units of it."""


class NormalHead(AbstractConstantHead):
    """The paper's: a mean and, through a softplus, a standard deviation."""

    @property
    def num_outputs(self) -> int:
        return 2

    @property
    def grid(self) -> tuple[float, ...]:
        return ()

    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]:
        z = (value - self.centre(outputs)) / self.scale(outputs)
        return -0.5 * z * z - jnp.log(self.scale(outputs)) - 0.5 * math.log(2.0 * math.pi)

    def sample(self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray) -> Float[Array, ""]:
        noise = jax.random.normal(key, dtype=outputs.dtype)
        return self.centre(outputs) + self.scale(outputs) * noise

    def path(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """mean + std * noise; nothing is chosen."""
        moved = _shifted(self.centre(outputs), self.scale(outputs), value)
        return moved, jnp.zeros_like(moved)

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return outputs[0]

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return jax.nn.softplus(outputs[1])


class MixtureHead(AbstractConstantHead):
    """Several Normals with weights, each with a stretch of the line to itself: their means start
    side by side, `spread` apart, and stay within 1.5 times that of where they start. Components
    that could go anywhere would all go to the mode that most trees have, and none would come
    back for the others."""

    num_components: int = eqx.field(static=True, default=4)
    spread: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if self.num_components < 2:
            raise ValueError(f"a mixture needs at least 2 components, not {self.num_components}")
        if not self.spread > 0.0:
            raise ValueError(f"the spread of a mixture must be above 0, not {self.spread}")

    @property
    def num_outputs(self) -> int:
        return 3 * self.num_components

    @property
    def grid(self) -> tuple[float, ...]:
        """Points that tell the components' stretches apart, for a network to see values by."""
        count = 2 * self.num_components + 1
        return tuple(0.5 * self.spread * (place - self.num_components) for place in range(count))

    def _components(
        self, outputs: Float[Array, " outputs"]
    ) -> tuple[Float[Array, " k"], Float[Array, " k"], Float[Array, " k"]]:
        """Log weights, means, standard deviations."""
        logits, means, raw = jnp.split(outputs, 3)
        places = jnp.arange(self.num_components, dtype=outputs.dtype)
        offsets = places - 0.5 * (self.num_components - 1)
        width = 0.5 * self.spread
        means = self.spread * (offsets + 1.5 * jnp.tanh(means))
        stds = jax.nn.softplus(raw + math.log(math.expm1(width)))
        # A component that is not wanted has to lose ten nats and more: soon, not late.
        return jax.nn.log_softmax(_HASTE * logits), means, stds

    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]:
        log_weights, means, stds = self._components(outputs)
        z = (value - means) / stds
        parts = log_weights - 0.5 * z * z - jnp.log(stds) - 0.5 * math.log(2.0 * math.pi)
        found: Array = logsumexp(parts)
        return found

    def sample(self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray) -> Float[Array, ""]:
        choice_key, noise_key = jax.random.split(key)
        log_weights, means, stds = self._components(outputs)
        chosen = jax.random.categorical(choice_key, log_weights)
        here = jnp.arange(self.num_components) == chosen
        noise = jax.random.normal(noise_key, dtype=outputs.dtype)
        return jnp.where(here, means + stds * noise, 0.0).sum()

    def path(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """A component is chosen, then mean + std * noise. Which component it was is not asked:
        averaged over those it may have been, given the value, both parts are less noisy."""
        log_weights, means, stds = self._components(outputs)
        fixed = jax.lax.stop_gradient((log_weights, means, stds, value))
        shares = jax.nn.softmax(
            fixed[0] - 0.5 * ((fixed[3] - fixed[1]) / fixed[2]) ** 2 - jnp.log(fixed[2])
        )
        moved = (shares * _shifted(means, stds, value)).sum()
        return moved, (shares * log_weights).sum()

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        log_weights, means, _ = self._components(outputs)
        return (jnp.exp(log_weights) * means).sum()

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        """The standard deviation of the whole."""
        log_weights, means, stds = self._components(outputs)
        squares = stds**2 + (means - self.centre(outputs)) ** 2
        return jnp.sqrt((jnp.exp(log_weights) * squares).sum())


class AffineHead(AbstractConstantHead):
    """Another head's distribution, stretched and then shifted by two more outputs, the last ones:
    how far, and the logarithm of how much it is stretched."""

    inner: AbstractConstantHead

    @property
    def num_outputs(self) -> int:
        return self.inner.num_outputs + 2

    @property
    def grid(self) -> tuple[float, ...]:
        return self.inner.grid

    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]:
        shift, log_stretch = outputs[-2], outputs[-1]
        inner = (value - shift) * jnp.exp(-log_stretch)
        return self.inner.log_prob(outputs[:-2], inner) - log_stretch

    def sample(self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray) -> Float[Array, ""]:
        return outputs[-2] + jnp.exp(outputs[-1]) * self.inner.sample(outputs[:-2], key=key)

    def path(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        stretch = jnp.exp(outputs[-1])
        inner = jax.lax.stop_gradient((value - outputs[-2]) / stretch)
        moved, choice = self.inner.path(outputs[:-2], inner)
        return outputs[-2] + stretch * moved, choice

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return outputs[-2] + jnp.exp(outputs[-1]) * self.inner.centre(outputs[:-2])

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return jnp.exp(outputs[-1]) * self.inner.scale(outputs[:-2])


def _shifted(
    mean: Float[Array, "*parts"], std: Float[Array, "*parts"], value: Float[Array, ""]
) -> Float[Array, "*parts"]:
    """The value, moving with the mean and in proportion to the standard deviation."""
    noise = jax.lax.stop_gradient((value - mean) / std)
    return mean + std * noise

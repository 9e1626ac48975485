"""A constant's distribution as a policy states it: numbers out of a network, made a density."""

from __future__ import annotations

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp, ndtr
from jaxtyping import Array, Float, PRNGKeyArray


class AbstractConstantHead(eqx.Module):
    """Any distribution over the reals with a density can stand here: `tests/contracts.py` says
    what it must hold to. `outputs` are the network's, unbounded."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int: ...

    @abc.abstractmethod
    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def sample(
        self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def cdf(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]: ...

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

    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]:
        z = (value - self.centre(outputs)) / self.scale(outputs)
        return -0.5 * z * z - jnp.log(self.scale(outputs)) - 0.5 * math.log(2.0 * math.pi)

    def sample(self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray) -> Float[Array, ""]:
        noise = jax.random.normal(key, dtype=outputs.dtype)
        return self.centre(outputs) + self.scale(outputs) * noise

    def cdf(self, outputs: Float[Array, " outputs"], value: Float[Array, ""]) -> Float[Array, ""]:
        return ndtr((value - self.centre(outputs)) / self.scale(outputs))

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return outputs[0]

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return jax.nn.softplus(outputs[1])


class MixtureHead(AbstractConstantHead):
    """Several Normals with weights. The components' means start `spread` apart, or they would all
    learn the same."""

    num_components: int = eqx.field(static=True, default=4)
    spread: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if self.num_components < 2:
            raise ValueError(f"a mixture needs at least 2 components, not {self.num_components}")

    @property
    def num_outputs(self) -> int:
        return 3 * self.num_components

    def _components(
        self, outputs: Float[Array, " outputs"]
    ) -> tuple[Float[Array, " k"], Float[Array, " k"], Float[Array, " k"]]:
        """Log weights, means, standard deviations."""
        logits, means, raw = jnp.split(outputs, 3)
        places = jnp.arange(self.num_components, dtype=outputs.dtype)
        offsets = self.spread * (places - 0.5 * (self.num_components - 1))
        return jax.nn.log_softmax(logits), means + offsets, jax.nn.softplus(raw)

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

    def cdf(self, outputs: Float[Array, " outputs"], value: Float[Array, ""]) -> Float[Array, ""]:
        log_weights, means, stds = self._components(outputs)
        return (jnp.exp(log_weights) * ndtr((value - means) / stds)).sum()

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        log_weights, means, _ = self._components(outputs)
        return (jnp.exp(log_weights) * means).sum()

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        """The standard deviation of the whole."""
        log_weights, means, stds = self._components(outputs)
        squares = stds**2 + (means - self.centre(outputs)) ** 2
        return jnp.sqrt((jnp.exp(log_weights) * squares).sum())


def moved_with(
    head: AbstractConstantHead, outputs: Float[Array, " outputs"], value: Float[Array, ""]
) -> Float[Array, ""]:
    """A drawn value as a differentiable function of the outputs it was drawn from.

    Keep the share of the distribution below the value fixed, F(outputs, value) = u, and let the
    outputs vary: the value moves by -dF / density. For a Normal that is mean + std * noise; it
    holds for a mixture as well, whose draw has no such formula. The value itself is as it was.
    """
    value = jax.lax.stop_gradient(value)
    below = head.cdf(outputs, value)
    density = jax.lax.stop_gradient(jnp.exp(head.log_prob(outputs, value)))
    # In a tail where the density has underflowed nothing can be said, and nothing moves.
    is_seen = density > 0.0
    move = (below - jax.lax.stop_gradient(below)) / jnp.where(is_seen, density, 1.0)
    return value - jnp.where(is_seen, move, 0.0)

"""A constant's distribution as a policy states it: numbers out of a network, made a density."""

from __future__ import annotations

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class AbstractConstantHead(eqx.Module):
    """Any distribution over the reals with a density can stand here: `tests/contracts.py` says
    what it must hold to. `outputs` are the network's, unbounded."""

    num_outputs: eqx.AbstractVar[int]

    @abc.abstractmethod
    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def sample(
        self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray
    ) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        """The width of the bulk: quadrature over the constant works in units of it."""


class NormalHead(AbstractConstantHead):
    """The paper's: a mean and, through a softplus, a standard deviation."""

    num_outputs: int = eqx.field(static=True, default=2)

    def log_prob(
        self, outputs: Float[Array, " outputs"], value: Float[Array, ""]
    ) -> Float[Array, ""]:
        z = (value - self.centre(outputs)) / self.scale(outputs)
        return -0.5 * z * z - jnp.log(self.scale(outputs)) - 0.5 * math.log(2.0 * math.pi)

    def sample(self, outputs: Float[Array, " outputs"], *, key: PRNGKeyArray) -> Float[Array, ""]:
        noise = jax.random.normal(key, dtype=outputs.dtype)
        return self.centre(outputs) + self.scale(outputs) * noise

    def centre(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return outputs[0]

    def scale(self, outputs: Float[Array, " outputs"]) -> Float[Array, ""]:
        return jax.nn.softplus(outputs[1])

"""The Normal head, and two others written here: the interface takes any density."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.policy import GRUPolicy
from tests.contracts import check_head, check_policy


class StudentTHead(AbstractConstantHead):
    """Heavy tails: three degrees of freedom."""

    num_outputs: int = eqx.field(static=True, default=2)

    def log_prob(self, outputs: jax.Array, value: jax.Array) -> jax.Array:
        z = (value - outputs[0]) / self.scale(outputs)
        log_normaliser = math.lgamma(2.0) - math.lgamma(1.5) - 0.5 * math.log(3.0 * math.pi)
        return log_normaliser - 2.0 * jnp.log1p(z * z / 3.0) - jnp.log(self.scale(outputs))

    def sample(self, outputs: jax.Array, *, key: jax.Array) -> jax.Array:
        noise = jax.random.t(key, 3.0, dtype=outputs.dtype)
        return outputs[0] + self.scale(outputs) * noise

    def centre(self, outputs: jax.Array) -> jax.Array:
        return outputs[0]

    def scale(self, outputs: jax.Array) -> jax.Array:
        return jax.nn.softplus(outputs[1])


class MixtureHead(AbstractConstantHead):
    """Two Normals, with weights of their own."""

    num_outputs: int = eqx.field(static=True, default=6)

    def _parts(self, outputs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return outputs[:2], jax.nn.softplus(outputs[2:4]), jax.nn.log_softmax(outputs[4:])

    def log_prob(self, outputs: jax.Array, value: jax.Array) -> jax.Array:
        means, stds, log_weights = self._parts(outputs)
        z = (value - means) / stds
        terms = log_weights - 0.5 * z * z - jnp.log(stds) - 0.5 * math.log(2 * math.pi)
        return jax.nn.logsumexp(terms)

    def sample(self, outputs: jax.Array, *, key: jax.Array) -> jax.Array:
        means, stds, log_weights = self._parts(outputs)
        which, noise = jax.random.split(key)
        part = jax.random.categorical(which, log_weights)
        return means[part] + stds[part] * jax.random.normal(noise, dtype=outputs.dtype)

    def centre(self, outputs: jax.Array) -> jax.Array:
        means, _, log_weights = self._parts(outputs)
        return (jnp.exp(log_weights) * means).sum()

    def scale(self, outputs: jax.Array) -> jax.Array:
        means, stds, log_weights = self._parts(outputs)
        squares = stds**2 + (means - self.centre(outputs)) ** 2
        return jnp.sqrt((jnp.exp(log_weights) * squares).sum())


HEADS = [NormalHead(), StudentTHead(), MixtureHead()]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_contract(head: AbstractConstantHead) -> None:
    check_head(head)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_a_policy_takes_it(head: AbstractConstantHead) -> None:
    grammar = Grammar(Library.create(["+", "cos"], ["x0"], constants=True), 5, "paper")
    policy = GRUPolicy.create(
        grammar.library, 8, key=jax.random.key(0), head=head, dtype=jnp.float64
    )
    check_policy(policy, grammar)


def test_normal_is_scipys() -> None:
    outputs, values = jnp.asarray([0.7, -1.2]), np.linspace(-3, 3, 7)
    std = np.log1p(np.exp(-1.2))
    found = jax.vmap(lambda v: NormalHead().log_prob(outputs, v))(jnp.asarray(values))
    np.testing.assert_allclose(found, stats.norm(0.7, std).logpdf(values), rtol=1e-13)

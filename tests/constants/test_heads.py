"""The heads, and one more written here: the interface takes any density."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dvisr.constants import AbstractConstantHead, AffineHead, MixtureHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.policy import GRUPolicy
from tests.contracts import check_head, check_policy
from tests.marks import quick_only


class StudentTHead(AbstractConstantHead):
    """Heavy tails: three degrees of freedom."""

    @property
    def num_outputs(self) -> int:
        return 2

    @property
    def grid(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    def log_prob(self, outputs: jax.Array, value: jax.Array) -> jax.Array:
        z = (value - outputs[0]) / self.scale(outputs)
        log_normaliser = math.lgamma(2.0) - math.lgamma(1.5) - 0.5 * math.log(3.0 * math.pi)
        return log_normaliser - 2.0 * jnp.log1p(z * z / 3.0) - jnp.log(self.scale(outputs))

    def sample(self, outputs: jax.Array, *, key: jax.Array) -> jax.Array:
        noise = jax.random.t(key, 3.0, dtype=outputs.dtype)
        return outputs[0] + self.scale(outputs) * noise

    def path(self, outputs: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = jax.lax.stop_gradient((value - outputs[0]) / self.scale(outputs))
        return outputs[0] + self.scale(outputs) * noise, jnp.zeros_like(value)

    def centre(self, outputs: jax.Array) -> jax.Array:
        return outputs[0]

    def scale(self, outputs: jax.Array) -> jax.Array:
        return jax.nn.softplus(outputs[1])


HEADS = [NormalHead(), StudentTHead(), MixtureHead(3, 0.7), AffineHead(MixtureHead(2, 0.7))]


@pytest.mark.parametrize("head", quick_only(HEADS, HEADS[0]), ids=lambda head: type(head).__name__)
def test_contract(head: AbstractConstantHead) -> None:
    check_head(head)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_a_policy_takes_it(head: AbstractConstantHead) -> None:
    grammar = Grammar(Library.create(["+", "cos"], ["x0"], constants=True), 5, "paper")
    policy = GRUPolicy.create(grammar, 8, key=jax.random.key(0), head=head, dtype=jnp.float64)
    check_policy(policy, grammar)


def test_normal_is_scipys() -> None:
    outputs, values = jnp.asarray([0.7, -1.2]), np.linspace(-3, 3, 7)
    std = np.log1p(np.exp(-1.2))
    found = jax.vmap(lambda v: NormalHead().log_prob(outputs, v))(jnp.asarray(values))
    np.testing.assert_allclose(found, stats.norm(0.7, std).logpdf(values), rtol=1e-13)


def test_a_mixture_is_the_sum_of_scipys() -> None:
    head, rng = MixtureHead(3, 0.7), np.random.default_rng(0)
    outputs, values = rng.normal(size=9), np.linspace(-4, 4, 9)
    weights = np.exp(5.0 * outputs[:3]) / np.exp(5.0 * outputs[:3]).sum()
    parts = [
        stats.norm(
            0.7 * (k - 1 + 1.5 * np.tanh(outputs[3 + k])),
            np.log1p(np.exp(outputs[6 + k]) * np.expm1(0.35)),
        )
        for k in range(3)
    ]
    density = sum(w * part.pdf(values) for w, part in zip(weights, parts, strict=True))
    at = jnp.asarray(outputs)
    found = jax.vmap(lambda v: head.log_prob(at, v))(jnp.asarray(values))
    np.testing.assert_allclose(np.exp(found), density, rtol=1e-12)
    with pytest.raises(ValueError, match="at least 2"):
        MixtureHead(1)
    with pytest.raises(ValueError, match="above 0"):
        MixtureHead(4, 0.0)


def test_an_affine_head_stretches_and_shifts() -> None:
    outputs, values = jnp.asarray([0.7, -1.2, 2.5, -0.4]), np.linspace(-3, 3, 7)
    head = AffineHead(NormalHead())
    moved = stats.norm(2.5 + np.exp(-0.4) * 0.7, np.exp(-0.4) * np.log1p(np.exp(-1.2)))
    found = jax.vmap(lambda v: head.log_prob(outputs, v))(jnp.asarray(values))
    np.testing.assert_allclose(found, moved.logpdf(values), rtol=1e-13)
    assert head.centre(outputs) == pytest.approx(moved.mean(), rel=1e-14)
    assert head.scale(outputs) == pytest.approx(moved.std(), rel=1e-14)


def test_a_normal_draw_moves_as_mean_plus_std_times_noise() -> None:
    outputs, head = jnp.asarray([0.7, -1.2]), NormalHead()
    value = jnp.asarray(1.9)
    std = np.log1p(np.exp(-1.2))
    moved, slope = jax.value_and_grad(lambda o: head.path(o, value)[0])(outputs)
    assert moved == pytest.approx(1.9, rel=1e-15)
    by_raw = (1.9 - 0.7) / std / (1.0 + np.exp(1.2))
    np.testing.assert_allclose(slope, [1.0, by_raw], rtol=1e-12)


@pytest.mark.parametrize("head", quick_only(HEADS, HEADS[0]), ids=lambda head: type(head).__name__)
def test_draws_move_with_their_distribution(head: AbstractConstantHead) -> None:
    """Slope of f(value) + f(value) * slope of the choice: its mean is the slope of the mean of f,
    by quadrature."""
    outputs = jnp.asarray(0.3 * np.random.default_rng(3).normal(size=head.num_outputs))
    grid = head.centre(outputs) + head.scale(outputs) * jnp.linspace(-60.0, 60.0, 60_001)

    def smooth(value: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * (value - 0.4) ** 2)

    def mean(outputs: jax.Array) -> jax.Array:
        density = jnp.exp(jax.vmap(lambda v: head.log_prob(outputs, v))(grid))
        return jnp.trapezoid(smooth(grid) * density, grid)

    def one(key: jax.Array) -> jax.Array:
        value = head.sample(outputs, key=key)

        def surrogate(outputs: jax.Array) -> jax.Array:
            moved, chosen = head.path(outputs, value)
            return smooth(moved) + smooth(value) * chosen

        slope: jax.Array = jax.grad(surrogate)(outputs)
        return slope

    slopes = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 100_000)))
    errors = slopes.std(axis=0, ddof=1) / np.sqrt(len(slopes))
    expected = np.asarray(jax.grad(mean)(outputs))
    assert np.abs((slopes.mean(axis=0) - expected) / errors).max() < 4.0
    assert np.abs(expected / errors).max() > 10.0

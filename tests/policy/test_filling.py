"""The filler: later constants may follow earlier ones exactly."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.constants import MixtureHead
from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.policy import Filler
from dvisr.sampling import log_densities, make_writer
from tests.marks import quick_only

GRAMMAR = Grammar(Library.create(["+", "*"], ["x0"], constants=True), 5, "paper")
NAMES = [token.name for token in GRAMMAR.library]
TREE = jnp.asarray([NAMES.index(name) for name in ("+", "+", "x0", "c", "c")], jnp.int32)
FIRST, SECOND = 3, 4  # the places of its constants
VALUE, RECIPROCAL, SIZE = range(3)


def filler() -> Filler:
    return Filler.create(GRAMMAR, 6, MixtureHead(3, 1.0), jnp.float64, key=jax.random.key(0))


def log_density(filler: Filler, first: float, second: float) -> float:
    """Of the second constant, given the first."""
    constants = jnp.zeros(5).at[FIRST].set(first).at[SECOND].set(second)
    _, outputs = filler(TREE, lambda _, value: value, constants)
    writer = make_writer(GRAMMAR)
    return float(log_densities(filler.head, writer, TREE, constants, outputs)[SECOND])


def following(kind: int, slope: float) -> Filler:
    plain = filler()
    assert plain.following.bias is not None
    bias = plain.following.bias.at[kind * GRAMMAR.max_tokens + FIRST].set(slope)
    found: Filler = eqx.tree_at(lambda f: f.following.bias, plain, bias)
    return found


@pytest.mark.parametrize("first", quick_only([-3.0, 0.4, 7.0], 0.4))
def test_what_trades_off_follows(first: float) -> None:
    plain = filler()
    np.testing.assert_allclose(
        log_density(following(VALUE, -1.0), first, 0.7), log_density(plain, first, 0.7 + first)
    )
    shift = 2.0 * first / (first**2 + 0.05**2)
    np.testing.assert_allclose(
        log_density(following(RECIPROCAL, 2.0), first, 0.7), log_density(plain, first, 0.7 - shift)
    )


@pytest.mark.parametrize("first", quick_only([-3.0, 0.4, 7.0], 0.4))
def test_widths_follow_a_power(first: float) -> None:
    """With a slope of -1 the second constant, and so its density, is that of one stretched by
    1 / |first|, about the place that the filler's own shift has."""
    plain = filler()
    constants = jnp.zeros(5).at[FIRST].set(first)
    _, outputs = plain(TREE, lambda _, value: value, constants)
    shift, stretch = float(outputs[SECOND, -2]), (first**2 + 0.05**2) ** -0.5
    np.testing.assert_allclose(
        log_density(following(SIZE, -1.0), first, shift + 0.7 * stretch),
        log_density(plain, first, shift + 0.7) - np.log(stretch),
    )


@pytest.mark.slow
def test_the_first_constant_follows_nothing() -> None:
    for kind in (VALUE, RECIPROCAL, SIZE):
        for made in (filler(), following(kind, 3.0)):
            constants = jnp.zeros(5).at[FIRST].set(1.5)
            _, outputs = made(TREE, lambda _, value: value, constants)
            _, plain = filler()(TREE, lambda _, value: value, constants)
            np.testing.assert_array_equal(outputs[FIRST], plain[FIRST])

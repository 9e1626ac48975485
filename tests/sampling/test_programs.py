"""Compiled programs are kept for the shapes that were used last, and dropped after that."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.sampling.programs import BoundedJit


class Scaled(NamedTuple):
    values: Any
    factor: float  # no array: a constant of the program


def counting(traced: list[tuple[int, ...]]) -> Any:
    def function(scaled: Scaled, offset: Any) -> Any:
        traced.append(scaled.values.shape)
        return Scaled(scaled.values * scaled.factor + offset, jnp.float32(0.0))

    return function


def test_the_last_shapes_are_compiled_once_and_the_others_again() -> None:
    traced: list[tuple[int, ...]] = []
    made = BoundedJit(counting(traced), most=2)
    for size in (3, 4, 3, 4, 3):
        found = made(Scaled(np.arange(size, dtype=np.float32), 2.0), np.float32(1.0))
        assert np.array_equal(found.values, 2.0 * np.arange(size) + 1.0)
    assert traced == [(3,), (4,)]
    made(Scaled(np.zeros(5, dtype=np.float32), 2.0), np.float32(1.0))  # 4 was not used for longest
    made(Scaled(np.zeros(3, dtype=np.float32), 2.0), np.float32(1.0))
    assert traced == [(3,), (4,), (5,)]
    made(Scaled(np.zeros(4, dtype=np.float32), 2.0), np.float32(1.0))
    assert traced == [(3,), (4,), (5,), (4,)]
    assert len(made) == 2


def test_what_is_no_array_is_a_constant_of_the_program() -> None:
    traced: list[tuple[int, ...]] = []
    made = BoundedJit(counting(traced))
    values = jnp.ones(2)
    results = [float(made(Scaled(values, factor), 0.5).values[0]) for factor in (2.0, 3.0, 2.0)]
    assert results == [2.5, 3.5, 2.5]
    assert len(traced) == 2


def test_it_can_be_called_while_another_program_is_traced() -> None:
    traced: list[tuple[int, ...]] = []
    made = BoundedJit(counting(traced))
    slope = jax.grad(lambda x: made(Scaled(x, 3.0), 0.0).values.sum())(jnp.ones(2))
    assert np.array_equal(slope, [3.0, 3.0])


def test_what_is_dropped_is_gone() -> None:
    made = BoundedJit(counting([]), most=1)
    made(Scaled(jnp.ones(2), 2.0), 0.0)
    program = weakref.ref(next(iter(made._programs.values())))
    assert program() is not None
    made(Scaled(jnp.ones(3), 2.0), 0.0)
    gc.collect()
    assert program() is None

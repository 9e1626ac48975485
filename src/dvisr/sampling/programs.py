"""Functions under jit whose compiled programs are kept for the shapes that were used last.

`jax.jit` keeps a program for every shape that it has met, as long as the process lives: tens of
megabytes for each grammar and table of another size. Here each shape has a jitted function of its
own, and the one that was not used for longest is dropped, with its program.
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

MOST_SHAPES = 4


class BoundedJit:
    """A pure function of pytrees whose results are pytrees of arrays. What is no array in its
    arguments is a constant of the program.

    Parameters
    ----------
    function : callable
    most : int
        Shapes whose programs are kept.
    """

    def __init__(self, function: Callable[..., Any], most: int = MOST_SHAPES) -> None:
        self._function, self._most = function, most
        self._lock = threading.Lock()
        self._programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        is_array = [isinstance(leaf, (jax.Array, np.ndarray, np.generic)) for leaf in leaves]
        pairs = list(zip(leaves, is_array, strict=True))
        key = (structure, tuple(_kind(leaf) if own else leaf for leaf, own in pairs))
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                others = [None if own else leaf for leaf, own in pairs]
                program = self._program(structure, others, is_array)
                self._programs[key] = program
            self._programs.move_to_end(key)
            while len(self._programs) > self._most:
                self._programs.popitem(last=False)
        return program([leaf for leaf, own in pairs if own])

    def _program(self, structure: Any, others: list[Any], is_array: list[bool]) -> Any:
        function = self._function

        def run(arrays: list[Any]) -> Any:
            rest = iter(arrays)
            leaves = [next(rest) if own else o for o, own in zip(others, is_array, strict=True)]
            return function(*jax.tree.unflatten(structure, leaves))

        return jax.jit(run)

    def __len__(self) -> int:
        return len(self._programs)


def _kind(array: Any) -> tuple[Any, ...]:
    return array.shape, array.dtype, getattr(array, "weak_type", False)


def bounded_jit(function: Callable[..., Any]) -> BoundedJit:
    """As a decorator."""
    return BoundedJit(function)

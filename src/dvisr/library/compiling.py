"""Host code compiled by Numba, kept between processes (see `code_cache`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import ccallback, sigutils
from numba.extending import intrinsic

from dvisr.library.code_cache import KeptCode


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of a module when it is first called, and keep the code.

    The function must not be a closure, and what it was compiled from must lie in the package.
    """
    dispatcher = numba.njit(function, error_model="numpy", nogil=True)
    dispatcher._cache = KeptCode(function)
    return dispatcher


def compiled_inside(function: Callable[..., Any]) -> Any:
    """As `compiled`, for a function that only other compiled ones call: without the code that takes
    its arguments from Python, which for tuples of many arrays is most of it."""
    dispatcher = numba.njit(
        function,
        error_model="numpy",
        nogil=True,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    dispatcher._cache = KeptCode(function)
    return dispatcher


def compiled_callback(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function of a module to one that C could call, and keep the code.

    As `numba.cfunc(signature, nopython=True)`; compiled code can take it as a pointer.
    """
    callback: Any = ccallback.CFunc(
        function, sigutils.normalize_signature(signature), locals={}, options={"nopython": True}
    )
    callback._cache = KeptCode(function)
    callback.compile()
    return callback


@intrinsic
def stand_alone(context: Any) -> Any:
    """Called anywhere in a compiled function, it keeps that function from being copied into those
    that call it: the time that LLVM takes grows with every copy. For functions that are called a
    few times a tree: such a call counts the references to every array that it passes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate

"""Operators over rows of points, with their slopes.

`apply(code, with_first, with_second, rows, first, second, out)` evaluates one operator at all
points: `rows` is (nodes + 2, points), and `first`, `second` and `out` number the rows of its
operands and of its result. It returns whether the operator is defined at all points; where it is
not, the result is not finite. Slopes by an operand go into the rows BY_FIRST and BY_SECOND, only if
they are asked for and the operator is defined; one that is not finite, such as that of sqrt at 0,
counts as 0.

Other compiled code takes `apply` as a pointer to a function. So that code is compiled once for all
libraries, and the operators are not compiled anew into each of its functions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba import types

from dvisr.library import OPERATORS, Token
from dvisr.library.compiling import compiled, compiled_callback, named_for

BY_FIRST, BY_SECOND = -2, -1  # the last rows
_STEP = 6e-6  # of a central difference: about the cube root of the rounding of float64
_FLAG, _ROWS = types.boolean, types.float64[:, ::1]
_PLACE = types.int64
_SIGNATURE = _FLAG(_PLACE, _FLAG, _FLAG, _ROWS, _PLACE, _PLACE, _PLACE)
BUILT_IN = tuple(OPERATORS.values())


@functools.lru_cache(maxsize=16)
def make_apply(own: tuple[Token, ...] = ()) -> Any:
    """Make the function `apply` (see above).

    Parameters
    ----------
    own : tuple of Token
        A user's own operators. An operator's code is its place in `(*BUILT_IN, *own)`.

    Returns
    -------
    numba CFunc
        Kept between processes where there are no own operators.
    """
    if not own:
        return compiled_callback(_SIGNATURE, _call_built_in)
    first_own = len(BUILT_IN)
    apply_own = _search_tree(own, first_own)

    def apply(code, with_first, with_second, rows, first, second, out):
        if code < first_own:
            return _apply_built_in(code, with_first, with_second, rows, first, second, out)
        return apply_own(code, with_first, with_second, rows, first, second, out)

    return numba.cfunc(_SIGNATURE, nopython=True)(apply)


def _search_tree(operators: Sequence[Token], first_code: int = 0) -> Any:
    """A search tree of closures that picks the operator of a code, so that each can be inlined."""
    numbered = [(first_code + i, _compiled(token)) for i, token in enumerate(operators)]
    return _dispatch(numbered, [_name_of(token) for token in operators])


def _name_of(token: Token) -> str:
    """Tells a user's operator from a built-in one, whatever it is called."""
    return f"{token.function.__module__}.{token.name}"


_BRANCHES = 6


def _dispatch(operators: list[tuple[int, Any]], names: Sequence[str]) -> Any:
    """Six branches a level, since each level compiles anew all that is below it."""
    if len(operators) == 1:
        return operators[0][1]
    size = -(-len(operators) // _BRANCHES)
    parts = [operators[size * i : size * (i + 1)] for i in range(_BRANCHES)]
    # A branch beyond the last operator is never taken; any operator may stand there.
    b0, b1, b2, b3, b4, b5 = (_dispatch(part or operators[-1:], names) for part in parts)
    e0, e1, e2, e3, e4 = (operators[min(size * i, len(operators)) - 1][0] for i in range(1, 6))

    @numba.njit(error_model="numpy", nogil=True)
    @named_for(*(str(code) for code, _ in operators), *names)
    def dispatch(code, with_first, with_second, rows, first, second, out):
        if code <= e0:
            return b0(code, with_first, with_second, rows, first, second, out)
        if code <= e1:
            return b1(code, with_first, with_second, rows, first, second, out)
        if code <= e2:
            return b2(code, with_first, with_second, rows, first, second, out)
        if code <= e3:
            return b3(code, with_first, with_second, rows, first, second, out)
        if code <= e4:
            return b4(code, with_first, with_second, rows, first, second, out)
        return b5(code, with_first, with_second, rows, first, second, out)

    return dispatch


def _compiled(token: Token) -> Any:
    """One operator over rows of points."""
    assert token.function is not None
    function = numba.njit(token.function, error_model="numpy")
    slopes = _slopes(token)
    return (
        _unary(token, function, *slopes) if token.arity == 1 else _binary(token, function, *slopes)
    )


def _slopes(token: Token) -> list[Any]:
    """The derivatives by each operand, as given or by central differences."""
    if token.derivatives is not None:
        return [numba.njit(slope, error_model="numpy") for slope in token.derivatives]
    assert token.function is not None
    function = numba.njit(token.function, error_model="numpy")
    if token.arity == 1:

        @numba.njit(error_model="numpy")
        @named_for(_name_of(token))
        def by_only(np, x):
            step = _STEP * max(1.0, abs(x))
            return (function(np, x + step) - function(np, x - step)) / (2.0 * step)

        return [by_only]

    @numba.njit(error_model="numpy")
    @named_for(_name_of(token))
    def by_first(np, a, b):
        step = _STEP * max(1.0, abs(a))
        return (function(np, a + step, b) - function(np, a - step, b)) / (2.0 * step)

    @numba.njit(error_model="numpy")
    @named_for(_name_of(token))
    def by_second(np, a, b):
        step = _STEP * max(1.0, abs(b))
        return (function(np, a, b + step) - function(np, a, b - step)) / (2.0 * step)

    return [by_first, by_second]


def _unary(token: Token, function: Any, slope: Any) -> Any:
    # `has_domain` is a constant to the compiler: branches that can't be taken are not compiled.
    has_domain = token.is_defined is not None
    inside: Any = numba.njit(token.is_defined, error_model="numpy") if has_domain else None

    @numba.njit(error_model="numpy", nogil=True)
    @named_for(_name_of(token))
    def apply(code, with_first, with_second, rows, first, second, out):
        x, results, slopes = rows[first], rows[out], rows[BY_FIRST]
        good = True
        for point in range(len(x)):
            result = function(np, x[point])
            if has_domain:
                good &= inside(np, x[point])
            good &= np.isfinite(result)
            results[point] = result
        if has_domain and not good:
            for point in range(len(x)):
                if not inside(np, x[point]):
                    results[point] = np.nan
        if good and with_first:
            for point in range(len(x)):
                slopes[point] = slope(np, x[point])
                if not np.isfinite(slopes[point]):
                    slopes[point] = 0.0
        return good

    return apply


def _binary(token: Token, function: Any, slope_a: Any, slope_b: Any) -> Any:
    has_domain = token.is_defined is not None
    inside: Any = numba.njit(token.is_defined, error_model="numpy") if has_domain else None

    @numba.njit(error_model="numpy", nogil=True)
    @named_for(_name_of(token))
    def apply(code, with_first, with_second, rows, first, second, out):
        a, b, results = rows[first], rows[second], rows[out]
        good = True
        for point in range(len(a)):
            result = function(np, a[point], b[point])
            if has_domain:
                good &= inside(np, a[point], b[point])
            good &= np.isfinite(result)
            results[point] = result
        if has_domain and not good:
            for point in range(len(a)):
                if not inside(np, a[point], b[point]):
                    results[point] = np.nan
        if good and with_first:
            slopes = rows[BY_FIRST]
            for point in range(len(a)):
                slopes[point] = slope_a(np, a[point], b[point])
                if not np.isfinite(slopes[point]):
                    slopes[point] = 0.0
        if good and with_second:
            slopes = rows[BY_SECOND]
            for point in range(len(a)):
                slopes[point] = slope_b(np, a[point], b[point])
                if not np.isfinite(slopes[point]):
                    slopes[point] = 0.0
        return good

    return apply


_built_in = _search_tree(BUILT_IN)


@compiled
def _apply_built_in(code, with_first, with_second, rows, first, second, out):
    return _built_in(code, with_first, with_second, rows, first, second, out)


def _call_built_in(code, with_first, with_second, rows, first, second, out):
    return _apply_built_in(code, with_first, with_second, rows, first, second, out)

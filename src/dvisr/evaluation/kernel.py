"""Many trees on the host in float64, by a kernel compiled for their library."""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from dvisr.library import Kind, Library, Token

_TREES_A_THREAD = 10_000


def evaluate_batch(
    library: Library,
    tokens: np.ndarray,
    X: np.ndarray,
    constants: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Values (trees, points) and validity (trees,) of many trees in float64.

    `tokens` is (trees, length), ids padded with -1 and each row one complete tree; `constants` of
    the same shape holds a value at each constant token. An undefined tree has NaN at the points
    where it is undefined.
    """
    tokens = np.ascontiguousarray(tokens, dtype=np.int8)
    if tokens.ndim != 2:
        raise ValueError(f"tokens must be (trees, length), not of shape {tokens.shape}")
    if constants is None:
        constants = np.zeros((1, tokens.shape[1]))
    elif constants.shape != tokens.shape:
        raise ValueError(
            f"constants must have the shape of tokens, {tokens.shape}, not {constants.shape}"
        )
    leaves = leaf_values(library, X)
    kernel = _kernel(library)
    values = np.empty((len(tokens), len(X)))
    valid = np.empty(len(tokens), dtype=bool)
    constants = np.ascontiguousarray(constants, dtype=np.float64)

    def run(part: slice) -> None:
        given = constants[part] if len(constants) == len(tokens) else constants
        own = (library.arities, library.constant_id)
        kernel(tokens[part], given, leaves, *own, values[part], valid[part])

    # Threads of our own rather than Numba's: those must not be started from two threads at once.
    num_threads = min(os.cpu_count() or 1, 1 + len(tokens) // _TREES_A_THREAD)
    edges = np.linspace(0, len(tokens), num_threads + 1).astype(int)
    parts = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(run, parts))
    return values, valid


def leaf_values(library: Library, X: np.ndarray) -> np.ndarray:
    """(tokens, points): a variable's column, a literal's value."""
    leaves = np.zeros((len(library), len(X)))
    for token_id, token in enumerate(library):
        if token.kind is Kind.VARIABLE:
            leaves[token_id] = X[:, token.column]
        elif token.kind is Kind.LITERAL:
            leaves[token_id] = token.value
    return leaves


@functools.lru_cache(maxsize=64)
def _kernel(library: Library) -> Callable[..., Any]:
    """The kernel for one library. Operators become compiled functions, and a search tree of
    closures picks the one that a token asks for, so a user's operator costs what ours do."""
    ids = library.ids_of_kind(Kind.OPERATOR)
    dispatch = _dispatch([(token_id, _compiled(library[token_id])) for token_id in ids])

    @numba.njit(error_model="numpy", nogil=True)
    def kernel(tokens, constants, leaves, arities, constant_id, values, valid):
        num_trees, length = tokens.shape
        points = leaves.shape[1]
        stack = np.empty((length + 1, points))
        defined = np.empty(points, dtype=np.bool_)
        for tree in range(num_trees):
            defined[:] = True
            height = 0
            for position in range(length - 1, -1, -1):
                token = tokens[tree, position]
                if token < 0:
                    continue
                if arities[token] == 0:
                    if token == constant_id:
                        stack[height, :] = constants[tree % len(constants), position]
                    else:
                        stack[height, :] = leaves[token]
                    height += 1
                    continue
                first = stack[height - 1]
                height -= arities[token]
                second = stack[height]
                dispatch(token, first, second, stack[height], defined)
                height += 1
            good = height == 1
            for point in range(points):
                good = good and defined[point]
                values[tree, point] = stack[0, point] if defined[point] else np.nan
            valid[tree] = good

    return kernel


@numba.njit
def _no_operator(token, first, second, out, defined):
    defined[:] = False


def _dispatch(operators: list[tuple[int, Any]]) -> Any:
    if not operators:
        return _no_operator
    if len(operators) == 1:
        return operators[0][1]
    middle = len(operators) // 2
    lower, upper = _dispatch(operators[:middle]), _dispatch(operators[middle:])
    boundary = operators[middle][0]

    @numba.njit
    def dispatch(token, first, second, out, defined):
        if token < boundary:
            lower(token, first, second, out, defined)
        else:
            upper(token, first, second, out, defined)

    return dispatch


def _compiled(token: Token) -> Any:
    """The operator over a row of points. The first operand is on top of the stack, the result
    goes where the last operand was."""
    assert token.function is not None
    function = numba.njit(token.function, error_model="numpy")
    # Most operators are defined wherever they are finite; the others say where.
    has_domain, is_unary = token.is_defined is not None, token.arity == 1
    inside: Any = numba.njit(token.is_defined, error_model="numpy") if has_domain else None

    # The flags are constants to the compiler: branches that can't be taken are not compiled.
    @numba.njit(error_model="numpy")
    def apply(token, first, second, out, defined):
        for point in range(len(out)):
            left, right = first[point], second[point]
            if is_unary:
                result = function(np, left)
                if has_domain:
                    defined[point] &= inside(np, left)
            else:
                result = function(np, left, right)
                if has_domain:
                    defined[point] &= inside(np, left, right)
            defined[point] &= np.isfinite(result)
            out[point] = result

    return apply

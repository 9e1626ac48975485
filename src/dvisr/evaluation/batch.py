"""Many trees on the host in float64, by compiled code."""

from __future__ import annotations

import itertools
import os

import numpy as np

from dvisr.evaluation.operations import make_apply
from dvisr.evaluation.tree import (
    evaluate_pointwise,
    is_complete,
    lay_out,
    leaf_values,
    make_language,
    make_work,
    own_operators,
)
from dvisr.library import Library
from dvisr.library.compiling import compiled, lent
from dvisr.library.threads import for_each

_TREES_A_THREAD = 10_000


def evaluate_batch(
    library: Library,
    tokens: np.ndarray,
    X: np.ndarray,
    constants: np.ndarray | None = None,
    num_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate many trees at all points in float64.

    Parameters
    ----------
    library : Library
        The tokens' library.
    tokens : numpy.ndarray, (trees, length)
        Token ids in prefix order, padded with -1; each row is one complete tree.
    X : numpy.ndarray, (points, columns)
        The points.
    constants : numpy.ndarray, (trees, length), optional
        The value of each constant token at its place; other entries are ignored. Zeros unless
        given.
    num_threads : int, optional
        All cores, if not given.

    Returns
    -------
    values : numpy.ndarray, (trees, points)
        NaN at the points where a tree is undefined.
    is_valid : numpy.ndarray of bool, (trees,)
        Whether a tree is defined at all points. A row that is not one complete tree is defined
        nowhere.
    """
    # Copies, since Numba would compile anew for arrays that can't be written to.
    tokens = np.array(tokens, dtype=np.int8, order="C")
    if tokens.ndim != 2:
        raise ValueError(f"tokens must be (trees, length), not of shape {tokens.shape}")
    if constants is None:
        constants = np.zeros(tokens.shape)
    elif constants.shape != tokens.shape:
        raise ValueError(
            f"constants must have the shape of tokens, {tokens.shape}, not {constants.shape}"
        )
    constants = np.array(constants, dtype=np.float64, order="C")
    leaves = leaf_values(library, X)
    language, apply = make_language(library), make_apply(own_operators(library))
    values = np.empty((len(tokens), len(X)))
    is_valid = np.empty(len(tokens), dtype=bool)

    def run(part: slice) -> None:
        work = make_work(tokens.shape[1], 0, len(X))
        _evaluate_many(
            apply, tokens[part], constants[part], language, leaves, work, values[part],
            is_valid[part],
        )  # fmt: skip

    # Threads of our own rather than Numba's: those must not be started from two threads at once.
    num_threads = min(num_threads or os.cpu_count() or 1, 1 + len(tokens) // _TREES_A_THREAD)
    edges = np.linspace(0, len(tokens), num_threads + 1).astype(int)
    parts = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
    for_each(lambda: run, parts, num_threads)
    return values, is_valid


@compiled
def _evaluate_many(apply, trees, constants, language, leaves, work, values, is_valid):
    language, work = lent(language), lent(work)
    num_points, result = values.shape[1], work.values[0]
    defined = np.empty(num_points, dtype=np.bool_)
    for tree in range(len(trees)):
        good = is_complete(trees[tree], language)
        if good:
            num_nodes, _, _ = lay_out(trees[tree], language, work)
            evaluate_pointwise(apply, num_nodes, constants[tree], leaves, work, defined)
            for point in range(num_points):
                good = good and defined[point]
                values[tree, point] = result[point] if defined[point] else np.nan
        else:
            for point in range(num_points):
                values[tree, point] = np.nan
        is_valid[tree] = good

"""A table of the likeliest functions, before the data are seen, with their values at some rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from dvisr.constraints import Grammar
from dvisr.evaluation import evaluate_batch
from dvisr.library import Kind
from dvisr.library.caching import kept
from dvisr.prior import TreePrior
from dvisr.problem import Problem
from dvisr.search.forms import Algebra, forms
from dvisr.search.likeliest import likeliest_trees, of_subtrees, weights_of
from dvisr.search.screening import leading_columns

LARGEST = 1e100  # of a value
_TREES_A_FUNCTION = (2.7, 5.0)  # of the likeliest trees: so many are one function, at a first guess
_KEPT = 2  # languages whose likely trees are kept, some megabytes each, for the next fit
_MOST_COLUMNS = 10  # beyond which half of the table is of so many columns alone


class OutOfTime(Exception):
    """It grew late before the table was made."""


@dataclasses.dataclass(frozen=True)
class FunctionTable:
    """Functions without constants, each once, the likeliest first.

    Parameters
    ----------
    trees : ndarray of shape (functions, max_tokens)
    values : ndarray of shape (functions, rows)
    log_prior : ndarray of shape (functions,)
        As parts of trees: the prior of sizes at its highest counts for nothing.
    """

    trees: np.ndarray
    values: np.ndarray
    log_prior: np.ndarray


def likeliest_functions(
    problem: Problem,
    algebra: Algebra,
    most: int,
    X: np.ndarray,
    is_late: Callable[[], bool] = lambda: False,
    num_threads: int | None = None,
) -> FunctionTable:
    """At most so many that are defined at all rows of X and differ there. Where there are many
    columns, every second one has only columns that explain the target (`screening`): functions of
    any two or three of thirty would fill the table before larger ones come."""
    for times in _TREES_A_FUNCTION:
        count = int(times * most)
        trees, values = _functions_of(problem, algebra, count, X, is_late, num_threads)
        if len(trees) >= most:
            break
    trees, values = trees[:most], values[:most]
    prior = _parts(problem)[1]
    log_prior = np.asarray(prior.log_prob(np, trees)) - float(np.max(prior.log_size))
    return FunctionTable(trees, values, log_prior)


def list_beforehand(problem: Problem, algebra: Algebra, most: int) -> None:
    """What `likeliest_functions` needs of the language alone: it is there, then."""
    _distinct(_Asked.of(problem, algebra, int(_TREES_A_FUNCTION[0] * most)))


def _functions_of(
    problem: Problem,
    algebra: Algebra,
    num_trees: int,
    X: np.ndarray,
    is_late: Callable[[], bool],
    num_threads: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The first tree of each function among the likeliest trees, and its values."""
    trees = _distinct(_Asked.of(problem, algebra, num_trees))
    _in_time(is_late)
    library = problem.grammar.library
    values, is_valid = evaluate_batch(library, trees, X, num_threads=num_threads)
    is_valid &= (np.abs(np.where(np.isfinite(values), values, np.inf)) < LARGEST).all(axis=1)
    trees, values = trees[is_valid], values[is_valid]
    _in_time(is_late)
    _, first = np.unique(_hashed(values), return_index=True)
    kept = np.sort(first)
    return trees[kept], values[kept]


def _in_time(is_late: Callable[[], bool]) -> None:
    if is_late():
        raise OutOfTime


def _parts(problem: Problem) -> tuple[Grammar, TreePrior]:
    return of_subtrees(problem.grammar, problem.tree_prior, problem.grammar.max_tokens)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """Of which language and prior likely trees are asked for. Two are equal if their trees are:
    columns may have other names, and nothing is said of the data.

    Parameters
    ----------
    kind : tuple
        What the trees depend on.
    parts : (Grammar, TreePrior)
    algebra : Algebra
    most : int
    others : tuple of int
        Columns that every second tree does without; none, where there are few columns.
    """

    kind: tuple[Any, ...]
    parts: tuple[Grammar, TreePrior] = dataclasses.field(compare=False)
    algebra: Algebra = dataclasses.field(compare=False)
    most: int
    others: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, algebra: Algebra, most: int) -> _Asked:
        library, data, parts = problem.grammar.library, problem.data, _parts(problem)
        leading = set(leading_columns(data.X, data.y, _MOST_COLUMNS).tolist())
        variables = library.ids_of_kind(Kind.VARIABLE)
        others = tuple(n for n in variables if library[n].column not in leading)
        named = {name for rule in problem.grammar.rules for name in rule.names()}
        words = tuple(
            token.column if token.column >= 0 and token.name not in named else token
            for token in library
        )
        kind = (words, problem.grammar.rules, weights_of(*parts))
        return cls(kind, parts, algebra, most, others)


@kept(maxsize=_KEPT)
def _distinct(asked: _Asked) -> np.ndarray:
    """The likeliest trees without constants, one of each canonical form, the likeliest first."""
    trees = _trees(asked)
    _, first = np.unique(forms(trees, asked.algebra), return_index=True)
    found: np.ndarray = trees[np.sort(first)]
    found.flags.writeable = False
    return found


def _trees(asked: _Asked) -> np.ndarray:
    constant, most = asked.parts[0].library.constant_id, asked.most
    if not asked.others:
        return likeliest_trees(*asked.parts, most, leaving_out=(constant,))[0]
    any_column, _ = likeliest_trees(*asked.parts, most // 2, leaving_out=(constant,))
    led, _ = likeliest_trees(*asked.parts, most // 2, leaving_out=(constant, *asked.others))
    turns = np.concatenate([2 * np.arange(len(any_column)), 2 * np.arange(len(led)) + 1])
    both: np.ndarray = np.concatenate([any_column, led])[np.argsort(turns, kind="stable")]
    return both


def _hashed(values: np.ndarray) -> np.ndarray:
    """A number for the values of each function to ten digits: a function that is worked out in two
    ways has the same."""
    mantissa, exponent = np.frexp(values)
    rounded = np.ldexp(np.round(mantissa * 2.0**33), exponent) + 0.0  # no negative zero
    factors = np.random.default_rng(0).integers(0, 2**63, values.shape[1], dtype=np.uint64) | 1
    bits = rounded.view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    found: np.ndarray = ((bits ^ (bits >> np.uint64(32))) * factors).sum(axis=1, dtype=np.uint64)
    return found

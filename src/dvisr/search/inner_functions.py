"""Which functions with a constant inside are tried in holes (`search.inner`): the likeliest before
the data, at values of the constant so near each other that none is missed between two."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from dvisr.library import Kind, Library
from dvisr.problem import Problem
from dvisr.search.forms import Algebra, forms
from dvisr.search.inverting import Tree
from dvisr.search.likeliest import likeliest_trees, of_subtrees
from dvisr.search.screening import leading_columns
from dvisr.search.table import LARGEST

APART = 0.3  # the angle between the values of a function at two constants, in radians
_MOST_COLUMNS = 10
_TREES_A_FUNCTION = 30  # of the likeliest trees, so many for each function that is asked for
_SIZES = np.geomspace(1e-6, 1e6, 900)  # of a constant that is tried, before they are thinned out
_MOST_VALUES = 64  # of a constant, of each sign
_SHIFT = 1e-5  # of a constant, for the slope by its logarithm
_CONSTANT_SIZE = 1e-9  # of values that differ by less than that share of them, nothing is known
_TURNS_NOWHERE, _SAME = 1e-3, 0.015  # radians
_MOSTLY = 0.9  # of the values of a function: those of known ones end somewhere
_FIRST_LOOK = 45  # one of so many constants


@dataclasses.dataclass(frozen=True)
class InnerFunctions:
    """Functions at values of their constant, one after the other.

    Parameters
    ----------
    trees : list of ndarray
        The tokens of each function.
    number : ndarray of shape (entries,)
        Which function.
    log_prior : ndarray of shape (entries,)
        Of the function, as a part of a tree.
    values, slopes : ndarray of shape (entries, rows)
        At the rows that are compared; the slopes are by the constant's logarithm.
    """

    trees: list[np.ndarray]
    number: np.ndarray
    log_prior: np.ndarray
    values: np.ndarray
    slopes: np.ndarray

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        return np.array([len(tokens) for tokens in self.trees], dtype=np.int64)

    @functools.cached_property
    def by_row(self) -> np.ndarray:
        return np.ascontiguousarray(self.values.T)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """The first entry of each function, and the number of all."""
        return np.searchsorted(self.number, np.arange(len(self.trees) + 1))


def inner_functions(problem: Problem, X: np.ndarray, algebra: Algebra, most: int) -> InnerFunctions:
    """The likeliest with one constant, each canonical form once, at values of it that are so far
    apart; not those that a factor and an offset are enough for."""
    library = problem.grammar.library
    trees: list[np.ndarray] = []
    parts: list[tuple[float, np.ndarray, np.ndarray]] = []
    known = Known(len(X))
    for log_prior, tokens in _likeliest(problem, algebra, most) if library.constant_id >= 0 else ():
        values, slopes = thinned(library, tokens, X)
        if len(values) and not known.has(values):  # c^x is exp(c x)
            trees.append(tokens)
            parts.append((log_prior, values, slopes))
            known.add(values, slopes)
        if len(trees) == most:
            break
    rows = len(X)
    sizes = [len(values) for _, values, _ in parts]
    return InnerFunctions(
        trees,
        np.repeat(np.arange(len(parts)), sizes),
        np.repeat([log_prior for log_prior, _, _ in parts], sizes),
        np.concatenate([np.zeros((0, rows)), *(values for _, values, _ in parts)]),
        np.concatenate([np.zeros((0, rows)), *(slopes for _, _, slopes in parts)]),
    )


def _likeliest(problem: Problem, algebra: Algebra, most: int) -> list[tuple[float, np.ndarray]]:
    """Their log priors as parts of trees, and their tokens."""
    library, data = problem.grammar.library, problem.data
    grammar, prior = of_subtrees(problem.grammar, problem.tree_prior, problem.grammar.max_tokens)
    leading = set(leading_columns(data.X, data.y, _MOST_COLUMNS).tolist())
    variables = library.ids_of_kind(Kind.VARIABLE)
    others = tuple(n for n in variables if library[n].column not in leading)
    trees, _ = likeliest_trees(grammar, prior, _TREES_A_FUNCTION * most, leaving_out=others)
    trees = trees[(trees == library.constant_id).sum(axis=1) == 1]
    _, first = np.unique(forms(trees, algebra), return_index=True)
    trees = trees[np.sort(first)]
    log_prior = np.asarray(prior.log_prob(np, trees)) - float(np.max(prior.log_size))
    return [(float(log), row[row >= 0]) for log, row in zip(log_prior, trees, strict=True)]


def thinned(library: Library, tokens: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The function's values (constants, rows), and their slopes by the constant's logarithm, for
    constants of either sign between which it turns by an angle; none of what turns nowhere, since
    it is one function times a factor, plus an offset."""

    def at(constants: np.ndarray) -> np.ndarray:
        tree = Tree(library, tokens, X, [constants[:, None]])
        return np.array(np.broadcast_to(tree.values[0], (len(constants), len(X))))

    found, directions = [], []
    with np.errstate(all="ignore"):
        first = at(_SIZES[::_FIRST_LOOK])
        first = _unit(first - first.mean(axis=1, keepdims=True))
    first = first[np.isfinite(first).all(axis=1)]
    if len(first) and (np.abs(first @ first[0]) > 1.0 - _TURNS_NOWHERE**2).all():
        return np.zeros((0, len(X))), np.zeros((0, len(X)))
    for sign in (1.0, -1.0):
        constants = sign * _SIZES
        with np.errstate(all="ignore"):
            values = at(constants)
            centred = values - values.mean(axis=1, keepdims=True)
            size = np.sqrt((centred**2).sum(axis=1, keepdims=True))
            largest = np.abs(values).max(axis=1, keepdims=True)
            is_known = (size > _CONSTANT_SIZE * largest) & (largest < LARGEST)
            direction = np.where(is_known, centred / size, 0.0)
        directions.append(direction)
        kept = np.flatnonzero(is_known[:, 0])
        if len(kept) < 2 or (sign < 0.0 and _are_parallel(*directions)):
            continue
        direction = direction[kept]
        cosines = np.abs((direction[1:] * direction[:-1]).sum(axis=1))
        arc = np.append(0.0, np.cumsum(np.arccos(np.minimum(cosines, 1.0))))
        if arc[-1] < _TURNS_NOWHERE:
            continue
        wanted = np.arange(0.5 * APART, max(float(arc[-1]), APART), APART)[:_MOST_VALUES]
        places = np.unique(np.searchsorted(arc, wanted).clip(max=len(kept) - 1))
        found.append(constants[kept[places]])
    if not found:
        return np.zeros((0, len(X))), np.zeros((0, len(X)))
    chosen = np.concatenate(found)
    with np.errstate(all="ignore"):
        values = at(chosen)
        slopes = (at(chosen * (1.0 + _SHIFT)) - values) / _SHIFT
    is_whole = np.isfinite(slopes).all(axis=1)
    return values[is_whole], slopes[is_whole]


def _unit(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(values / np.sqrt((values**2).sum(axis=-1, keepdims=True)))


class Known:
    """Functions up to a factor and an offset, by values and slopes."""

    def __init__(self, rows: int) -> None:
        self._directions, self._across = np.zeros((0, rows)), np.zeros((0, rows))

    def has(self, values: np.ndarray) -> bool:
        """Whether nearly all of these are what known functions come to between their values."""
        if not len(self._directions):
            return False
        directions = _unit(values - values.mean(axis=1, keepdims=True))
        cosines = directions @ self._directions.T
        nearest = np.abs(cosines).argmax(axis=1)
        along = np.take_along_axis(cosines, nearest[:, None], axis=1)[:, 0]
        across = (directions * self._across[nearest]).sum(axis=1)
        return bool((1.0 - along**2 - across**2 < _SAME**2).mean() > _MOSTLY)

    def add(self, values: np.ndarray, slopes: np.ndarray) -> None:
        directions = _unit(values - values.mean(axis=1, keepdims=True))
        slopes = slopes - slopes.mean(axis=1, keepdims=True)
        across = _unit(slopes - (slopes * directions).sum(axis=1, keepdims=True) * directions)
        self._directions = np.concatenate([self._directions, directions])
        self._across = np.concatenate([self._across, np.nan_to_num(across)])


def _are_parallel(ones: np.ndarray, others: np.ndarray) -> bool:
    """Wherever both are known: sin(-c x) is -sin(c x)."""
    cosines = np.abs((ones * others).sum(axis=1))
    is_known = (ones != 0.0).any(axis=1) & (others != 0.0).any(axis=1)
    return bool(is_known.any() and (cosines[is_known] > 1.0 - 1e-9).all())

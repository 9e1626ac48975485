"""A prior that knows what formulas look like: how often a token stands in a place, in formulas that
people have written.

A token's place is its parent, the side, and what kind of thing the left sibling is. Frequencies in
a place are smoothed toward those of the place with less said of it, and in the end toward every
token alike, so that nothing is impossible:

    p(token | place) = (count + strength * p(token | larger place)) / (total + strength).

Which places to tell apart was decided by the log probability of equations left out: see
docs/prior.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size
from dvisr.library import Kind, Library
from dvisr.prior.base import Surroundings, TreePrior
from dvisr.prior.corpus import (
    COLUMN,
    CONSTANT,
    NUMBER,
    Corpus,
    Formula,
    Translator,
    named_equations,
    read_corpus,
)
from dvisr.prior.sums import Sums
from dvisr.prior.weights import checked_weights, weights_from_text

STRENGTH = 30.0  # of each smoothing, in formulas
RARE_SHARE = 5e-4  # of an operator that the corpus does not have
# A formula that occurs n times counts sqrt(n) times: lists repeat their favourites.
REPEATS = 0.5
_KINDS = (Kind.VARIABLE, Kind.CONSTANT, Kind.LITERAL, Kind.OPERATOR)  # of a left sibling


def science(
    grammar: Grammar,
    corpus: Corpus | None = None,
    weights: Mapping[str, float] | None = None,
) -> TreePrior:
    """A prior by how often tokens stand where, in formulas that people have written.

    Parameters
    ----------
    grammar : Grammar
    corpus : list of (count, formula), optional
        None for the equations that come with the package.
    weights : mapping, optional
        How many times as probable a token is to be, by its name: 1 if it is not named. Columns
        share evenly what columns have together, an operator of the user's own has a rare one's
        share, before these weights.

    Returns
    -------
    TreePrior
        Normalised over the legal trees.
    """
    library = grammar.library
    equations = named_equations() if corpus is None else corpus
    frequencies = _shared(library, _frequencies(library, equations), weights or {})
    surroundings = places(library)
    log_token = np.log(frequencies)
    told, rows = surroundings.told_apart(grammar)
    total = float(logsumexp(Sums(told, log_token[rows]).log_whole))
    sizes = [-total if count else -math.inf for count in count_by_size(grammar)]
    return TreePrior("science", np.array(sizes), log_token, surroundings)


def science_from_text(grammar: Grammar, text: str) -> TreePrior:
    """From what follows `science:`: a file of formulas, weights such as sin=0.5, or both, separated
    by commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    files = [part for part in parts if "=" not in part]
    if len(files) > 1 or not parts:
        raise ValueError(
            f"'science:{text}' must name one file of formulas, or weights such as science:sin=0.5"
        )
    weights = weights_from_text(",".join(part for part in parts if "=" in part))
    return science(grammar, read_corpus(Path(files[0])) if files else None, weights)


def places(library: Library) -> Surroundings:
    """The root is 0; then each operator's only or left operand; then each right operand by the kind
    of its left sibling."""
    size = len(library)
    below, right = np.zeros(size, dtype=np.int32), np.zeros((size, size), dtype=np.int32)
    operators = [i for i, token in enumerate(library) if not token.is_leaf]
    for number, operator in enumerate(operators, 1):
        below[operator] = number
    binary = [i for i in operators if library[i].arity == 2]
    for number, operator in enumerate(binary):
        for left, token in enumerate(library):
            place = 1 + len(operators) + number * len(_KINDS) + _KINDS.index(token.kind)
            right[operator, left] = place
    return Surroundings(below, right, library.arities)


@functools.lru_cache(maxsize=32)
def _frequencies(library: Library, corpus: Corpus) -> np.ndarray:
    """(surroundings, tokens), the columns' share at the first column."""
    surroundings = places(library)
    counts = np.zeros((1 + int(max(surroundings.below.max(), surroundings.right.max())),
                       len(library)))  # fmt: skip
    for place, token, weight in counted(library, corpus):
        counts[place, token] += weight
    return smoothed(library, counts)


def counted(library: Library, corpus: Corpus) -> list[tuple[int, int, float]]:
    """The tokens of a corpus: each one's surroundings, itself, and how often."""
    translator, surroundings = Translator(library), places(library)
    ids = {token.name: i for i, token in enumerate(library) if token.kind is Kind.OPERATOR}
    literals = {token.name: i for i, token in enumerate(library) if token.kind is Kind.LITERAL}
    columns = library.ids_of_kind(Kind.VARIABLE)
    found: list[tuple[int, int, float]] = []

    def token_of(formula: Formula) -> int:
        if formula[0] == COLUMN:
            return columns[0]
        if formula[0] == CONSTANT:
            return library.constant_id
        return literals[formula[1]] if formula[0] == NUMBER else ids[formula[0]]

    def walk(formula: Formula, place: int, weight: float) -> None:
        token = token_of(formula)
        found.append((place, token, weight))
        if formula[0] in (COLUMN, CONSTANT, NUMBER):
            return
        walk(formula[1], int(surroundings.below[token]), weight)
        if len(formula) == 3:
            left = token_of(formula[1])
            walk(formula[2], int(surroundings.right[token, left]), weight)

    for count, equation in corpus:
        for share, said in translator.readings(equation):
            walk(said, 0, share * count**REPEATS)
    return found


def smoothed(library: Library, counts: np.ndarray) -> np.ndarray:
    """Frequencies (surroundings, tokens) from counts, none of them zero but those of columns after
    the first."""
    columns = library.ids_of_kind(Kind.VARIABLE)
    is_counted = np.ones(len(library), dtype=bool)
    is_counted[list(columns[1:])] = False
    total = max(float(counts.sum()), 1e-300)
    overall = np.where(is_counted, counts.sum(axis=0) / total + RARE_SHARE, 0.0)
    overall /= overall.sum()
    if not counts.any():
        overall = is_counted / is_counted.sum()
    found = np.tile(overall, (len(counts), 1))  # places that no tree of this library has keep it
    surroundings = places(library)
    found[0] = _toward(counts[0], overall)
    for operator, token in enumerate(library):
        if token.is_leaf:
            continue
        below = counts[surroundings.below[operator]]
        rights = np.unique(surroundings.right[operator]) if token.arity == 2 else np.array([], int)
        beside = counts[rights].sum(axis=0)
        of_parent = _toward(below + beside, overall)
        found[surroundings.below[operator]] = _toward(below, of_parent)
        of_side = _toward(beside, of_parent)
        for right in rights:
            found[right] = _toward(counts[right], of_side)
    return found


def _toward(counts: np.ndarray, larger: np.ndarray) -> np.ndarray:
    made: np.ndarray = (counts + STRENGTH * larger) / (counts.sum() + STRENGTH)
    return made


def _shared(library: Library, frequencies: np.ndarray, weights: Mapping[str, float]) -> np.ndarray:
    """With the columns' share divided among them, and the user's weights."""
    given = checked_weights(library, weights)
    columns = list(library.ids_of_kind(Kind.VARIABLE))
    made = frequencies * given
    if columns:
        share = frequencies[:, columns[0], None] * given[columns] / len(columns)
        made[:, columns] = share
    shared: np.ndarray = made / made.sum(axis=1, keepdims=True)
    return shared

"""A prior that knows what formulas look like: how often a token stands in a place, in formulas that
people have written.

A token's place is its parent, the side, what kind of thing the left sibling is, and what kind the
grandparent is. Frequencies in a place are smoothed toward those of the place with less said of it,
and in the end toward every token alike, so that nothing is impossible:

    p(token | place) = (count + strength * p(token | larger place)) / (total + strength).

Which places to tell apart was decided by the log probability of equations left out: see
docs/prior.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dvisr.constraints import Grammar
from dvisr.library import Kind, Library, Role, Token
from dvisr.library.caching import kept
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
from dvisr.prior.weights import checked_weights, weights_from_text

STRENGTH = 30.0  # of each smoothing, in formulas
RARE_SHARE = 5e-4  # of an operator that the corpus does not have
# A formula that occurs n times counts sqrt(n) times: lists repeat their favourites.
REPEATS = 0.5
_ROLES = (
    (Role.SUM, Role.DIFFERENCE),
    (Role.PRODUCT, Role.QUOTIENT),
    (Role.POWER, Role.WHOLE_POWER),
)  # of a grandparent; a root is a power, and the others are of one more kind
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
    if corpus is None and not weights:
        return _usual(grammar)
    library = grammar.library
    equations = named_equations() if corpus is None else tuple(corpus)
    if corpus is not None and not counted(library, equations):
        raise ValueError(
            f"none of these formulas can be said with {library}: add the operators that they have"
        )
    return _made(grammar, equations, weights or {})


@kept(maxsize=8)
def _usual(grammar: Grammar) -> TreePrior:
    """One for equal grammars, so that what follows from it is worked out once."""
    return _made(grammar, named_equations(), {})


def _made(grammar: Grammar, equations: Corpus, weights: Mapping[str, float]) -> TreePrior:
    library = grammar.library
    frequencies = _shared(library, _frequencies(library, equations), weights)
    sizes = np.zeros(grammar.max_tokens + 1)
    made = TreePrior("science", sizes, np.log(frequencies), places(library))
    return made.normalised(grammar)


def science_from_text(grammar: Grammar, text: str) -> TreePrior:
    """From what follows `science:`: a file of formulas, weights such as sin=0.5, or both, separated
    by commas."""
    if Path(text).is_file():  # its name may have a comma or an equals sign in it
        return science(grammar, read_corpus(Path(text)))
    parts = [part.strip() for part in text.split(",") if part.strip()]
    files = [part for part in parts if "=" not in part]
    if len(files) > 1 or not parts:
        raise ValueError(
            f"'science:{text}' must name one file of formulas, or weights such as science:sin=0.5"
        )
    weights = weights_from_text(",".join(part for part in parts if "=" in part))
    return science(grammar, read_corpus(Path(files[0])) if files else None, weights)


def _grandparent(token: Token) -> int:
    """What kind a token is as a grandparent: a sum, a product, a power, another operator."""
    for number, roles in enumerate(_ROLES, 1):
        if token.role in roles or (token.name == "sqrt" and Role.POWER in roles):
            return number
    return 1 + len(_ROLES)


@functools.lru_cache(maxsize=32)
def places(library: Library) -> Surroundings:
    """The root is 0; then, for each kind of grandparent, each operator's only or left operand, and
    each right operand by the kind of its left sibling."""
    size, num_kinds = len(library), 2 + len(_ROLES)
    below = np.zeros((num_kinds, size), dtype=np.int32)
    right = np.zeros((num_kinds, size, size), dtype=np.int32)
    sibling = np.array([_KINDS.index(token.kind) for token in library])
    number = 1
    for kind in range(num_kinds):
        for operator, token in enumerate(library):
            if token.arity > 0:
                below[kind, operator] = number
                number += 1
            if token.arity > 1:
                right[kind, operator] = number + sibling
                number += len(_KINDS)
    kinds = np.array([_grandparent(token) for token in library], dtype=np.int32)
    return Surroundings(below, right, kinds, library.arities)


def num_places(library: Library) -> int:
    """Of `places`, those that no tree of the library has included."""
    arities = library.arities
    own = (arities > 0).sum() + len(_KINDS) * (arities > 1).sum()
    return 1 + (2 + len(_ROLES)) * int(own)


@functools.lru_cache(maxsize=32)
def _frequencies(library: Library, corpus: Corpus) -> np.ndarray:
    """(surroundings, tokens), the columns' share at the first column."""
    counts = np.zeros((num_places(library), len(library)))
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

    def walk(formula: Formula, place: int, above: int, weight: float) -> None:
        """`above` is the kind of the formula's parent."""
        token = token_of(formula)
        found.append((place, token, weight))
        if formula[0] in (COLUMN, CONSTANT, NUMBER):
            return
        kind = int(surroundings.kinds[token])
        walk(formula[1], int(surroundings.below[above, token]), kind, weight)
        if len(formula) == 3:
            left = token_of(formula[1])
            walk(formula[2], int(surroundings.right[above, token, left]), kind, weight)

    for count, equation in corpus:
        for share, said in translator.readings(equation):
            walk(said, 0, 0, share * count**REPEATS)
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
    found = np.tile(overall, (len(counts), 1))
    surroundings = places(library)
    found[0] = _toward(counts[0], overall)
    for operator, token in enumerate(library):
        if token.is_leaf:
            continue
        lefts = surroundings.below[:, operator]
        rights = lefts[:, None] + 1 + np.arange(len(_KINDS) if token.arity == 2 else 0)
        of_parent = _toward(counts[lefts].sum(axis=0) + counts[rights].sum(axis=(0, 1)), overall)
        of_left = _toward(counts[lefts].sum(axis=0), of_parent)
        for left in lefts:
            found[left] = _toward(counts[left], of_left)
        of_right = _toward(counts[rights].sum(axis=(0, 1)), of_parent)
        for column in rights.T:
            of_kind = _toward(counts[column].sum(axis=0), of_right)
            for right in column:
                found[right] = _toward(counts[right], of_kind)
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

"""What a pretrained network knows tokens by: what they are, whatever library they stand in.

The network is trained once, with one language, and used with many libraries. A library's token is
looked up here by what it does: an operator by its name, a number by its value, a column by its
place. What is not found is `OTHER`: the network sees that something stands there and says nothing
about writing it, so that the prior alone does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dvisr.library import Kind, Library, Token

OPERATORS = ("+", "-", "*", "/", "^", "square", "sqrt", "exp", "log", "sin", "cos", "neg")
NUMBERS = (1.0, 2.0, 3.0, 4.0, math.pi)
MOST_COLUMNS = 10

_FIRST_NUMBER = len(OPERATORS)
CONSTANT = _FIRST_NUMBER + len(NUMBERS)
_FIRST_COLUMN = CONSTANT + 1
OTHER = _FIRST_COLUMN + MOST_COLUMNS
SIZE = OTHER + 1


def words_of(library: Library, columns: Sequence[int] | None = None) -> np.ndarray:
    """The vocabulary's number of each token of a library, int32. `columns` are those of the table
    that are read, in their order; the first ones, unless they are given."""
    read = range(MOST_COLUMNS) if columns is None else columns
    places = {int(column): place for place, column in enumerate(read)}
    return np.array([_word(token, places) for token in library], dtype=np.int32)


def _word(token: Token, places: dict[int, int]) -> int:
    if token.kind is Kind.OPERATOR:
        return OPERATORS.index(token.name) if token.name in OPERATORS else OTHER
    if token.kind is Kind.LITERAL:
        close = [n for n, value in enumerate(NUMBERS) if math.isclose(token.value, value)]
        return _FIRST_NUMBER + close[0] if close else OTHER
    if token.kind is Kind.CONSTANT:
        return CONSTANT
    return _FIRST_COLUMN + places[token.column] if token.column in places else OTHER


def why_unknown(library: Library) -> str:
    """Why a library is too far from the network's own language, or an empty text."""
    words = words_of(library)
    operators = [w for w, token in zip(words, library, strict=True) if not token.is_leaf]
    known = sum(word != OTHER for word in operators)
    if 2 * known < len(operators):
        return f"the network knows {known} of the {len(operators)} operators"
    return ""

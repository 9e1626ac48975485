"""Weights of tokens that a user gives."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

import numpy as np

from dvisr.library import Library


def checked_weights(library: Library, given: Mapping[str, float]) -> np.ndarray:
    """One a token of the library: what is given by its name, else 1."""
    for name, weight in given.items():
        if library.find(name) is None:
            names = [token.name for token in library]
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {' '.join(names)}"
            raise ValueError(f"the weight of {name!r} is of no token of the library: {hint}")
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"the weight of {name!r} must be above 0, not {weight}")
    return np.array([float(given.get(token.name, 1.0)) for token in library])


def weights_from_text(text: str) -> dict[str, float]:
    weights = {}
    for part in text.split(",") if text.strip() else []:
        token, separator, number = part.rpartition("=")
        try:
            weights[token.strip()] = float(number)
        except ValueError:
            separator = ""
        if not separator:
            raise ValueError(f"{part!r} is no token weight: write it like sin=0.5")
    return weights

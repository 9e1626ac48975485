"""A parameter that there is none of is answered with the right one, or with our word for it."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Self

from dvisr.neighbours import OURS


class KnownParametersMixin:
    """Answers a parameter that there is none of before `__init__` sees it, so that the signature
    stays what it is."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        known = list(inspect.signature(cls.__init__).parameters)[1:]
        unknown = [name for name in named if name not in known]
        if unknown:
            raise TypeError(unknown_parameter(cls.__name__, unknown[0], known))
        return super().__new__(cls)

    def set_params(self, **named: Any) -> Self:
        """As scikit-learn's, with the right name for a wrong one."""
        known = list(inspect.signature(type(self).__init__).parameters)[1:]
        for name in named:
            if name not in known and "__" not in name:
                raise ValueError(unknown_parameter(type(self).__name__, name, known))
        changed: Self = super().set_params(**named)  # type: ignore[misc]
        return changed


def unknown_parameter(owner: str, name: str, known: list[str]) -> str:
    """One sentence: there is none of this name, and what to write instead."""
    if name in OURS:
        return f"{owner} has no parameter {name!r}: use {OURS[name]}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
    return f"{owner} has no parameter {name!r}: {hint}"

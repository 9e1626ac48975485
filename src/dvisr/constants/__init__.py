"""Distributions over a constant: as a prior, and as the head of a policy."""

from __future__ import annotations

import difflib

from dvisr.constants.head import AbstractConstantHead, AffineHead, MixtureHead, NormalHead
from dvisr.constants.priors import AbstractConstantPrior, Decades, Normal

__all__ = [
    "AbstractConstantHead",
    "AbstractConstantPrior",
    "AffineHead",
    "Decades",
    "MixtureHead",
    "Normal",
    "NormalHead",
    "constant_prior",
]

_NAMED: dict[str, type[Decades] | type[Normal]] = {"decades": Decades, "normal": Normal}


def constant_prior(choice: str | AbstractConstantPrior) -> AbstractConstantPrior:
    """From what a user gives: a prior, or a name, with numbers after a colon: `decades`,
    `decades:1e-6,1e6` (the smallest and largest size), `normal:0,10` (mean, standard deviation)."""
    if isinstance(choice, AbstractConstantPrior):
        return choice
    name, _, listed = str(choice).partition(":")
    if name.strip() not in _NAMED:
        close = difflib.get_close_matches(name, _NAMED, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(_NAMED)}"
        raise ValueError(f"{str(choice)!r} is no prior of constants: {hint}")
    try:
        numbers = [float(part) for part in listed.split(",")] if listed.strip() else []
    except ValueError:
        numbers = [0.0] * 3
    if len(numbers) not in (0, 2):
        raise ValueError(
            f"{str(choice)!r} is no prior of constants: write it like decades:1e-3,1e4 or "
            f"normal:0,10"
        )
    return _NAMED[name.strip()](*numbers)

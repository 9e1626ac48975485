"""Noise models: how observations scatter about a formula.

A new model is a subclass of `AbstractNoise` that states its density, with a file here and a line in
`MODELS` if it is to have a name on the command line; as an object it can be used without. See
docs/extending.md.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any

from dvisr.noise.base import AbstractNoise, ScalePrior
from dvisr.noise.gaussian import Gaussian
from dvisr.noise.kernel import NoiseKernel, kernel_of
from dvisr.noise.relative import Relative
from dvisr.noise.student import Student

__all__ = [
    "MODELS",
    "AbstractNoise",
    "Gaussian",
    "NoiseKernel",
    "Relative",
    "ScalePrior",
    "Student",
    "kernel_of",
    "noise_model",
]

# By the name that is typed: made of the numbers after its colon.
MODELS: dict[str, Callable[..., AbstractNoise]] = {
    "infer": lambda: Gaussian(),
    "gaussian": lambda scale=None: Gaussian(scale),
    "student": lambda freedom=4.0, scale=None: Student(scale, freedom=freedom),
    "relative": lambda scale=None: Relative(scale),
}
_SHAPES = (
    "a number above 0, infer, student, student:NU, student:NU,SCALE, relative or relative:SCALE"
)


def noise_model(choice: Any) -> AbstractNoise:
    """The noise model that a user names.

    Parameters
    ----------
    choice : AbstractNoise, float or str
        A model; a number, the standard deviation of Gaussian noise; "infer", Gaussian noise of
        unknown size, also "gaussian" and "gaussian:SCALE"; "student", "student:NU",
        "student:NU,SCALE"; "relative", "relative:SCALE".

    Returns
    -------
    AbstractNoise

    Raises
    ------
    ValueError
        If it is none of these.

    Examples
    --------
    >>> noise_model("student:3").spelling
    'student:3'
    >>> noise_model(0.5) == Gaussian(0.5)
    True
    """
    if isinstance(choice, AbstractNoise):
        return choice
    value = _as_number(choice)
    if value is not None:
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"noise must be {_SHAPES}, not {choice!r}")
        return Gaussian(value)
    name, colon, listed = str(choice).strip().partition(":")
    if not isinstance(choice, str) or name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, n=1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"noise must be {_SHAPES}, not {choice!r}{hint}")
    try:
        numbers = [float(part) for part in listed.split(",")] if colon else []
        return MODELS[name](*numbers)
    except TypeError:
        raise ValueError(f"{choice!r} has too many numbers: noise is {_SHAPES}") from None
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"noise must be {_SHAPES}, not {choice!r}") from None


def _as_number(choice: Any) -> float | None:
    if isinstance(choice, bool):
        return math.nan
    try:
        return float(choice)
    except (TypeError, ValueError):
        return None

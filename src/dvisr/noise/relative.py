"""Relative noise: y = f(x) * exp(e) with Gaussian e, for positive y whose error grows with it."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import numpy as onp

from dvisr.noise.gaussian import Gaussian


@dataclasses.dataclass(frozen=True)
class Relative(Gaussian):
    """Noise in proportion to the formula's value, which must be positive: Gaussian noise of the
    logarithm.

    Parameters
    ----------
    scale : float, optional
        The standard deviation of the logarithm: 0.05 is about 5 %. None to infer it. With error
        bars, which are in the units of y, a factor of the error bar over y.

    Examples
    --------
    >>> from dvisr import Relative
    >>> Relative().spelling, Relative(0.05).spelling
    ('relative', 'relative:0.05')
    """

    name: ClassVar[str] = "relative"
    link: ClassVar[Literal["identity", "log"]] = "log"

    @property
    def spelling(self) -> str:
        return "relative" if self.scale is None else f"relative:{self.scale!r}"

    @property
    def sentence(self) -> str:
        return "relative, Gaussian in the logarithm of y"

    def observed(self, curves: Any, sigmas: Any, z: Any) -> Any:
        with onp.errstate(over="ignore"):
            return onp.where(curves > 0.0, curves, onp.nan) * onp.exp(sigmas * z)

    def spread(self, curves: onp.ndarray, sigmas: onp.ndarray) -> onp.ndarray:
        with onp.errstate(over="ignore"):
            variance = onp.expm1(sigmas * sigmas) * onp.exp(sigmas * sigmas)
            spread: onp.ndarray = onp.abs(curves) * onp.sqrt(variance)
        return spread

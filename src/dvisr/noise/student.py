"""Student-t noise: heavy tails, for data with outliers."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numba
import numpy as onp
from scipy import special

from dvisr.noise.base import AbstractNoise
from dvisr.noise.kernel import OWN, NoiseKernel, pointer, scale_mixture


@dataclasses.dataclass(frozen=True)
class Student(AbstractNoise):
    """Independent noise with a Student-t distribution.

    Parameters
    ----------
    scale : float, optional
        Its scale (with error bars, a factor of them); None to infer it. The standard deviation is
        larger: sqrt(freedom / (freedom - 2)) times that.
    freedom : float
        Degrees of freedom: the fewer, the heavier the tails.

    Examples
    --------
    >>> from dvisr import Student
    >>> Student().spelling, Student(0.1, freedom=3).spelling
    ('student:4', 'student:3,0.1')
    """

    name: ClassVar[str] = "student"

    freedom: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 <= self.freedom <= 1000.0:
            raise ValueError(
                f"the degrees of freedom of Student noise must lie between 0.5 and 1000, not "
                f"{self.freedom!r}: 4 is usual, and more is Gaussian"
            )

    def log_density(self, np: Any, z: Any) -> Any:
        nu = self.freedom
        # Not by gamma functions: for many degrees of freedom two large ones would cancel.
        constant = -float(special.betaln(0.5 * nu, 0.5)) - 0.5 * math.log(nu)
        with onp.errstate(over="ignore"):
            return constant - 0.5 * (nu + 1.0) * np.log1p(z * z / nu)

    def cdf(self, z: onp.ndarray) -> onp.ndarray:
        values: onp.ndarray = special.stdtr(self.freedom, z)
        return values

    def quantile(self, level: onp.ndarray) -> onp.ndarray:
        values: onp.ndarray = special.stdtrit(self.freedom, level)
        return values

    def draw(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        return rng.standard_t(self.freedom, shape)

    @property
    def variance(self) -> float:
        return self.freedom / (self.freedom - 2.0) if self.freedom > 2.0 else math.inf

    @property
    def kernel(self) -> NoiseKernel:
        return NoiseKernel(*_pointers(), own=(self.freedom,))

    @property
    def spelling(self) -> str:
        scale = "" if self.scale is None else f",{self.scale!r}"
        short = f"{self.freedom:g}"
        return f"student:{short if float(short) == self.freedom else repr(self.freedom)}{scale}"

    @property
    def sentence(self) -> str:
        return f"Student t with {self.freedom:g} degrees of freedom"


@numba.njit(error_model="numpy", nogil=True)
def _row(z, parameters):  # type: ignore[no-untyped-def]
    nu = parameters[OWN]
    whole = nu + z * z
    return (
        0.5 * (nu + 1.0) * math.log1p(z * z / nu),
        (nu + 1.0) / whole,
        (nu + 1.0) * (nu - z * z) / (whole * whole),
    )


_squares_of, _misfit_of = scale_mixture(_row)


def _squares(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    return _squares_of(residuals, counts, parameters, weights, curvatures)


def _misfit(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    return _misfit_of(residuals, counts, parameters, weights, curvatures)


@functools.cache
def _pointers() -> tuple[Any, Any]:
    return pointer(_squares), pointer(_misfit)

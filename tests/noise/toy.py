"""A noise model of a newcomer's, in one file: nothing else of the package knows of it."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numba
import numpy as onp
from scipy import special

from dvisr.noise import AbstractNoise
from dvisr.noise.kernel import NoiseKernel, pointer, scale_mixture


@dataclasses.dataclass(frozen=True)
class Logistic(AbstractNoise):
    """Independent noise with a logistic distribution."""

    name: ClassVar[str] = "logistic"

    def log_density(self, np: Any, z: Any) -> Any:
        return -np.abs(z) - 2.0 * np.log1p(np.exp(-np.abs(z)))

    def cdf(self, z: onp.ndarray) -> onp.ndarray:
        return onp.asarray(special.expit(z))

    def quantile(self, level: onp.ndarray) -> onp.ndarray:
        return onp.asarray(special.logit(level))

    def draw(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        return rng.logistic(size=shape)

    @property
    def variance(self) -> float:
        return math.pi**2 / 3.0

    @property
    def kernel(self) -> NoiseKernel:
        return NoiseKernel(*_pointers())

    @property
    def spelling(self) -> str:
        return "logistic" if self.scale is None else f"logistic:{self.scale!r}"

    @property
    def sentence(self) -> str:
        return "logistic"


@numba.njit(error_model="numpy", nogil=True)
def _row(z, parameters):  # type: ignore[no-untyped-def]
    slope = math.tanh(0.5 * z)
    rho = abs(z) + 2.0 * math.log1p(math.exp(-abs(z))) - 2.0 * math.log(2.0)
    return rho, (slope / z if abs(z) > 1e-8 else 0.5), 0.5 * (1.0 - slope * slope)


_squares_of, _misfit_of = scale_mixture(_row)


def _squares(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    return _squares_of(residuals, counts, parameters, weights, curvatures)


def _misfit(residuals, counts, parameters, weights, curvatures):  # type: ignore[no-untyped-def]
    return _misfit_of(residuals, counts, parameters, weights, curvatures)


@functools.cache
def _pointers() -> tuple[Any, Any]:
    return pointer(_squares), pointer(_misfit)

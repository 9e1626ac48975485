"""Priors of a constant: what each must say of itself, a Normal, and a heavy-tailed one for
constants whose size is not known to within many decades."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import numpy as onp


class AbstractConstantPrior(abc.ABC):
    """The constants of a tree are independent draws from it. It must be proper."""

    @property
    def spelling(self) -> str | None:
        """How a user types it, if it has a name."""
        return None

    @abc.abstractmethod
    def log_prob(self, np: Any, values: Any) -> Any:
        """The log density, elementwise, with the array namespace that is given."""

    @property
    @abc.abstractmethod
    def is_symmetric(self) -> bool:
        """Whether c and -c are equally likely; see `canonical_form`."""

    @property
    @abc.abstractmethod
    def centre(self) -> float: ...

    @property
    @abc.abstractmethod
    def scale(self) -> float:
        """The width of the bulk: quadrature works in units of it."""

    @abc.abstractmethod
    def radius(self, log_mass: float) -> float:
        """A distance from the centre beyond which there is at most exp(-log_mass) of the
        probability: quadrature stops there."""

    @abc.abstractmethod
    def sample(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        """Independent draws."""


@dataclasses.dataclass(frozen=True)
class Normal(AbstractConstantPrior):
    mean: float = 0.0
    std: float = 10.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean):
            raise ValueError(f"the constants' prior mean must be finite, not {self.mean}")
        if not (math.isfinite(self.std) and self.std > 0.0):
            raise ValueError(
                f"the constants' prior standard deviation must be above 0, not {self.std}"
            )

    def log_prob(self, np: Any, values: Any) -> Any:
        z = (values - self.mean) / self.std
        return -0.5 * z * z - math.log(self.std) - 0.5 * math.log(2.0 * math.pi)

    @property
    def is_symmetric(self) -> bool:
        return self.mean == 0.0

    @property
    def centre(self) -> float:
        return self.mean

    @property
    def scale(self) -> float:
        return self.std

    def radius(self, log_mass: float) -> float:
        # P(|z| > t) <= exp(-t^2 / 2) for every t.
        return self.std * math.sqrt(2.0 * max(log_mass, 0.0))

    def sample(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        return rng.normal(self.mean, self.std, shape)

    @property
    def spelling(self) -> str:
        return f"normal:{float(self.mean)!r},{float(self.std)!r}"

    def __str__(self) -> str:
        return f"Normal, mean {self.mean:g}, standard deviation {self.std:g}"


_SMALL = 1e-4  # of `low`: closer to zero the density is flat to eight digits


@dataclasses.dataclass(frozen=True)
class Decades(AbstractConstantPrior):
    """A Cauchy distribution about zero whose scale is itself unknown: log-uniform between `low` and
    `high`. In closed form, p(c) = (atan(|c| / low) - atan(|c| / high)) / (pi |c| log(high / low)).

    Between the two every decade is about equally likely, so that a slope of 475 and a rate of
    0.0005 both cost little; below `low` the density is flat, so that a constant may well be zero;
    beyond `high` it falls like 1 / c^2.
    """

    low: float = 1e-3
    high: float = 1e4

    def __post_init__(self) -> None:
        if not (math.isfinite(self.high) and self.low > 0.0 and 1.001 * self.low <= self.high):
            raise ValueError(
                f"the decades of the constants' prior must run from a size above 0 to a larger "
                f"one, not from {self.low} to {self.high}"
            )

    def log_prob(self, np: Any, values: Any) -> Any:
        size = np.abs(values)
        safe = np.maximum(size, _SMALL * self.low)
        # One arctangent of the difference: the difference of two would cancel far out.
        angle = np.arctan2(self.high - self.low, self.low * self.high / safe + safe)
        return np.log(angle) - np.log(safe) - math.log(math.pi * math.log(self.high / self.low))

    @property
    def is_symmetric(self) -> bool:
        return True

    @property
    def centre(self) -> float:
        return 0.0

    @property
    def scale(self) -> float:
        return math.sqrt(self.low * self.high)

    def radius(self, log_mass: float) -> float:
        # P(|c| > t) <= (2 / pi) high / t.
        return self.high * math.exp(min(max(log_mass, 0.0), 600.0))

    def sample(self, rng: onp.random.Generator, shape: tuple[int, ...]) -> onp.ndarray:
        log_scale = rng.uniform(math.log(self.low), math.log(self.high), shape)
        return onp.exp(log_scale) * rng.standard_cauchy(shape)

    @property
    def spelling(self) -> str:
        return f"decades:{float(self.low)!r},{float(self.high)!r}"

    def __str__(self) -> str:
        return (
            f"either sign, every decade from {self.low:g} to {self.high:g} about equally likely, "
            f"heavy tails beyond"
        )

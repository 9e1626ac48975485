"""The Normal prior of constants, as in the paper."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as onp

from dvisr.constants.base import AbstractConstantPrior


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

    def __str__(self) -> str:
        return f"Normal, mean {self.mean:g}, standard deviation {self.std:g}"

"""What a prior of constants must say of itself."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np


class AbstractConstantPrior(abc.ABC):
    """The constants of a tree are independent draws from it. It must be proper."""

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
    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Independent draws."""

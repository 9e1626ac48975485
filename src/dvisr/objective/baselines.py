"""What is subtracted from the ELBO's terms before they weigh the score.

A baseline that does not depend on the sample it is subtracted from leaves the expected gradient
as it is. Two of these do depend on it, which scales the expected gradient by a known factor, if the
samples are independent. Stratified ones are not, and every baseline here has then a bias of order
1/N.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractBaseline(eqx.Module):
    """Its state is explicit: `start` makes it, and each batch passes it on."""

    @abc.abstractmethod
    def start(self, dtype: Any) -> Any: ...

    @abc.abstractmethod
    def __call__(
        self,
        state: Any,
        elbo_terms: Float[Array, " samples"],
        weights: Float[Array, " samples"],
    ) -> tuple[Float[Array, " samples"], Any]:
        """What to subtract from each term, and the state after this batch. The weights are all 1
        unless the draws explore (`ExploringDraws`)."""

    @abc.abstractmethod
    def gradient_factor(self, num_samples: int) -> float:
        """What the expected gradient is multiplied by (after the first batch)."""


class NoBaseline(AbstractBaseline):
    def start(self, dtype: Any) -> None:
        return None

    def __call__(
        self,
        state: None,
        elbo_terms: Float[Array, " samples"],
        weights: Float[Array, " samples"],
    ) -> tuple[Float[Array, " samples"], None]:
        return jnp.zeros_like(elbo_terms), None

    def gradient_factor(self, num_samples: int) -> float:
        return 1.0


class BatchMean(AbstractBaseline):
    """The mean of the batch, the sample itself included: the gradient shrinks by (N - 1) / N."""

    def start(self, dtype: Any) -> None:
        return None

    def __call__(
        self,
        state: None,
        elbo_terms: Float[Array, " samples"],
        weights: Float[Array, " samples"],
    ) -> tuple[Float[Array, " samples"], None]:
        return jnp.full_like(elbo_terms, _mean(elbo_terms, weights)), None

    def gradient_factor(self, num_samples: int) -> float:
        return (num_samples - 1) / num_samples


class LeaveOneOut(AbstractBaseline):
    """The mean of the other samples: no bias."""

    def start(self, dtype: Any) -> None:
        return None

    def __call__(
        self,
        state: None,
        elbo_terms: Float[Array, " samples"],
        weights: Float[Array, " samples"],
    ) -> tuple[Float[Array, " samples"], None]:
        if elbo_terms.shape[0] < 2:
            raise ValueError("the leave-one-out baseline needs at least two samples a step")
        # As a difference from the mean: the sum of N large terms would cost digits.
        mean = _mean(elbo_terms, weights)
        others = weights.sum() - weights
        # Where one sample has all of the weight there are no others: no baseline can be had.
        alone = others <= np.finfo(weights.dtype).eps * weights.sum()
        shares = jnp.where(alone, 0.0, weights / jnp.where(alone, 1.0, others))
        return mean - shares * (elbo_terms - mean), None

    def gradient_factor(self, num_samples: int) -> float:
        return 1.0


class EWMAState(eqx.Module):
    average: Float[Array, ""]  # NaN before the first batch


class EWMA(AbstractBaseline):
    """An exponentially weighted moving average of batch means. `alpha` is the weight of the newest
    batch, which is the one it is subtracted from: the gradient shrinks by alpha / N. It starts at
    the first batch's mean (where the factor is that of `BatchMean`)."""

    alpha: float = eqx.field(static=True, default=0.25)

    def __check_init__(self) -> None:
        if not 0.0 < self.alpha <= 1.0:
            raise ValueError(f"alpha must be above 0 and at most 1, not {self.alpha}")

    def start(self, dtype: Any) -> EWMAState:
        return EWMAState(jnp.full((), jnp.nan, dtype=dtype))

    def __call__(
        self,
        state: EWMAState,
        elbo_terms: Float[Array, " samples"],
        weights: Float[Array, " samples"],
    ) -> tuple[Float[Array, " samples"], EWMAState]:
        mean = _mean(elbo_terms, weights)
        moved = self.alpha * mean + (1.0 - self.alpha) * state.average
        average = jnp.where(jnp.isnan(state.average), mean, moved)
        return jnp.full_like(elbo_terms, average), EWMAState(average)

    def gradient_factor(self, num_samples: int) -> float:
        return 1.0 - self.alpha / num_samples


def _mean(
    elbo_terms: Float[Array, " samples"], weights: Float[Array, " samples"]
) -> Float[Array, ""]:
    return (weights * elbo_terms).sum() / weights.sum()

"""log p(y | tree) to a stated error: in closed form where that exists, by quadrature elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dvisr.constants import AbstractConstantPrior, Normal
from dvisr.evaluation import evaluate
from dvisr.exact.quadrature import Integrand, Quadrature, integrate
from dvisr.expression import Expression
from dvisr.likelihood import AbstractLikelihood, InferredNoise
from dvisr.marginal import AffineForm, affine_form, nonlinear_constants, ridge

MAX_DIMENSIONS = 3
TOLERANCE = 1e-9
MAX_NODES = {1: 500_000, 2: 2_000_000, 3: 6_000_000}  # by dimension, for an effort of 1
_PANELS = {1: 24, 2: 10, 3: 4}
_TAIL = 36.0  # what lies outside the box is at most exp(-36) of the integral


@dataclasses.dataclass(frozen=True)
class LogMarginal:
    """`value` is log p(y | tree), `log_error` the log of the estimated error of p(y | tree)."""

    value: float
    log_error: float = -math.inf
    method: str = "closed form"

    @property
    def error(self) -> float:
        """The estimated error of `value`: rounding apart, 0 for a closed form."""
        if math.isinf(self.log_error) and self.log_error < 0.0:
            return 0.0
        relative = self.log_error - self.value
        return math.exp(relative) if relative < 700.0 else math.inf


class TooManyConstants(ValueError):
    """A tree whose integral has more dimensions than can be promised."""


def log_marginal(
    expression: Expression,
    X: np.ndarray,
    likelihood: AbstractLikelihood,
    prior: AbstractConstantPrior,
    *,
    effort: int = 1,
) -> LogMarginal:
    """-inf for a tree that is undefined wherever its constants are. `effort` multiplies the nodes
    that a quadrature may use."""
    if expression.num_constants == 0:
        values, is_defined = evaluate(expression, X)
        if not is_defined.all():
            return LogMarginal(-math.inf)
        values = np.broadcast_to(values, (len(X),))
        return LogMarginal(float(likelihood.log_prob(np, values)))
    plan = _plan(expression, likelihood, prior)
    if plan.num_dimensions == 0:
        return _closed_form(expression, X, likelihood, prior)
    if plan.num_dimensions > MAX_DIMENSIONS:
        raise TooManyConstants(
            f"{expression} needs an integral of {plan.num_dimensions} dimensions, and up to "
            f"{MAX_DIMENSIONS} can be done to a known error: lower the maximum number of "
            f"constants or of tokens"
        )
    problem = _Problem(expression, X, likelihood, prior, plan, effort)
    found = problem.solve()
    return LogMarginal(found.log_integral, found.log_error, "quadrature")


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Which constants are integrated numerically, which in closed form given those, and whether
    the noise is a dimension of its own (it is where it is inferred and a closed form needs it)."""

    numeric: tuple[int, ...]
    closed: tuple[int, ...]
    with_noise: bool

    @property
    def num_dimensions(self) -> int:
        return len(self.numeric) + self.with_noise


def _plan(
    expression: Expression, likelihood: AbstractLikelihood, prior: AbstractConstantPrior
) -> _Plan:
    everyone = tuple(range(expression.num_constants))
    if not isinstance(prior, Normal):
        return _Plan(everyone, (), False)
    numeric = nonlinear_constants(expression)
    closed = tuple(index for index in everyone if index not in numeric)
    is_inferred = isinstance(likelihood, InferredNoise)
    if is_inferred and (not closed or len(everyone) < len(numeric) + 1):
        return _Plan(everyone, (), False)
    return _Plan(numeric, closed, is_inferred)


def _closed_form(
    expression: Expression,
    X: np.ndarray,
    likelihood: AbstractLikelihood,
    prior: AbstractConstantPrior,
) -> LogMarginal:
    assert isinstance(prior, Normal)
    form = affine_form(expression, X, {})
    if not form.is_defined.all():
        return LogMarginal(-math.inf)
    vectors, half_log_det = _ridge(form, likelihood, prior, len(X), np.ones((1, 1)))
    squares = np.einsum("np,np->n", vectors, vectors)
    return LogMarginal(float(likelihood.of_squares(np, squares[0]) - half_log_det[0]))


def _ridge(
    form: AffineForm,
    likelihood: AbstractLikelihood,
    prior: Normal,
    num_points: int,
    noise_factor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Standardise residuals and slopes, then integrate the constants out."""
    with np.errstate(over="ignore"):
        offset = form.offset
        for slope in form.slopes.values():
            offset = offset + slope * prior.mean
        residuals = _bounded(likelihood.whitened(np, offset) / noise_factor)
    num_nodes = max(len(residuals), *(len(slope) for slope in form.slopes.values()))
    residuals = np.broadcast_to(residuals, (num_nodes, num_points))
    scale = likelihood.scale * noise_factor
    with np.errstate(over="ignore"):
        slopes = [_bounded(slope * prior.std / scale) for slope in form.slopes.values()]
    shape = (num_nodes, num_points)
    return ridge(residuals, np.stack([np.broadcast_to(slope, shape) for slope in slopes], -1))


def _bounded(values: np.ndarray) -> np.ndarray:
    """Residuals and slopes of any size, as far as they can still be squared: what lies beyond has
    likelihood zero all the same."""
    bounded: np.ndarray = np.clip(values, -1e150, 1e150)
    return bounded


@dataclasses.dataclass(frozen=True)
class _Problem:
    expression: Expression
    X: np.ndarray
    likelihood: AbstractLikelihood
    prior: AbstractConstantPrior
    plan: _Plan
    effort: int

    def solve(self) -> Quadrature:
        """The box must hold all but a negligible part of the integral. The likelihood is bounded
        by that of a perfect fit, so the prior's tails beyond a radius bound what is left out;
        how small that must be is known once the integral is, so the box may grow once."""
        perfect = float(self.likelihood.of_squares(np, np.zeros(())))
        log_mass = 60.0
        for _ in range(4):
            found = self._integrate(log_mass)
            if not np.isfinite(found.log_integral):
                # Everything in the box underflows or is undefined; look further out, then give in.
                needed = 4.0 * log_mass
            else:
                needed = perfect - found.log_integral + _TAIL
            if needed <= log_mass or not self.plan.numeric:
                return found
            log_mass = 1.1 * needed
        return found

    def _integrate(self, log_mass: float) -> Quadrature:
        reach = math.asinh(self.prior.radius(log_mass) / self.prior.scale)
        low = [-reach] * len(self.plan.numeric)
        high = [reach] * len(self.plan.numeric)
        if self.plan.with_noise:
            a, b = self._noise_range()
            low.append(a)
            high.append(b)
        dims = self.plan.num_dimensions
        return integrate(
            Integrand(self._evaluate, self._of_squares, len(self.X) + len(self.plan.closed)),
            np.array(low),
            np.array(high),
            panels=_PANELS[dims],
            tolerance=TOLERANCE,
            max_nodes=self.effort * MAX_NODES[dims],
        )

    def _of_squares(self, squares: np.ndarray) -> np.ndarray:
        if self.plan.with_noise:
            return -0.5 * squares
        return np.asarray(self.likelihood.of_squares(np, squares))

    def _noise_range(self) -> tuple[float, float]:
        """Where log s has all but a negligible part of its mass, whatever the constants: below,
        the prior falls like exp(-rate / s^2); above, the data like a power of s."""
        likelihood = self.likelihood
        assert isinstance(likelihood, InferredNoise)
        power = len(self.X) + 2.0 * likelihood.shape
        at_rest = likelihood.whitened(np, np.zeros(len(self.X)))
        squares = float(np.dot(at_rest, at_rest)) + self._squares_at_centre
        low = 0.5 * math.log(2.0 * likelihood.rate / power) - 3.0
        high = 0.5 * math.log((2.0 * likelihood.rate + squares) / power) + 45.0 / power + 3.0
        return low, high

    @functools.cached_property
    def _squares_at_centre(self) -> float:
        centre = [np.full((1, 1), self.prior.centre)] * self.expression.num_constants
        values, is_defined = evaluate(self.expression, self.X, centre)
        if not is_defined.all():
            return 0.0
        residuals = self.likelihood.whitened(np, values)
        return float((residuals * residuals).sum())

    def _evaluate(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes are asinh of the constants in units of the prior's scale (which reaches far and
        is fine in the middle), then log s."""
        log_weight = np.zeros(len(nodes))
        fixed = {}
        for place, index in enumerate(self.plan.numeric):
            z = nodes[:, place]
            constant = self.prior.centre + self.prior.scale * np.sinh(z)
            log_weight += self.prior.log_prob(np, constant)
            log_weight += math.log(self.prior.scale) + np.log(np.cosh(z))
            fixed[index] = constant[:, None]
        factor = np.exp(nodes[:, -1:]) if self.plan.with_noise else np.ones((1, 1))
        if self.plan.with_noise:
            assert isinstance(self.likelihood, InferredNoise)
            log_weight += self.likelihood.given(np, 0.0, nodes[:, -1])
        form = affine_form(self.expression, self.X, fixed)
        shape = (len(nodes), len(self.X))
        is_defined = np.logical_and.reduce(np.broadcast_to(form.is_defined, shape), axis=1)
        log_weight[~is_defined] = -np.inf
        if not self.plan.closed:
            with np.errstate(over="ignore"):
                residuals = self.likelihood.whitened(np, np.broadcast_to(form.offset, shape))
            return np.where(is_defined[:, None], _bounded(residuals), 0.0), log_weight
        vectors, half_log_det = self._ridge(form, is_defined, factor)
        return vectors, log_weight - half_log_det

    def _ridge(
        self, form: AffineForm, is_defined: np.ndarray, factor: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(self.prior, Normal)
        shape = (len(is_defined), len(self.X))
        keep = is_defined[:, None]
        clean = AffineForm(
            np.where(keep, np.broadcast_to(form.offset, shape), 0.0),
            {k: np.where(keep, np.broadcast_to(v, shape), 0.0) for k, v in form.slopes.items()},
            is_defined,
        )
        return _ridge(clean, self.likelihood, self.prior, len(self.X), factor)

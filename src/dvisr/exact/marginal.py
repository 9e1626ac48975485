"""log p(y | tree) to a stated error: in closed form where that exists, by quadrature elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dvisr.constants import AbstractConstantPrior, Normal
from dvisr.evaluation import evaluate
from dvisr.exact.quadrature import (
    AbstractGeometry,
    ByRow,
    BySquares,
    Integrand,
    Quadrature,
    integrate,
)
from dvisr.expression import Expression
from dvisr.likelihood import Likelihood
from dvisr.marginal import AffineForm, affine_form, nonlinear_constants, ridge

MAX_DIMENSIONS = 3
TOLERANCE = 1e-9
MAX_NODES = {1: 500_000, 2: 2_000_000, 3: 6_000_000}  # by dimension, for an effort of 1
_PANELS = {1: 24, 2: 10, 3: 4}
_EXPLORED = {1: 9, 2: 5, 3: 3}  # halvings of regions where the tree is undefined
_LARGEST = 1e150  # residuals beyond this can't be squared, and have likelihood zero all the same
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
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    *,
    effort: int = 1,
) -> LogMarginal:
    """-inf for a tree that is undefined wherever its constants are. `effort` multiplies the nodes
    that a quadrature may use."""
    with np.errstate(all="ignore"):  # what overflows or is undefined is told by flags
        return _log_marginal(expression, X, likelihood, prior, effort)


def _log_marginal(
    expression: Expression,
    X: np.ndarray,
    likelihood: Likelihood,
    prior: AbstractConstantPrior,
    effort: int,
) -> LogMarginal:
    if expression.num_constants == 0:
        values, is_defined = evaluate(expression, X)
        if not is_defined.all():
            return LogMarginal(-math.inf)
        values = np.broadcast_to(values, (len(X),))
        return LogMarginal(float(likelihood.log_prob(np, values)))
    plan = check_dimensions(expression, likelihood, prior)
    if plan.num_dimensions == 0:
        return _closed_form(expression, X, likelihood, prior)
    problem = _Problem(expression, X, likelihood, prior, plan, effort)
    found = problem.solve()
    return LogMarginal(found.log_integral, found.log_error, "quadrature")


def check_dimensions(
    expression: Expression, likelihood: Likelihood, prior: AbstractConstantPrior
) -> _Plan:
    """How a tree would be integrated; `TooManyConstants` if it can't be."""
    plan = _plan(expression, likelihood, prior)
    if plan.num_dimensions > MAX_DIMENSIONS:
        raise TooManyConstants(
            f"{expression} needs an integral of {plan.num_dimensions} dimensions, and up to "
            f"{MAX_DIMENSIONS} can be done to a known error: lower max_tokens, or add "
            f"max-constants=2 to the constraints"
        )
    return plan


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


def _plan(expression: Expression, likelihood: Likelihood, prior: AbstractConstantPrior) -> _Plan:
    everyone = tuple(range(expression.num_constants))
    is_linear = likelihood.noise.by_squares and likelihood.noise.link == "identity"
    if not isinstance(prior, Normal) or not is_linear:
        return _Plan(everyone, (), False)
    numeric = nonlinear_constants(expression)
    closed = tuple(index for index in everyone if index not in numeric)
    is_inferred = likelihood.is_inferred
    if is_inferred and (not closed or len(everyone) < len(numeric) + 1):
        return _Plan(everyone, (), False)
    return _Plan(numeric, closed, is_inferred)


def _closed_form(
    expression: Expression,
    X: np.ndarray,
    likelihood: Likelihood,
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
    likelihood: Likelihood,
    prior: Normal,
    num_points: int,
    noise_factor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Standardise residuals and slopes, then integrate the constants out."""
    with np.errstate(over="ignore"):
        residuals = _clipped(likelihood.whitened(np, form.offset) / noise_factor, 1e300)
        scale = likelihood.scale * noise_factor
        if likelihood.weights is not None:
            scale = scale / np.sqrt(likelihood.weights)
        slopes = [_clipped(slope * prior.std / scale, 1e300) for slope in form.slopes.values()]
        shape = (max(len(residuals), *(len(slope) for slope in slopes)), num_points)
        vectors, half_log_det = ridge(
            np.broadcast_to(residuals, shape),
            np.stack([np.broadcast_to(slope, shape) for slope in slopes], axis=-1),
            np.full(len(slopes), prior.mean / prior.std),
        )
    return _clipped(vectors, _LARGEST), half_log_det


def _clipped(values: np.ndarray, most: float) -> np.ndarray:
    clipped: np.ndarray = np.clip(values, -most, most)
    return clipped


@dataclasses.dataclass(frozen=True)
class _Problem:
    expression: Expression
    X: np.ndarray
    likelihood: Likelihood
    prior: AbstractConstantPrior
    plan: _Plan
    effort: int

    def solve(self) -> Quadrature:
        """The box must hold all but a negligible part of the integral. The likelihood is bounded
        by that of a perfect fit, so the prior's tails beyond a radius bound what is left out;
        how small that must be is known once the integral is, so the box may grow once."""
        perfect = self.likelihood.perfect
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
            Integrand(self._evaluate, self._geometry(), len(self.X)),
            np.array(low),
            np.array(high),
            panels=_PANELS[dims],
            explored=_EXPLORED[dims],
            tolerance=TOLERANCE,
            max_nodes=self.effort * MAX_NODES[dims],
        )

    def _geometry(self) -> AbstractGeometry:
        if self.likelihood.noise.by_squares:
            return BySquares(self._of_squares, self._width)
        return ByRow(
            lambda residuals: np.asarray(self.likelihood.of_residuals(np, residuals)),
            self.likelihood.peak_width,
        )

    def _of_squares(self, squares: np.ndarray) -> np.ndarray:
        if self.plan.with_noise:
            return -0.5 * squares
        return np.asarray(self.likelihood.of_squares(np, squares))

    def _noise_range(self) -> tuple[float, float]:
        """Where log s has all but a negligible part of its mass, whatever the constants: below,
        the prior falls like exp(-rate / s^2); above, the data like a power of s."""
        prior = self.likelihood.prior
        assert prior is not None
        power = self.likelihood.count + 2.0 * prior.shape
        low = 0.5 * math.log(2.0 * prior.rate / power) - 3.0
        squares = 2.0 * prior.rate + self._least_squares
        return low, 0.5 * math.log(squares / power) + 45.0 / power + 3.0

    @functools.cached_property
    def _least_squares(self) -> float:
        """The least sum of squares among a few hundred constants spread over the prior: the best
        one is not larger, so neither is the noise that goes with it."""
        reach = math.asinh(self.prior.radius(60.0) / self.prior.scale)
        axes = [np.linspace(-reach, reach, 201 if len(self.plan.numeric) == 1 else 21)]
        grid = np.meshgrid(*axes * len(self.plan.numeric), indexing="ij")
        nodes = [axis.reshape(-1) for axis in grid] or [np.zeros(1)]
        nodes = [*nodes[: len(self.plan.numeric)], np.zeros(len(nodes[0]))]
        vectors, log_weight = self._evaluate(np.stack(nodes, axis=1))
        squares = np.einsum("np,np->n", vectors, vectors)[np.isfinite(log_weight)]
        return (
            float(squares.min())
            if len(squares)
            else float(np.square(self._residuals(np.zeros((1, len(self.X))))).sum())
        )

    def _width(self, distance: np.ndarray) -> np.ndarray:
        """How wide a peak of the likelihood is, in units of residuals, that far from a perfect
        fit."""
        prior = self.likelihood.prior
        if self.plan.with_noise or prior is None:
            return np.ones_like(distance)
        freedom = 2.0 * prior.shape + self.likelihood.count
        width: np.ndarray = np.sqrt((2.0 * prior.rate + distance * distance) / freedom)
        return width

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
            log_weight += self._log_scale_density(nodes[:, -1])
        form = affine_form(self.expression, self.X, fixed)
        shape = (len(nodes), len(self.X))
        is_defined = np.logical_and.reduce(np.broadcast_to(form.is_defined, shape), axis=1)
        log_weight[~is_defined] = -np.inf
        if not self.plan.closed:
            with np.errstate(over="ignore"):
                residuals = self._residuals(np.broadcast_to(form.offset, shape))
            is_defined &= ~np.isnan(residuals).any(axis=1)
            log_weight[~is_defined] = -np.inf
            residuals = np.where(is_defined[:, None], residuals, 0.0)
            return _clipped(residuals, _LARGEST), log_weight
        vectors, half_log_det = self._ridge(form, is_defined, factor)
        return vectors, log_weight - half_log_det

    def _residuals(self, values: np.ndarray) -> np.ndarray:
        """As the geometry takes them."""
        if self.likelihood.noise.by_squares:
            return np.asarray(self.likelihood.whitened(np, values))
        return np.asarray(self.likelihood.residuals(np, values))

    def _log_scale_density(self, log_s: np.ndarray) -> np.ndarray:
        """The log joint density of log s and of data that fit perfectly."""
        likelihood = self.likelihood
        assert likelihood.prior is not None
        constant = likelihood.noise.perfect(likelihood.count, None) - likelihood.log_scale(np)
        density: np.ndarray = likelihood.prior.log_density(np, log_s) + float(constant)
        return density - likelihood.count * log_s

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

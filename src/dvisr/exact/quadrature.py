"""Adaptive quadrature of a likelihood over a box, with an error estimate.

What sets it apart from a library routine is that it knows what it integrates: the integrand is a
function of residual vectors, so a peak that hides between two nodes shows itself, because the
residuals on its two sides differ by more than they would if nothing happened in between. A region
is split while its nodes are too far apart to exclude a peak that matters, however calm the nodes
themselves look; and only then is the usual error estimate, Gauss against Kronrod, believed.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

# Fifteen Kronrod nodes with the seven Gauss nodes among them (at the odd places).
_HALF_NODES = np.array(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691693013,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
        0.0,
    ]
)
_HALF_KRONROD = np.array(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
        0.209482141084727828012999174891714,
    ]
)
_HALF_GAUSS = np.array(
    [
        0.0,
        0.129484966168869693270611432679082,
        0.0,
        0.279705391489276667901467771423780,
        0.0,
        0.381830050505118944950369775488975,
        0.0,
        0.417959183673469387755102040816327,
    ]
)
NODES = np.concatenate([-_HALF_NODES, _HALF_NODES[-2::-1]])
KRONROD = np.concatenate([_HALF_KRONROD, _HALF_KRONROD[-2::-1]])
GAUSS = np.concatenate([_HALF_GAUSS, _HALF_GAUSS[-2::-1]])

# Residuals of neighbouring nodes further apart than this many widths of a peak may hide one between
# them; nearer, a peak lifts one of the two to exp(-(6 / 2)^2 / 2) = 1 % of its height or more.
_FAR = 6.0
# Between two nodes the residuals are taken to stay within this share of their distance from the
# straight line that joins them.
_BEND = 0.5
_CHUNK = 4_000_000  # floats of residuals worked out at once


class AbstractGeometry(abc.ABC):
    """What the likelihood makes of residuals, and what it could be between two vectors of them."""

    @abc.abstractmethod
    def log_likelihood(self, residuals: np.ndarray) -> np.ndarray:
        """Of residuals (n, rows)."""

    @abc.abstractmethod
    def between(self, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of vectors (..., rows) of residuals at neighbouring nodes: the highest log likelihood
        that there could be between them, and how wide a peak would be there, in residuals."""


@dataclasses.dataclass(frozen=True)
class BySquares(AbstractGeometry):
    """A likelihood that depends on the sum of squares alone."""

    of_squares: Callable[[np.ndarray], np.ndarray]  # decreasing
    width: Callable[[np.ndarray], np.ndarray]  # of a peak, by distance from a perfect fit

    def log_likelihood(self, residuals: np.ndarray) -> np.ndarray:
        return self.of_squares(np.einsum("np,np->n", residuals, residuals))

    def between(self, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step = end - start
        length2 = np.einsum("...p,...p->...", step, step)
        along = np.einsum("...p,...p->...", start, step)
        squares = np.einsum("...p,...p->...", start, start)
        # The nearest that the straight line between the two comes to a perfect fit.
        share = np.clip(-along / length2, 0.0, 1.0)
        nearest2 = squares + share * (2.0 * along + share * length2)
        nearest = np.sqrt(np.maximum(nearest2, 0.0)) - _BEND * np.sqrt(length2)
        closest = np.maximum(nearest, 0.0)
        return self.of_squares(closest**2), self.width(closest)


@dataclasses.dataclass(frozen=True)
class ByRow(AbstractGeometry):
    """A likelihood in which each row counts by itself, decreasing in the size of every residual: a
    row that is far off may be far off at the peak too."""

    of_residuals: Callable[[np.ndarray], np.ndarray]
    width: Callable[[np.ndarray], np.ndarray]  # of a peak, by the residuals there

    def log_likelihood(self, residuals: np.ndarray) -> np.ndarray:
        return self.of_residuals(residuals)

    def between(self, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        smaller = np.minimum(np.abs(start), np.abs(end)) - _BEND * np.abs(end - start)
        smallest = np.where(start * end > 0.0, np.maximum(smaller, 0.0), 0.0)
        rows = smallest.reshape(-1, smallest.shape[-1])
        shape = smallest.shape[:-1]
        return self.of_residuals(rows).reshape(shape), self.width(rows).reshape(shape)


@dataclasses.dataclass(frozen=True)
class Integrand:
    """exp(log likelihood of residuals + log_weight) is integrated. `evaluate` takes nodes (n, d)
    and returns residuals (n, k) and log_weight (n,), -inf where the tree is undefined."""

    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    geometry: AbstractGeometry
    num_residuals: int


@dataclasses.dataclass(frozen=True)
class Quadrature:
    log_integral: float
    log_error: float  # the log of the estimated error of the integral itself
    converged: bool
    num_nodes: int


@dataclasses.dataclass
class _Regions:
    low: np.ndarray  # (regions, d)
    high: np.ndarray
    log_integral: np.ndarray  # (regions,)
    log_error: np.ndarray
    log_hidden: np.ndarray  # the most that a peak between nodes could hold; -inf if resolved
    axis: np.ndarray  # where to split
    has_gap: np.ndarray  # bool: neighbouring nodes are undefined, and a window may lie between

    def take(self, which: np.ndarray) -> _Regions:
        return _Regions(*(getattr(self, f.name)[which] for f in dataclasses.fields(self)))

    @staticmethod
    def joined(parts: list[_Regions]) -> _Regions:
        fields = dataclasses.fields(_Regions)
        return _Regions(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields))


def integrate(
    integrand: Integrand,
    low: np.ndarray,
    high: np.ndarray,
    *,
    panels: int,
    explored: int,
    tolerance: float,
    max_nodes: int,
) -> Quadrature:
    """Split every region that may hide a peak or has more than its share of the error, all at
    once, until the error is below `tolerance` of the integral or the nodes run out.

    The errors of regions are taken to be independent, so their squares are summed; what may be
    hidden is summed as it is. Where neighbouring nodes are undefined nothing is known of what lies
    between them; such regions are halved `explored` times in any case, to find narrow windows of
    the domain.
    """
    edges = [np.linspace(a, b, panels + 1) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1)
    inner = (slice(None, -1),) * len(low)
    outer = (slice(1, None),) * len(low)
    regions = _evaluated(
        integrand, grid[inner].reshape(-1, len(low)), grid[outer].reshape(-1, len(low))
    )
    nodes_each = len(NODES) ** len(low)
    num_nodes = len(regions.low) * nodes_each
    for turn in itertools.count():
        total = float(np.logaddexp.reduce(regions.log_integral))
        hidden = float(np.logaddexp.reduce(regions.log_hidden))
        error = float(np.logaddexp(0.5 * np.logaddexp.reduce(2.0 * regions.log_error), hidden))
        goal = total + np.log(tolerance)
        explores = regions.has_gap & (turn < explored)
        converged = bool((error <= goal or np.isneginf(error)) and not explores.any())
        split = regions.log_error > goal - 0.5 * np.log(4.0 * len(regions.low))
        split |= regions.log_hidden > goal - np.log(4.0 * len(regions.low))
        cost = 2 * int(split.sum()) * nodes_each  # exploring is not charged for
        split |= explores
        if converged or num_nodes + cost > max_nodes:
            return Quadrature(total, error, converged, num_nodes)
        num_nodes += cost
        halves = _halved(regions.take(split))
        regions = _Regions.joined([regions.take(~split), _evaluated(integrand, *halves)])
    raise AssertionError("unreachable")


def _halved(regions: _Regions) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(regions.low))
    middle = 0.5 * (regions.low[rows, regions.axis] + regions.high[rows, regions.axis])
    low, high = regions.low.copy(), regions.high.copy()
    low[rows, regions.axis] = middle
    high[rows, regions.axis] = middle
    return np.concatenate([regions.low, low]), np.concatenate([high, regions.high])


def _evaluated(integrand: Integrand, low: np.ndarray, high: np.ndarray) -> _Regions:
    nodes_each = len(NODES) ** low.shape[1]
    rows = max(1, _CHUNK // (nodes_each * integrand.num_residuals))
    return _Regions.joined(
        [
            _evaluated_at_once(integrand, low[i : i + rows], high[i : i + rows])
            for i in range(0, len(low), rows)
        ]
    )


def _evaluated_at_once(integrand: Integrand, low: np.ndarray, high: np.ndarray) -> _Regions:
    num, dims = low.shape
    shape = (num,) + (len(NODES),) * dims
    unit = np.stack(np.meshgrid(*([NODES] * dims), indexing="ij"), axis=-1).reshape(-1, dims)
    half = 0.5 * (high - low)
    nodes = (0.5 * (low + high))[:, None, :] + half[:, None, :] * unit
    residuals, log_weight = integrand.evaluate(nodes.reshape(-1, dims))
    log_weight = log_weight.reshape(shape)
    log_likelihood = integrand.geometry.log_likelihood(residuals).reshape(shape)
    undefined = np.isneginf(log_weight)
    with np.errstate(invalid="ignore"):
        log_f = np.where(undefined, -np.inf, log_likelihood + log_weight)
    log_volume = np.log(half).sum(axis=1)
    top = log_f.reshape(num, -1).max(axis=1)
    f = np.exp(log_f - np.where(np.isneginf(top), 0.0, top).reshape((num,) + (1,) * dims))

    kronrod = _weighed(f, [KRONROD] * dims)
    differences = np.stack(
        [
            np.abs(kronrod - _weighed(f, [GAUSS if i == axis else KRONROD for i in range(dims)]))
            for axis in range(dims)
        ],
        axis=1,
    )
    errors = _sharpened(f, kronrod, differences)
    residuals = residuals.reshape((*shape, -1))
    hidden, steps = zip(
        *(_hidden(integrand, residuals, log_weight, axis) for axis in range(dims)),
        strict=True,
    )
    log_hidden = np.max(hidden, axis=0)
    # Split where residuals move most if something may hide, else where the estimates differ most.
    axis = np.where(
        np.isneginf(log_hidden), differences.argmax(axis=1), np.stack(steps, axis=1).argmax(axis=1)
    )
    is_flat = ~np.isfinite(top)  # undefined everywhere: the longest side
    axis = np.where(is_flat, half.argmax(axis=1), axis)
    with np.errstate(divide="ignore"):
        return _Regions(
            low,
            high,
            np.log(np.maximum(kronrod, 0.0)) + top + log_volume,
            np.log(errors.sum(axis=1)) + top + log_volume,
            log_hidden + log_volume,
            axis,
            _has_gap(undefined),
        )


def _has_gap(undefined: np.ndarray) -> np.ndarray:
    """Whether two neighbouring nodes of a region are both undefined, along any axis."""
    found = np.zeros(len(undefined), dtype=bool)
    for place in range(1, undefined.ndim):
        before, after = _along(place, slice(None, -1)), _along(place, slice(1, None))
        both = undefined[before] & undefined[after]
        found |= both.reshape(len(both), -1).any(axis=1)
    return found


def _sharpened(f: np.ndarray, kronrod: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """QUADPACK's estimate: Gauss and Kronrod differ by the error of Gauss; that of Kronrod is
    about its power 3/2, on the scale of how much the integrand varies in the region."""
    dims = f.ndim - 1
    mean = (kronrod / 2.0**dims).reshape((-1,) + (1,) * dims)
    variation = _weighed(np.abs(f - mean), [KRONROD] * dims)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        sharp = variation * np.minimum(1.0, (200.0 * differences / variation) ** 1.5)
    return np.where(variation > 0.0, sharp, differences)


def _weighed(f: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    for weight in reversed(weights):
        f = f @ weight
    return f


def _hidden(
    integrand: Integrand, residuals: np.ndarray, log_weight: np.ndarray, axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the integrand could hold between neighbouring nodes along an axis that are far apart
    (the log of an integral, by region), and how far the residuals move along it."""
    before, after = _along(axis + 1, slice(None, -1)), _along(axis + 1, slice(1, None))
    start, end = residuals[before], residuals[after]
    step = end - start
    distance = np.sqrt(np.einsum("...p,...p->...", step, step))
    # Nodes at the edge of the domain, one defined and one not, are left to the error estimate.
    is_open = np.isfinite(log_weight[before]) & np.isfinite(log_weight[after])
    with np.errstate(divide="ignore", invalid="ignore"):
        height, width = integrand.geometry.between(start, end)
        is_open &= distance > _FAR * width
        height = height + np.maximum(log_weight[before], log_weight[after])
        height = np.where(is_open, height, -np.inf)
        top = height.reshape(len(height), -1).max(axis=1)
        level = np.where(np.isneginf(top), 0.0, top).reshape((-1,) + (1,) * (height.ndim - 1))
        dims = height.ndim - 1
        weights = [np.diff(NODES) if other == axis else KRONROD for other in range(dims)]
        hidden = np.log(_weighed(np.exp(height - level), weights)) + top
    return hidden, np.nan_to_num(distance).reshape(len(distance), -1).max(axis=1)


def _along(place: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * place + (part,)

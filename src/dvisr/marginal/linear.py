"""Trees that are linear in their constants, under a Normal prior: in closed form."""

from __future__ import annotations

import math

import numpy as np

from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.marginal.optimising import linearise


@compiled_inside
def _given_noise(log_s, outside, singular, along, law):
    """The log joint density of the data and log s, constants aside; s is 1 where it is given."""
    variance = np.exp(2.0 * log_s)
    value = -0.5 * outside / variance
    for i in range(len(singular)):
        # Prior and data pull against each other along this direction.
        spread = (law.second * singular[i]) ** 2
        value -= 0.5 * along[i] ** 2 / (variance + spread) + 0.5 * np.log1p(spread / variance)
    if law.is_inferred:
        value -= (law.observations + 2.0 * law.shape) * log_s + law.rate / variance
    return value


@compiled_inside
def log_marginal_if_linear(apply, shape, law, work, fit):
    """Normal constants of a linear tree in closed form, for each s where the noise is inferred;
    then s by the trapezium rule in log s, which is as good as exact for so smooth a peak. By a
    singular value decomposition: constants that do the same work leave nothing of a Gram matrix."""
    stand_alone()
    k, points = shape.num_constants, len(law.y)
    for j in range(k):
        fit.here[j] = law.first
    never = k < 0
    squares = linearise(apply, shape, fit.here, never, never, law, work, fit)
    slopes = np.empty((points, k))
    largest = 0.0
    residuals, counts, inverse, by_constant = work.by_first, law.counts, law.inverse, work.slopes[0]
    for point in range(points):
        often = np.sqrt(counts[point])
        residuals[point] *= often
        for j in range(k):
            slopes[point, j] = by_constant[j, point] * inverse[point] * often
            largest = max(largest, abs(slopes[point, j]))
    if not (squares < np.inf and largest < 1e150):
        return -np.inf
    left, singular, _ = np.linalg.svd(slopes, full_matrices=False)
    along = np.zeros(len(singular))
    outside = 0.0
    for i in range(len(singular)):
        for point in range(points):
            along[i] += left[point, i] * residuals[point]
    for point in range(points):
        rest = residuals[point]
        for i in range(len(singular)):
            rest -= left[point, i] * along[i]
        outside += rest * rest
    if not law.is_inferred:
        return law.given + _given_noise(0.0, outside, singular, along, law)
    power = law.observations + 2.0 * law.shape
    centre = 0.5 * np.log((2.0 * law.rate + outside) / power)
    low = centre - 1.0 - 9.0 / np.sqrt(power)
    # Where prior and data disagree the peak lies above, where noise explains what the constants
    # should. The density is below exp(-power * log s): beyond `high` next to nothing is left.
    above = 0.5 * np.log((2.0 * law.rate + squares) / power)
    reached = max(
        _given_noise(centre, outside, singular, along, law),
        _given_noise(above, outside, singular, along, law),
    )
    high = (42.0 - reached) / power
    gap = min(0.15, 0.35 / np.sqrt(power))
    top, total = -np.inf, 0.0
    for node in range(int((high - low) / gap) + 2):
        value = _given_noise(low + gap * node, outside, singular, along, law)
        if value > top:
            total = total * np.exp(top - value) + 1.0 if top > -np.inf else 1.0
            top = value
        else:
            total += np.exp(value - top)
    log_prior_of_noise = np.log(2.0) + law.shape * np.log(law.rate) - math.lgamma(law.shape)
    return law.given + top + np.log(total * gap) + log_prior_of_noise

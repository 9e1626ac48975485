"""Descents to the modes of one tree's constants, by compiled code: Levenberg-Marquardt.

From each start the squares are brought down first (for Gaussian noise the sum of squares, see
`dvisr.noise.kernel`). The prior joins in only where a minimum was found: far from one it would pull
harder than the data, whose noise is not known yet.

Descents are of the constants themselves or, `in_logs`, of u = asinh(c / unit), about the logarithms
of their sizes: constants whose product or quotient alone the data know lie along a straight line
there.
"""

from __future__ import annotations

import numpy as np

from dvisr.evaluation.tree import evaluate_tree
from dvisr.library.compiling import compiled_inside, stand_alone
from dvisr.library.sums import sum_of_squares, weighted_product
from dvisr.marginal.law import curvature_of, log_prior, moved, slope_of, stretch

EXACTING = 1e-8  # a tolerance below which all modes are wanted, not the best alone
_FAR = 1e300


@compiled_inside
def _residuals(apply, shape, constants, with_slopes, law, work, fit):
    """Residuals into `work.by_first` and what slopes are multiplied by into `fit.row_factor`;
    whether the tree is defined."""
    if not evaluate_tree(apply, shape, constants, with_slopes, work):
        return False
    y, inverse = law.y, law.inverse
    values, residuals, factors = work.values[0], work.by_first, fit.row_factor
    if law.is_log:
        for point in range(len(y)):
            if not values[point] > 0.0:
                return False
            factors[point] = inverse[point] / values[point]
            residuals[point] = (y[point] - np.log(values[point])) * inverse[point]
    else:
        for point in range(len(y)):
            factors[point] = inverse[point]
            residuals[point] = (y[point] - values[point]) * inverse[point]
    return sum_of_squares(residuals) < _FAR


@compiled_inside
def misfit_at(apply, shape, constants, with_prior, law, work, fit):
    """The misfit (with the prior) or the squares (without), infinite where the tree is
    undefined."""
    if not _residuals(apply, shape, constants, shape.num_nodes < 0, law, work, fit):
        return np.inf
    if with_prior:
        return law.misfit(work.by_first, law.counts, law.parameters, fit.nothing, fit.nothing)
    return law.squares(work.by_first, law.counts, law.parameters, fit.nothing, fit.nothing)


@compiled_inside
def height_of(misfit, constants, k, in_logs, law):
    """Minus the log joint, constants of the likelihood aside."""
    value = misfit
    for j in range(k):
        value -= log_prior(constants[j], law)
        if in_logs:
            value -= np.log(stretch(constants[j], in_logs, law))
    return value


@compiled_inside
def linearise(apply, shape, constants, with_prior, by_curvature, law, work, fit):
    """As `misfit_at`, with the Gram matrix of the slopes and the gradient."""
    if not _residuals(apply, shape, constants, shape.num_nodes > 0, law, work, fit):
        return np.inf
    weights = fit.row_weights
    if with_prior:
        value = law.misfit(work.by_first, law.counts, law.parameters, weights, fit.row_curvatures)
    else:
        value = law.squares(work.by_first, law.counts, law.parameters, weights, fit.nothing)
    k, points = shape.num_constants, len(law.y)
    counts, factors, slopes = law.counts, fit.row_factor, work.slopes[0]
    residuals, curvatures, pulls = work.by_first, fit.row_curvatures, work.by_second
    for point in range(points):
        pulls[point] = counts[point] * weights[point] * factors[point]
    for j in range(k):
        fit.along[j] = weighted_product(slopes[j], residuals, pulls)
    by_row = curvatures if by_curvature else weights
    for point in range(points):
        factors[point] *= counts[point] * by_row[point] * factors[point]
    for i in range(k):
        for j in range(i + 1):
            dot = weighted_product(slopes[i], slopes[j], factors)
            fit.gram[i, j] = dot
            fit.gram[j, i] = dot
    return value


@compiled_inside
def cholesky(matrix, k, factor):
    """The lower factor; False where the matrix is not positive definite."""
    for i in range(k):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                if not (total > 0.0 and total < _FAR):
                    return False
                factor[i, i] = np.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    return True


@compiled_inside
def solve(factor, k, x):
    for i in range(k):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]


@compiled_inside
def _step(k, damping, with_prior, in_logs, constants, law, fit):
    """Solve for a step; returns the decrease that it promises, or -1."""
    weight = 1.0 if with_prior else 2.0
    for i in range(k):
        own = stretch(constants[i], in_logs, law)
        for j in range(k):
            fit.matrix[i, j] = weight * fit.gram[i, j] * own * stretch(constants[j], in_logs, law)
        slope = weight * fit.along[i] * own
        if with_prior:
            fit.matrix[i, i] += curvature_of(constants[i], in_logs, law)
            slope += slope_of(constants[i], in_logs, law)
        fit.trial[i] = slope
        fit.step[i] = slope
        fit.matrix[i, i] += damping * fit.matrix[i, i] + 1e-300
    if not cholesky(fit.matrix, k, fit.factor):
        return -1.0
    solve(fit.factor, k, fit.step)
    promised = 0.0
    for i in range(k):
        promised += 0.5 * fit.step[i] * fit.trial[i]
    return promised


@compiled_inside
def descend(
    apply, shape, constants, with_prior, in_logs, iterations, tolerance, hopeless, law, work, fit
):
    """Go down from `constants`, in place. Without the prior it is the squares that go down, and the
    tolerance is relative. Gives up on a way that does not lead below `hopeless`."""
    stand_alone()
    k, never = shape.num_constants, shape.num_nodes < 0
    value = linearise(apply, shape, constants, with_prior, never, law, work, fit)
    if not value < np.inf:
        return np.inf
    height = height_of(value, constants, k if with_prior else 0, in_logs, law)
    damping = 1e-8 if shape.is_affine else 1e-3
    for iteration in range(iterations):
        promised = _step(k, damping, with_prior, in_logs, constants, law, fit)
        goal = tolerance if with_prior else tolerance * value + 1e-300
        if promised < 0.0:
            damping = max(10.0 * damping, 1e-6)
            if damping > 1e10:
                break
            continue
        for j in range(k):
            fit.trial[j] = moved(constants[j], fit.step[j], in_logs, law)
        new = misfit_at(apply, shape, fit.trial, with_prior, law, work, fit)
        lower = height_of(new, fit.trial, k if with_prior else 0, in_logs, law)
        if lower < height:
            gained = height - lower
            for j in range(k):
                constants[j] = fit.trial[j]
            height = lower
            # What a step as good as its promise leaves is of the next order.
            left = tolerance if with_prior else tolerance * lower + 1e-300
            is_as_promised = abs(gained - promised) < left and damping * gained < left
            damping = max(0.1 * damping, 1e-12)
            if (gained < goal and promised < goal) or (is_as_promised and tolerance > EXACTING):
                break
            if iteration > 4 and height > hopeless and 20.0 * gained < height - hopeless:
                break
            value = linearise(apply, shape, constants, with_prior, never, law, work, fit)
            if not value < np.inf:
                return np.inf
        else:
            if promised < goal:
                break
            damping *= 8.0
            if damping > 1e10:
                break
    return height

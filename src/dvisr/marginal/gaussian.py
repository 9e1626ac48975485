"""The closed form: Gaussian noise, Gaussian constants, values affine in them."""

from __future__ import annotations

import numpy as np


def ridge(
    residuals: np.ndarray, slopes: np.ndarray, means: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Integrate Normal constants of standard deviation 1 out of standard Normal noise.

    For r = A z + noise with z ~ Normal(means, 1), log p(r) is, up to the constant of the noise,
    -|v|^2 / 2 - log det(I + A'A) / 2. Returned are the vector v, the residuals as far as no z
    explains them, and the half log determinant.

    `residuals` is (..., points), `slopes` (..., points, constants), `means` (constants,). By a
    singular value decomposition, so that nothing is squared that could overflow, and with the
    means taken off along the singular vectors, so that large ones do not cancel against r.
    """
    left, singular, right = np.linalg.svd(slopes, full_matrices=False)
    along = np.einsum("...pk,...p->...k", left, residuals)
    length = np.hypot(1.0, singular)
    shrunk = along / length - (right @ means) * (singular / length)
    vector = residuals + np.einsum("...pk,...k->...p", left, shrunk - along)
    return vector, np.log(length).sum(axis=-1)

"""The closed form: Gaussian noise, Gaussian constants, values affine in them."""

from __future__ import annotations

import numpy as np


def ridge(residuals: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integrate standard Normal constants out of standard Normal noise.

    For r = A z + noise with z and the noise standard Normal, log p(r) is, up to the constant of
    the noise, -|v|^2 / 2 - log det(I + A'A) / 2. Returned are v, the residuals that remain at the
    most probable z followed by that z itself, and the half log determinant.

    `residuals` is (..., points), `slopes` (..., points, constants). Solved by a singular value
    decomposition: nothing is squared that could cancel.
    """
    left, singular, right = np.linalg.svd(slopes, full_matrices=False)
    along = np.einsum("...pk,...p->...k", left, residuals)
    shrunk = along * singular / (1.0 + singular * singular)
    modes = np.einsum("...kc,...k->...c", right, shrunk)
    # What is left along a singular vector is along / (1 + s^2); the rest is orthogonal to it.
    remaining = residuals - np.einsum("...pk,...k->...p", left, along * _explained(singular))
    half_log_det = 0.5 * np.log1p(singular * singular).sum(axis=-1)
    return np.concatenate([remaining, modes], axis=-1), half_log_det


def _explained(singular: np.ndarray) -> np.ndarray:
    squared = singular * singular
    return np.where(np.isfinite(squared), squared / (1.0 + squared), 1.0)

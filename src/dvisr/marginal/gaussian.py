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
    # 1 + s^2 is taken as a square itself, so that it can't overflow.
    length = np.hypot(1.0, singular)
    modes = np.einsum("...kc,...k->...c", right, along * (singular / length) / length)
    # Along a singular vector 1 / (1 + s^2) of the residual is left; the rest is orthogonal to it.
    remaining = residuals - np.einsum("...pk,...k->...p", left, along * (singular / length) ** 2)
    return np.concatenate([remaining, modes], axis=-1), np.log(length).sum(axis=-1)

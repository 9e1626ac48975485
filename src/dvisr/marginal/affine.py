"""Trees that are affine in their constants, or in some of them while the others are held fixed; and
the closed form for Gaussian noise and Gaussian constants."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

from dvisr.evaluation import apply_operator
from dvisr.expression import Expression, fold
from dvisr.library import Kind, Token


@dataclasses.dataclass(frozen=True)
class AffineForm:
    """offset + sum of slope * constant, at every point; arrays broadcast to (nodes, points)."""

    offset: np.ndarray
    slopes: dict[int, np.ndarray]  # by the constant's index in prefix order
    is_defined: np.ndarray


def nonlinear_constants(expression: Expression) -> tuple[int, ...]:
    """A smallest set of constants that, once held fixed, leaves the tree affine in the rest."""
    everyone = range(expression.num_constants)
    for size in range(expression.num_constants):
        for fixed in itertools.combinations(everyone, size):
            if _is_affine(expression, frozenset(fixed)):
                return fixed
    return tuple(everyone)


def _is_affine(expression: Expression, fixed: frozenset[int]) -> bool:
    """Whether the tree is affine in the constants that are not fixed."""

    def combine(token: Token, index: int, operands: list[bool | None]) -> bool | None:
        """True: depends on a free constant, affinely. False: does not. None: not affinely."""
        if token.kind is Kind.CONSTANT:
            return index not in fixed
        if None in operands:
            return None
        return any(operands) if _stays_affine(token, operands) else None

    return fold(expression, combine) is not None


def _stays_affine(token: Token, depends: list[bool | None]) -> bool:
    if not any(depends):
        return True
    if token.is_defined is not None:
        return False  # where it is defined depends on the constants
    match token.linearity:
        case "joint":
            return True
        case "each":
            return sum(map(bool, depends)) == 1
        case "first":
            return not any(depends[1:])
    return False


def affine_form(
    expression: Expression, X: np.ndarray, fixed: Mapping[int, np.ndarray]
) -> AffineForm:
    """The form in the constants that are not in `fixed`; the others are given as (nodes, 1)."""
    all_defined: np.ndarray = np.ones((1, len(X)), dtype=bool)

    def combine(token: Token, index: int, operands: list[_Part]) -> _Part:
        nonlocal all_defined
        if token.kind is Kind.CONSTANT:
            if index in fixed:
                return np.asarray(fixed[index], dtype=np.float64), {}
            return np.zeros((1, 1)), {index: np.ones((1, 1))}
        if token.kind is Kind.LITERAL:
            return np.full((1, 1), token.value), {}
        if token.kind is Kind.VARIABLE:
            return np.asarray(X[None, :, token.column]), {}
        offset, is_defined = apply_operator(token, [part[0] for part in operands])
        slopes, slopes_defined = _slopes(token, operands)
        all_defined = all_defined & is_defined & slopes_defined
        return offset, slopes

    offset, slopes = fold(expression, combine)
    return AffineForm(offset, slopes, all_defined & np.isfinite(offset))


_Part = tuple[np.ndarray, dict[int, np.ndarray]]


def _slopes(token: Token, operands: list[_Part]) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """A constant's slope: what the operator makes of its direction, less what it makes of zero in
    its place, with the other operand as it is."""
    slopes: dict[int, np.ndarray] = {}
    defined: np.ndarray = np.ones((1, 1), dtype=bool)
    for place, (_, directions) in enumerate(operands):
        for index, direction in directions.items():
            # In a sum the other operand does not matter and is left out, so that nothing cancels;
            # in a product and in a division it is what the direction is scaled by.
            nothing = np.zeros((1, 1))
            is_sum = token.linearity == "joint"
            rest = {i: nothing if is_sum else part[0] for i, part in enumerate(operands)}
            steps = []
            for moved in (direction, np.zeros((1, 1))):
                around = [moved if other == place else rest[other] for other in rest]
                value, inside = apply_operator(token, around)
                defined = defined & inside
                steps.append(value)
            slopes[index] = steps[0] - steps[1]
    return slopes, defined


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

"""The log joint of a tree, its constants and the data: what training aims at.

This is the one place where an undefined expression becomes a number. Its likelihood is zero, and
the oracle says -inf; training can't, so it is priced like an expression that is wrong at every
point by ten times the largest |y|, and by ten times the noise besides. What is learnt is then the
posterior of that target: log p(y) = ELBO + KL holds for it, and its log evidence is larger than
the true one by what the priced trees add.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dvisr.constants import AbstractConstantPrior
from dvisr.evaluation.device import Evaluator
from dvisr.likelihood import Likelihood
from dvisr.prior import TreePrior
from dvisr.problem import Problem

UNDEFINED_ERRORS = 10.0  # how wrong an undefined expression counts, in units of the largest |y|


class Target(eqx.Module):
    """One tree at a time; `vmap` it over trees."""

    evaluator: Evaluator
    X: Float[Array, "points columns"]
    likelihood: Likelihood
    tree_prior: TreePrior
    floor: Float[Array, ""]  # the log likelihood of an undefined expression
    constant_prior: AbstractConstantPrior = eqx.field(static=True)

    def log_likelihood(
        self, tokens: Int[Array, " length"], constants: Float[Array, " length"]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """The log likelihood, and whether it is that of a defined expression or the floor."""
        values, is_valid = self.evaluator(tokens, constants, self.X)
        is_valid = is_valid & self.likelihood.is_defined(jnp, values)
        # What is undefined does not count, but its slopes, NaN times zero, would be NaN.
        safe = 0.0 if self.likelihood.noise.link == "identity" else 1.0
        log_prob = self.likelihood.log_prob(jnp, jnp.where(is_valid, values, safe))
        # Too far from the data to be squared is as good as undefined.
        is_valid = is_valid & jnp.isfinite(log_prob)
        return jnp.where(is_valid, log_prob, self.floor), is_valid

    def log_prior(
        self, tokens: Int[Array, " length"], constants: Float[Array, " length"]
    ) -> Float[Array, ""]:
        is_constant = (tokens == self.evaluator.library.constant_id) & (tokens >= 0)
        of_constants = self.constant_prior.log_prob(jnp, jnp.where(is_constant, constants, 0.0))
        of_tree: Array = self.tree_prior.log_prob(jnp, tokens)
        return of_tree + jnp.where(is_constant, of_constants, 0.0).sum()

    def log_joint(
        self, tokens: Int[Array, " length"], constants: Float[Array, " length"]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        log_likelihood, is_valid = self.log_likelihood(tokens, constants)
        return log_likelihood + self.log_prior(tokens, constants), is_valid


def undefined_log_likelihood(likelihood: Likelihood) -> float:
    """What an undefined expression counts as, where that must be a number."""
    scale = np.asarray(likelihood.scale)
    y = np.asarray(likelihood.linked(np, likelihood.y))
    residuals = UNDEFINED_ERRORS * (np.abs(y).max() / scale + 1.0)
    with np.errstate(over="ignore"):
        return float(likelihood.of_residuals(np, np.broadcast_to(residuals, y.shape)))


def make_target(problem: Problem, dtype: Any = np.float64) -> Target:
    """In the precision that training is to have; float64 needs JAX's x64 mode."""

    def one(array: Any) -> Any:
        is_whole = np.issubdtype(np.asarray(array).dtype, np.integer)
        return jnp.asarray(array) if is_whole else jnp.asarray(array, dtype=dtype)

    def cast(tree: Any) -> Any:
        return jax.tree.map(one, tree)

    return Target(
        evaluator=Evaluator(problem.grammar.library),
        X=cast(problem.X),
        likelihood=cast(problem.likelihood),
        tree_prior=cast(problem.tree_prior),
        floor=cast(undefined_log_likelihood(problem.likelihood)),
        constant_prior=problem.constant_prior,
    )

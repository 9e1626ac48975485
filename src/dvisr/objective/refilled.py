"""Each tree filled several times: for policies that draw a tree's constants once it stands.

By its path gradient alone a filler that serves all trees keeps, of each tree's constants, the one
mode that it happened on, and a tree whose constants are filled badly is then given up by the
tokens. Here trees are filled by the filler and, as often, from a wide Normal. Weighted by
joint / proposal these fillings say where the constants ought to be, and how probable the tree is
whatever the filler can do yet.
"""

from __future__ import annotations

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dvisr.objective.base import AbstractObjective, StepInfo, step_info
from dvisr.objective.baselines import LeaveOneOut
from dvisr.policy import AbstractPolicy, Filler
from dvisr.sampling import AbstractDraws, ExploringDraws, StratifiedDraws, Writer, log_densities
from dvisr.target import Target

_PRACTISING = 0.9  # the share of tokens that are uniform over the legal ones, in practice


class Refilled(AbstractObjective):
    """The ELBO over trees, each with the log of its marginal likelihood as its fillings estimate
    it; and for the filler two terms: its own ELBO, by path gradients, and the cross-entropy to the
    weighted fillings (Bornschein and Bengio, 2015), which covers what the ELBO would give up.

    The second is biased, since so few fillings are weighted by their own sum: it fades out over
    the first two thirds of the steps. As it fades, the ELBO's part comes into its own. At first it
    is divided by how widely the terms of the tree scatter, because the trees that are filled worst
    would otherwise have all of the say. Some of the trees are practice for the filler, and are
    drawn almost without regard to q.
    """

    num_samples: int = eqx.field(static=True)  # fillings, of all trees together
    num_steps: int = eqx.field(static=True)
    num_fillings: int = eqx.field(static=True, default=8)  # of a tree; half from the wide Normal
    practice: float = eqx.field(static=True, default=0.5)  # the share of trees
    draws: AbstractDraws = StratifiedDraws(0.1)

    def __check_init__(self) -> None:
        if self.num_fillings < 4 or self.num_fillings % 2:
            raise ValueError(
                f"a tree needs an even number of fillings, at least 4, not {self.num_fillings}"
            )
        if not 0.0 <= self.practice < 1.0:
            raise ValueError(
                f"the share of practice must be at least 0 and below 1, not {self.practice}"
            )
        if self.num_steps < 1:
            raise ValueError(f"there must be at least 1 step, not {self.num_steps}")
        if self._num_drawn < 2:
            least = next(n for n in itertools.count(2) if n - int(self.practice * n) >= 2)
            raise ValueError(
                f"there must be at least {least * self.num_fillings} samples a step, for {least} "
                f"trees with {self.num_fillings} fillings each, not {self.num_samples}"
            )

    @property
    def _num_trees(self) -> int:
        return self.num_samples // self.num_fillings

    @property
    def _num_drawn(self) -> int:
        return self._num_trees - int(self.practice * self._num_trees)

    def with_budget(self, num_steps: int, num_samples: int) -> AbstractObjective:
        return dataclasses.replace(self, num_steps=num_steps, num_samples=num_samples)

    def start(self, policy: AbstractPolicy, writer: Writer) -> Int[Array, ""]:
        if policy.filler is None:
            raise ValueError(
                "trees can be filled anew only by a policy that writes the skeleton first, for a "
                "library with constants"
            )
        return jnp.zeros((), dtype=jnp.int32)

    def gradient(
        self,
        policy: AbstractPolicy,
        writer: Writer,
        target: Target,
        state: Int[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[AbstractPolicy, Int[Array, ""], StepInfo]:
        draw_key, practice_key, fill_key = jax.random.split(key, 3)
        num_drawn, num_trees = self._num_drawn, self._num_trees
        fading = jnp.maximum(0.0, 1.0 - 1.5 * state.astype(policy.dtype) / self.num_steps)

        def loss(policy: AbstractPolicy) -> tuple[Array, StepInfo]:
            trees = self.draws(policy, writer, num_drawn, key=draw_key)
            fixed = jax.lax.stop_gradient(trees)
            others = _practice(policy, writer, num_trees - num_drawn, practice_key)
            tokens = jnp.concatenate([fixed.tokens, others])
            keys = jax.random.split(fill_key, num_trees)
            filled = jax.vmap(
                lambda t, k: _filled(policy, writer, target, t, self.num_fillings, k)
            )(tokens, keys)

            weights = jnp.exp(fixed.log_weight)
            terms = filled.log_marginal[:num_drawn] - fixed.log_q_tree
            baseline, _ = LeaveOneOut()(None, terms, weights)
            by_tokens = (weights * (terms - baseline) * trees.log_q_tree).sum()
            path = filled.path / (1.0 + filled.deviation) ** fading
            value = by_tokens + (fading * filled.fit + path).sum()
            elbo = filled.elbo[:num_drawn] - fixed.log_q_tree
            return -value / num_trees, step_info(elbo, filled.is_valid[:num_drawn], weights)

        gradient, info = jax.grad(loss, has_aux=True)(policy)
        return gradient, state + 1, info


def _practice(
    policy: AbstractPolicy, writer: Writer, num_trees: int, key: PRNGKeyArray
) -> Int[Array, "trees length"]:
    if num_trees == 0:
        return jnp.zeros((0, writer.mask.length), dtype=jnp.int32)
    fixed = jax.lax.stop_gradient(policy)
    return ExploringDraws(_PRACTISING)(fixed, writer, num_trees, key=key).tokens


class _Filled(eqx.Module):
    """What the fillings of one tree say. Gradients flow through `fit` and `path` alone."""

    log_marginal: Float[Array, ""]  # of the tree: log of the mean of joint / proposal
    elbo: Float[Array, ""]  # its lower bound, the filler's own
    deviation: Float[Array, ""]  # of the terms that the bound is the mean of
    fit: Float[Array, ""]
    path: Float[Array, ""]
    is_valid: Bool[Array, ""]  # whether all that the filler said is defined


def _filled(
    policy: AbstractPolicy,
    writer: Writer,
    target: Target,
    tokens: Int[Array, " length"],
    num_fillings: int,
    key: PRNGKeyArray,
) -> _Filled:
    filler, head, prior = policy.filler, policy.head, target.constant_prior
    assert filler is not None
    own_key, wide_key = jax.random.split(key)
    half, length = num_fillings // 2, tokens.shape[0]
    is_constant = (tokens == writer.constant_id) & (tokens >= 0)

    def place(outputs: Array, key: PRNGKeyArray) -> Array:
        return head.path(outputs, jax.lax.stop_gradient(head.sample(outputs, key=key)))[0]

    def outputs(filler: Filler, constants: Array) -> Array:
        return filler(tokens, lambda _, value: value, constants)[1]

    def log_density(constants: Array, outputs: Array) -> Array:
        return log_densities(head, writer, tokens, constants, outputs).sum()

    def log_choices(constants: Array, outputs: Array) -> Array:
        return jnp.where(is_constant, jax.vmap(head.path)(outputs, constants)[1], 0.0).sum()

    keys = jax.random.split(own_key, (half, length))
    own, of_own = jax.vmap(lambda k: filler(tokens, place, k))(keys)
    noise = jax.random.normal(wide_key, (half, length), dtype=policy.dtype)
    wide = jnp.where(is_constant, prior.centre + prior.scale * noise, 0.0)
    joint, is_valid = jax.vmap(lambda c: target.log_joint(tokens, c))(jnp.concatenate([own, wide]))

    # As it is in `sampling.draws`: the filler's weights count through the constants alone.
    fixed_filler = jax.lax.stop_gradient(filler)
    moving = joint[:half] - jax.vmap(lambda c: log_density(c, outputs(fixed_filler, c)))(own)
    terms = jax.lax.stop_gradient(moving)
    others, _ = LeaveOneOut()(None, terms, jnp.ones_like(terms))

    both, joint = jax.lax.stop_gradient((jnp.concatenate([own, wide]), joint))
    # What is chosen for a later constant depends on the earlier ones, and these move.
    choices = jax.vmap(log_choices)(both[:half], of_own)
    log_own = jax.vmap(lambda c: log_density(c, outputs(filler, c)))(both)
    log_wide = jnp.where(is_constant, norm.logpdf(both, prior.centre, prior.scale), 0.0).sum(axis=1)
    proposal = jnp.logaddexp(jax.lax.stop_gradient(log_own), log_wide) - jnp.log(2.0)
    log_weights = joint - proposal
    return _Filled(
        log_marginal=logsumexp(log_weights) - jnp.log(float(num_fillings)),
        elbo=terms.mean(),
        deviation=terms.std(),
        fit=(jax.nn.softmax(log_weights) * log_own).sum(),
        path=(moving + (terms - others) * choices).mean(),
        is_valid=is_valid[:half].all(),
    )

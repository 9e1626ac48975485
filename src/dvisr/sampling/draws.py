"""Drawing trees from a policy: one by one, or a batch that is spread evenly over q."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dvisr.policy import AbstractPolicy, PlaceConstant
from dvisr.sampling.writing import Choices, Sample, Step, Writer, log_densities, write
from dvisr.traversal import NONE


def sample(policy: AbstractPolicy, writer: Writer, *, key: PRNGKeyArray) -> Sample:
    """One draw. Gradients flow through log q, never through what was drawn; but where a filler
    draws the constants, they do: through the constants, and through log q of the tree."""
    return draw(policy, writer, key=key)[0]


def draw(policy: AbstractPolicy, writer: Writer, *, key: PRNGKeyArray) -> tuple[Sample, Step]:
    """One draw, and what was said at each step."""
    fresh = jnp.ones((), dtype=policy.dtype)  # nothing is known of the uniform number: draw it
    return _draw(policy, writer, jnp.zeros_like(fresh), fresh, key)


def refill(
    policy: AbstractPolicy, writer: Writer, tokens: Int[Array, " length"], *, key: PRNGKeyArray
) -> Sample:
    """A given tree with its constants drawn anew, by a policy that has a filler."""
    choices = Choices(lambda _, log_probs, token: (token, None), _placing(policy))
    keys = jax.random.split(key, tokens.shape[0])
    drawn, steps = write(policy, writer, choices, tokens, keys)
    return _with_path(policy, writer, drawn, steps)


class AbstractDraws(eqx.Module):
    """How the samples of a batch are drawn. Averages over the batch, weighted by exp(log_weight),
    have the expectation that they have under q."""

    @abc.abstractmethod
    def __call__(
        self, policy: AbstractPolicy, writer: Writer, num_samples: int, *, key: PRNGKeyArray
    ) -> Sample:
        """`num_samples` of them, on a leading axis."""


class IndependentDraws(AbstractDraws):
    def __call__(
        self, policy: AbstractPolicy, writer: Writer, num_samples: int, *, key: PRNGKeyArray
    ) -> Sample:
        keys = jax.random.split(key, num_samples)
        return jax.vmap(lambda k: sample(policy, writer, key=k))(keys)


class ExploringDraws(AbstractDraws):
    """Independent draws, each token of which is uniform over the legal ones in a share of cases.

    A token whose probability has fallen below one in a few batches is never drawn, so nothing can
    raise it again, however wrong that is. Drawn from a mixture with the uniform distribution it
    stays in sight; weights q / mixture, which can't be large, keep every average that of q.
    """

    share: float = eqx.field(static=True, default=0.05)

    def __check_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share must be between 0 and 1, not {self.share}")

    def __call__(
        self, policy: AbstractPolicy, writer: Writer, num_samples: int, *, key: PRNGKeyArray
    ) -> Sample:
        keys = jax.random.split(key, num_samples)
        zero = jnp.zeros((), dtype=policy.dtype)
        one = jnp.ones((), dtype=policy.dtype)
        return jax.vmap(lambda k: _draw(policy, writer, zero, one, k, self.share)[0])(keys)


class StratifiedDraws(AbstractDraws):
    """Systematic sampling. Lay all trees end to end on the unit interval, each as long as its
    probability, in prefix order; take N points at equal distances from a random start. A tree of
    probability q comes up N q times, rounded up or down, where independent draws would scatter by
    sqrt(N q): averages over the batch stay unbiased and lose most of their noise.

    One uniform number decodes a whole tree: the part of it that the first token leaves open, scaled
    up again, decides the second, and so on. A `share` above 0 explores besides, as
    `ExploringDraws` do.
    """

    share: float = eqx.field(static=True, default=0.0)

    def __check_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"the share must be at least 0 and below 1, not {self.share}")

    def __call__(
        self, policy: AbstractPolicy, writer: Writer, num_samples: int, *, key: PRNGKeyArray
    ) -> Sample:
        start_key, samples_key = jax.random.split(key)
        start = jax.random.uniform(start_key, dtype=policy.dtype)
        points = (jnp.arange(num_samples, dtype=policy.dtype) + start) / num_samples
        grain = jnp.asarray(np.finfo(policy.dtype).eps, dtype=policy.dtype)
        keys = jax.random.split(samples_key, num_samples)
        return jax.vmap(lambda p, k: _draw(policy, writer, p, grain, k, self.share)[0])(
            points, keys
        )


def _draw(
    policy: AbstractPolicy,
    writer: Writer,
    point: Float[Array, ""],
    grain: Float[Array, ""],
    key: PRNGKeyArray,
    share: float = 0.0,
) -> tuple[Sample, Step]:
    """Decode a tree from a uniform number that is known to within `grain`; digits beyond that are
    drawn as they are needed. A grain of 1 knows nothing: every token then has a number of its own.
    A share of the probability of tokens is spread evenly over the legal ones.
    """
    token_key, constant_key = jax.random.split(key)
    length = writer.mask.length
    digits = jax.random.uniform(token_key, (length,), dtype=policy.dtype)
    has_constants = writer.constant_id >= 0
    keys = jax.random.split(constant_key, length) if has_constants else None

    def choose(chooser: Any, log_probs: Array, more: Array) -> tuple[Array, Any]:
        point, grain = chooser
        point = point + grain * more
        point = point - jnp.floor(point)
        return _decoded(_mixed(log_probs, share), point, grain)

    choices = Choices(choose, _placing(policy))
    drawn, steps = write(policy, writer, choices, digits, keys, (point, grain))
    if policy.filler is not None and has_constants:
        drawn = _with_path(policy, writer, drawn, steps)
    if share == 0.0:
        return drawn, steps
    lanes = jnp.arange(steps.log_probs.shape[1], dtype=jnp.int32)
    chosen = lanes[None, :] == drawn.tokens[:, None]
    probs = jnp.where(chosen, _mixed(steps.log_probs, share), 0.0).sum(axis=1)
    written = drawn.tokens != NONE
    log_drawn = jnp.where(written, jnp.log(jnp.where(written, probs, 1.0)), 0.0).sum()
    log_weight = jax.lax.stop_gradient(steps.log_q_token.sum()) - log_drawn
    return eqx.tree_at(lambda d: d.log_weight, drawn, log_weight), steps


def _placing(policy: AbstractPolicy) -> PlaceConstant:
    def place(outputs: Array, key: PRNGKeyArray) -> Array:
        value = jax.lax.stop_gradient(policy.head.sample(outputs, key=key))
        # Once the tree stands, nothing that is drawn later depends on a constant but others.
        return value if policy.filler is None else policy.head.path(outputs, value)[0]

    return place


def _with_path(policy: AbstractPolicy, writer: Writer, drawn: Sample, steps: Step) -> Sample:
    """Let log q of the constants depend on the filler's weights only through the constants: the
    other part of its gradient has expectation zero, and is all of the noise at the optimum."""
    choices = jax.vmap(policy.head.path)(
        steps.outputs.constant, jax.lax.stop_gradient(drawn.constants)
    )[1]
    is_constant = (drawn.tokens == writer.constant_id) & (drawn.tokens >= 0)
    chosen = jnp.where(is_constant, choices, 0.0).sum()
    fixed = jax.lax.stop_gradient(policy.filler)
    assert fixed is not None
    constants, outputs = fixed(drawn.tokens, lambda _, value: value, drawn.constants)
    densities = log_densities(policy.head, writer, drawn.tokens, constants, outputs)
    moved: Sample = eqx.tree_at(
        lambda d: (d.log_q, d.log_q_choices), drawn, (drawn.log_q_tree + densities.sum(), chosen)
    )
    return moved


def _mixed(log_probs: Float[Array, "*steps tokens"], share: float) -> Float[Array, "*steps tokens"]:
    """The probabilities with which tokens are drawn."""
    probs = jnp.exp(jax.lax.stop_gradient(log_probs))
    if share == 0.0:
        return probs
    is_legal = (log_probs > -jnp.inf).astype(probs.dtype)
    return (1.0 - share) * probs + share * is_legal / is_legal.sum(axis=-1, keepdims=True)


def _decoded(
    probs: Float[Array, " tokens"], point: Float[Array, ""], grain: Float[Array, ""]
) -> tuple[Int[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
    """The token in whose stretch of the unit interval the point lies; then the point's place in
    that stretch, and the grain as large as it looks from there.

    The token is the first at which the cumulative probability passes the point. Where rounding
    lets none pass, the first at which it is whole; a token of probability zero is neither.
    """
    cumulative = jnp.cumsum(probs)
    total = cumulative[-1]
    passes = (cumulative > point * total) | (cumulative == total)
    token = jnp.argmax(passes).astype(jnp.int32)
    chosen = jnp.arange(probs.shape[0], dtype=jnp.int32) == token
    width = jnp.where(chosen, probs, 0.0).sum() / total
    end = jnp.where(chosen, cumulative, 0.0).sum() / total
    inside = jnp.clip((point - (end - width)) / width, 0.0, 1.0)
    return token, (inside, jnp.minimum(grain / width, 1.0))

"""One scan body writes every tree, so that `sample` and `log_prob` can't disagree.

The body asks the policy for the next token under the mask, has it chosen, and writes it. Sampling
(`draws`) chooses at random, `log_prob` as it is told, and quadrature over constants (`divergence`)
is told the tokens and places the constants. Samples carry their log q, and it can be differentiated
by the policy's weights where it stands, with no second pass through the network.

A constant is placed when its token is written, or, where the policy has a filler, once the whole
tree stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constants import AbstractConstantHead
from dvisr.constraints import Grammar, masking
from dvisr.policy import AbstractPolicy, Outputs, PlaceConstant, observe
from dvisr.prior import TreePrior
from dvisr.sampling import prior_walk
from dvisr.sampling.prior_walk import PriorWalk, WalkState

UNROLLED = 4  # trees of up to so many tokens are written without a loop: faster, and soon compiled


class Writer(eqx.Module):
    """The rules of writing: the mask, which token is the constant (-1: none), and, where the
    policy's logits are added to those of the prior, the prior's walk."""

    mask: masking.Mask
    constant_id: int = eqx.field(static=True)
    walk: PriorWalk | None = None


class Sample(eqx.Module):
    """A tree, the values of its constants at their tokens' places (zero elsewhere), and log q.

    `log_weight` is log q less the log of the probability with which it was in fact drawn: zero
    unless the draws explore. `log_q_tree` is the part of log q that the tokens have; where the
    constants are drawn in between it is no probability of the tree. `log_q_choices` is the log
    probability of what was chosen in drawing the constants, where a filler drew them.
    """

    tokens: Int[Array, " length"]
    constants: Float[Array, " length"]
    log_q: Float[Array, ""]
    log_q_tree: Float[Array, ""]
    log_q_choices: Float[Array, ""]
    log_weight: Float[Array, ""]


class Step(eqx.Module):
    """What was said and done at one step; after the last token nothing more counts."""

    log_probs: Float[Array, " tokens"]  # of the tokens, -inf for those the mask forbids
    outputs: Outputs
    log_q_token: Float[Array, ""]
    log_q_constant: Float[Array, ""]  # a log density, zero where the token is no constant


def make_writer(
    grammar: Grammar, prior: TreePrior | None = None, dtype: Any = jnp.float32
) -> Writer:
    """With a prior, policies start from it: see `prior_walk`. Their slots are then those of
    `prior.slots`."""
    if prior is None:
        return Writer(masking.make_mask(grammar), grammar.library.constant_id, None)
    told, rows = prior.slots(grammar)
    walk = prior_walk.make_prior_walk(told, rows, prior, dtype)
    return Writer(masking.make_mask(told), told.library.constant_id, walk)


class _Carry(eqx.Module):
    state: masking.MaskState
    walk: WalkState | None
    constants: Float[Array, " length"]
    memory: Any
    chooser: Any


# Of the chooser's state, the log probabilities and the step's own input: a token, and the state
# after that.
Choose = Callable[[Any, Array, Any], tuple[Array, Any]]


def log_prob(
    policy: AbstractPolicy,
    writer: Writer,
    tokens: Int[Array, " length"],
    constants: Float[Array, " length"],
) -> Float[Array, ""]:
    """log q of a tree and its constants; -inf for what is no tree or one the mask forbids."""
    told = Choices(lambda _, log_probs, token: (token, None), lambda outputs, value: value)
    written, _ = write(policy, writer, told, tokens, constants)
    return jnp.where((written.tokens == tokens).all(), written.log_q, -jnp.inf)


class Choices(NamedTuple):
    """How tokens are chosen and constants placed."""

    choose: Choose
    place: PlaceConstant


def write(
    policy: AbstractPolicy,
    writer: Writer,
    choices: Choices,
    for_tokens: Any,
    for_constants: Any,
    chooser: Any = None,
) -> tuple[Sample, Step]:
    """A tree from the root on. `for_tokens` and `for_constants` have one entry a step for
    `choices`; the state of the choice of tokens starts as `chooser`."""

    def body(carry: _Carry, entry: Any) -> tuple[_Carry, Step]:
        return _write_one(policy, writer, choices, carry, entry)

    mask = writer.mask
    start = _Carry(
        state=masking.start(mask),
        walk=None if writer.walk is None else prior_walk.start(writer.walk, mask),
        constants=jnp.zeros((mask.length,), dtype=policy.dtype),
        memory=policy.start(),
        chooser=chooser,
    )
    end, steps = jax.lax.scan(
        body,
        start,
        (for_tokens, for_constants),
        length=mask.length,
        unroll=mask.length <= UNROLLED,
    )
    tokens, constants = end.state.traversal.tokens, end.constants
    if policy.filler is not None and writer.constant_id >= 0:
        constants, outputs = policy.filler(tokens, choices.place, for_constants)
        densities = log_densities(policy.head, writer, tokens, constants, outputs)
        steps = eqx.tree_at(
            lambda s: (s.outputs.constant, s.log_q_constant), steps, (outputs, densities)
        )
    is_whole = end.state.traversal.is_complete
    log_q_tree = jnp.where(is_whole, steps.log_q_token.sum(), -jnp.inf)
    log_q = log_q_tree + steps.log_q_constant.sum()
    nothing = jnp.zeros_like(log_q)
    return Sample(tokens, constants, log_q, log_q_tree, nothing, nothing), steps


def log_densities(
    head: AbstractConstantHead,
    writer: Writer,
    tokens: Int[Array, " length"],
    constants: Float[Array, " length"],
    outputs: Float[Array, "length outputs"],
) -> Float[Array, " length"]:
    """Of the constants of a tree that was filled, zero at the other places."""
    is_constant = (tokens == writer.constant_id) & (tokens >= 0)
    centres = jax.lax.stop_gradient(jax.vmap(head.centre)(outputs))
    found = jax.vmap(head.log_prob)(outputs, jnp.where(is_constant, constants, centres))
    return jnp.where(is_constant, found, 0.0)


def _write_one(
    policy: AbstractPolicy, writer: Writer, choices: Choices, carry: _Carry, entry: Any
) -> tuple[_Carry, Step]:
    for_token, for_constant = entry
    state, traversal = carry.state, carry.state.traversal
    weights = _log_weights(policy, writer, carry)
    seen = observe(state, carry.constants, writer.constant_id)
    memory, outputs = policy(carry.memory, seen)
    is_over = traversal.is_complete
    # Once the tree is complete the mask allows nothing; a softmax over nothing would be NaN.
    is_legal = masking.allowed(writer.mask, state) | is_over
    log_probs = jax.nn.log_softmax(jnp.where(is_legal, outputs.logits + weights, -jnp.inf))
    token, chooser = choices.choose(carry.chooser, log_probs, for_token)

    lanes = jnp.arange(log_probs.shape[0], dtype=token.dtype)
    # Selected rather than indexed: the gradient of a lookup is a scatter, which is slow.
    of_token = jnp.where(lanes == token, log_probs, 0.0).sum()
    in_range = (token >= 0) & (token < log_probs.shape[0])
    of_token = jnp.where(is_over, 0.0, jnp.where(in_range, of_token, -jnp.inf))
    if writer.constant_id >= 0 and policy.filler is None:
        value = choices.place(outputs.constant, for_constant)
        is_constant = (token == writer.constant_id) & ~is_over
        # A value that is not asked for can be anything; the centre keeps its gradient finite.
        centre = jax.lax.stop_gradient(policy.head.centre(outputs.constant))
        value = jnp.where(is_constant, value, centre)
        density = policy.head.log_prob(outputs.constant, value)
        of_constant = jnp.where(is_constant, density, 0.0)
        places = jnp.arange(carry.constants.shape[0], dtype=jnp.int32)
        here = (places == traversal.position) & is_constant
        constants = jnp.where(here, value, carry.constants)
    else:
        of_constant, constants = jnp.zeros_like(of_token), carry.constants
    written = jnp.where(in_range, token, 0)
    moved = _Carry(
        state=masking.step(writer.mask, state, written),
        walk=None
        if writer.walk is None or carry.walk is None
        else prior_walk.step(writer.walk, writer.mask, carry.walk, state, written),
        constants=constants,
        memory=memory,
        chooser=chooser,
    )
    return moved, Step(log_probs, outputs, of_token, of_constant)


def _log_weights(policy: AbstractPolicy, writer: Writer, carry: _Carry) -> Float[Array, " tokens"]:
    """What the prior makes of each token; nothing where the policy starts from scratch."""
    if writer.walk is None or carry.walk is None:
        return jnp.zeros(writer.mask.arities.shape, dtype=policy.dtype)
    weights = prior_walk.log_weights(writer.walk, writer.mask, carry.walk, carry.state)
    return weights.astype(policy.dtype)

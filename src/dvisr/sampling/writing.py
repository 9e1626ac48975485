"""One scan body writes every tree, so that `sample` and `log_prob` can't disagree.

The body asks the policy for the next token under the mask, has it chosen, and writes it. Sampling
(`draws`) chooses at random, `log_prob` as it is told, and quadrature over constants (`divergence`)
is told the tokens and places the constants. Samples carry their log q, and it can be differentiated
by the policy's weights where it stands, with no second pass through the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constraints import Grammar, masking
from dvisr.policy import AbstractPolicy, Outputs, observe

UNROLLED = 4  # trees of up to so many tokens are written without a loop: faster, and soon compiled


class Writer(eqx.Module):
    """The rules of writing: the mask, and which token is the constant (-1: none)."""

    mask: masking.Mask
    constant_id: int = eqx.field(static=True)


class Sample(eqx.Module):
    """A tree, the values of its constants at their tokens' places (zero elsewhere), and log q.

    `log_weight` is log q less the log of the probability with which it was in fact drawn: zero
    unless the draws explore.
    """

    tokens: Int[Array, " length"]
    constants: Float[Array, " length"]
    log_q: Float[Array, ""]
    log_weight: Float[Array, ""]


class Step(eqx.Module):
    """What was said and done at one step; after the last token nothing more counts."""

    log_probs: Float[Array, " tokens"]  # of the tokens, -inf for those the mask forbids
    outputs: Outputs
    log_q_token: Float[Array, ""]
    log_q_constant: Float[Array, ""]  # a log density, zero where the token is no constant


def make_writer(grammar: Grammar) -> Writer:
    return Writer(masking.make_mask(grammar), grammar.library.constant_id)


class _Carry(eqx.Module):
    state: masking.MaskState
    constants: Float[Array, " length"]
    memory: Any
    chooser: Any
    log_q: Float[Array, ""]


# Of the chooser's state, the log probabilities, the policy's outputs and the step's own input: a
# token, a value, and the state after that.
Choose = Callable[[Any, Array, Outputs, Any], tuple[Array, Array, Any]]


def log_prob(
    policy: AbstractPolicy,
    writer: Writer,
    tokens: Int[Array, " length"],
    constants: Float[Array, " length"],
) -> Float[Array, ""]:
    """log q of a tree and its constants; -inf for what is no tree or one the mask forbids."""
    chosen = (tokens, constants)
    written, _ = write(policy, writer, lambda _, log_probs, outputs, given: (*given, None), chosen)
    return jnp.where((written.tokens == tokens).all(), written.log_q, -jnp.inf)


def write(
    policy: AbstractPolicy, writer: Writer, choose: Choose, given: Any, chooser: Any = None
) -> tuple[Sample, Step]:
    """A tree from the root on; `given` has one entry a step for `choose`, whose state starts as
    `chooser`."""

    def body(carry: _Carry, entry: Any) -> tuple[_Carry, Step]:
        return _write_one(policy, writer, choose, carry, entry)

    mask = writer.mask
    start = _Carry(
        state=masking.start(mask),
        constants=jnp.zeros((mask.length,), dtype=policy.dtype),
        memory=policy.start(),
        chooser=chooser,
        log_q=jnp.zeros((), dtype=policy.dtype),
    )
    end, steps = jax.lax.scan(
        body, start, given, length=mask.length, unroll=mask.length <= UNROLLED
    )
    is_whole = end.state.traversal.is_complete
    log_q = jnp.where(is_whole, end.log_q, -jnp.inf)
    unweighted = jnp.zeros_like(log_q)
    return Sample(end.state.traversal.tokens, end.constants, log_q, unweighted), steps


def _write_one(
    policy: AbstractPolicy, writer: Writer, choose: Choose, carry: _Carry, entry: Any
) -> tuple[_Carry, Step]:
    state, traversal = carry.state, carry.state.traversal
    memory, outputs = policy(carry.memory, observe(traversal, carry.constants))
    is_over = traversal.is_complete
    # Once the tree is complete the mask allows nothing; a softmax over nothing would be NaN.
    is_legal = masking.allowed(writer.mask, state) | is_over
    log_probs = jax.nn.log_softmax(jnp.where(is_legal, outputs.logits, -jnp.inf))
    token, value, chooser = choose(carry.chooser, log_probs, outputs, entry)

    lanes = jnp.arange(log_probs.shape[0], dtype=token.dtype)
    # Selected rather than indexed: the gradient of a lookup is a scatter, which is slow.
    of_token = jnp.where(lanes == token, log_probs, 0.0).sum()
    in_range = (token >= 0) & (token < log_probs.shape[0])
    of_token = jnp.where(is_over, 0.0, jnp.where(in_range, of_token, -jnp.inf))
    if writer.constant_id >= 0:
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
    moved = _Carry(
        state=masking.step(writer.mask, state, jnp.where(in_range, token, 0)),
        constants=constants,
        memory=memory,
        chooser=chooser,
        log_q=carry.log_q + of_token + of_constant,
    )
    return moved, Step(log_probs, outputs, of_token, of_constant)

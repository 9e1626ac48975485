"""The tree prior, written token by token: what a policy that has learnt nothing should say.

Before each token there is a weight for every choice: the prior mass of all legal trees that begin
like this and go on with that choice. They are what a policy's logits are added to (`Writer.walk`),
so an untrained network is close to the prior, and training has only the likelihood to learn. How
many trees a choice leaves open varies over many orders of magnitude, depends on nothing but the
grammar, and is the larger part of what a network would otherwise have to find by trial.

For the slots that wait there is a vector over what the whole tree may have cost when they come to
be filled: `onward[cost]` sums the prior over all ways to fill them. A slot that joins them turns it
into a sum over the slot's subtrees, a product with that slot's matrix; a slot that is taken
up again has the vector of those below it.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dvisr.constraints import Grammar, masking
from dvisr.prior import TreePrior
from dvisr.prior.sums import Sums

MAX_CELLS = 1024  # distinct costs of a tree
MAX_ENTRIES = 2**27  # of the largest table
_TINY = 1e-37  # above what float32 rounds to zero
_LEAST = 1e-30  # no legal choice weighs less than this share: a network could never raise it


class PriorWalk(eqx.Module):
    """Costs are numbered as `MaskState.spent` is; the number past the last means: too dear."""

    by_token: Float[Array, "kind tokens cells"]  # by the cost of the choice's whole subtree (and of
    # its right sibling, where the choice settles that one's slot)
    waiting: Float[Array, "kind cells cells"]  # onward @ this: a slot of that kind waits besides
    onward: Float[Array, " cells"]  # with nothing waiting: the prior's term for a finished tree
    plus: Int[Array, "cells cells"]  # the cost after adding a cost


class WalkState(eqx.Module):
    onward: Float[Array, " cells"]
    waiting: Float[Array, "length cells"]  # `onward` below each waiting slot


def make_prior_walk(
    grammar: Grammar, rows: np.ndarray, prior: TreePrior, dtype: Any = np.float32
) -> PriorWalk:
    """`grammar` and `rows` are what `prior.slots` gives: slot states that know what the prior looks
    at."""
    budget, tables = grammar.budget, grammar.tables
    cells = list(itertools.product(*(range(most + 1) for most in budget.maximum)))
    if len(cells) > MAX_CELLS:
        raise ValueError(
            f"these count rules give a tree {len(cells)} distinct costs, and the prior walk can "
            f"have {MAX_CELLS}: lower max_tokens or drop a count rule"
        )
    if grammar.scopes.num_states * len(cells) ** 2 > MAX_ENTRIES:
        raise ValueError(
            "the prior walk needs tables too large for these rules and this prior: lower "
            "max_tokens or drop a count rule"
        )
    numbers = {cell: number for number, cell in enumerate(cells)}  # size first, as `Sums` has it
    plus = np.full((len(cells), len(cells)), len(cells), dtype=np.int32)
    for (i, one), (j, two) in itertools.product(enumerate(cells), repeat=2):
        total = tuple(a + b for a, b in zip(one, two, strict=True))
        plus[i, j] = numbers.get(total, len(cells))

    log_token = np.asarray(prior.log_token, dtype=np.float64)[rows]
    of_root, log_unit = Sums(grammar, log_token).of_root()
    # A factor for each token, so that sums over trees of different sizes are alike. It cancels;
    # float32 would overflow without it.
    sizes = np.flatnonzero(np.isfinite(log_unit))
    growth = np.ptp(log_unit[sizes]) / max(1, np.ptp(sizes)) if len(sizes) > 1 else 0.0
    growth = math.copysign(growth, log_unit[sizes[-1]] - log_unit[sizes[0]])
    units = np.where(np.isfinite(log_unit), log_unit - growth * np.arange(len(log_unit)), -np.inf)
    of_root = of_root * np.exp(units)[:, None]
    of_root = of_root.reshape(*of_root.shape[:2], len(cells))

    shifts = _shifts(of_root.sum(axis=1), plus)  # (state, cells, cells)
    states = np.asarray(tables.root_state)
    by_token = of_root[states]
    for kind, token in np.argwhere(_settles(grammar)):
        beside = states[tables.right_kind[kind, token]]
        by_token[kind, token] = by_token[kind, token] @ shifts[beside]
    spent = np.array([cell[0] for cell in cells])
    log_onward = np.asarray(prior.log_size, dtype=np.float64)[spent] + spent * growth
    log_onward[[not budget.fits(cell) for cell in cells]] = -np.inf
    return PriorWalk(
        by_token=jax.device_put(by_token.astype(dtype)),  # cast on the host, which compiles nothing
        waiting=jax.device_put(shifts[states].transpose(0, 2, 1).astype(dtype)),
        onward=jax.device_put(np.exp(log_onward - log_onward.max()).astype(dtype)),
        plus=jax.device_put(plus),
    )


def _shifts(of_state: np.ndarray, plus: np.ndarray) -> np.ndarray:
    """Matrices S with (p @ S)[c + r] += p[c] w[r]: adding an independent subtree's cost."""
    num_states, num_cells = of_state.shape
    shifts = np.zeros((num_states, num_cells, num_cells + 1))
    rows = np.repeat(np.arange(num_cells), num_cells)
    for state in range(num_states):
        np.add.at(shifts[state], (rows, plus.reshape(-1)), np.tile(of_state[state], num_cells))
    return shifts[:, :, :-1]


def _settles(grammar: Grammar) -> np.ndarray:
    """Where a slot of that kind is a left operand's, and the token is one it can hold."""
    scopes, tables = grammar.scopes, grammar.tables
    settles: np.ndarray = scopes.allowed[tables.root_state] & tables.is_left[:, None]
    return settles


def start(walk: PriorWalk, mask: masking.Mask) -> WalkState:
    nothing = jnp.zeros((mask.length, walk.onward.shape[0]), dtype=walk.onward.dtype)
    return WalkState(walk.onward, nothing)


def log_weights(
    walk: PriorWalk, mask: masking.Mask, state: WalkState, written: masking.MaskState
) -> Float[Array, " tokens"]:
    """Of each choice, up to a common term; finite for every token, legal or not."""
    padded = jnp.append(state.onward, jnp.zeros((1,), dtype=state.onward.dtype))
    weights = walk.by_token[written.kind] @ padded[walk.plus[written.spent]]
    share = weights / jnp.maximum(weights.sum(), _TINY)
    return jnp.log(jnp.maximum(share, _LEAST))


def step(
    walk: PriorWalk,
    mask: masking.Mask,
    state: WalkState,
    written: masking.MaskState,
    token: Int[Array, ""],
) -> WalkState:
    """After a token was chosen; `written` is the mask's state before it. The same moves as
    `masking.step` makes with its `rest`."""
    before = written.traversal
    safe = jnp.maximum(token, 0)
    top = before.num_waiting - 1
    here = jnp.arange(mask.length, dtype=jnp.int32)[:, None] == top
    waiting = jnp.where(here & before.is_left, state.onward[None, :], state.waiting)
    joined = state.onward @ walk.waiting[mask.right_kind[written.kind, safe]]
    # Only ratios within the vector count. Its size would shrink with every slot that waits.
    joined = joined / jnp.maximum(joined.max(), _TINY)
    onward = jnp.where(before.is_left, joined, state.onward)
    below = jnp.where(here, waiting, 0.0).sum(axis=0)
    is_operator = mask.arities[safe] > 0
    return WalkState(jnp.where(is_operator, onward, below), waiting)

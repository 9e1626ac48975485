"""A real sampling trace, told step by step."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dvisr.constraints import Grammar, masking
from dvisr.plots import TraceStep
from dvisr.policy import AbstractPolicy, Observation, observe
from dvisr.sampling import Sample, Step, Writer, draw
from dvisr.traversal import NONE

_DRAWS = 4000
_POINTS = 201
_WIDTHS = 4.0  # the constant's density is drawn over so many scales to both sides


def trace(policy: AbstractPolicy, writer: Writer, grammar: Grammar) -> list[TraceStep]:
    """The first draw, over keys 0, 1, 2 ..., that is as large as can be, with a constant if the
    library has one. Failing that, the first as large as any."""
    keys = jax.vmap(jax.random.key)(jnp.arange(_DRAWS, dtype=jnp.uint32))
    drawn, steps = _draws(policy, writer, keys)
    tokens = np.asarray(drawn.tokens)
    sizes = (tokens >= 0).sum(axis=1)
    constant = grammar.library.constant_id
    has_constant = ((tokens == constant) & (tokens >= 0)).any(axis=1)
    first = int(np.argmax(2 * sizes + has_constant))
    one: tuple[Sample, Step] = jax.tree.map(lambda a: a[first], (drawn, steps))
    return _told(policy, grammar, *one)


@eqx.filter_jit
def _draws(policy: AbstractPolicy, writer: Writer, keys: jax.Array) -> tuple[Sample, Step]:
    return jax.vmap(lambda key: draw(policy, writer, key=key))(keys)


def _told(policy: AbstractPolicy, grammar: Grammar, drawn: Sample, steps: Step) -> list[TraceStep]:
    library, told = grammar.library, []
    mask = masking.make_mask(grammar)
    state = masking.start(mask)
    written = np.asarray(drawn.tokens)
    for i, token in enumerate(written[written != NONE]):
        seen = observe(state, drawn.constants, library.constant_id)
        outputs = jax.tree.map(lambda a: a[i], steps.outputs)  # noqa: B023
        is_constant = int(token) == library.constant_id
        parent = int(state.traversal.parent)
        told.append(
            TraceStep(
                inputs=_inputs(grammar, seen),
                probabilities=np.exp(np.asarray(steps.log_probs[i])),
                constants=_density(policy, outputs.constant) if library.has_constants else None,
                token=int(token),
                value=float(drawn.constants[i]) if is_constant else None,
                parent=None if parent == NONE else parent,
            )
        )
        state = masking.step(mask, state, drawn.tokens[i])
    return told


def _inputs(grammar: Grammar, seen: Observation) -> tuple[tuple[str, str], ...]:
    """What the network is shown; "-" and 0 stand for vectors of zeros."""
    tokens = [("previous", seen.previous), ("parent", seen.parent), ("sibling", seen.sibling)]
    rows = [
        (name, "-" if int(token_id) == NONE else grammar.library[int(token_id)].name)
        for name, token_id in tokens
    ]
    if grammar.library.has_constants:
        values = [
            ("value of previous", seen.previous_constant),
            ("value of sibling", seen.sibling_constant),
        ]
        rows += [(name, f"{float(value):.3g}") for name, value in values]
    return tuple(rows)


def _density(policy: AbstractPolicy, outputs: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    centre, scale = float(policy.head.centre(outputs)), float(policy.head.scale(outputs))
    values = np.linspace(centre - _WIDTHS * scale, centre + _WIDTHS * scale, _POINTS)
    log_density = jax.vmap(policy.head.log_prob, in_axes=(None, 0))(outputs, jnp.asarray(values))
    return values, np.exp(np.asarray(log_density))

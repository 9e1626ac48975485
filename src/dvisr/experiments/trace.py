"""A real sampling trace, told step by step."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.constraints import Grammar
from dvisr.plots import TraceStep
from dvisr.policy import AbstractPolicy, observe
from dvisr.sampling import Sample, Step, Writer, draw
from dvisr.traversal import NONE, TraversalState, start, step

_POINTS = 201
_WIDTHS = 4.0  # the constant's density is drawn over so many scales to both sides


def trace(policy: AbstractPolicy, writer: Writer, grammar: Grammar) -> list[TraceStep]:
    """The first draw, over keys 0, 1, 2 ..., that is as large as can be; with a constant, if the
    library has one."""
    wanted = grammar.library.constant_id
    for number in itertools.count():
        drawn, steps = draw(policy, writer, key=jax.random.key(number))
        tokens = np.asarray(drawn.tokens)
        if (tokens >= 0).all() and (wanted < 0 or wanted in tokens):
            return _told(policy, grammar, drawn, steps)
    raise AssertionError("unreachable")


def _told(policy: AbstractPolicy, grammar: Grammar, drawn: Sample, steps: Step) -> list[TraceStep]:
    library, told = grammar.library, []
    state: TraversalState = start(grammar.max_tokens)
    for i, token in enumerate(np.asarray(drawn.tokens)):
        seen = observe(state, drawn.constants)
        outputs = jax.tree.map(lambda a: a[i], steps.outputs)  # noqa: B023
        is_constant = int(token) == library.constant_id
        parent = int(state.parent)
        told.append(
            TraceStep(
                inputs=tuple(
                    (name, _named(grammar, int(token_id), float(value)))
                    for name, token_id, value in [
                        ("previous", seen.previous, seen.previous_constant),
                        ("parent", seen.parent, jnp.zeros(())),
                        ("sibling", seen.sibling, seen.sibling_constant),
                    ]
                ),
                probabilities=np.exp(np.asarray(steps.log_probs[i])),
                constants=_density(policy, outputs.constant) if library.has_constants else None,
                token=int(token),
                value=float(drawn.constants[i]) if is_constant else None,
                parent=None if parent == NONE else parent,
            )
        )
        state = step(state, drawn.tokens[i], jnp.asarray(library.arities))
    return told


def _named(grammar: Grammar, token_id: int, value: float) -> str:
    if token_id == NONE:
        return "-"
    name = grammar.library[token_id].name
    return f"{name} = {value:.3f}" if token_id == grammar.library.constant_id else name


def _density(policy: AbstractPolicy, outputs: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    centre, scale = float(policy.head.centre(outputs)), float(policy.head.scale(outputs))
    values = np.linspace(centre - _WIDTHS * scale, centre + _WIDTHS * scale, _POINTS)
    log_density = jax.vmap(policy.head.log_prob, in_axes=(None, 0))(outputs, jnp.asarray(values))
    return values, np.exp(np.asarray(log_density))

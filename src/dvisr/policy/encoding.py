"""What of an observation a network is given, as a vector."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constraints import Grammar
from dvisr.policy.base import Observation, Place

_FAINT = 0.1  # log weights run to -70: scaled to the size of the other inputs


class AbstractEncoder(eqx.Module):
    num_inputs: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, observation: Observation, dtype: Any) -> Float[Array, " inputs"]: ...


class PaperInputs(AbstractEncoder):
    """The paper's: the previous, the parent's and the sibling's token, one-hot, and, if there are
    constants at all, the values of the previous and the sibling."""

    num_inputs: int = eqx.field(static=True)
    num_tokens: int = eqx.field(static=True)
    has_constants: bool = eqx.field(static=True)

    @classmethod
    def create(cls, grammar: Grammar) -> PaperInputs:
        library = grammar.library
        num_inputs = 3 * len(library) + (2 if library.has_constants else 0)
        return cls(num_inputs, len(library), library.has_constants)

    def __call__(self, observation: Observation, dtype: Any) -> Float[Array, " inputs"]:
        # one_hot(NONE) is a vector of zeros: a missing parent or sibling, and the first step.
        tokens = [observation.previous, observation.parent, observation.sibling]
        parts = [jax.nn.one_hot(token, self.num_tokens, dtype=dtype) for token in tokens]
        if self.has_constants:
            values = [observation.previous_constant, observation.sibling_constant]
            parts.append(jnp.stack(values))
        return jnp.concatenate(parts)


class PlaceInputs(AbstractEncoder):
    """The paper's, and the place: what the masks depend on, one-hot where it is a number of
    tokens, so that the network need not count."""

    num_inputs: int = eqx.field(static=True)
    paper: PaperInputs
    max_tokens: int = eqx.field(static=True)
    num_kinds: int = eqx.field(static=True)
    num_constants: int = eqx.field(static=True)  # the most that a tree can have

    @classmethod
    def create(cls, grammar: Grammar) -> PlaceInputs:
        paper = PaperInputs.create(grammar)
        length = grammar.max_tokens
        num_kinds = len(grammar.tables.root_state)
        num_constants = (length + 1) // 2 if grammar.library.has_constants else 0
        extra = length + (length + 1) // 2 + length + num_kinds + num_constants
        extra += 2 * length + len(grammar.library)
        return cls(paper.num_inputs + extra, paper, length, num_kinds, num_constants)

    def __call__(self, observation: Observation, dtype: Any) -> Float[Array, " inputs"]:
        place: Place = observation.place
        length = self.max_tokens
        counts: list[tuple[Int[Array, ""], int]] = [
            (place.num_spare, length),
            (place.num_open - 1, (length + 1) // 2),
            (place.depth, length),
            (place.kind, self.num_kinds),
            (place.num_constants - 1, self.num_constants),
            (place.parent_position, length),
            (place.sibling_size - 1, length),
        ]
        parts = [jax.nn.one_hot(number, size, dtype=dtype) for number, size in counts if size]
        weights = _FAINT * place.log_weights.astype(dtype)
        return jnp.concatenate([self.paper(observation, dtype), *parts, weights])

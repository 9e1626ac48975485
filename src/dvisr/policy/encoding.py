"""What of an observation a network is given, as a vector."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dvisr.constraints import Grammar
from dvisr.policy.base import Observation


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
    """The paper's, and the state that the masks depend on: tokens left beyond the open slots, open
    slots, depth, the slot's scope flags, constants written. One-hot, so that the network need not
    count."""

    num_inputs: int = eqx.field(static=True)
    paper: PaperInputs
    max_tokens: int = eqx.field(static=True)
    num_kinds: int = eqx.field(static=True)
    most_constants: int = eqx.field(static=True)  # that a tree can have

    @classmethod
    def create(cls, grammar: Grammar) -> PlaceInputs:
        paper = PaperInputs.create(grammar)
        length = grammar.max_tokens
        num_kinds = len(grammar.tables.root_state)
        most_constants = (length + 1) // 2 if grammar.library.has_constants else 0
        extra = 2 * length + (length + 1) // 2 + num_kinds + most_constants
        return cls(paper.num_inputs + extra, paper, length, num_kinds, most_constants)

    def __call__(self, observation: Observation, dtype: Any) -> Float[Array, " inputs"]:
        place, length = observation.place, self.max_tokens
        counts: list[tuple[Int[Array, ""], int]] = [
            (place.num_spare, length),
            (place.num_open - 1, (length + 1) // 2),
            (place.depth, length),
            (place.kind, self.num_kinds),
            (place.num_constants - 1, self.most_constants),
        ]
        parts = [jax.nn.one_hot(number, size, dtype=dtype) for number, size in counts if size]
        return jnp.concatenate([self.paper(observation, dtype), *parts])


class TreeInputs(AbstractEncoder):
    """Besides the place, what the tree knows: how many of each token the left sibling's subtree
    has, and where in the tree the parent stands."""

    num_inputs: int = eqx.field(static=True)
    place: PlaceInputs

    @classmethod
    def create(cls, grammar: Grammar) -> TreeInputs:
        place = PlaceInputs.create(grammar)
        extra = grammar.max_tokens + len(grammar.library)
        return cls(place.num_inputs + extra, place)

    def __call__(self, observation: Observation, dtype: Any) -> Float[Array, " inputs"]:
        seen, num_tokens = observation.place, self.place.paper.num_tokens
        words = jax.nn.one_hot(seen.tokens, num_tokens, dtype=dtype)
        sibling = jnp.where(seen.is_in_sibling[:, None], words, 0.0).sum(axis=0)
        parent = jax.nn.one_hot(seen.parent_position, self.place.max_tokens, dtype=dtype)
        return jnp.concatenate([self.place(observation, dtype), sibling, parent])

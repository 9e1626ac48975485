"""What it takes to make a policy, whatever the grammar."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from jaxtyping import PRNGKeyArray

from dvisr.constants import AbstractConstantHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.policy import (
    AbstractPolicy,
    GRUPolicy,
    PaperInputs,
    PlaceInputs,
    TransformerPolicy,
    TreeInputs,
)


class PolicySpec(Protocol):
    """What it takes to make a policy for any grammar."""

    def create(self, grammar: Grammar, dtype: Any, *, key: PRNGKeyArray) -> AbstractPolicy: ...

    @property
    def work(self) -> float:
        """About how many multiplications a token takes."""


@dataclasses.dataclass(frozen=True)
class GRUSpec:
    hidden_size: int
    num_layers: int = 1
    inputs: type[PaperInputs | PlaceInputs | TreeInputs] = PaperInputs
    skeleton_first: bool = False
    head: AbstractConstantHead = dataclasses.field(default_factory=NormalHead)

    def create(self, grammar: Grammar, dtype: Any, *, key: PRNGKeyArray) -> GRUPolicy:
        return GRUPolicy.create(
            grammar,
            self.hidden_size,
            key=key,
            num_layers=self.num_layers,
            encoder=self.inputs.create(grammar),
            head=self.head,
            skeleton_first=self.skeleton_first,
            dtype=dtype,
        )

    @property
    def work(self) -> float:
        return 6.0 * self.num_layers * self.hidden_size**2


@dataclasses.dataclass(frozen=True)
class TransformerSpec:
    width: int
    num_layers: int = 2
    num_heads: int = 4
    skeleton_first: bool = False
    head: AbstractConstantHead = dataclasses.field(default_factory=NormalHead)

    def create(self, grammar: Grammar, dtype: Any, *, key: PRNGKeyArray) -> TransformerPolicy:
        return TransformerPolicy.create(
            grammar,
            self.width,
            key=key,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            head=self.head,
            skeleton_first=self.skeleton_first,
            dtype=dtype,
        )

    @property
    def work(self) -> float:
        return 12.0 * self.num_layers * self.width**2

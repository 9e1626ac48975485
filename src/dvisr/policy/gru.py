"""The recurrent policy: the paper's at its smallest; beyond it depth, and constants last."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dvisr.constants import AbstractConstantHead
from dvisr.constraints import Grammar
from dvisr.policy.base import AbstractPolicy, Observation, Outputs
from dvisr.policy.cell import GRUCell
from dvisr.policy.encoding import AbstractEncoder, PaperInputs
from dvisr.policy.filling import Filler, for_constants


class GRUPolicy(AbstractPolicy):
    """Cells on top of each other (the paper has one), a layer for tokens, one for constants.

    Without the constant token, and where a filler draws the constants, there are no outputs for
    them.
    """

    cells: tuple[GRUCell, ...]
    token_layer: eqx.nn.Linear
    constant_layer: eqx.nn.Linear | None
    filler: Filler | None
    head: AbstractConstantHead
    encoder: AbstractEncoder

    @classmethod
    def create(
        cls,
        grammar: Grammar,
        hidden_size: int,
        *,
        key: PRNGKeyArray,
        num_layers: int = 1,
        encoder: AbstractEncoder | None = None,
        head: AbstractConstantHead | None = None,
        skeleton_first: bool = False,
        dtype: Any = jnp.float32,
    ) -> GRUPolicy:
        if hidden_size < 1 or num_layers < 1:
            raise ValueError(
                f"a GRU needs at least 1 layer of at least 1 hidden unit, not {num_layers} of "
                f"{hidden_size}"
            )
        encoder = PaperInputs.create(grammar) if encoder is None else encoder
        cell_key, token_key, constant_key = jax.random.split(key, 3)
        keys = [cell_key] if num_layers == 1 else list(jax.random.split(cell_key, num_layers))
        constants = for_constants(
            grammar, hidden_size, head, skeleton_first, dtype, key=constant_key
        )
        sizes = [encoder.num_inputs, *[hidden_size] * (num_layers - 1)]
        return cls(
            cells=tuple(
                GRUCell(size, hidden_size, dtype, key=k)
                for size, k in zip(sizes, keys, strict=True)
            ),
            # Equinox's Linear has PyTorch's default initialisation: uniform in ±1/sqrt(inputs).
            token_layer=eqx.nn.Linear(
                hidden_size, len(grammar.library), dtype=dtype, key=token_key
            ),
            constant_layer=constants.layer,
            filler=constants.filler,
            head=constants.head,
            encoder=encoder,
        )

    @property
    def dtype(self) -> Any:
        return self.cells[0].hidden_weight.dtype

    def start(self) -> Float[Array, "layers hidden"]:
        hidden_size = self.cells[0].hidden_weight.shape[1]
        return jnp.zeros((len(self.cells), hidden_size), dtype=self.dtype)

    def __call__(
        self, memory: Float[Array, "layers hidden"], observation: Observation
    ) -> tuple[Float[Array, "layers hidden"], Outputs]:
        signal = self.encoder(observation, self.dtype)
        remembered = []
        for cell, hidden in zip(self.cells, memory, strict=True):
            signal = cell(signal, hidden)
            remembered.append(signal)
        if self.constant_layer is None:
            constant = jnp.zeros((self.head.num_outputs,), dtype=self.dtype)
        else:
            constant = self.constant_layer(signal)
        return jnp.stack(remembered), Outputs(self.token_layer(signal), constant)

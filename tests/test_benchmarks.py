"""The plain loop that speed is measured against draws from the same distribution."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.plain_loop import PlainSampler, log_likelihood

from dvisr.experiments.paper import scaling
from dvisr.policy import GRUPolicy
from dvisr.sampling import log_prob, make_writer
from dvisr.target import make_target


def test_the_plain_loop_says_the_same() -> None:
    problem = scaling(7).problem
    plain = PlainSampler(8, 7)
    policy = GRUPolicy.create(problem.grammar, 8, key=jax.random.key(0), dtype=jnp.float64)
    cell = policy.cells[0]
    policy = eqx.tree_at(
        lambda p: (
            p.cells[0].input_weight,
            p.cells[0].hidden_weight,
            p.cells[0].input_bias,
            p.cells[0].hidden_bias,
            p.token_layer.weight,
            p.token_layer.bias,
        ),
        policy,
        [jnp.asarray(part) for part in (*plain.cell, *plain.head)],
    )
    assert cell.input_weight.shape == plain.cell[0].shape
    writer = make_writer(problem.grammar)
    target = make_target(problem, np.float64)
    zeros = jnp.zeros(7)
    found = jax.jit(
        lambda t: (log_prob(policy, writer, t, zeros), target.log_likelihood(t, zeros)[0])
    )
    sizes = set()
    for _ in range(40):
        tokens, log_q = plain.sample()
        sizes.add(len(tokens))
        padded = jnp.asarray(tokens + [-1] * (7 - len(tokens)), jnp.int32)
        ours, ours_likelihood = found(padded)
        assert float(ours) == pytest.approx(log_q, abs=1e-11)
        assert float(ours_likelihood) == pytest.approx(log_likelihood(tokens), abs=1e-11)
    assert len(sizes) > 3

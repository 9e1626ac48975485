"""What every implementation of an interface must hold to."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

from dvisr.constants import AbstractConstantHead
from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.policy import AbstractPolicy
from dvisr.sampling import IndependentDraws, log_prob, make_writer, sample

FALSE_ALARM = 2e-5


def check_head(head: AbstractConstantHead) -> None:
    """A proper density that samples fit, with finite slopes wherever a network may stray."""
    for number in range(4):
        key = jax.random.key(number)
        outputs = 1.5 * jax.random.normal(key, (head.num_outputs,), dtype=jnp.float64)
        centre, scale = float(head.centre(outputs)), float(head.scale(outputs))
        assert np.isfinite(centre)
        assert scale > 0.0
        log_density = jax.jit(lambda v, o=outputs: head.log_prob(o, v))

        def density(value: float, f: Any = log_density) -> float:
            return float(np.exp(f(jnp.asarray(value))))

        # In units of the scale around the centre: this is what quadrature relies on.
        edges = [-np.inf, centre - 4 * scale, centre, centre + 4 * scale, np.inf]
        mass = sum(integrate.quad(density, *edge)[0] for edge in itertools.pairwise(edges))
        assert abs(mass - 1.0) < 1e-7
        middle = integrate.quad(density, centre - 20 * scale, centre + 20 * scale, limit=200)[0]
        assert middle > 0.9

        keys = jax.random.split(key, 4000)
        drawn = np.asarray(jax.vmap(lambda k, o=outputs: head.sample(o, key=k))(keys))
        fine = _fine(drawn, centre, scale)
        heights = np.exp(np.asarray(jax.vmap(log_density)(jnp.asarray(fine))))
        left = integrate.quad(density, -np.inf, float(fine[0]))[0]
        cumulative = left + integrate.cumulative_trapezoid(heights, fine, initial=0)
        ranks = np.interp(drawn, fine, cumulative)
        assert stats.kstest(ranks, stats.uniform.cdf).pvalue > FALSE_ALARM

        moved, choice = head.path(outputs, jnp.asarray(centre + 0.3 * scale))
        assert abs(float(moved) - (centre + 0.3 * scale)) < 1e-12 * max(1.0, abs(centre), scale)
        assert float(choice) <= 0.0

        slopes = jax.jacobian(lambda o, v: head.log_prob(o, v))(outputs, jnp.asarray(centre))
        assert np.isfinite(slopes).all()
    for far in (-30.0, 30.0):
        outputs = jnp.full((head.num_outputs,), far)
        slopes = jax.jacobian(head.log_prob)(outputs, head.centre(outputs))
        assert np.isfinite(slopes).all()


def _fine(drawn: np.ndarray, centre: float, scale: float) -> np.ndarray:
    """Points close enough together for the trapezoidal rule, over all that was drawn."""
    inner = np.linspace(centre - 12 * scale, centre + 12 * scale, 20_001)
    return np.unique(np.concatenate([inner, drawn]))


def check_policy(policy: AbstractPolicy, grammar: Grammar) -> None:
    """A distribution over the grammar's trees, drawn from as it says, with finite slopes."""
    writer = make_writer(grammar)
    trees = enumerate_trees(grammar)
    constant = grammar.library.constant_id
    drawn = IndependentDraws()(policy, writer, 2000, key=jax.random.key(7))
    assert drawn.log_q.dtype == drawn.constants.dtype == policy.dtype
    legal = {tuple(tree) for tree in trees.tolist()}
    assert {tuple(tokens) for tokens in np.asarray(drawn.tokens).tolist()} <= legal
    is_constant = (np.asarray(drawn.tokens) == constant) & (np.asarray(drawn.tokens) >= 0)
    assert (np.asarray(drawn.constants)[~is_constant] == 0.0).all()
    again = jax.vmap(lambda t, c: log_prob(policy, writer, t, c))(drawn.tokens, drawn.constants)
    np.testing.assert_allclose(again, drawn.log_q, rtol=1e-12, atol=1e-12)
    if constant < 0:
        total = jax.vmap(lambda t: log_prob(policy, writer, t, jnp.zeros(t.shape, policy.dtype)))(
            jnp.asarray(trees, jnp.int32)
        )
        assert abs(float(jnp.exp(total).sum()) - 1.0) < 1e-12
    slopes = eqx.filter_grad(lambda p: sample(p, writer, key=jax.random.key(3)).log_q)(policy)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))

"""The log joint under jit is the oracle's, tree by tree; what is undefined has its price."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.enumeration import enumerate_trees
from tests.divergence.test_identity import WITHOUT, floor, host_log_joint
from tests.problems import small


@pytest.mark.parametrize("name", WITHOUT)
def test_it_is_the_oracles(name: str) -> None:
    case = WITHOUT[name]
    trees = enumerate_trees(case.problem.grammar)
    found, _ = jax.vmap(lambda t: case.target.log_joint(t, jnp.zeros(t.shape)))(
        jnp.asarray(trees, jnp.int32)
    )
    np.testing.assert_allclose(found, host_log_joint(case, trees), rtol=1e-12, atol=1e-10)


def test_the_prior_of_constants_is_counted_once_for_each() -> None:
    case = small(("+", "*"), constants=True, max_tokens=5, constraints="none")
    library = case.problem.grammar.library
    plus, c, x = library.find("+"), library.constant_id, library.find("x0")
    tokens = jnp.asarray([plus, plus, c, x, c], jnp.int32)
    constants = jnp.asarray([9.0, 9.0, 0.5, 9.0, -1.5])
    found = float(case.target.log_prior(tokens, constants))
    prior = case.problem.constant_prior
    expected = case.problem.tree_prior.log_prob(np, np.asarray(tokens)) + sum(
        prior.log_prob(np, np.array([0.5, -1.5]))
    )
    assert found == pytest.approx(float(expected), abs=1e-12)


def test_too_far_to_be_squared_is_priced_too() -> None:
    case = small(("exp", "*"), max_tokens=5, constraints="none", noise=1e-3)
    far = small(("exp",), max_tokens=4, constraints="none", low=0.0)
    assert np.isfinite(float(case.target.floor))
    library = far.problem.grammar.library
    exp, x = library.find("exp"), library.find("x0")
    tokens = jnp.asarray([exp, exp, exp, x], jnp.int32)  # 2e6 at 1: defined
    value, is_valid = far.target.log_likelihood(tokens, jnp.zeros(4))
    assert is_valid
    assert value < floor(far)
    tower = small(("exp",), max_tokens=6, constraints="none", low=0.0)
    tokens = jnp.asarray([exp, exp, exp, exp, exp, x], jnp.int32)  # overflows
    value, is_valid = tower.target.log_likelihood(tokens, jnp.zeros(6))
    assert not is_valid
    assert float(value) == pytest.approx(floor(tower))


@pytest.mark.parametrize("noise", [1.0, "infer"])
def test_what_is_undefined_has_no_slope(noise: float | str) -> None:
    """Undefined at some points and not at others: a constant moves nothing, rather than NaN."""
    case = small(("+", "log"), constants=True, max_tokens=4, constraints="none", noise=noise)
    library = case.problem.grammar.library
    log, plus = library.find("log"), library.find("+")
    tokens = jnp.asarray([log, plus, library.find("x0"), library.constant_id], jnp.int32)

    def likelihood(value: float) -> jax.Array:
        constants = jnp.zeros(4).at[3].set(value)
        found: jax.Array = jax.grad(lambda c: case.target.log_likelihood(tokens, c)[0])(constants)
        return found

    np.testing.assert_array_equal(likelihood(-0.5), 0.0)
    assert float(jnp.abs(likelihood(0.5)[3])) > 0.01

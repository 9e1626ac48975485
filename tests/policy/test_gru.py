"""The paper's network against a second implementation, and PyTorch's initialisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dvisr.constraints import Constraints, Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.policy import GRUPolicy
from dvisr.sampling import log_prob, make_writer
from tests import reference_network
from tests.contracts import FALSE_ALARM, check_policy
from tests.marks import quick_only

GRAMMARS: dict[str, tuple[list[str], bool, int, Constraints]] = {
    "simple": (["+", "*", "sin"], False, 5, "paper"),
    "constants": (["+", "*", "cos"], True, 5, "paper"),
    "inverses": (["-", "exp", "log", "2"], False, 5, "default"),
    "free": (["^", "neg"], True, 4, "none"),
}


def make(name: str, hidden_size: int = 6) -> tuple[Grammar, GRUPolicy]:
    operators, constants, size, constraints = GRAMMARS[name]
    library = Library.create(operators, ["x0"], constants=constants)
    grammar = Grammar(library, size, constraints)
    policy = GRUPolicy.create(grammar, hidden_size, key=jax.random.key(1), dtype=jnp.float64)
    # Weights as large as training makes them, so that an input that is off would show.
    policy = jax.tree.map(lambda a: 4.0 * a, policy)
    return grammar, policy


@pytest.mark.parametrize("name", GRAMMARS)
def test_log_q_is_that_of_the_second_implementation(name: str) -> None:
    grammar, policy = make(name)
    library, writer = grammar.library, make_writer(grammar)
    trees = enumerate_trees(grammar)
    legal = {tuple(int(t) for t in tree[tree >= 0]) for tree in trees}
    rng = np.random.default_rng(0)
    values = np.where(trees == library.constant_id, rng.normal(size=trees.shape), 0.0)
    values = np.where(trees >= 0, values, 0.0)
    found = jax.jit(jax.vmap(lambda t, c: log_prob(policy, writer, t, c)))(
        jnp.asarray(trees, jnp.int32), jnp.asarray(values)
    )
    chosen = rng.choice(len(trees), size=min(60, len(trees)), replace=False)
    for row in chosen:
        tokens = [int(t) for t in trees[row][trees[row] >= 0]]
        expected = reference_network.log_q(policy, library, legal, tokens, values[row])
        assert found[row] == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("name", quick_only(GRAMMARS, "constants"))
def test_contract(name: str) -> None:
    grammar, policy = make(name)
    check_policy(policy, grammar)


def test_initialisation_is_pytorchs() -> None:
    """Uniform in ±1/sqrt(hidden), biases too, two for each gate; nothing else."""
    library = Library.create(["+", "*", "cos"], ["x0"], constants=True)
    hidden = 64
    grammar = Grammar(library, 3, "paper")
    policy = GRUPolicy.create(grammar, hidden, key=jax.random.key(0), dtype=jnp.float64)
    (cell,) = policy.cells
    assert cell.input_weight.shape == (3 * hidden, 3 * len(library) + 2)
    assert cell.hidden_weight.shape == (3 * hidden, hidden)
    assert cell.input_bias.shape == cell.hidden_bias.shape == (3 * hidden,)
    assert policy.token_layer.weight.shape == (len(library), hidden)
    assert policy.constant_layer is not None
    assert policy.constant_layer.weight.shape == (2, hidden)
    bound = 1 / np.sqrt(hidden)
    leaves = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(policy)]
    for leaf in leaves:
        assert stats.kstest(leaf, stats.uniform(-bound, 2 * bound).cdf).pvalue > FALSE_ALARM
    everything = np.concatenate(leaves)
    assert len(np.unique(everything)) == len(everything)


def test_without_the_constant_token_nothing_of_it_is_there() -> None:
    library = Library.create(["+", "*", "sin"], ["x0"])
    grammar = Grammar(library, 3, "paper")
    policy = GRUPolicy.create(grammar, 16, key=jax.random.key(0), dtype=jnp.float32)
    assert policy.constant_layer is None
    assert policy.cells[0].input_weight.shape[1] == 3 * len(library)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(policy))


def test_a_hidden_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        GRUPolicy.create(Grammar(Library.create(["+"], ["x"]), 3), 0, key=jax.random.key(0))

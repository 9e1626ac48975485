"""The cached decoder against plain attention over the whole sequence, and its cost."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr.constraints import Constraints, Grammar, masking
from dvisr.enumeration import enumerate_trees
from dvisr.library import Library
from dvisr.policy import Observation, observe
from dvisr.policy.transformer import TransformerPolicy
from dvisr.sampling import log_prob, make_writer
from tests.contracts import check_policy

GRAMMARS: dict[str, tuple[list[str], bool, int, Constraints]] = {
    "simple": (["+", "*", "sin"], False, 5, "paper"),
    "constants": (["+", "*", "cos"], True, 5, "paper"),
}


def make_grammar(name: str) -> Grammar:
    operators, constants, size, constraints = GRAMMARS[name]
    return Grammar(Library.create(operators, ["x0"], constants=constants), size, constraints)


def make(name: str, num_layers: int, **options: Any) -> tuple[Grammar, TransformerPolicy]:
    """Weights as large as training makes them, so that an input that is off would show."""
    grammar = make_grammar(name)
    options = {"num_layers": num_layers, "num_heads": 2, "dtype": jnp.float64, **options}
    shapes = eqx.filter_eval_shape(
        lambda key: TransformerPolicy.create(grammar, 8, key=key, **options), jax.random.key(1)
    )
    rng = np.random.default_rng(2)
    return grammar, jax.tree.map(lambda a: jnp.asarray(0.5 * rng.normal(size=a.shape)), shapes)


def long_trees(grammar: Grammar, count: int) -> tuple[Any, Any]:
    """Some that fill the size limit, with a constant if there are any; and values for those."""
    trees = enumerate_trees(grammar)
    constant = grammar.library.constant_id
    is_constant = (trees == constant) & (trees >= 0)
    rows = np.flatnonzero((trees >= 0).all(axis=1) & (is_constant.any(axis=1) | (constant < 0)))
    rng = np.random.default_rng(0)
    chosen = rng.choice(rows, size=count, replace=False)
    values = np.where(is_constant[chosen], rng.normal(size=trees[chosen].shape), 0.0)
    return jnp.asarray(trees[chosen], jnp.int32), jnp.asarray(values)


def observations(grammar: Grammar, tokens: Any, values: Any) -> Observation:
    """What is seen before each token, stacked."""
    mask = masking.make_mask(grammar)
    places = jnp.arange(mask.length)

    def body(state: masking.MaskState, entry: Any) -> tuple[masking.MaskState, Observation]:
        place, token = entry
        written = jnp.where(places < place, values, 0.0)
        seen = observe(state, written, grammar.library.constant_id)
        return masking.step(mask, state, token), seen

    return jax.lax.scan(body, masking.start(mask), (places, tokens))[1]


def linear(layer: eqx.nn.Linear, rows: Any) -> Any:
    return rows @ np.asarray(layer.weight).T + np.asarray(layer.bias)


def normalised(layer: eqx.nn.LayerNorm, rows: Any) -> Any:
    centred = rows - rows.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + layer.eps)
    return scaled * np.asarray(layer.weight) + np.asarray(layer.bias)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def attended(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of queries, keys and values; every row looks at itself and at those above it."""
    queries, keys, values = np.split(rows, 3, axis=1)
    size = queries.shape[1] // num_heads
    found = np.zeros_like(queries)
    for head in range(num_heads):
        columns = slice(head * size, (head + 1) * size)
        for now in range(len(rows)):
            scores = keys[: now + 1, columns] @ queries[now, columns] / np.sqrt(size)
            shares = np.exp(scores - scores.max())
            found[now, columns] = shares @ values[: now + 1, columns] / shares.sum()
    return found


def whole_sequence(policy: TransformerPolicy, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits and constant outputs of all steps at once."""
    rows = linear(policy.input_layer, inputs) + np.asarray(policy.positions)
    for block in policy.blocks:
        projected = linear(block.attention_inputs, normalised(block.attention_norm, rows))
        rows = rows + linear(block.attention_output, attended(projected, policy.num_heads))
        inner = gelu(linear(block.network_inputs, normalised(block.network_norm, rows)))
        rows = rows + linear(block.network_output, inner)
    rows = normalised(policy.norm, rows)
    assert policy.constant_layer is not None
    return linear(policy.token_layer, rows), linear(policy.constant_layer, rows)


def test_steps_with_a_cache_are_attention_over_the_whole_sequence() -> None:
    grammar, policy = make("constants", 3)

    @jax.jit
    @jax.vmap
    def run(tokens: Any, values: Any) -> Any:
        seen = observations(grammar, tokens, values)
        inputs = jax.vmap(lambda o: policy.encoder(o, policy.dtype))(seen)
        return inputs, *jax.lax.scan(lambda m, o: policy(m, o), policy.start(), seen)

    all_inputs, memory, outputs = run(*long_trees(grammar, 4))
    assert (np.asarray(memory.step) == grammar.max_tokens).all()
    for row, inputs in enumerate(np.asarray(all_inputs)):
        logits, constants = whole_sequence(policy, inputs)
        assert np.ptp(logits, axis=0).min() > 0.1  # the steps differ: there is something to miss
        np.testing.assert_allclose(outputs.logits[row], logits, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(outputs.constant[row], constants, rtol=1e-12, atol=1e-12)


def test_calls_beyond_the_last_position_leave_the_memory_as_it_is() -> None:
    grammar, policy = make("constants", 1)
    tokens, values = long_trees(grammar, 1)

    @jax.jit
    def run(memory: Any) -> Any:
        seen = observations(grammar, tokens[0], values[0])
        return jax.lax.scan(lambda m, o: policy(m, o), memory, seen)

    full, _ = run(policy.start())
    after, outputs = run(full)
    assert all(map(np.array_equal, full, after))
    assert (np.abs(full.keys).max(axis=(2, 3)) > 0.0).all()  # every place was written
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(outputs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "skeleton_first"),
    [("simple", False), ("constants", False), ("constants", True)],
)
def test_contract(name: str, skeleton_first: bool) -> None:
    grammar, policy = make(name, 1, skeleton_first=skeleton_first)
    has_constants = grammar.library.has_constants
    assert (policy.constant_layer is not None) == (has_constants and not skeleton_first)
    assert (policy.filler is not None) == (has_constants and skeleton_first)
    check_policy(policy, grammar)


def test_log_q_has_a_slope_in_every_weight() -> None:
    grammar, policy = make("constants", 2)
    tokens, values = long_trees(grammar, 1)
    slopes = jax.jit(jax.grad(log_prob))(policy, make_writer(grammar), tokens[0], values[0])
    for path, slope in jax.tree_util.tree_leaves_with_path(slopes):
        assert np.isfinite(slope).all(), jax.tree_util.keystr(path)
        assert np.abs(slope).max() > 1e-6, jax.tree_util.keystr(path)
    # Every position was written at, so each has one.
    assert (np.abs(slopes.positions).max(axis=1) > 1e-6).all()


def test_everything_has_the_dtype_asked_for() -> None:
    grammar = make_grammar("constants")
    policy = TransformerPolicy.create(grammar, 8, key=jax.random.key(1), dtype=jnp.float32)
    tokens, values = long_trees(grammar, 1)
    assert policy.dtype == jnp.float32
    leaves = [*jax.tree.leaves(policy), *policy.start()[1:]]
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    writer = make_writer(grammar)
    found = jax.eval_shape(log_prob, policy, writer, tokens[0], values[0].astype(jnp.float32))
    assert found.dtype == jnp.float32


def test_a_step_costs_hardly_more_where_trees_may_be_longer() -> None:
    """Computing earlier tokens again would cost the ratio of the lengths."""
    width = 64

    def flops(max_tokens: int) -> float:
        grammar = Grammar(Library.create(["+", "sin"], ["x0"]), max_tokens)
        empty = jnp.zeros((max_tokens,))
        seen = observe(masking.start(masking.make_mask(grammar)), empty, -1)

        def make_policy(key: Any) -> TransformerPolicy:
            return TransformerPolicy.create(grammar, width, key=key, dtype=jnp.float64)

        def step(policy: TransformerPolicy, memory: Any, seen: Observation) -> Any:
            return policy(memory, seen)

        policy = eqx.filter_eval_shape(make_policy, jax.random.key(0))
        memory = jax.eval_shape(lambda p: p.start(), policy)
        cost: Any = jax.jit(step).lower(policy, memory, seen).compile().cost_analysis()
        return float(cost["flops"])

    short, long = flops(8), flops(32)
    assert short > 2 * 2 * 12 * width**2  # two blocks: the count has the projections
    assert long < 1.5 * short, (short, long)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width of 1, not 2, 4 and 0"),
        ({"num_layers": 0}, "at least 1 layer"),
        ({"num_heads": 0}, "1 head"),
        ({"num_heads": 3}, "8 is not by 3"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, Any], message: str) -> None:
    grammar = Grammar(Library.create(["+"], ["x"]), 3)
    sizes = {"width": 8, **options}
    with pytest.raises(ValueError, match=message):
        TransformerPolicy.create(grammar, sizes.pop("width"), key=jax.random.key(0), **sizes)

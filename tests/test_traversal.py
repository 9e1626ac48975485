"""The state machine against the plain recursive reading of the tree."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dvisr import traversal
from dvisr.expression import Expression
from dvisr.library import Library
from tests import reference, strategies
from tests.compiled import compilations

LIBRARY = Library.create(["+", "-", "sin", "exp"], ["x", "y"], constants=True)
LENGTH = 15


@jax.jit
def walk(tokens: jax.Array) -> dict[str, jax.Array]:
    arities = jnp.asarray(LIBRARY.arities)

    def body(
        state: traversal.TraversalState, token: jax.Array
    ) -> tuple[traversal.TraversalState, dict[str, jax.Array]]:
        seen = {
            "previous": state.previous,
            "parent": state.parent,
            "sibling": state.sibling,
            "depth": state.depth,
            "num_open": state.num_open,
            "ancestors": state.ancestors,
            "is_complete": state.is_complete,
            "parent_token": state.token_at(state.parent),
        }
        return traversal.step(state, token, arities), seen

    last, seen = jax.lax.scan(body, traversal.start(LENGTH), tokens)
    return {**seen, "tokens": last.tokens, "ends_complete": last.is_complete}


def by_recursion(tree: reference.Tree) -> list[dict[str, object]]:
    """What is known before each token, read off the finished tree."""
    rows: list[dict[str, object]] = []

    def visit(node: reference.Tree, ancestors: list[int], sibling: int, waiting: int) -> None:
        position = len(rows)
        rows.append(
            {
                "previous": position - 1,
                "parent": ancestors[-1] if ancestors else -1,
                "sibling": sibling,
                "depth": len(ancestors),
                "num_open": waiting + 1,
                "ancestors": ancestors,
            }
        )
        left = -1
        for place, operand in enumerate(node[1:]):
            start = len(rows)
            visit(operand, [*ancestors, position], left, waiting + len(node) - 2 - place)
            left = start

    visit(tree, [], -1, 0)
    return rows


@settings(max_examples=100)
@given(expression=strategies.expressions(LIBRARY, LENGTH))
def test_every_field_agrees_with_recursion(expression: Expression) -> None:
    tokens = np.full(LENGTH, -1, dtype=np.int32)
    tokens[: len(expression.tokens)] = expression.tokens
    seen = {key: np.asarray(value) for key, value in walk(jnp.asarray(tokens)).items()}
    rows = by_recursion(reference.nested(LIBRARY, expression.tokens))
    for position, row in enumerate(rows):
        for field in ("previous", "parent", "sibling", "depth", "num_open"):
            assert seen[field][position] == row[field], (str(expression), position, field)
        ancestors = seen["ancestors"][position]
        assert ancestors[ancestors >= 0].tolist() == row["ancestors"]
        parent = row["parent"]
        assert isinstance(parent, int)
        assert seen["parent_token"][position] == (-1 if parent < 0 else tokens[parent])
        assert not seen["is_complete"][position]
    assert seen["ends_complete"]
    assert seen["is_complete"][len(rows) :].all()
    assert (seen["num_open"][len(rows) :] == 0).all()
    np.testing.assert_array_equal(seen["tokens"], tokens)


def test_one_compilation_serves_all_trees() -> None:
    before = compilations(walk)
    for tokens in ([0, 4, 4], [2, 5], [6]):
        row = jnp.asarray(tokens + [-1] * (LENGTH - len(tokens)), dtype=jnp.int32)
        walk(row)
    assert compilations(walk) <= max(before, 1)


@given(st.integers(1, 30))
def test_start_is_one_open_slot(length: int) -> None:
    state = traversal.start(length)
    assert int(state.num_open) == 1
    assert int(state.parent) == int(state.sibling) == int(state.previous) == -1

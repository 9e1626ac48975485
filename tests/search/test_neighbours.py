"""Neighbours are legal, lead everywhere, and come of every move; rewritings change no function."""

from __future__ import annotations

import collections
from collections.abc import Iterable

import numpy as np
import pytest
import scipy.sparse

from dvisr.constraints import Constraints, Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.expression import Expression, canonical_form, parse
from dvisr.library import Library, new_operator
from dvisr.prior import tree_prior
from dvisr.search.from_prior import PriorSampler
from dvisr.search.legality import Legality
from dvisr.search.neighbours import Neighbours

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "none": (["+", "sin"], ["x", "y"], False, 5, "none"),
    "paper": (["+", "*", "cos"], ["x0"], True, 5, "paper"),
    "default": (["-", "*", "exp"], ["a"], True, 5, "default"),
    "max-constants": (["+", "*", "sin"], ["x"], True, 5, ["default", "max-constants=1"]),
    "max-depth": (["exp", "log", "+", "2"], ["x"], True, 5, ["no-inverse", "max-depth=2"]),
}


def made(name: str) -> Grammar:
    operators, variables, constants, size, constraints = CASES[name]
    library = Library.create(operators, variables, constants=constants)
    return Grammar(library, size, constraints)


def row(text: str, grammar: Grammar) -> np.ndarray:
    tokens = parse(text, grammar.library).tokens
    padding = [-1] * (grammar.max_tokens - len(tokens))
    return np.array([*tokens, *padding], dtype=np.int8)


def texts(trees: Iterable[np.ndarray], grammar: Grammar) -> set[str]:
    """Formulas; a row that holds no tree is left out."""
    return {
        str(Expression(grammar.library, tuple(int(token) for token in tree if token >= 0)))
        for tree in trees
        if tree[0] >= 0
    }


@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_legal_and_other_trees(name: str) -> None:
    grammar = made(name)
    parents = np.repeat(enumerate_trees(grammar), 20, axis=0)
    for donors in (parents[::7], parents[:0]):
        found = Neighbours(grammar).propose(parents, donors, np.random.default_rng(0))
        assert found.shape == parents.shape
        assert found.dtype == np.int8
        missing = found[:, 0] < 0
        assert (found[missing] == -1).all()
        assert missing.mean() < 0.02
        assert Legality(grammar)(found[~missing]).all()
        assert (found != parents).any(axis=1).all()


def test_neighbours_in_a_large_grammar() -> None:
    library = Library.create(
        ["+", "-", "*", "/", "sin", "exp", "log"], [f"x{i}" for i in range(30)], constants=True
    )
    grammar = Grammar(library, 15, ["default", "max-constants=4"])
    rng = np.random.default_rng(4)
    trees = PriorSampler(grammar, tree_prior("size-balanced", grammar)).draw(20_000, rng)
    for _ in range(5):  # walks, which stay legal
        found = Neighbours(grammar).propose(trees, trees[:100], rng)
        missing = found[:, 0] < 0
        assert missing.mean() < 1e-3
        assert Legality(grammar)(found[~missing]).all()
        trees = np.where(missing[:, None], trees, found)


@pytest.mark.parametrize("with_donors", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_tree_can_be_reached_from_every_tree(name: str, with_donors: bool) -> None:
    """By neighbours of neighbours: without donors, by local moves alone."""
    grammar = made(name)
    trees = enumerate_trees(grammar)
    numbers = {tree.tobytes(): number for number, tree in enumerate(trees)}
    parents = np.repeat(np.arange(len(trees)), 200)
    donors = trees if with_donors else trees[:0]
    found = Neighbours(grammar).propose(trees[parents], donors, np.random.default_rng(1))
    is_tree = found[:, 0] >= 0
    ends = [numbers[tree.tobytes()] for tree in found[is_tree]]
    graph = scipy.sparse.coo_array(
        (np.ones(len(ends)), (parents[is_tree], ends)), shape=(len(trees), len(trees))
    )
    parts, _ = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    assert parts == 1


MOVES = {
    "replace a subtree": ["exp(x) * y + x", "log(x - y) + x", "log(x - y)"],
    "change a leaf": ["x * y + y", "x * c + x", "x * y + c"],
    "change an operator": ["x * y - x", "x / y + x"],
    "insert a unary operator": ["exp(x * y + x)", "x * log(y) + x", "log(x * y) + x"],
    "insert a binary operator": ["x * y + x - y", "(x - y) / (x * y + x)", "x * (y - exp(x)) + x"],
    "insert a constant": ["(x * y + x) * c", "x * y + (x + c)", "x * (y / c) + x"],
    "delete": ["x", "x * y", "x + x", "y + x"],
    "swap": ["x + x * y", "y * x + x"],
    "rotate": ["x * (y + x)"],
}


@pytest.mark.parametrize("move", MOVES)
def test_each_move_occurs(move: str) -> None:
    library = Library.create(["+", "-", "*", "/", "exp", "log"], ["x", "y"], constants=True)
    grammar = Grammar(library, 11, "default")
    parents = np.stack([row("x * y + x", grammar)] * 20_000)
    donors = np.stack([row(text, grammar) for text in ("exp(x)", "y", "log(x - y)")])
    found = texts(Neighbours(grammar).propose(parents, donors, np.random.default_rng(0)), grammar)
    expected = texts([row(text, grammar) for text in MOVES[move]], grammar)
    assert expected <= found, expected - found


def test_rotations_go_both_ways() -> None:
    library = Library.create(["+", "*"], ["x", "y", "z"])
    grammar = Grammar(library, 7)
    neighbours = Neighbours(grammar)
    for one, other in (("(x + y) + z", "x + (y + z)"), ("(x * y) + z", "x * (y + z)")):
        for start, end in ((one, other), (other, one)):
            parents = np.stack([row(start, grammar)] * 2000)
            found = neighbours.propose(parents, parents[:0], np.random.default_rng(0))
            assert row(end, grammar).tobytes() in {tree.tobytes() for tree in found}


def test_constants_are_often_inserted_whatever_the_number_of_columns() -> None:
    library = Library.create(["+", "*"], [f"x{i}" for i in range(30)], constants=True)
    grammar = Grammar(library, 9, "default")
    parents = np.stack([row("x0 + x1", grammar)] * 5000)
    found = Neighbours(grammar).propose(parents, parents, np.random.default_rng(0))
    assert (found == library.constant_id).any(axis=1).mean() > 0.1


def test_proposals_follow_from_the_generator() -> None:
    grammar = made("default")
    trees, neighbours = enumerate_trees(grammar), Neighbours(grammar)
    rng = np.random.default_rng(9)
    first = neighbours.propose(trees, trees, rng)
    np.testing.assert_array_equal(first, neighbours.propose(trees, trees, np.random.default_rng(9)))
    assert (first != neighbours.propose(trees, trees, rng)).any()


def test_a_row_without_a_tree_has_no_neighbour() -> None:
    grammar = made("default")
    times = grammar.library.find("*")
    assert times is not None
    bad = np.full((4, 5), -1, dtype=np.int8)
    bad[1, 0] = times  # lacks its operands
    bad[2, :2] = [len(grammar.library) - 1, times]  # goes on after its end
    bad[3, 0] = 127
    rng = np.random.default_rng(0)
    assert (Neighbours(grammar).propose(bad, bad, rng) == -1).all()
    trees = enumerate_trees(grammar)
    found = Neighbours(grammar).propose(trees, bad, rng)  # as donors they give a leaf
    assert Legality(grammar)(found[found[:, 0] >= 0]).all()
    assert (found[:, 0] >= 0).mean() > 0.9
    assert len(Neighbours(grammar).rewritings(bad[1])) == 0


def test_a_grammar_of_one_tree_has_no_neighbours() -> None:
    grammar = Grammar(Library.create([], ["x"]), 3)
    only = enumerate_trees(grammar)
    assert (Neighbours(grammar).propose(only, only, np.random.default_rng(0)) == -1).all()


def test_lengths_that_differ_are_refused() -> None:
    grammar = made("none")
    with pytest.raises(ValueError, match="same length, not 5 and 4"):
        Neighbours(grammar).propose(
            np.full((1, 5), -1, np.int8), np.full((1, 4), -1, np.int8), np.random.default_rng(0)
        )


LARGER = new_operator(
    "larger", 2, lambda np, a, b: np.maximum(a, b), is_commutative=True, is_associative=True
)
FIRST = new_operator("first", 2, lambda np, a, b: a + 0.0 * b, is_associative=True)
MEAN = new_operator("mean", 2, lambda np, a, b: (a + b) / 2.0, is_commutative=True)
REWRITTEN: dict[str, Grammar] = {
    "arithmetic": Grammar(Library.create(["+", "-", "*", "/"], ["x", "y"]), 7),
    "constants": Grammar(Library.create(["+", "-", "*"], ["x"], constants=True), 7, "default"),
    "functions": Grammar(Library.create(["-", "/", "^", "sin", "neg"], ["x", "2"]), 6),
    "own operators": Grammar(Library.create([LARGER, FIRST, MEAN, "+"], ["x", "y"]), 5),
}


@pytest.mark.parametrize("name", REWRITTEN)
@pytest.mark.parametrize("symmetric", [True, False])
def test_rewritings_keep_the_canonical_form(name: str, symmetric: bool) -> None:
    grammar = REWRITTEN[name]
    neighbours, is_legal = Neighbours(grammar), Legality(grammar)
    forms: dict[bytes, str] = {}
    trees = enumerate_trees(grammar)
    for tree in trees:
        tokens = tuple(int(token) for token in tree if token >= 0)
        forms[tree.tobytes()] = canonical_form(
            Expression(grammar.library, tokens), symmetric_constants=symmetric
        )
    links = set()
    for tree in trees:
        found = neighbours.rewritings(tree)
        keys = {other.tobytes() for other in found}
        assert is_legal(found).all()
        assert tree.tobytes() not in keys
        assert len(keys) == len(found)
        assert {forms[key] for key in keys} <= {forms[tree.tobytes()]}
        links |= {(tree.tobytes(), key) for key in keys}
    assert len(links) > 100
    assert {(end, start) for start, end in links} == links


@pytest.mark.parametrize("constraints", ["none", ["default", "max-constants=2"]])
def test_rewritings_complete_the_class_of_a_function(constraints: Constraints) -> None:
    """Where nothing has a sign and powers are not written out, a canonical form's trees are all
    rewritings of rewritings of each other, also where rules forbid some of them."""
    grammar = Grammar(Library.create(["+", "*", "sin"], ["x", "y"], constants=True), 7, constraints)
    trees, neighbours = enumerate_trees(grammar), Neighbours(grammar)
    numbers = {tree.tobytes(): number for number, tree in enumerate(trees)}
    links = [
        (number, numbers[other.tobytes()])
        for number, tree in enumerate(trees)
        for other in neighbours.rewritings(tree)
    ]
    graph = scipy.sparse.coo_array(
        (np.ones(len(links)), tuple(np.array(links).T)), shape=(len(trees), len(trees))
    )
    _, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    parts = collections.defaultdict(set)
    for tree, label in zip(trees, labels, strict=True):
        tokens = tuple(int(token) for token in tree if token >= 0)
        parts[canonical_form(Expression(grammar.library, tokens))].add(int(label))
    assert {len(found) for found in parts.values()} == {1}


@pytest.mark.parametrize("name", REWRITTEN)
def test_all_rewritings_are_all_that_rewriting_again_and_again_comes_to(name: str) -> None:
    neighbours = Neighbours(REWRITTEN[name])
    for tree in enumerate_trees(REWRITTEN[name])[:: 1 if name == next(iter(REWRITTEN)) else 7]:
        reached, border = {tree.tobytes()}, [tree]
        while border:
            for other in neighbours.rewritings(border.pop()):
                if other.tobytes() not in reached:
                    reached.add(other.tobytes())
                    border.append(other)
        found = neighbours.all_rewritings(tree, len(reached) + 5)
        assert len(found) == len(reached)
        assert {other.tobytes() for other in found} == reached
        few = neighbours.all_rewritings(tree, 3)
        assert len(few) == min(3, len(reached))
        assert {other.tobytes() for other in few} <= reached


def test_rewritings_by_hand() -> None:
    grammar = Grammar(Library.create(["+", "-", "*", "/"], ["x", "y", "z"]), 7)
    for text, expected in {
        "x": [],
        "x - y": [],
        "x + y": ["y + x"],
        "x + x": [],
        "(x - y) + z": ["z + (x - y)", "x - (y - z)", "(x + z) - y"],
        "(x - y) - z": ["x - (y + z)", "(x - z) - y"],
        "x / (y * z)": ["x / (z * y)", "(x / y) / z"],
        "(x / y) * z": ["z * (x / y)", "(x * z) / y"],
        "x * (y / z)": ["(y / z) * x", "(x * y) / z", "y * (x / z)"],
        "x / (y / z)": [],
    }.items():
        found = {tree.tobytes() for tree in Neighbours(grammar).rewritings(row(text, grammar))}
        assert found == {row(other, grammar).tobytes() for other in expected}, text

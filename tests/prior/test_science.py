"""The prior by how formulas are written: what it is made of, and that it is a distribution."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dvisr import new_operator
from dvisr.constraints import Constraints, Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.expression import parse
from dvisr.library import Kind, Library
from dvisr.prior import TreePrior, science, tree_prior
from dvisr.prior.corpus import (
    COLUMN,
    CONSTANT,
    NUMBER,
    Formula,
    Translator,
    from_text,
    named_equations,
    read_corpus,
)
from dvisr.prior.science import counted, num_places, smoothed

FULL = ["+", "-", "*", "/", "^", "square", "sqrt", "exp", "log", "sin", "cos", "neg"]
NUMBERS = ["1", "2", "3", "4", "pi"]

Case = tuple[list[str], list[str], bool, int, Constraints]
CASES: dict[str, Case] = {
    "default": (["-", "*", "exp", "sqrt", "2"], ["a", "b"], True, 5, "default"),
    "no constants": (["+", "*", "sin"], ["x"], False, 7, "paper"),
    "counted": (["+", "^", "neg", "1"], ["x"], True, 5, ["default", "max-constants=1"]),
    "depth": (["/", "log", "square"], ["x"], True, 6, ["no-inverse", "max-depth=3"]),
    "leaves": ([], ["x", "y"], True, 3, "none"),
    "numbers": (["+", "sin", "1", "pi"], [], False, 4, "none"),
}


def grammar_of(name: str) -> Grammar:
    operators, variables, constants, size, constraints = CASES[name]
    library = Library.create(operators, variables, constants=constants)
    return Grammar(library, size, constraints)


def full(columns: list[str], size: int = 9) -> Grammar:
    return Grammar(Library.create([*FULL, *NUMBERS], columns, constants=True), size, "default")


def log_prob(prior: TreePrior, grammar: Grammar, text: str) -> float:
    tokens = np.array(parse(text, grammar.library).tokens)
    return float(prior.log_prob(np, tokens))


# One for equal words ----------------------------------------------------------------------------


def test_equal_grammars_have_one_prior_that_can_not_be_written_to() -> None:
    """What follows from it is kept by it: an array that changes would make that wrong."""
    one, two, other = full(["a", "b"]), full(["a", "b"]), full(["a", "c"])
    prior = science(one)
    assert prior is science(two) is tree_prior("science", two) is not science(other)
    assert prior.slots(one) is prior.slots(two)
    assert prior.surroundings is not None
    for array in (prior.log_size, prior.log_token, prior.surroundings.below):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_users_own_prior_stays_as_it_was_given() -> None:
    """It has copies: what is done to the arrays later does nothing."""
    sizes, terms = np.zeros(10), np.zeros((1, len(full(["a"]).library)))
    prior = TreePrior("own", sizes, terms)
    sizes[1], terms[0, 0] = 5.0, 5.0
    assert (prior.log_size == 0.0).all()
    assert (prior.log_token == 0.0).all()


def test_weights_and_formulas_of_ones_own_are_not_taken_for_the_usual() -> None:
    grammar = full(["a"])
    usual = science(grammar)
    assert not science(grammar, weights={"sin": 0.5}).is_same_as(usual)
    own = ((1.0, from_text("a * sin(a)")),)
    assert not science(grammar, own).is_same_as(usual)


# The distribution -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_it_sums_to_one_and_leaves_nothing_impossible(name: str) -> None:
    grammar = grammar_of(name)
    values = tree_prior("science", grammar).log_prob(np, enumerate_trees(grammar))
    assert np.isfinite(values).all()
    assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_tree_has_the_product_of_its_tokens_terms(name: str) -> None:
    """By recursion over the tree, with the places said once more."""
    grammar = grammar_of(name)
    library, prior = grammar.library, tree_prior("science", grammar)
    assert prior.surroundings is not None
    places = prior.surroundings

    def term(tokens: list[int], at: int, place: int, kind: int) -> tuple[float, int]:
        token = library[tokens[at]]
        total, end = float(prior.log_token[place, tokens[at]]), at + 1
        left = -1
        for side in range(token.arity):
            below = int(places.below[kind, tokens[at]])
            where = below if side == 0 else int(places.right[kind, tokens[at], left])
            left = tokens[end]
            more, end = term(tokens, end, where, int(places.kinds[tokens[at]]))
            total += more
        return total, end

    trees = enumerate_trees(grammar)
    for tree in trees[:: max(1, len(trees) // 200)]:
        tokens = [int(token) for token in tree if token >= 0]
        total, end = term(tokens, 0, 0, 0)
        assert end == len(tokens)
        expected = total + float(prior.log_size[len(tokens)])
        assert float(prior.log_prob(np, tree)) == pytest.approx(expected, abs=1e-12)


def test_formulas_are_counted_where_their_tokens_stand() -> None:
    """Each token of a formula in the place that it has in the formula's tree."""
    grammar = full(["x"], 15)
    prior = tree_prior("science", grammar)
    assert prior.surroundings is not None
    for text in ("x * exp(-(x / 2)) + sqrt(x)", "2 * pi * x", "sin(x + x) ^ 2 / (1 - x)"):
        tokens = np.array(parse(text, grammar.library).tokens)
        expected = sorted(zip(prior.surroundings.of_trees(np, tokens), tokens, strict=True))
        found = counted(grammar.library, ((1.0, from_text(text)),))
        assert sorted((place, token) for place, token, _ in found) == expected
        assert all(weight == pytest.approx(1.0) for _, _, weight in found)


@pytest.mark.parametrize("case", CASES)
def test_rows_of_trees_are_walked_as_single_trees_are(case: str) -> None:
    """The compiled walk over rows against the places of each tree."""
    grammar = grammar_of(case)
    prior, trees = tree_prior("science", grammar), enumerate_trees(grammar)
    one_by_one = [float(prior.log_prob(np, tree)) for tree in trees]
    np.testing.assert_allclose(prior.log_prob(np, trees), one_by_one, rtol=0, atol=1e-12)


def test_places_are_told_apart_by_parent_side_sibling_and_grandparent() -> None:
    grammar = full(["x", "y"])
    places = science(grammar).surroundings
    assert places is not None
    ids = {token.name: number for number, token in enumerate(grammar.library)}
    siblings = ["x", "c", "2", "sin"]
    binary = ["+", "-", "*", "/", "^"]
    numbers = {
        0,
        *places.below[:, [ids[name] for name in FULL]].ravel().tolist(),
        *(int(n) for op in binary for s in siblings for n in places.right[:, ids[op], ids[s]]),
    }
    kinds = 5  # none, a sum, a product, a power, another
    assert len(numbers) == 1 + kinds * (len(FULL) + len(binary) * len(siblings))
    for one, two in (("+", "-"), ("*", "/"), ("^", "sqrt"), ("sin", "exp")):
        assert places.kinds[ids[one]] == places.kinds[ids[two]]
    assert len({int(places.kinds[ids[name]]) for name in ("+", "*", "^", "sin")}) == 4
    assert (places.right[:, ids["+"], ids["x"]] == places.right[:, ids["+"], ids["y"]]).all()
    assert (places.right[:, ids["+"], ids["exp"]] == places.right[:, ids["+"], ids["*"]]).all()


# What formulas look like ------------------------------------------------------------------------


def nodes(formula: Formula) -> list[Formula]:
    if formula[0] in ("symbol", NUMBER, CONSTANT, COLUMN):
        return [formula]
    return [formula, *(node for operand in formula[1:] for node in nodes(operand))]


def test_the_equations_are_what_is_said_of_them() -> None:
    """1,850 of them, 827 distinct. No exp, log or sqrt of a sine or cosine; the argument of a sine
    or cosine is a bare symbol four times in five; a quarter of all numbers are 2, a fifth 1, then
    pi, 4, 3: together 70 %."""
    equations = named_equations()
    assert len(equations) == 827
    assert sum(count for count, _ in equations) == 1850
    every = [(count, node) for count, equation in equations for node in nodes(equation)]
    for _, node in every:
        if node[0] in ("exp", "log", "sqrt"):
            assert node[1][0] not in ("sin", "cos")
    trig = [(count, node[1][0] == "symbol") for count, node in every if node[0] in ("sin", "cos")]
    bare = sum(count for count, is_bare in trig if is_bare) / sum(count for count, _ in trig)
    assert bare == pytest.approx(0.8, abs=0.05)
    numbers: dict[Any, float] = {}
    for count, node in every:
        if node[0] in (NUMBER, CONSTANT):
            key = node[1] if node[0] == NUMBER else None
            numbers[key] = numbers.get(key, 0.0) + count
    total = sum(numbers.values())
    assert numbers[2.0] / total == pytest.approx(0.25, abs=0.02)
    assert numbers[1.0] / total == pytest.approx(0.2, abs=0.02)
    small = sum(numbers[value] for value in (1.0, 2.0, 3.0, 4.0, math.pi))
    assert small / total == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize(
    ("written", "absurd"),
    [
        ("exp(x * c) * c + c", "exp(cos(sqrt(x + c) * c))"),
        ("square(x) / 2 * y", "log(sqrt(exp(x))) * y * x"),
        ("x * c + c", "exp(sqrt(cos(x) + c))"),
        ("x * y / square(x)", "cos(log(x) * c) * c + y"),
        ("sqrt(x)", "sin(sqrt(x))"),
    ],
)
def test_what_people_write_is_likelier(written: str, absurd: str) -> None:
    grammar = full(["x", "y"], 11)
    prior, even = tree_prior("science", grammar), tree_prior("size-balanced", grammar)
    gain = log_prob(prior, grammar, written) - log_prob(prior, grammar, absurd)
    before = log_prob(even, grammar, written) - log_prob(even, grammar, absurd)
    assert gain > max(before, math.log(10.0))


# In the words of a library ----------------------------------------------------------------------

X, C = (COLUMN,), (CONSTANT,)


def said(text: str, operators: list[str], *, constants: bool = True) -> dict[Formula, float]:
    library = Library.create(operators, ["x"], constants=constants)
    return {formula: share for share, formula in Translator(library).readings(from_text(text))}


@pytest.mark.parametrize(
    ("text", "operators", "constants", "expected"),
    [
        ("square(a)", ["square"], True, ("square", X)),
        ("square(a)", ["*"], True, ("*", X, X)),
        ("square(a)", ["^", "2"], False, ("^", X, (NUMBER, "2"))),
        ("cube(a)", ["*", "square"], True, ("*", ("square", X), X)),
        ("cube(a)", ["*"], True, ("*", ("*", X, X), X)),
        ("inv(a)", ["/", "1"], True, ("/", (NUMBER, "1"), X)),
        ("inv(a)", ["/"], True, ("/", C, X)),
        ("-a", ["neg"], True, ("neg", X)),
        ("-a", ["*"], True, ("*", X, C)),
        ("1 - a", ["+", "neg", "1"], False, ("+", (NUMBER, "1"), ("neg", X))),
        ("sqrt(a)", ["^"], True, ("^", X, C)),
        ("a ^ 2.5", ["exp", "log", "*"], True, ("exp", ("*", ("log", X), C))),
        ("tan(a)", ["sin", "cos", "/"], True, ("/", ("sin", X), ("cos", X))),
        ("7 * a", ["*", "7"], True, ("*", (NUMBER, "7"), X)),
        ("7 * a", ["*"], True, ("*", X, C)),
        # Constants that could be one are one, on the right where the order is free.
        ("2 * c * a * c", ["*"], True, ("*", X, C)),
        ("a / c", ["*", "/"], True, ("*", X, C)),
        ("c / (a * c)", ["*", "/"], True, ("/", C, X)),
        ("c + a - c", ["+", "-"], True, ("+", X, C)),
        ("c - (a + c)", ["+", "-"], True, ("-", C, X)),
        ("exp(c) * a", ["*", "exp"], True, ("*", X, C)),
        ("-(a * c)", ["*", "neg"], True, ("*", X, C)),
        ("-a * c", ["*", "neg"], True, ("*", X, C)),
        ("-(c / a)", ["/", "neg"], True, ("/", C, X)),
        ("c / a * c", ["*", "/"], True, ("/", C, X)),
        ("(c - a) + c", ["+", "-"], True, ("-", C, X)),
        ("2 * a * c", ["*", "2"], True, ("*", X, C)),
        ("square(c) + a", ["+", "*"], True, ("+", X, C)),
        ("square(a * c)", ["*"], True, ("*", ("*", X, X), C)),
        ("a ^ 2", ["+", "*", "square"], True, ("square", X)),
        ("a ^ 4", ["*"], True, ("*", ("*", ("*", X, X), X), X)),
        ("a ^ 0.5", ["sqrt"], True, ("sqrt", X)),
        ("2 * pi * a", ["*", "2", "pi"], True, ("*", ("*", (NUMBER, "2"), (NUMBER, "pi")), X)),
    ],
)  # fmt: skip
def test_one_symbol_that_is_the_column(
    text: str, operators: list[str], constants: bool, expected: Formula
) -> None:
    assert said(text, operators, constants=constants) == {expected: pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("text", "operators", "constants"),
    [
        ("tanh(a)", ["sin", "*"], True),
        ("a + 7", ["+"], False),
        ("a ^ b", ["*", "exp"], True),
        ("a - b", ["*"], True),
    ],
)
def test_what_a_library_can_not_say(text: str, operators: list[str], constants: bool) -> None:
    assert said(text, operators, constants=constants) == {}


def test_symbols_are_columns_or_constants() -> None:
    """One column: exactly one of them is it. Two: any one, or both."""
    assert said("a * b + b", ["*", "+"]) == {
        ("+", ("*", X, C), C): pytest.approx(0.5),
        ("+", ("*", X, C), X): pytest.approx(0.5),
    }
    library = Library.create(["*"], ["x", "y"], constants=True)
    readings = Translator(library).readings(from_text("a * b"))
    both = {formula: share for share, formula in readings}
    share = 0.55
    whole = 1.0 - (1.0 - share) ** 2
    assert both == {
        ("*", X, C): pytest.approx(2 * share * (1 - share) / whole),
        ("*", X, X): pytest.approx(share**2 / whole),
    }


def test_any_library_is_served() -> None:
    for operators in (["+", "*", "sin"], ["exp"], ["tanh", "abs"], ["cube", "inv"]):
        for constants in (False, True):
            library = Library.create(operators, ["x"], constants=constants)
            grammar = Grammar(library, 4)
            values = tree_prior("science", grammar).log_prob(np, enumerate_trees(grammar))
            assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-12)


# Smoothing, weights, one's own ------------------------------------------------------------------


def test_frequencies_go_toward_those_of_less_specific_places() -> None:
    """Counts large against the smoothing decide; without counts the parent's do."""
    library = Library.create(["+", "sin"], ["x"], constants=True)
    places = science(Grammar(library, 3)).surroundings
    assert places is not None
    plus, sine, column = (
        library.find("+"),
        library.find("sin"),
        library.ids_of_kind(Kind.VARIABLE)[0],
    )
    counts = np.zeros((num_places(library), len(library)))
    counts[places.below[0, plus], column] = 1e6
    found = smoothed(library, counts)
    assert found.min() > 0.0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert found[places.below[0, plus], column] > 0.999
    for never_counted in (places.below[1, plus], places.right[0, plus, column]):
        assert found[never_counted, column] > 0.99  # but below the same parent
    assert found[places.below[0, sine], column] == pytest.approx(found[0, column])


def test_an_operator_of_ones_own_is_rare_unless_it_is_said_not_to_be() -> None:
    bump = new_operator("bump", 1, lambda np, x: np.exp(-x * x))
    library = Library.create(["+", "*", "exp", bump], ["x"], constants=True)
    grammar = Grammar(library, 5, "default")
    plain, stated = tree_prior("science", grammar), tree_prior("science:bump=20", grammar)
    rare = log_prob(plain, grammar, "bump(x)")
    assert rare < log_prob(plain, grammar, "exp(x)") - 2.0
    assert log_prob(stated, grammar, "bump(x)") > rare + 1.5


def test_columns_share_evenly_or_by_weights() -> None:
    grammar = full(["x", "y"], 5)
    even, weighted = tree_prior("science", grammar), tree_prior("science:x=3", grammar)
    assert log_prob(even, grammar, "x") == log_prob(even, grammar, "y")
    assert log_prob(even, grammar, "x + y") == pytest.approx(log_prob(even, grammar, "y + x"))
    ratio = log_prob(weighted, grammar, "x") - log_prob(weighted, grammar, "y")
    assert ratio == pytest.approx(math.log(3.0))


def test_ones_own_formulas(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("# of my field\n\n" + "a * exp(b * t)\n" * 400 + "a + 2*t\n")
    corpus = read_corpus(file)
    assert [count for count, _ in corpus] == [400.0, 1.0]
    assert corpus[1][1] == ("+", ("symbol", "a"), ("*", (NUMBER, 2.0), ("symbol", "t")))
    grammar = full(["t"])
    mine, usual = tree_prior(f"science:{file}", grammar), tree_prior("science", grammar)
    assert mine.name == "science"
    text = "exp(t * c) * c"
    assert log_prob(mine, grammar, text) > log_prob(usual, grammar, text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a +* b\n", "line 1"),
        ("a + b\n__import__('os')\n", "line 2"),
        ("# nothing\n", "holds no formula"),
        ("tanh(a)\n", "add the operators that they have"),
        ("a" + "+a" * 498 + "\n", "line 1"),
        (None, "can't be read"),
    ],
)
def test_formulas_that_can_not_be_read(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "bad.txt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=message):
        tree_prior(f"science:{file}", full(["x"]))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("science:", "must name one file"),
        ("science:a,b", "must name one file"),
        ("science:sinn=2", "did you mean 'sin'"),
        ("science:sin=0", "must be above 0"),
        ("scence", "did you mean 'science'"),
    ],
)
def test_mistakes_are_explained(choice: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_prior(choice, full(["x"]))

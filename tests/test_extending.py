"""The examples of docs/extending.md do what the page says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import dvisr
from dvisr import DVISRRegressor, Expression, Grammar, Library, exact_posterior, parse
from dvisr.prior import tree_prior
from dvisr.search import moves
from dvisr.search.rows import measured, new_workspace
from dvisr.search.streams import new_stream
from tests.contracts import check_move, check_operator, check_policy, check_prior, check_rule
from tests.pages import DOCS, code_of, example

PAGE = "extending.md"


def of(heading: str) -> ModuleType:
    return example(PAGE, heading)


def test_every_example_is_tested_here_or_where_the_page_says() -> None:
    headings = re.findall(r"^## (.+)$", (DOCS / PAGE).read_text(), flags=re.MULTILINE)
    assert headings == [
        "An operator", "A constraint", "A tree prior", "A noise model", "A policy", "A move",
    ]  # fmt: skip


# An operator -------------------------------------------------------------------------------------


def test_the_operator_keeps_the_contract() -> None:
    check_operator(of("An operator").sigmoid, np.linspace(-30.0, 30.0, 41)[:, None])


def test_the_operator_is_found_in_a_law_that_has_it() -> None:
    first = of("An operator").model.functions_.iloc[0]
    assert first["expression"] == "sigmoid(x0 * c) * c"
    assert first["probability"] > 0.5
    constants = np.array(first["constants"], dtype=float)
    assert sorted(constants) == pytest.approx([1.8, 2.7], rel=0.1)  # with which the data were made


# A constraint ------------------------------------------------------------------------------------


def nesting(expression: Expression, operators: frozenset[str]) -> int:
    """By recursion over the finished tree: the most of these operators on a way to a leaf."""

    def of_part(place: int) -> tuple[int, int]:
        """Its nesting, and the place after it."""
        token = expression.library[expression.tokens[place]]
        deepest, place = 0, place + 1
        for _ in range(token.arity):
            below, place = of_part(place)
            deepest = max(deepest, below)
        return deepest + (token.name in operators), place

    return of_part(0)[0]


@pytest.mark.parametrize("most", [1, 2])
def test_the_constraint_excludes_what_it_says_and_no_more(most: int) -> None:
    page = of("A constraint")
    rule = page.MaxNesting(page.rule.operators, most)
    check_rule(rule, page.library, 6, lambda tree: nesting(tree, rule.operators) > most)


# A tree prior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraints", ["none", "default"])
def test_the_prior_keeps_the_contract(constraints: str) -> None:
    library = Library.create(["+", "*", "exp", "sin"], ["x", "y"], constants=True)
    grammar = Grammar(library, 5, constraints)
    check_prior(of("A tree prior").scaled_operands(grammar), grammar)


def test_the_prior_says_what_it_says_it_does() -> None:
    """Of two trees of the same tokens, one with a column as it is below exp."""
    library = Library.create(["*", "exp"], ["x"], constants=True)
    grammar = Grammar(library, 4)
    prior = tree_prior(of("A tree prior").scaled_operands, grammar)
    trees = np.array([parse(text, library).tokens for text in ("exp(x) * c", "exp(x * c)")])
    bare, scaled = prior.log_prob(np, trees.astype(np.int8))
    assert np.exp(bare - scaled) == pytest.approx(0.1, rel=1e-12)


def test_what_the_prior_does_to_a_posterior() -> None:
    """The odds of exp(x0) to exp(x0 * c) are a tenth of those under the same prior without it."""
    page = of("A tree prior")
    odds = []
    for prior in ("weights", page.scaled_operands):
        exact = exact_posterior(
            page.x[:, None], page.y, operators=("*", "exp"), constants=True, max_tokens=4,
            constraints="default", tree_prior=prior, noise="infer",
        )  # fmt: skip
        shares = exact.table(100).set_index("expression")["probability"]
        odds.append(shares["exp(x0)"] / shares["exp(x0 * c)"])
    assert odds[1] / odds[0] == pytest.approx(0.1, rel=1e-4)


def test_a_function_that_makes_no_prior_is_refused() -> None:
    grammar = Grammar(Library.create(["+"], ["x"]), 3)
    with pytest.raises(ValueError, match="must return a TreePrior, not 3"):
        tree_prior(lambda grammar: 3, grammar)  # type: ignore[arg-type, return-value]


# A policy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("constants", [False, True])
def test_the_policy_keeps_the_contract(constants: bool) -> None:
    library = Library.create(["+", "*", "sin"], ["x0"], constants=constants)
    grammar = Grammar(library, 5, "paper")
    policy = of("A policy").ParentTableSpec().create(grammar, jnp.float64, key=jax.random.key(0))
    leaves, rest = jax.tree.flatten(policy)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    filled = [
        jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)
    ]
    check_policy(jax.tree.unflatten(rest, filled), grammar)


def test_the_policy_becomes_the_posterior() -> None:
    page = of("A policy")
    found = page.model.posterior_.set_index("expression")["probability"]
    truth = page.exact.table(100).set_index("expression")["probability"]
    assert set(found.index) <= set(truth.index)
    # Shares of 8,000 draws: the standard error of one is 0.0056 at most.
    assert 0.5 * (found.reindex(truth.index, fill_value=0.0) - truth).abs().sum() < 0.02
    assert page.model.elbo_ == pytest.approx(page.exact.log_evidence, abs=5e-3)
    assert page.model.n_iter_ == page.recipe.num_steps


# A move ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def double_subtree() -> Any:
    """Compiled without being kept: the package keeps the code of its own sources alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dvisr.library.compiling.compiled", numba.njit(error_model="numpy"))
        return of("A move").double_subtree


def test_the_move_keeps_the_contract(double_subtree: Any) -> None:
    check_move(double_subtree)


def test_what_the_move_makes_can_be_undone(double_subtree: Any) -> None:
    """Every tree that it makes has an operator over two equal subtrees, one of which in its place
    is the tree that it was made of; and it makes each of those."""
    library = Library.create(["+", "*", "sin"], ["x", "y"])
    tree = np.array([*parse("sin(x) + y", library).tokens, *[-1] * 6], dtype=np.int8)
    tables, workspace = moves.token_tables(library), new_workspace(len(tree))
    stream = new_stream(np.random.default_rng(0))
    made = set()
    for _ in range(400):
        length = measured(tree, tables.arities, workspace.sizes)
        length = double_subtree(tree, length, tree[:0, None], tables, workspace, stream)
        tokens = tuple(int(token) for token in workspace.made[:length])
        made.add(str(Expression(library, tokens)))
    assert made == {
        "(sin(x) + y) * (sin(x) + y)", "sin(x) + y + (sin(x) + y)", "sin(x) * sin(x) + y",
        "sin(x) + sin(x) + y", "sin(x * x) + y", "sin(x + x) + y", "sin(x) + y * y",
        "sin(x) + (y + y)",
    }  # fmt: skip


_PROPOSE = """
import numpy as np
from dvisr import Grammar, Library, parse
from dvisr.search import moves
from dvisr.search.neighbours import Neighbours

grammar = Grammar(Library.create(["*", "sin"], ["x", "y"]), 7)
row = np.array([*parse("sin(x) * y", grammar.library).tokens, -1, -1, -1], dtype=np.int8)
parents = np.repeat(row[None], 4000, axis=0)
found = Neighbours(grammar).propose(parents, parents[:0], np.random.default_rng(0))
wanted = parse("sin(x) * sin(x) * y", grammar.library).tokens
print(len(moves.MOVES), int((found[:, : len(wanted)] == wanted).all(axis=1).sum() > 0))
"""


@pytest.mark.slow
def test_the_move_in_a_search_by_the_changes_that_the_page_names(tmp_path: Path) -> None:
    """In a copy of the package: without donors no other move makes this neighbour."""
    shutil.copytree(Path(dvisr.__file__).parent, tmp_path / "dvisr")
    file = tmp_path / "dvisr" / "search" / "moves.py"
    code = code_of(PAGE, "A move")[0]
    function = code[code.index("@compiled") :]
    text = file.read_text()
    head, middle, rest = text.partition("MOVES: tuple[tuple[float, Any], ...] = (\n")
    assert middle
    changed = f"{head}{function}\n\n{middle}    (4, double_subtree),\n{rest}"
    printed = []
    for content in (text, changed):
        file.write_text(content)
        done = subprocess.run(
            [sys.executable, "-c", _PROPOSE], capture_output=True, text=True, check=True,
            env={"PYTHONPATH": str(tmp_path), "DVISR_CACHE_DIR": str(tmp_path / "cache")},
        )  # fmt: skip
        printed.append(done.stdout.split())
    count = len(moves.MOVES)
    assert printed == [[str(count), "0"], [str(count + 1), "1"]]


# All of them -------------------------------------------------------------------------------------


def test_a_model_with_code_of_ones_own_is_not_saved(tmp_path: Path) -> None:
    """Refused before the fit begins, in one sentence that names what it is."""
    own = {
        "operators": ("+", of("An operator").sigmoid),
        "constraints": ["default", of("A constraint").MaxNesting(frozenset({"+"}), 1)],
        "tree_prior": of("A tree prior").scaled_operands,
        "noise": of("A noise model").Logistic(),
        "recipe": of("A policy").recipe,
    }
    x = np.linspace(0.0, 1.0, 5)
    for name, value in own.items():
        words: dict[str, Any] = {"operators": ("+",), "max_tokens": 3, name: value}
        model = DVISRRegressor(**words, run_dir=tmp_path / name)
        with pytest.raises(ValueError, match=r"can't be written to a file"):
            model.fit(x[:, None], x)
        assert not (tmp_path / name).exists()

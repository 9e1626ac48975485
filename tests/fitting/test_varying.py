"""What is near the likely forms is visited at the end of a search, whatever the search has met."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dvisr.fitting.search import Search
from dvisr.fitting.varying import Varying, shares_of
from dvisr.problem import make_problem
from dvisr.settings import FitSettings
from dvisr.types import Dataset

OPERATORS = ("+", "-", "*", "/", "^", "exp", "1", "2", "3")
LENGTH = 9


def search_of(rows: int = 20, columns: int = 1) -> Search:
    """Of y = 2 / (3 x + 5) with a little noise, and not begun."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 4.0, (rows, columns))
    y = 2.0 / (3.0 * X[:, 0] + 5.0) + 0.001 * rng.standard_normal(rows)
    problem = make_problem(
        Dataset.create(X, y), operators=OPERATORS, constants=True, max_tokens=LENGTH,
        max_constants=3, constraints="default", tree_prior="science", constant_prior="decades",
        noise="infer",
    )  # fmt: skip
    own = dataclasses.replace(FitSettings().search, max_enumerated=0)
    settings = dataclasses.replace(FitSettings(), search=own)
    return Search(problem, settings, num_samples=16, seed=0, num_threads=1)


def tree_of(search: Search, text: str) -> np.ndarray:
    """Of tokens in prefix order."""
    library = search.problem.grammar.library
    column = next(place for place, token in enumerate(library) if token.column == 0)
    ids = {token.name: place for place, token in enumerate(library)} | {"x": column}
    tokens = [ids[name] for name in text.split()]
    return np.array([tokens + [-1] * (LENGTH - len(tokens))], dtype=np.int8)


def is_visited(search: Search, text: str) -> bool:
    return bool(search.visited.contains(tree_of(search, text))[0])


@pytest.mark.parametrize("rows", [20, 700])  # of 700 trees race on some
@pytest.mark.parametrize(
    "text",
    [
        "/ 1 + * x c c",  # the same function with its constants elsewhere
        "/ 2 * 3 + x c",  # numbers for a constant, and for one of a form that comes of the first
        "/ 1 + / * 3 x 2 c",
        "/ c - x c",  # another tree of the form
        "/ c + x x",  # a column for a constant
    ],
)
def test_what_is_near_the_only_form_that_was_met(text: str, rows: int) -> None:
    search = search_of(rows)
    search.visited.visit(tree_of(search, "/ c + x c"))
    assert not is_visited(search, text)
    Varying(search).vary(lambda: False, {})
    assert is_visited(search, text)


def test_a_function_has_what_all_its_forms_have() -> None:
    """From whichever form it starts, it ends with about the same joint probability."""
    totals = []
    for text in ("/ c + x c", "/ 1 + * x c c", "* / 1 + x c c"):
        search = search_of()
        search.visited.visit(tree_of(search, text))
        alone = np.logaddexp.reduce(search.visited.form_log_joint)
        Varying(search).vary(lambda: False, {})
        totals.append(np.logaddexp.reduce(search.visited.form_log_joint))
        assert totals[-1] > alone + 0.1
    assert max(totals) - min(totals) < 0.05


def test_what_there_was_no_time_for_is_done_the_next_time() -> None:
    search = search_of()
    search.visited.visit(tree_of(search, "/ c + x c"))
    varying = Varying(search)
    for spare in (0, 3, 8, 20):  # looks at the clock before it is late
        left = iter(range(spare))
        varying.vary(lambda left=left: next(left, None) is None, {})  # type: ignore[misc]
    varying.vary(lambda: False, {})
    reference = search_of()
    reference.visited.visit(tree_of(reference, "/ c + x c"))
    Varying(reference).vary(lambda: False, {})
    found, expected = ({tree.tobytes() for tree in s.visited.trees} for s in (search, reference))
    assert expected <= found


def test_what_was_weighed_stays_as_it_is() -> None:
    for is_weighed in (False, True):
        search = search_of()
        visited = search.visited
        visited.visit(tree_of(search, "/ c + x c"))
        numbers = visited.visit(tree_of(search, "/ 1 + * x c c"))
        other = int(visited.tree_form[numbers[0]])
        low = float(visited.form_log_marginal[other]) - 8.0
        visited.set_log_marginal(other, low)
        Varying(search).vary(lambda: False, {other: None} if is_weighed else {})
        assert bool(visited.form_log_marginal[other] == low) is is_weighed


def test_columns_that_no_likely_form_has_are_left() -> None:
    search = search_of(columns=12)
    search.visited.visit(tree_of(search, "/ c + x c"))
    Varying(search).vary(lambda: False, {})
    library = search.problem.grammar.library
    others = [place for place, token in enumerate(library) if token.column > 0]
    assert not np.isin(search.visited.trees, others).any()


def test_shares_add_up() -> None:
    search = search_of()
    search.visited.visit(tree_of(search, "/ c + x c"))
    search.visited.visit(tree_of(search, "* x c"))
    shares = shares_of(search.visited)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] > 0.99

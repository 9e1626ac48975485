"""The table of regroupings: true of numbers, and made of roles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dvisr.library import OPERATORS, Library, Token, new_operator
from dvisr.search.rewriting import make_regroupings

LARGER = new_operator(
    "larger", 2, lambda np, a, b: np.maximum(a, b), is_commutative=True, is_associative=True
)
LISTS: dict[str, list[str | Token]] = {
    "all": [*OPERATORS, LARGER],
    "sums": ["+", "-"],
    "products": ["/", "*"],
    "inverting only": ["-", "/"],
    "mixed": ["-", "*", "sin", "+"],
}


@pytest.mark.parametrize("name", LISTS)
def test_regroupings_are_equal_as_numbers(name: str) -> None:
    library = Library.create(LISTS[name], ["x"])
    table = make_regroupings(library)
    a, b, c = np.random.default_rng(0).uniform(0.5, 2.0, (3, 20))

    def value(token_id: int, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        function = library[token_id].function
        assert function is not None
        result: np.ndarray = function(np, one, two)
        return result

    for p, q in np.argwhere(table.inward[..., 0] >= 0):
        r, s = table.inward[p, q]
        assert tuple(table.outward[r, s]) == (p, q)
        np.testing.assert_allclose(value(p, value(q, a, b), c), value(r, a, value(s, b, c)))
    assert (table.inward >= 0).sum() == (table.outward >= 0).sum()
    for p, q in np.argwhere(table.exchanges):
        np.testing.assert_allclose(value(p, value(q, a, b), c), value(q, value(p, a, c), b))
        if table.commutes[p]:
            np.testing.assert_allclose(value(p, a, value(q, b, c)), value(p, b, value(q, a, c)))


def test_all_regroupings_but_the_one_that_narrows_the_domain() -> None:
    library = Library.create(["+", "-", "*", "/"], ["x"])
    table = make_regroupings(library)
    names = [token.name for token in library]
    pairs = {names[p] + names[q] for p, q in np.argwhere(table.inward[..., 0] >= 0)}
    assert pairs == {"++", "+-", "-+", "--", "**", "/*", "//"}  # not (a / b) * c = a / (b / c)


@pytest.mark.parametrize("name", LISTS)
def test_the_table_does_not_go_by_names(name: str) -> None:
    library = Library.create(LISTS[name], ["x"])
    renamed = Library(
        dataclasses.replace(token, name=f"op{i}") if token.arity else token
        for i, token in enumerate(library)
    )
    for one, two in zip(make_regroupings(library), make_regroupings(renamed), strict=True):
        np.testing.assert_array_equal(one, two)

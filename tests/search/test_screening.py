"""Columns that matter among many that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dvisr.search.screening import leading_columns

Law = Callable[[np.ndarray], np.ndarray]
LAWS: dict[str, tuple[Law, set[int]]] = {
    "product and sine": (lambda X: 2.5 * X[:, 3] * X[:, 17] + np.sin(X[:, 21]), {3, 17, 21}),
    "quotient": (lambda X: (X[:, 5] + 2.0) / (X[:, 11] + 2.0) + X[:, 28], {5, 11, 28}),
    "no means": (lambda X: X[:, 4] * X[:, 9] * 3.0, {4, 9}),
    "square": (lambda X: X[:, 12] ** 2, {12}),
    "heavy": (lambda X: np.exp(4.0 * X[:, 2]) * X[:, 29] ** 2, {2, 29}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LAWS)
def test_columns_that_matter_lead(name: str, seed: int) -> None:
    law, columns = LAWS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (500, 30))
    y = law(X)
    y = y + 0.1 * y.std() * rng.normal(size=len(y))
    found = leading_columns(X, y, 10)
    assert len(found) == len(set(found.tolist())) == 10
    assert columns <= set(found.tolist())


def test_a_copy_of_a_column_does_not_take_the_place_of_others() -> None:
    """Nine columns follow one that matters; the second that does still comes among the first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 30))
    X[:, 1:10] = X[:, :1] + 0.05 * rng.normal(size=(500, 9))
    y = X[:, 0] + 0.3 * X[:, 20] + 0.1 * rng.normal(size=500)
    assert 20 in leading_columns(X, y, 4)


def test_few_columns_are_all_there_in_order() -> None:
    X = np.random.default_rng(0).normal(size=(20, 4))
    for most in (4, 7):
        assert leading_columns(X, -X[:, 3], most).tolist() == [0, 1, 2, 3]
    assert leading_columns(X, -X[:, 3], 1).tolist() == [3]


@pytest.mark.parametrize("rows", [1, 2, 3, 5000])
def test_any_number_of_rows_will_do(rows: int) -> None:
    X = np.random.default_rng(0).normal(size=(rows, 12))
    X[:, 5] = 1.0  # a constant column
    found = leading_columns(X, np.ones(rows), 6)
    assert len(set(found.tolist())) == 6

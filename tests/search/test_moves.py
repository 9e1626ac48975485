"""Moves one by one, and the table that chooses among them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import scipy.stats

from dvisr.constraints import Grammar
from dvisr.library import Library
from dvisr.prior import tree_prior
from dvisr.search import moves
from dvisr.search.from_prior import PriorSampler
from dvisr.search.rows import new_workspace
from dvisr.search.streams import index_by_weight, integer_below, new_stream, uniform
from tests.contracts import check_move

LIBRARY = Library.create(["+", "-", "*", "exp", "sin"], ["x", "y"], constants=True)
GRAMMAR = Grammar(LIBRARY, 12, "none")
NAMES = [move.py_func.__name__ for _, move in moves.MOVES]


def trees(count: int) -> np.ndarray:
    prior = tree_prior("size-balanced", GRAMMAR)
    return PriorSampler(GRAMMAR, prior).draw(count, np.random.default_rng(0))


@pytest.mark.parametrize(("weight", "move"), moves.MOVES, ids=NAMES)
def test_contract(weight: float, move: Any) -> None:
    assert weight > 0
    check_move(move)


def test_moves_are_chosen_in_proportion_to_their_weights() -> None:
    def marker(number: int) -> Any:
        @numba.njit
        def move(row, length, donors, tables, workspace, stream):  # type: ignore[no-untyped-def]
            return number

        return move

    weights = [2.5, 1.0, 0.5, 4.0]  # of any sum
    choose = moves._one_of([(weight, marker(number)) for number, weight in enumerate(weights)])
    tables, workspace = moves.token_tables(LIBRARY), new_workspace(12)
    stream, (row,) = new_stream(np.random.default_rng(2)), trees(1)
    counts = np.bincount(
        [choose(row, 1, row[None], tables, workspace, stream) for _ in range(20_000)], minlength=4
    )
    expected = np.array(weights) / sum(weights) * 20_000
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4


def test_more_moves_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="13 moves and room for 12"):
        moves._one_of([*moves.MOVES, *[moves.MOVES[0]] * (13 - len(moves.MOVES))])


def test_a_stream_is_uniform_and_follows_from_the_generator() -> None:
    stream = new_stream(np.random.default_rng(3))
    drawn = np.array([uniform(stream) for _ in range(20_000)])
    assert scipy.stats.kstest(drawn, "uniform").pvalue > 1e-4
    again = new_stream(np.random.default_rng(3))
    np.testing.assert_array_equal(drawn[:100], [uniform(again) for _ in range(100)])
    assert {integer_below(3, stream) for _ in range(200)} == {0, 1, 2}


def test_what_has_no_weight_is_never_chosen() -> None:
    stream = new_stream(np.random.default_rng(4))
    cumulative = np.cumsum([0.0, 2.0, 0.0, 1.0, 0.0])
    counts = np.bincount([index_by_weight(cumulative, stream) for _ in range(6000)], minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert scipy.stats.chisquare(counts[[1, 3]], [4000, 2000]).pvalue > 1e-4

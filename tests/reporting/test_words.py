"""Numbers as text."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dvisr.reporting.subject import Constant
from dvisr.reporting.words import (
    large,
    number,
    share,
    visited_line,
    with_interval,
    with_spread,
)


@pytest.mark.parametrize(
    ("value", "uncertainty", "text"),
    [
        (3.74603, 0.1, "3.75"),
        (3.74603, 0.012, "3.746"),
        (-0.00001, 0.03, "0.000"),
        (-57.2, 3000.0, "-57"),
        (1.23456e-9, 2e-11, "1.235e-09"),
        (6.02214e23, 1e20, "6.0221e+23"),
        (2.5, 0.0, "2.5"),
        (2.5, math.inf, "2.5"),
        (math.inf, 1.0, "inf"),
    ],
)
def test_as_many_digits_as_are_known(value: float, uncertainty: float, text: str) -> None:
    assert number(value, uncertainty) == text


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (0.0551234, 0.0081, "0.0551 ± 0.0081"),
        (1.23456, 0.0123, "1.235 ± 0.012"),
        (12345.6, 120.0, "12346 ± 120"),
        (3.2e-20, 1.1e-21, "3.20e-20 ± 1.1e-21"),
        (2.5e12, 1e10, "2.500e+12 ± 1.0e+10"),
        (2.0, 0.0, "2"),
        (1.23456, math.nan, "1.23456"),
        (math.nan, 0.1, "-"),
    ],
)
def test_spreads(mean: float, std: float, text: str) -> None:
    assert with_spread(mean, std) == text


def test_intervals() -> None:
    assert with_interval(Constant(3.746, 3.59, 3.93), 4) == "3.746 (3.59 to 3.93)"
    assert with_interval(Constant(2.0, 2.0, 2.0), 4) == "2 (2 to 2)"
    assert with_interval(Constant(4.6e-6, -3.8e-4, 3.5e-4), 4) == "4.6e-06 (-0.00038 to 0.00035)"


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.5, "0.500"), (1.0, "1.000"), (0.9999, "> 0.999"), (0.0001, "< 0.001"), (0.0, "0.000")],
)
def test_no_probability_is_rounded_to_certainty(probability: float, text: str) -> None:
    assert share(probability) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"exact": True, "num_allowed": 6, "num_trees_visited": 6}, "all 6 trees weighed"),
        ({"num_allowed": 4322, "num_trees_visited": 4322}, "all 4,322 trees visited"),
        ({"num_allowed": 4322, "num_trees_visited": 99}, "99 trees visited of 4,322"),
        (
            {"num_allowed": 10**16, "num_trees_visited": 47851, "num_listed": 10000},
            "47,851 trees visited of about 10^16; the 10,000 likeliest of the prior among them",
        ),
    ],
)
def test_how_many_trees(found: dict[str, Any], text: str) -> None:
    assert visited_line(found) == text


def test_large_counts() -> None:
    assert large(1234567) == "1,234,567"
    assert large(10**15) == "about 10^15"

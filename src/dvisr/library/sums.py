"""Sums over points, by compiled code."""

from __future__ import annotations

from dvisr.library.compiling import compiled_sum


@compiled_sum
def sum_of_squares(values):
    total = 0.0
    for point in range(len(values)):
        total += values[point] * values[point]
    return total


@compiled_sum
def weighted_squares(values, weights):
    total = 0.0
    for point in range(len(values)):
        total += weights[point] * values[point] * values[point]
    return total


@compiled_sum
def weighted_product(one, two, weights):
    total = 0.0
    for point in range(len(weights)):
        total += one[point] * two[point] * weights[point]
    return total

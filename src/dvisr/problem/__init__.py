"""What is asked: one `Problem`, and the one place that makes it of a user's words."""

from dvisr.problem.problem import Problem
from dvisr.problem.rows import Rows, distinct_rows
from dvisr.problem.words import (
    MOST_CONSTANTS,
    make_problem,
    most_constants,
    seed_of,
    threads_of,
    unknown_parameter,
    whole_number,
)

__all__ = [
    "MOST_CONSTANTS",
    "Problem",
    "Rows",
    "distinct_rows",
    "make_problem",
    "most_constants",
    "seed_of",
    "threads_of",
    "unknown_parameter",
    "whole_number",
]

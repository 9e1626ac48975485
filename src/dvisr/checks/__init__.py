"""What a verdict is made of: checks of the search and of the data, each with a grade."""

from dvisr.checks.base import DATA, QUESTIONS, SEARCH, Check, Grade, Verdict, graded
from dvisr.checks.data import CHECKS, Replication, check_data

__all__ = [
    "CHECKS",
    "DATA",
    "QUESTIONS",
    "SEARCH",
    "Check",
    "Grade",
    "Replication",
    "Verdict",
    "check_data",
    "graded",
]

"""What a fit needs of its language alone, worked out while a program is still importing."""

from __future__ import annotations

from typing import Any

from dvisr.counting import count_trees
from dvisr.problem import make_problem
from dvisr.search.forms import make_algebra
from dvisr.search.likeliest import listed
from dvisr.search.table import list_beforehand
from dvisr.settings import SearchSettings
from dvisr.types import Dataset


def work_out(data: Dataset, words: dict[str, Any]) -> None:
    """Of a problem by its words: its prior, its likeliest trees and those that functions are listed
    from. They are kept, and the fit finds them, or waits for them. What is wrong with the words is
    for the fit to say."""
    try:
        problem = make_problem(data, **words)
    except ValueError:
        return
    own, grammar = SearchSettings(), problem.grammar
    if count_trees(grammar) <= own.max_enumerated:
        return
    listed(grammar, problem.tree_prior, own.likeliest_trees)
    symmetric = problem.constant_prior.is_symmetric
    algebra = make_algebra(grammar.library, symmetric_constants=symmetric)
    list_beforehand(problem, algebra, own.table_functions)

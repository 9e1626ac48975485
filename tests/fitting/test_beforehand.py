"""What a fit needs of its language alone, worked out beforehand: the fit finds it."""

from __future__ import annotations

from typing import Any

import pytest

from dvisr.fitting.beforehand import work_out
from dvisr.fitting.search import Search
from dvisr.problem import make_problem
from dvisr.search import likeliest, table
from dvisr.settings import FitSettings
from dvisr.types import Dataset
from tests.fitting.problems import LINE, X

DATA = Dataset.create(X[:, None], LINE)


def words_of(**changes: Any) -> dict[str, Any]:
    return {
        "operators": ("+", "*", "/", "exp", "3"), "constants": True, "max_tokens": 13,
        "max_constants": 3, "constraints": "default", "tree_prior": "science",
        "constant_prior": "decades", "noise": "infer", **changes,
    }  # fmt: skip


class Asked(Exception):
    pass


@pytest.fixture
def nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise Asked

    for module in (likeliest, table):
        monkeypatch.setattr(module, "likeliest_trees", refuse)


def used(words: dict[str, Any]) -> None:
    """What a search lists as it begins."""
    problem, own = make_problem(DATA, **words), FitSettings().search
    search = Search(problem, FitSettings(), num_samples=4, seed=0, num_threads=1)
    likeliest.listed(problem.grammar, problem.tree_prior, own.likeliest_trees)
    table.list_beforehand(problem, search._algebra, own.table_functions)


def test_a_fit_finds_what_was_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of()
    work_out(DATA, words)
    with monkeypatch.context() as patch:
        for module in (likeliest, table):
            patch.setattr(module, "likeliest_trees", None)
        used(words)


@pytest.mark.usefixtures("nothing_is_listed")
def test_another_language_is_listed_by_its_fit() -> None:
    with pytest.raises(Asked):
        used(words_of(max_tokens=12))


@pytest.mark.usefixtures("nothing_is_listed")
def test_where_all_trees_are_weighed_nothing_is_listed() -> None:
    work_out(DATA, words_of(max_tokens=4))
    with pytest.raises(Asked):
        work_out(DATA, words_of(max_tokens=11))


@pytest.mark.usefixtures("nothing_is_listed")
@pytest.mark.parametrize(
    "wrong", [{"operators": ("what",)}, {"max_tokens": 0}, {"tree_prior": "none such"}]
)
def test_what_is_wrong_is_for_the_fit_to_say(wrong: dict[str, Any]) -> None:
    work_out(DATA, words_of(**wrong))
    with pytest.raises(ValueError, match=r"\w"):
        make_problem(DATA, **words_of(**wrong))

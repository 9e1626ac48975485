"""Grades, checks and verdicts: the worst counts, and all of it survives JSON."""

from __future__ import annotations

import json
import math

import pytest

from dvisr.checks.base import DATA, SEARCH, Check, Grade, Verdict, graded


def make(grade: Grade, group: str = DATA, sentence: str = "s", name: str = "n") -> Check:
    return Check(name, group, 1.0, 2.0, grade, sentence, 3.0)


def test_grades_are_ordered_and_have_words() -> None:
    assert Grade.OK < Grade.CAUTION < Grade.DO_NOT_TRUST
    assert [grade.word for grade in Grade] == ["ok", "caution", "do-not-trust"]
    assert [Grade.from_word(grade.word) for grade in Grade] == list(Grade)
    with pytest.raises(ValueError, match="a grade is one of ok, caution, do-not-trust"):
        Grade.from_word("fine")


@pytest.mark.parametrize(
    ("measured", "grave_limit", "grade"),
    [
        (0.9, 2.0, Grade.OK),
        (1.0, 2.0, Grade.CAUTION),
        (1.9, 2.0, Grade.CAUTION),
        (2.0, 2.0, Grade.DO_NOT_TRUST),
        (1e9, None, Grade.CAUTION),
        (math.nan, 2.0, Grade.OK),
    ],
)
def test_a_grade_begins_at_its_limit(
    measured: float, grave_limit: float | None, grade: Grade
) -> None:
    assert graded(measured, 1.0, grave_limit) is grade


def test_a_group_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="the group of a check is search or data, not 'other'"):
        make(Grade.OK, "other")


@pytest.mark.parametrize(
    ("grades", "word"),
    [
        ([], "not checked"),
        ([Grade.OK], "ok"),
        ([Grade.OK, Grade.CAUTION, Grade.OK], "caution"),
        ([Grade.CAUTION, Grade.DO_NOT_TRUST, Grade.OK], "do-not-trust"),
    ],
)
def test_the_worst_counts(grades: list[Grade], word: str) -> None:
    assert Verdict.of(make(grade) for grade in grades).word == word


def test_lines_and_reasons() -> None:
    verdict = Verdict.of(
        [
            make(Grade.OK, SEARCH, "all was found"),
            make(Grade.CAUTION, DATA, "first"),
            make(Grade.OK, DATA, "fine"),
            make(Grade.DO_NOT_TRUST, DATA, "grave"),
            make(Grade.CAUTION, DATA, "second"),
        ]
    )
    assert verdict.reasons == ("grave", "first", "second")
    assert verdict.group_word(SEARCH) == "ok"
    assert verdict.group_word(DATA) == "do-not-trust"
    assert verdict.lines == (
        "was everything found? ok",
        "do the data look like this model? do-not-trust: grave; first; second",
    )


def test_a_group_without_checks_was_not_checked() -> None:
    verdict = Verdict.of([make(Grade.CAUTION, SEARCH, "two searches disagree")])
    assert verdict.lines == (
        "was everything found? caution: two searches disagree",
        "do the data look like this model? not checked",
    )
    assert Verdict.of([]).lines[0] == "was everything found? not checked"


def test_json_and_back() -> None:
    verdict = Verdict.of(
        [
            make(Grade.CAUTION, SEARCH),
            Check("x", DATA, 0.1, math.inf, Grade.OK, "fine"),
            make(Grade.DO_NOT_TRUST),
        ]
    )
    text = json.dumps(verdict.as_dict(), allow_nan=False)
    assert Verdict.from_dict(json.loads(text)) == verdict


def test_what_could_not_be_measured_survives_json() -> None:
    check = Check("x", DATA, math.nan, math.inf, Grade.OK, "not measured")
    back = Check.from_dict(json.loads(json.dumps(check.as_dict(), allow_nan=False)))
    assert math.isnan(back.measured)
    assert (back.limit, back.grade, back.grave_limit) == (math.inf, Grade.OK, None)

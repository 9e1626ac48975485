"""A check, its grade, and the verdict that several of them make."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SEARCH = "search"
DATA = "data"
QUESTIONS = {
    SEARCH: "was everything found?",
    DATA: "do the data look like this model?",
}
NOT_CHECKED = "not checked"


class Grade(enum.IntEnum):
    """How bad; the larger, the worse."""

    OK = 0
    CAUTION = 1
    DO_NOT_TRUST = 2

    @property
    def word(self) -> str:
        return _WORDS[self]

    @classmethod
    def from_word(cls, word: str) -> Grade:
        for grade, known in _WORDS.items():
            if known == word:
                return grade
        raise ValueError(f"a grade is one of {', '.join(_WORDS.values())}, not {word!r}")


_WORDS = {Grade.OK: "ok", Grade.CAUTION: "caution", Grade.DO_NOT_TRUST: "do-not-trust"}


@dataclass(frozen=True)
class Check:
    """One thing that was measured, and what it means.

    Attributes
    ----------
    name
        A short identifier, such as ``outliers``.
    group
        ``search`` (was everything found?) or ``data`` (do the data look like this model?).
    measured
        The measurement; the larger, the worse. NaN where it could not be taken.
    limit
        Where caution begins; infinite where nothing could give it.
    grade
        ok, caution or do-not-trust.
    sentence
        What was measured and what to do; for an ok check, what was found to be fine.
    grave_limit
        Where do-not-trust begins; None where this measurement can't give it.
    """

    name: str
    group: str
    measured: float
    limit: float
    grade: Grade
    sentence: str
    grave_limit: float | None = None

    def __post_init__(self) -> None:
        if self.group not in QUESTIONS:
            known = " or ".join(QUESTIONS)
            raise ValueError(f"the group of a check is {known}, not {self.group!r}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None, and comes back."""
        return {
            "name": self.name,
            "group": self.group,
            "measured": _finite(self.measured),
            "limit": _finite(self.limit),
            "grave_limit": _finite(self.grave_limit),
            "grade": self.grade.word,
            "sentence": self.sentence,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Check:
        """Back from `as_dict`."""
        measured, limit, grave = values["measured"], values["limit"], values["grave_limit"]
        return cls(
            name=values["name"],
            group=values["group"],
            measured=math.nan if measured is None else float(measured),
            limit=math.inf if limit is None else float(limit),
            grade=Grade.from_word(values["grade"]),
            sentence=values["sentence"],
            grave_limit=None if grave is None else float(grave),
        )


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Verdict:
    """Whether an answer can be trusted: the worst grade of its checks, and why.

    Parameters
    ----------
    checks : tuple of Check

    Examples
    --------
    >>> from dvisr.checks import SEARCH, Check, Verdict, graded
    >>> grade = graded(0.2, limit=0.1, grave_limit=0.5)
    >>> check = Check("agreement", SEARCH, 0.2, 0.1, grade, "two searches differ: go on", 0.5)
    >>> verdict = Verdict.of([check])
    >>> verdict.word, verdict.group_word("data")
    ('caution', 'not checked')
    >>> verdict.line("search")
    'was everything found? caution: two searches differ: go on'
    """

    checks: tuple[Check, ...]

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Verdict:
        return cls(tuple(checks))

    @property
    def grade(self) -> Grade:
        return max((check.grade for check in self.checks), default=Grade.OK)

    @property
    def word(self) -> str:
        """The worst grade's word; ``not checked`` where nothing was."""
        return self.grade.word if self.checks else NOT_CHECKED

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences of the checks that are not ok, gravest first, else in their order."""
        return tuple(check.sentence for check in _doubts(self.checks))

    def group_word(self, group: str) -> str:
        """The worst word of one group; ``not checked`` where it has no checks."""
        grades = [check.grade for check in self.checks if check.group == group]
        return max(grades).word if grades else NOT_CHECKED

    def doubts(self, group: str) -> list[Check]:
        """The checks of one group that are not ok, gravest first, else in their order."""
        return _doubts(check for check in self.checks if check.group == group)

    def line(self, group: str) -> str:
        """The group's question and its answer, with the reasons where it is not ok."""
        doubts = self.doubts(group)
        answer = f"{QUESTIONS[group]} {self.group_word(group)}"
        if not doubts:
            return answer
        return f"{answer}: {'; '.join(check.sentence for check in doubts)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each group."""
        return tuple(self.line(group) for group in QUESTIONS)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"word": self.word, "checks": [check.as_dict() for check in self.checks]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """Back from `as_dict`; the word is worked out again from the checks."""
        return cls.of(Check.from_dict(check) for check in values["checks"])


def _doubts(checks: Iterable[Check]) -> list[Check]:
    doubtful = [check for check in checks if check.grade is not Grade.OK]
    return sorted(doubtful, key=lambda check: -check.grade)


def graded(measured: float, limit: float, grave_limit: float | None = None) -> Grade:
    """The grade of a measurement of which more is worse, from each limit on; what is not a number
    is ok."""
    if grave_limit is not None and measured >= grave_limit:
        return Grade.DO_NOT_TRUST
    return Grade.CAUTION if measured >= limit else Grade.OK

"""Which cases of a test run every time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick_only(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """The cases of a parametrised test, all but the quick ones marked slow."""
    listed = list(cases)
    assert all(case in listed for case in quick)
    return [
        case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in listed
    ]

"""Settings as TOML: what is written is what the standard library reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvisr.runs import BrokenFile
from dvisr.runs.toml import from_toml, to_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT
)
VALUES = st.recursive(
    st.one_of(SCALARS, st.lists(SCALARS, max_size=3)),
    lambda inner: st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_written_and_read(values: dict[str, Any]) -> None:
    found = from_toml(to_toml(values).encode(), Path("f"))
    assert found == values
    assert repr(found) == repr(_in_order(values))  # 1 is not 1.0, and True is neither


def _in_order(values: dict[str, Any]) -> dict[str, Any]:
    """As TOML has it: tables after all else."""
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return plain | {n: _in_order(v) for n, v in values.items() if isinstance(v, dict)}


def test_none_is_left_out_and_numbers_are_kept() -> None:
    found = from_toml(to_toml({"a": None, "b": (1, math.inf), "c": math.nan}).encode(), Path("f"))
    assert found["b"] == [1, math.inf]
    assert math.isnan(found["c"])
    assert "a" not in found


@pytest.mark.parametrize(
    "text", ["a = ", "a = " + "[" * 5000 + "]" * 5000, "a = " + "[" * 50 + "]" * 50, "\x00"]
)
def test_what_is_no_settings(text: str) -> None:
    with pytest.raises(BrokenFile):
        from_toml(text.encode(), Path("f"))

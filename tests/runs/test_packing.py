"""Arrays made smaller, and what was never an array of ours."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from dvisr.runs.packing import packed, unpacked

ARRAYS: dict[str, np.ndarray] = {
    "trees": np.zeros((400, 15), dtype=np.int8),
    "one": np.array(3, dtype=np.int64),
    "none": np.zeros((0, 2)),
    "logs": np.array([1.5, -np.inf, np.nan]),
    "is": np.array([True, False]),
}


def test_packed_and_unpacked() -> None:
    small, kinds = packed(ARRAYS)
    assert small["trees"].nbytes < 100
    found = unpacked(small, kinds)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["float64", [2**40, 2**40]], "larger than any"),
        (["float64", [-1]], "no size"),
        (["float64", [True]], "no size"),
        (["float64", [3]], "of another size"),
        (["float64", [1]], "of another size"),
        (["object", [2]], "no kind"),
        (["float64"], "no kind"),
        (None, "no kind"),
    ],
)
def test_what_was_never_packed(kind: Any, message: str) -> None:
    small, _ = packed({"a": np.arange(2.0)})
    with pytest.raises(ValueError, match=message):
        unpacked(small, {"a": kind})


def test_a_small_file_that_would_be_a_large_one() -> None:
    """No more is unpacked than was said."""
    bomb = np.frombuffer(zlib.compress(bytes(10**8)), dtype=np.uint8)
    with pytest.raises(ValueError, match="of another size"):
        unpacked({"a": bomb}, {"a": ["int8", [10]]})
    with pytest.raises(ValueError, match="can't be read"):
        unpacked({"a": bomb[5:]}, {"a": ["int8", [10]]})
    with pytest.raises(ValueError, match="not those that are described"):
        unpacked({"a": bomb}, {})

"""Arrays made smaller for a file: compressed by zlib, with their types and shapes beside them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "float32", "float64")
_MOST_BYTES = 2**32  # of one array: a small file may claim to be a large one
_LEVEL = 1


def packed(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays of bytes, and what they were, as JSON has it."""
    found = {
        name: np.frombuffer(zlib.compress(array.tobytes(), _LEVEL), dtype=np.uint8)
        for name, array in arrays.items()
    }
    return found, {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()}


def unpacked(arrays: Mapping[str, np.ndarray], kinds: Any) -> dict[str, np.ndarray]:
    """Back from `packed`; a `ValueError` for what it did not make."""
    if not isinstance(kinds, dict) or set(kinds) != set(arrays):
        raise ValueError("the arrays are not those that are described")
    return {name: _unpacked(array, kinds[name]) for name, array in arrays.items()}


def _unpacked(array: np.ndarray, kind: Any) -> np.ndarray:
    is_pair = isinstance(kind, list) and len(kind) == 2 and isinstance(kind[1], list)
    if not is_pair or kind[0] not in _DTYPES or array.dtype != np.uint8:
        raise ValueError("an array is of no kind that is known")
    dtype, shape = np.dtype(kind[0]), kind[1]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array has no size")
    size = math.prod(shape) * dtype.itemsize
    if size > _MOST_BYTES:
        raise ValueError("an array is larger than any of a search")
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(array.tobytes(), size + 1)
    except zlib.error:
        raise ValueError("an array can't be read") from None
    if len(content) != size:
        raise ValueError("an array is of another size")
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()

"""Counting compilations."""

from __future__ import annotations

from typing import Any


def compilations(jitted: Any) -> int:
    """How many programs a jitted function has compiled so far."""
    return int(jitted._cache_size())

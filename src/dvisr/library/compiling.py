"""Host code compiled by Numba, kept in a cache between processes where there is room for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """For functions of a module. Compiled code is kept beside the module, as Python keeps its own,
    or in the user's cache folder; where neither can be written to, nowhere."""
    try:
        return numba.njit(function, error_model="numpy", nogil=True, cache=True)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(function, error_model="numpy", nogil=True)

"""Memory after a search."""

from __future__ import annotations

import contextlib
import ctypes

from dvisr.fitting.fitters import AbstractFitter, SearchFitter


def let_go(fitter: AbstractFitter | None) -> None:
    """Of a search that won't go on. It has taken some hundred megabytes; where the allocator is
    glibc's, which would keep what its threads have freed, they go back to the system."""
    if not isinstance(fitter, SearchFitter) or fitter.search is None:
        return
    search = fitter.search
    fitter.forget()
    if search.is_enumerated:  # small, and soon done
        return
    # Its parts know of it, and would wait for a look for cycles, which takes a fifth of a second.
    vars(search).clear()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)

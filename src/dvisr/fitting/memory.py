"""Memory after a search."""

from __future__ import annotations

import contextlib
import ctypes
import gc

from dvisr.fitting.fitters import AbstractFitter, SearchFitter


def let_go(fitter: AbstractFitter | None) -> None:
    """Of a search that won't go on. It has taken some hundred megabytes; where the allocator is
    glibc's, which would keep what its threads have freed, they go back to the system."""
    if not isinstance(fitter, SearchFitter) or fitter.search is None:
        return
    is_small = fitter.search.is_enumerated
    fitter.forget()
    if is_small:  # and soon done
        return
    gc.collect()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)

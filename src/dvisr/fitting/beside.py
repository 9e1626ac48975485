"""Work that goes on beside a fit, in threads that a fit need not wait for."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_NAME = "dvisr-beside"
_LOOK = 0.05  # seconds between two looks at the clock

_Result = TypeVar("_Result")


def beside(*runs: Callable[[], Any]) -> list[concurrent.futures.Future[Any]]:
    """Begin one after the other, in one thread that ends with the last of them."""
    pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=_NAME)
    futures = [pool.submit(run) for run in runs]
    pool.shutdown(wait=False)
    return futures


def is_busy() -> bool:
    """Whether something is still going on: an interpreter that ends would wait for it."""
    return any(thread.name.startswith(_NAME) for thread in threading.enumerate())


def is_done_in_time(work: concurrent.futures.Future[_Result], is_late: Callable[[], bool]) -> bool:
    """Wait for it until it grows late."""
    while not work.done():
        if is_late():
            return False
        concurrent.futures.wait([work], timeout=_LOOK)
    return True

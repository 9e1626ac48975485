"""Work on several cores: one pool of threads for the whole process.

Compiled code gives up the interpreter's lock, so that threads run it side by side. The thread that
asks works too, and the pool only helps: work that is asked for inside other work, or by several
threads at once, never waits for a thread to come free.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")
_lock = threading.Lock()
_pool: concurrent.futures.ThreadPoolExecutor | None = None


def for_each(
    make_run: Callable[[], Callable[[_Item], None]], items: Iterable[_Item], num_threads: int
) -> None:
    """Call a function on every item, on up to so many threads, each of which takes the next item
    as it comes free. An error ends the work and is raised once all threads have left it.

    Parameters
    ----------
    make_run : callable
        Called once by each thread: makes the function, with room of its own to work in.
    items : iterable
        They must not depend on each other, nor on who works on them.
    num_threads : int
        At most one more than there are cores is of use.
    """
    queue = list(items)
    due = iter(queue)
    is_over = threading.Event()

    def work() -> None:
        run = make_run()
        try:
            for item in due:  # taken under the interpreter's lock: each goes to one thread
                if is_over.is_set():
                    return
                run(item)
        except BaseException:
            is_over.set()
            raise

    helpers = []
    if min(num_threads, len(queue)) > 1:
        pool = _shared_pool()
        helpers = [pool.submit(work) for _ in range(min(num_threads, len(queue)) - 1)]
    failure: Exception | None = None
    try:
        work()
    except Exception as error:  # an interrupt waits for nobody
        failure = error
    begun = [helper for helper in helpers if not helper.cancel()]  # the others have nothing to do
    failures = [failure, *(helper.exception() for helper in begun)]
    for one in failures:
        if one is not None:
            raise one


def _shared_pool() -> concurrent.futures.ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = concurrent.futures.ThreadPoolExecutor(
                os.cpu_count() or 1, thread_name_prefix="dvisr"
            )
        return _pool


def _forget() -> None:
    """In a process that was forked off: the threads were left behind."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

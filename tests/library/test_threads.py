"""One pool of threads for the whole process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from dvisr.library.threads import for_each


def noting(seen: list[int]) -> Callable[[], Callable[[int], None]]:
    return lambda: seen.append


@pytest.mark.parametrize("num_threads", [1, 2, 3, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_item_is_done_once(num_threads: int, count: int) -> None:
    seen: list[int] = []
    for_each(noting(seen), range(count), num_threads)
    assert sorted(seen) == list(range(count))


def test_each_thread_makes_its_own_function_once() -> None:
    made: list[int] = []

    def make_run() -> Callable[[int], None]:
        made.append(threading.get_ident())
        return lambda item: time.sleep(0.002)

    for_each(make_run, range(40), 2)
    assert 1 <= len(made) <= 2
    assert len(set(made)) == len(made)
    assert threading.get_ident() in made  # who asks works too


def test_one_thread_is_the_one_that_asks() -> None:
    seen: list[int] = []
    for_each(lambda: lambda item: seen.append(threading.get_ident()), range(5), 1)
    assert seen == [threading.get_ident()] * 5


def test_calls_share_their_threads() -> None:
    """However many calls there are, and from whichever threads."""
    before = threading.active_count()

    def many() -> None:
        for _ in range(50):
            for_each(lambda: lambda item: time.sleep(0.0), range(8), 8)

    asking = [threading.Thread(target=many) for _ in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert threading.active_count() <= before + (os.cpu_count() or 1)


def test_work_inside_work_is_done() -> None:
    """With all threads of the pool waiting for work that they asked for themselves."""
    seen: list[int] = []

    def outer(item: int) -> None:
        for_each(noting(seen), range(10 * item, 10 * item + 10), 4)

    for_each(lambda: outer, range(20), 20)
    assert sorted(seen) == list(range(200))


@pytest.mark.parametrize("at_fault", [0, 7, 39])
def test_an_error_ends_the_work_and_is_raised(at_fault: int) -> None:
    seen: list[int] = []

    def run(item: int) -> None:
        if item == at_fault:
            raise ZeroDivisionError
        time.sleep(0.002)
        seen.append(item)

    with pytest.raises(ZeroDivisionError):
        for_each(lambda: run, range(40), 2)
    assert len(seen) <= at_fault + 2
    after = len(seen)
    time.sleep(0.02)
    assert len(seen) == after  # nobody goes on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_process_has_a_pool_of_its_own() -> None:
    for_each(lambda: lambda item: time.sleep(0.001), range(8), 2)
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        for_each(noting(seen), range(100), 4)
        os._exit(0 if sorted(seen) == list(range(100)) else 1)
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the forked process waits for threads that it has not")
    assert status == 0

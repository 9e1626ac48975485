"""Results that are kept, asked for by several threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dvisr.library.caching import kept


def test_two_threads_have_one_result() -> None:
    calls, begun = [], threading.Event()

    @kept(maxsize=2)
    def slow(number: int) -> list[int]:
        calls.append(number)
        begun.set()
        time.sleep(0.05)
        return [number]

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(slow, 1)
        begun.wait()
        two = pool.submit(slow, 1)
        assert one.result() is two.result()
    assert calls == [1]
    assert slow(2) == [2]
    assert slow(3) == [3]
    assert slow(1) == [1]
    assert calls == [1, 2, 3, 1], "no more than two are kept"


def test_an_error_is_not_kept() -> None:
    calls = []

    @kept(maxsize=2)
    def fails(number: int) -> int:
        calls.append(number)
        if len(calls) == 1:
            raise ValueError("once")
        return number

    with pytest.raises(ValueError, match="once"):
        fails(1)
    assert fails(1) == 1
    assert calls == [1, 1]

"""Signals during a fit."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from dvisr.fitting.fitters import heeding_signals

KINDS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_signal_is_noted_and_the_handlers_come_back(kind: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with heeding_signals() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), kind)
        assert should_stop()
        assert [signal.getsignal(one) for one in KINDS] != before
    assert [signal.getsignal(one) for one in KINDS] == before


@pytest.mark.parametrize("second", KINDS, ids=lambda kind: kind.name)
def test_a_second_one_is_obeyed_at_once(second: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with pytest.raises(KeyboardInterrupt), heeding_signals():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), second)
    assert [signal.getsignal(one) for one in KINDS] == before


def test_an_error_inside_brings_the_handlers_back_too() -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with pytest.raises(ZeroDivisionError), heeding_signals():
        raise ZeroDivisionError
    assert [signal.getsignal(one) for one in KINDS] == before


def test_in_another_thread_signals_are_left_alone() -> None:
    """They are the main thread's."""
    before = [signal.getsignal(one) for one in KINDS]
    found: list[object] = []

    def work() -> None:
        with heeding_signals() as should_stop:
            found.extend([should_stop(), [signal.getsignal(one) for one in KINDS] == before])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False, True]

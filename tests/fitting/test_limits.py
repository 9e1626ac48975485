"""When a fit ends: its time, and signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from numba.core import event

from dvisr.fitting.beside import beside, is_busy, is_done_in_time
from dvisr.fitting.limits import TERMINATED, Heard, Limit

KINDS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_signal_is_noted_and_the_handlers_come_back(kind: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with Heard().listening() as heard:
        assert not heard.is_any()
        os.kill(os.getpid(), kind)
        assert heard.is_any()
        assert [signal.getsignal(one) for one in KINDS] != before
    assert [signal.getsignal(one) for one in KINDS] == before


@pytest.mark.parametrize("second", KINDS, ids=lambda kind: kind.name)
def test_a_second_one_is_obeyed_at_once(second: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with pytest.raises(KeyboardInterrupt), Heard().listening():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), second)
    assert [signal.getsignal(one) for one in KINDS] == before


def test_an_error_inside_brings_the_handlers_back_too() -> None:
    before = [signal.getsignal(one) for one in KINDS]
    with pytest.raises(ZeroDivisionError), Heard().listening():
        raise ZeroDivisionError
    assert [signal.getsignal(one) for one in KINDS] == before


def test_in_another_thread_signals_are_left_alone() -> None:
    """They are the main thread's."""
    before = [signal.getsignal(one) for one in KINDS]
    found: list[object] = []

    def work() -> None:
        with Heard().listening() as heard:
            found.extend([heard.is_any(), [signal.getsignal(one) for one in KINDS] == before])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False, True]


def test_the_first_signal_is_answered_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Heard().listening():
        os.kill(os.getpid(), signal.SIGINT)
        assert "stopping; what was found so far follows" in capsys.readouterr().err


def test_what_was_told_to_end_ends_after_the_fit() -> None:
    heard = Heard()
    with heard.listening():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        heard.pass_on()
    assert ended.value.code == TERMINATED == 143


def test_after_an_interrupt_the_program_goes_on() -> None:
    heard = Heard()
    with heard.listening():
        os.kill(os.getpid(), signal.SIGINT)
    heard.pass_on()
    Heard().pass_on()  # nor does it end where nothing was heard


def test_a_handler_of_its_own_is_called_after_the_fit() -> None:
    called: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    try:
        heard = Heard()
        with heard.listening():
            os.kill(os.getpid(), signal.SIGTERM)
            assert called == []
        heard.pass_on()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [signal.SIGTERM]


def test_a_limit_keeps_time_for_what_comes_after_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("dvisr.fitting.limits.time.perf_counter", lambda: now[0])
    short, long = Limit(10.0), Limit(60.0)
    never = Limit()
    for passed, over in (
        (0.0, (False, False, False, False)),
        (7.1, (True, False, False, False)),
        (10.1, (True, True, False, False)),
        (54.9, (True, True, False, False)),
        (55.1, (True, True, True, False)),
        (60.1, (True, True, True, True)),
    ):
        now[0] = 100.0 + passed
        assert over == (
            short.search_is_over(), short.is_over(), long.search_is_over(), long.is_over(),
        )  # fmt: skip
        assert not never.search_is_over()
        assert not never.is_over()


def test_someone_who_says_stop_ends_both() -> None:
    stopped = Limit(100.0, lambda: True)
    assert stopped.is_stopped()
    assert stopped.search_is_over()
    assert stopped.is_over()


def test_the_time_begins_where_it_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit's time begins when it is asked for, not when its search does."""
    monkeypatch.setattr("dvisr.fitting.limits.time.perf_counter", lambda: 110.0)
    assert Limit(10.0, began=99.0).is_over()
    assert not Limit(10.0).is_over()


def test_a_first_compilation_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from without nor for those that it compiles inside, twice."""
    now = [0.0]
    monkeypatch.setattr("dvisr.fitting.limits.time.perf_counter", lambda: now[0])
    limit = Limit(10.0)
    with limit.compiling_apart():
        with event.trigger_event("numba:compile"):
            now[0] += 20.0
            with event.trigger_event("numba:compile"):
                now[0] += 30.0
        now[0] += 6.0
        assert not limit.search_is_over()
        now[0] += 1.5
        assert limit.search_is_over()
        assert not limit.is_over()
        now[0] += 2.0
    assert limit.is_over()
    with event.trigger_event("numba:compile"):
        now[0] += 5.0
    assert limit.is_over()  # what is compiled elsewhere is nothing to it


def test_work_beside_is_waited_for_until_it_is_late() -> None:
    is_free = threading.Event()
    looks = iter([False, False, True])
    first, second = beside(is_free.wait, lambda: "done")
    assert not is_done_in_time(first, lambda: next(looks))
    assert is_busy()
    is_free.set()
    assert is_done_in_time(second, lambda: False)
    assert second.result() == "done"

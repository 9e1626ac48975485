"""When a fit ends: its time, and signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest

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

"""Interrupting processes that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Before a process is started that is to be interrupted: where SIGINT is ignored, as in a
    shell's background jobs, it would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

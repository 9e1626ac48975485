"""Interrupting processes that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """In the child, before it runs: a shell's background jobs inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

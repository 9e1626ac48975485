"""Text from outside, made safe to print. It imports nothing, so that a message need not wait."""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters, as a column's name may hold them, shown rather than obeyed."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

"""Results that are kept, and worked out once though two threads ask for them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def kept(
    maxsize: int,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """As `functools.lru_cache`, which would have both threads work it out; here one waits."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        cached, lock = functools.lru_cache(maxsize)(function), threading.RLock()

        @functools.wraps(function)
        def ask(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
            with lock:
                return cached(*arguments, **named)  # type: ignore[arg-type]

        return ask

    return decorate

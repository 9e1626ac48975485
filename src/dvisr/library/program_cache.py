"""Programs that JAX compiles, kept between processes.

JAX keeps them itself once the whole process is told where to. Here it is a scope: inside of
`kept_programs`, in the threads that have entered it, programs are looked up in a folder of the
user's own and added to it; other threads are left alone, and no setting is changed. Where JAX was
given a folder, or told to keep nothing (JAX_ENABLE_COMPILATION_CACHE=false), it is left to that.

The scope needs parts of JAX that are not its public interface. Where they are missing, or not as
they are here, programs are compiled anew in each process, as they would be without it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dvisr.library.code_cache import private_folder

_SHORTEST = 0.05  # seconds that a program must take to be compiled, to be kept
_MOST_BYTES = 100_000_000  # of all programs; those that were not used for longest go first
_DIGEST = hashlib.sha256().digest_size  # bytes before each program: it is run as it is
_SUFFIX = ".program"

_lock = threading.Lock()
_here = threading.local()  # how often this thread has entered
_num_entered = 0  # by all threads
_lent: Programs | None = None  # to JAX


class Programs:
    """A folder of programs by their names, as JAX asks for one. What is damaged counts as
    missing, and what can't be written is not kept."""

    def __init__(self, folder: Path) -> None:
        self._path = folder

    def get(self, key: str) -> bytes | None:
        if not _is_here():
            return None
        place = self._place(key)
        try:
            content = place.read_bytes()
        except OSError:
            return None
        digest, program = content[:_DIGEST], content[_DIGEST:]
        with contextlib.suppress(OSError):
            if digest != hashlib.sha256(program).digest():
                place.unlink()
                return None
            os.utime(place)  # the time of its last use
        return program

    def put(self, key: str, value: bytes) -> None:
        if not _is_here():
            return
        content = hashlib.sha256(value).digest() + value
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=self._path)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(name, self._place(key))
            except OSError:
                os.unlink(name)
            self._make_room()

    def _place(self, key: str) -> Path:
        """Programs are of one kind of processor, which JAX's own key need not name."""
        digest = hashlib.sha256(repr((key, _processor())).encode()).hexdigest()
        return self._path / f"{digest[:32]}{_SUFFIX}"

    def _make_room(self) -> None:
        kept = [(path, path.stat()) for path in self._path.iterdir()]
        room = _MOST_BYTES
        for path, status in sorted(kept, key=lambda one: -one[1].st_mtime):
            room -= status.st_size
            if room < 0:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def kept_programs() -> Iterator[None]:
    """In this thread, until it is left: what JAX compiles is kept, and what was kept is not
    compiled again."""
    with contextlib.ExitStack() as scope:
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            _enter(scope)
        yield


def _enter(scope: contextlib.ExitStack) -> None:
    from jax._src import compilation_cache, config

    cache: Any = compilation_cache
    if config.compilation_cache_dir.value or not config.enable_compilation_cache.value:
        return
    shorter = config.persistent_cache_min_compile_time_secs(_SHORTEST)
    if not _lend(cache):
        return
    scope.callback(_take_back, cache)
    scope.enter_context(shorter)


def _lend(cache: Any) -> bool:
    """To JAX, unless it has another; whether it has ours."""
    global _num_entered, _lent
    with _lock:
        if _lent is None or cache._cache is not _lent:
            folder = private_folder("programs")
            if folder is None or cache._cache is not None:
                return False
            _lent = Programs(folder)
            cache._cache, cache._cache_initialized = _lent, True
        _num_entered += 1
        _here.count = getattr(_here, "count", 0) + 1
        return True


def _take_back(cache: Any) -> None:
    global _num_entered, _lent
    with _lock:
        _num_entered -= 1
        _here.count -= 1
        if _num_entered == 0:
            if cache._cache is _lent:
                cache._cache, cache._cache_initialized = None, False
            _lent = None


@functools.lru_cache(maxsize=1)
def _processor() -> tuple[str, ...]:
    """Its kind and what it can do."""
    from numba.core import registry

    return tuple(map(str, registry.cpu_target.target_context.codegen().magic_tuple()))


def _is_here() -> bool:
    return getattr(_here, "count", 0) > 0

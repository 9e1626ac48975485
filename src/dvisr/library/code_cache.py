"""Where compiled host code is kept between processes.

Numba's own cache drops the code of a function when the function's file changes, but not when a file
that it calls into does. Here the code of all functions is kept in a folder named by a digest of all
that it was compiled from: the source files that hold such functions and those that they import, the
versions of Numba, llvmlite and Python, and the processor. So code of other sources is never loaded.

The folder is `<cache>/<digest>`, where `<cache>` is the environment variable DVISR_CACHE_DIR, or
`dvisr` in the user's cache folder, or, where that can't be written to, a folder of the user's own
among the temporary files. If that can't be written to either, nothing is kept.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import registry
from numba.core.caching import CompileResultCacheImpl, FunctionCache

PACKAGE = Path(__file__).parent.parent
_MOST_DIGESTS = 5  # folders that stay when one is added
_DIGITS = 32  # of a digest
_IMPORTED = time.time()
_COMPILES = re.compile(
    rb"^(import numba|from numba|from \w+\.(library\.compiling|noise\.kernel))", re.MULTILINE
)
_IMPORTS = re.compile(rb"^from (\w[.\w]*) import", re.MULTILINE)


class KeptCode:
    """The cache of one function, as Numba's dispatchers and callbacks expect one.

    Nothing is read before the function is compiled for the first time. Each signature has files of
    its own, written under another name and then renamed: so processes that compile the same
    function at the same time can't mix up their files.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_enabled = True

    @property
    def cache_path(self) -> str | None:
        folder = code_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        self._is_enabled = True

    def disable(self) -> None:
        self._is_enabled = False

    def flush(self) -> None:
        """Numba's `Dispatcher.recompile` calls this; files of other signatures can stay."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The code for a signature, or None if there is none."""
        files = self._files(signature)
        if files is None:
            return None
        try:
            return files.load_overload(signature, target_context)
        except Exception:  # a damaged file: begin anew
            with contextlib.suppress(OSError):
                files.flush()
            return None

    def save_overload(self, signature: Any, code: Any) -> None:
        """Keep the code for a signature, if there is room."""
        files = self._files(signature)
        if files is None:
            return
        with contextlib.suppress(OSError):  # a full disk, or a folder that was just removed
            files.save_overload(signature, code)

    def _files(self, signature: Any) -> Any:
        folder = code_folder() if self._is_enabled else None
        if folder is None:
            return None
        return _cache_class(folder, str(signature))(self._function)


def _cache_class(folder: Path, signature: str) -> Any:
    """Numba's cache for one signature, with its files in the folder."""

    class Locator:
        def get_cache_path(self) -> str:
            return str(folder)

        def ensure_cache_path(self) -> None:
            folder.mkdir(parents=True, exist_ok=True)

        def get_source_stamp(self) -> str:
            return folder.name

    class Implementation(CompileResultCacheImpl):  # type: ignore[misc]
        def __init__(self, function: Callable[..., Any]) -> None:
            self._function = function

        @property
        def locator(self) -> Locator:
            return Locator()

        @property
        def filename_base(self) -> str:
            function = self._function
            line = function.__code__.co_firstlineno
            digest = hashlib.sha256(signature.encode()).hexdigest()[:16]
            return f"{function.__module__}.{function.__qualname__}-{line}-{digest}"

    class Cache(FunctionCache):  # type: ignore[misc]
        _impl_class = Implementation

    return Cache


@functools.lru_cache(maxsize=1)
def code_folder() -> Path | None:
    """Make the folder for the code of this process, and remove those that were not used for
    longest.

    Returns
    -------
    pathlib.Path or None
        None where nothing can be kept, or where a source file has changed since this process
        began: its code is then neither that of the old files nor that of the new ones.
    """
    sources = _sources()
    if not sources or max(path.stat().st_mtime for path in sources) > _IMPORTED:
        return None
    name = _digest(sources)
    for cache in _caches():
        folder = cache / name
        try:
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()  # whether it can be written to
            os.utime(folder)  # the time of its last use
            if is_new:
                _remove_old(cache)
        except OSError:
            continue
        return folder
    return None


def private_folder(name: str) -> Path | None:
    """A folder of that name beside those of compiled host code, which belongs to this user and
    which no other can read or write; None where there can be none."""
    for cache in _caches():
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            folder = _own_folder(cache / name)
            if folder is not None:
                tempfile.TemporaryFile(dir=folder).close()  # whether it can be written to
                return folder
    return None


def _sources() -> list[Path]:
    """The files that hold compiled code, and those that they import: no other can change it."""
    contents = {path: path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))}
    due = [path for path, content in contents.items() if _COMPILES.search(content)]
    sources = set(due)
    while due:
        for module in _IMPORTS.findall(contents[due.pop()]):
            package, *parts = module.decode().split(".")
            if package != PACKAGE.name:
                continue
            for path in (PACKAGE.joinpath(*parts, "__init__.py"), PACKAGE.joinpath(*parts)):
                path = path if path.suffix else path.with_suffix(".py")
                if path in contents and path not in sources and parts:
                    sources.add(path)
                    due.append(path)
    return sorted(sources)


def _digest(sources: list[Path]) -> str:
    versions = (numba.__version__, llvmlite.__version__, sys.version, sys.implementation.cache_tag)
    target = registry.cpu_target.target_context.codegen().magic_tuple()  # processor and features
    digest = hashlib.sha256(repr((versions, target)).encode())
    for path in sources:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]


def _caches() -> Iterator[Path]:
    """The folders to try, in order."""
    chosen = os.environ.get("DVISR_CACHE_DIR")
    if chosen:
        yield Path(chosen).expanduser().absolute()
    else:
        user = _user_cache()
        if user is not None:
            yield user
    temporary = _temporary_cache()
    if temporary is not None:
        yield temporary


def _user_cache() -> Path | None:
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        folder = Path(local) / "dvisr" / "Cache" if local else home / "AppData/Local/dvisr/Cache"
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches" / "dvisr"
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(given) if os.path.isabs(given) else home / ".cache") / "dvisr"
    return folder if folder.is_absolute() else None  # "~" stays where there is no home


def _temporary_cache() -> Path | None:
    """A folder that belongs to this user and that no other can write to: code is loaded from it."""
    try:
        user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
        return _own_folder(Path(tempfile.gettempdir()) / f"dvisr-{user}")
    except (OSError, KeyError, ImportError):
        return None


def _own_folder(folder: Path) -> Path | None:
    """Made where it is missing; None if it is someone else's, or open to others."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        return None
    return folder


def _remove_old(cache: Path) -> None:
    """Remove all folders of digests but those that were used last."""
    is_digest = set("0123456789abcdef").issuperset
    folders = [
        path
        for path in cache.iterdir()
        if len(path.name) == _DIGITS and is_digest(path.name) and path.is_dir()
    ]

    def last_use(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # another process has removed it
            return 0.0

    for path in sorted(folders, key=last_use, reverse=True)[_MOST_DIGESTS:]:
        shutil.rmtree(path, ignore_errors=True)

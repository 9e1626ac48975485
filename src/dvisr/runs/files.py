"""Arrays and settings in one file that is whole or not there: safetensors, written beside its place
and moved into it, with a digest of everything. Nothing in such a file is ever executed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

_META, _DIGEST = "dvisr", "sha256"
_UNREADABLE = (
    SafetensorError, KeyError, ValueError, OSError, TypeError, AttributeError, RecursionError,
)  # fmt: skip


class BrokenFile(ValueError):
    """A file that is no file of ours, or was damaged."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file that shall be whole or not there: beside its place, and moved into it
    in the end. What is no file (a device, a pipe) is written to as it is."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        yield place
        return
    temporary = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        yield temporary
        os.replace(temporary, place)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if error.filename != str(temporary):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None  # by the name asked for
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save(path: Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        write_synced(temporary, to_bytes(arrays, meta))
    sync_folder(path.parent)


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """`BrokenFile` for anything that `save` did not write."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    return from_bytes(content, path)


def to_bytes(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> bytes:
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(meta, allow_nan=False)
    held = {_META: text, _DIGEST: _digest(contiguous, text)}
    content: bytes = safetensors.numpy.save(contiguous, metadata=held)
    return content


def from_bytes(content: bytes, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """`BrokenFile` for what `to_bytes` did not make; the path is for its sentence."""
    try:
        arrays = safetensors.numpy.load(content)
        held = _held(content)
        if _digest(arrays, held[_META]) != held[_DIGEST]:
            raise BrokenFile("its contents are not what was written")
        meta = json.loads(held[_META])
    except _UNREADABLE as error:
        raise _unreadable(path, error) from None
    if not isinstance(meta, dict):
        raise BrokenFile(f"{path} is not a file of dvisr: delete it and run again")
    return arrays, meta


def _unreadable(path: Path, error: Exception) -> BrokenFile:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return BrokenFile(f"{path} can't be read ({reason}): delete it and run again")


def _held(content: bytes) -> dict[str, str]:
    """The texts in a file's header, whose size comes first, in eight bytes."""
    size = int.from_bytes(content[:8], "little")
    held = json.loads(content[8 : 8 + size])["__metadata__"]
    if not all(isinstance(text, str) for text in held.values()):
        raise ValueError("its header is not as it was written")
    return dict(held)


def _digest(arrays: Mapping[str, np.ndarray], text: str) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def write_synced(path: Path, content: bytes) -> None:
    """All of it, on the disk when this returns."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(number, rest) :]
        os.fsync(number)
    finally:
        os.close(number)


def sync_folder(path: Path) -> None:
    """So that names that were changed in it stay changed."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)

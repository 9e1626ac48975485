"""A folder of files that belong together, changed all at once or not at all.

`manifest.sha256` names every file with its SHA-256, as `sha256sum` writes it, and its first line
has a digest of the rest. New contents are written beside their places first; putting the new
manifest into its place is what makes them count; then they are moved to their places. So whenever a
program is killed, the manifest has the digests of contents that are there, either in their places
or still beside them, and what it does not name was never part of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dvisr.runs.files import BrokenFile, sync_folder, write_synced

MANIFEST = "manifest.sha256"
REPORT = "report.html"  # no part of a run, but of its answer
LOCK = ".lock"
_HEADER = re.compile(r"# dvisr run 1 ([0-9a-f]{64})")
_NAME = re.compile(r"[a-z][a-z0-9-]*\.[a-z]+")
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_NAME.pattern})")
_MOST_BYTES = 1_000_000  # of a manifest
_TRIES = 20  # to read what is being written


def is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, str]:
    """The digest of each file by its name."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BrokenFile(f"{path} can't be read ({reason}): give the folder of a run") from None
    header, _, body = content.partition(b"\n")
    found = _HEADER.fullmatch(header.decode("ascii", "replace"))
    lines = body.decode("ascii", "replace").split("\n")
    rows = [_LINE.fullmatch(line) for line in lines[:-1]]
    is_whole = found is not None and found[1] == hashlib.sha256(body).hexdigest()
    if not is_whole or lines[-1] or not all(rows):
        raise BrokenFile(
            f"{path} is not as it was written: take the folder from a copy, or fit into another one"
        )
    return {row[2]: row[1] for row in rows if row is not None}


class NotPartOfRun(BrokenFile):
    """A file that the manifest does not name."""


def read(folder: Path, name: str) -> bytes:
    """A file's contents, which are those that the manifest promises."""
    return read_together(folder, (name,))[name]


def read_together(folder: Path, names: Collection[str]) -> dict[str, bytes]:
    """The contents of files, all of them as one manifest promises them."""
    before, missing = None, ""
    for _ in range(_TRIES):
        promised = read_manifest(folder)
        found = {}
        for name in names:
            if name not in promised:
                raise NotPartOfRun(
                    f"{folder} is a run without {name}: take it from a copy, or fit again"
                )
            content = _promised(folder, name, promised[name])
            if content is None:
                missing = name
                break
            found[name] = content
        if len(found) == len(names):
            return found
        if promised == before:  # or else someone may be writing: look again
            break
        before = promised
    raise BrokenFile(
        f"{folder / missing} is not as it was written ({_fault(folder, missing)}): take it from a "
        f"copy, or fit again"
    )


def verify(folder: Path) -> dict[str, str]:
    """What is wrong with each file that is not as it was written, by its name."""
    try:
        names = read_manifest(folder)
    except BrokenFile as error:
        return {MANIFEST: str(error)}
    wrong = {}
    for name in names:
        try:
            read(folder, name)
        except NotPartOfRun:  # it was dropped by now
            continue
        except BrokenFile:
            wrong[name] = _fault(folder, name)
    return wrong


def strangers(folder: Path) -> list[str]:
    """Files that are no part of the run."""
    known = {MANIFEST, LOCK, *read_manifest(folder)}
    known |= {_beside(folder, name).name for name in known}
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def commit(folder: Path, changed: Mapping[str, bytes], dropped: Collection[str] = ()) -> None:
    """Files with new contents, and files that are no longer part of the run, at once. Whoever
    calls this holds the lock. After an error, or an interrupt, it is all as before or as asked."""
    before = read_manifest(folder) if is_run(folder) else _none_of(folder, changed)
    after = {name: digest for name, digest in before.items() if name not in dropped}
    after |= {name: hashlib.sha256(content).hexdigest() for name, content in changed.items()}
    _settle(folder, before)
    try:
        for name, content in changed.items():
            write_synced(_beside(folder, name), content)
        write_synced(_beside(folder, MANIFEST), _manifest(after))
        sync_folder(folder)
        os.replace(_beside(folder, MANIFEST), folder / MANIFEST)
    except BaseException:
        with contextlib.suppress(OSError, BrokenFile):  # by the manifest that is there now
            _settle(folder, read_manifest(folder) if is_run(folder) else {})
        raise
    sync_folder(folder)
    with contextlib.suppress(OSError):  # the new contents count, wherever they are
        _settle(folder, after)
        for name in dropped:
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """The right to write a run, which one program at a time has, and one thread of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"the folder {str(folder)!r} can't be made ({error.strerror}): choose another one"
        ) from None
    number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another program is writing the run in {str(folder)!r}: wait until it has "
                f"ended, or choose another folder"
            ) from None
        yield
    finally:
        os.close(number)


def _beside(folder: Path, name: str) -> Path:
    return folder / f".{name}.new"


def _promised(folder: Path, name: str, digest: str) -> bytes | None:
    for path in (folder / name, _beside(folder, name)):
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() == digest:
                return content
    return None


def _fault(folder: Path, name: str) -> str:
    if (folder / name).exists():
        return "its contents are not those that were saved"
    return "it is missing"


def _none_of(folder: Path, changed: Mapping[str, bytes]) -> dict[str, str]:
    """What a folder that is no run has of one; files of these names in it are someone's own."""
    for name in changed:
        if (folder / name).exists():
            raise ValueError(
                f"the folder {str(folder)!r} has a file {name!r} that is of no run: choose another "
                f"folder, or move that file away"
            )
    return {}


def _settle(folder: Path, names: Mapping[str, str]) -> None:
    """Contents that count and still lie beside their places are moved there; others that do, of a
    program that was killed, are removed."""
    for beside in folder.glob(".*.new"):
        name = beside.name.removeprefix(".").removesuffix(".new")
        if names.get(name) == hashlib.sha256(beside.read_bytes()).hexdigest():
            os.replace(beside, folder / name)
        elif name == MANIFEST or _NAME.fullmatch(name):
            os.unlink(beside)


def _manifest(digests: Mapping[str, str]) -> bytes:
    body = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())).encode()
    return f"# dvisr run 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body

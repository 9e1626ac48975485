"""Folders that change at once: whatever fails, at whatever moment, a run is as it was before or as
it was to be."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dvisr.runs import BrokenFile, folder

FIRST = {"run.toml": b"seed = 1\n", "log.txt": b"begun\n", "search-000001.safetensors": b"1" * 50}
SECOND = {"log.txt": b"begun\nstep 2\n", "search-000002.safetensors": b"2" * 70}
DROPPED = ["search-000001.safetensors"]
AFTER = {name: content for name, content in {**FIRST, **SECOND}.items() if name not in DROPPED}
CALLS = ("open", "write", "fsync", "close", "replace", "unlink")


class Ended(BaseException):
    """The program was killed."""


class Counted:
    """The calls that reach the disk, of which one fails, or that one and all after it."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, error: Exception | None) -> None:
        self.count, self._at, self._error = 0, at, error
        for name in CALLS:
            patch.setattr(os, name, self._counted(getattr(os, name), name))

    def _counted(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.count += 1
            if self._error is None and self.count >= self._at:
                raise Ended
            if self._error is not None and self.count == self._at and name != "close":
                if name == "write":
                    call(args[0], bytes(args[1])[:3])  # some of it was written
                raise self._error
            return call(*args, **named)

        return counted


def contents(place: Path) -> dict[str, bytes]:
    return {name: folder.read(place, name) for name in folder.read_manifest(place)}


def written(place: Path) -> Path:
    place.mkdir()
    folder.commit(place, FIRST)
    return place


def calls_of_a_commit(tmp_path: Path) -> int:
    place = written(tmp_path / "counted")
    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch, 10**9, None)
        folder.commit(place, SECOND, DROPPED)
    assert contents(place) == AFTER
    return counted.count


def test_a_program_that_ends_at_any_call(tmp_path: Path) -> None:
    """What it left is whole; and the next one can write it."""
    count = calls_of_a_commit(tmp_path)
    assert count > 15
    seen = set()
    for at in range(1, count + 1):
        place = written(tmp_path / str(at))
        with pytest.MonkeyPatch.context() as patch:
            Counted(patch, at, None)
            with pytest.raises(Ended):
                folder.commit(place, SECOND, DROPPED)
        assert contents(place) in (FIRST, AFTER), at
        assert folder.verify(place) == {}
        seen.add(contents(place) == AFTER)
        folder.commit(place, SECOND, DROPPED)
        assert contents(place) == AFTER
        assert sorted(path.name for path in place.iterdir()) == sorted([*AFTER, folder.MANIFEST])
    assert seen == {False, True}


class Interrupting:
    """Calls that reach the disk, after one of which Ctrl-C is pressed; the others work."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.count, self._at = 0, at
        for name in CALLS:
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.count += 1
            found = call(*args, **named)
            if self.count == self._at:
                raise KeyboardInterrupt
            return found

        return counted


def test_an_interrupt_after_any_call(tmp_path: Path) -> None:
    """It is as before, or as asked: also right after the new manifest was put into its place."""
    seen = set()
    for at in range(1, calls_of_a_commit(tmp_path) + 1):
        place = written(tmp_path / str(at))
        with pytest.MonkeyPatch.context() as patch:
            Interrupting(patch, at)
            with pytest.raises(KeyboardInterrupt):
                folder.commit(place, SECOND, DROPPED)
        assert folder.verify(place) == {}, at
        assert contents(place) in (FIRST, AFTER), at
        seen.add(contents(place) == AFTER)
    assert seen == {False, True}


def test_a_run_without_a_file_that_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path / "run")
    with pytest.raises(ValueError, match=r"is a run without other\.txt: take it from a copy"):
        folder.read(tmp_path / "run", "other.txt")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_call_that_fails(tmp_path: Path, number: int) -> None:
    """A full disk, say: the error is told, unless the new contents count already."""
    for at in range(1, calls_of_a_commit(tmp_path) + 1):
        place = written(tmp_path / str(at))
        told = 0
        with pytest.MonkeyPatch.context() as patch:
            Counted(patch, at, OSError(number, os.strerror(number)))
            try:
                folder.commit(place, SECOND, DROPPED)
            except OSError as error:
                told = error.errno or 0
        assert contents(place) in (FIRST, AFTER), at
        assert told == number or (told == 0 and contents(place) == AFTER), at
        folder.commit(place, SECOND, DROPPED)
        assert contents(place) == AFTER


def test_a_first_commit_that_is_broken_off_leaves_no_run(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Counted(patch, 4, None)
        with pytest.raises(Ended):
            folder.commit(tmp_path, FIRST)
    assert not folder.is_run(tmp_path)
    folder.commit(tmp_path, FIRST)
    assert contents(tmp_path) == FIRST


WRITER = """
import sys
from pathlib import Path
from dvisr.runs import folder
place = Path(sys.argv[1])
with folder.lock(place):
    number = 0
    if folder.is_run(place):
        number = int(folder.read(place, "log.txt"))
    while True:
        number += 1
        old = [name for name in folder.read_manifest(place) if name.startswith("search-")
               ] if folder.is_run(place) else []
        folder.commit(place, {"log.txt": str(number).encode(),
                              f"search-{number:06}.safetensors": bytes([number % 251]) * 200_000},
                      sorted(old)[:-1])
        print(number, flush=True)
"""


def test_killed_at_random(tmp_path: Path) -> None:
    """Thirty times. What was said to be kept is kept, and what is there belongs together."""
    rng = random.Random(0)
    last = 0
    for _ in range(30):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        said = [writer.stdout.readline()]  # it has begun
        time.sleep(rng.uniform(0.0, 0.03))
        writer.send_signal(signal.SIGKILL)
        said += writer.communicate()[0].splitlines()
        told = max(int(line) for line in said if line.strip())
        assert folder.verify(tmp_path) == {}
        number = int(folder.read(tmp_path, "log.txt"))
        assert number in (told, told + 1)
        assert number > last
        names = sorted(name for name in folder.read_manifest(tmp_path) if name != "log.txt")
        expected = [n for n in (number - 1, number) if n > 0]
        assert names == [f"search-{n:06}.safetensors" for n in expected]
        assert folder.read(tmp_path, names[-1]) == bytes([number % 251]) * 200_000
        last = number


def test_one_program_writes_at_a_time(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        message = "another program is writing the run"
        with pytest.raises(ValueError, match=message), folder.lock(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with folder.lock(tmp_path):
        assert folder.verify(tmp_path) == {}


def test_what_is_read_while_it_is_written(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        last = int(writer.stdout.readline())
        for _ in range(200):
            number = int(folder.read(tmp_path, "log.txt"))
            assert number >= last
            last = number
            assert folder.verify(tmp_path) == {}
    finally:
        writer.kill()
        writer.communicate()


def test_a_flipped_bit_in_any_file_is_found_and_named(tmp_path: Path) -> None:
    place = written(tmp_path / "run")
    for name in (*FIRST, folder.MANIFEST):
        path = place / name
        content = path.read_bytes()
        for bit in range(8 * len(content)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            assert list(folder.verify(place)) == [name], (name, bit)
        path.write_bytes(content)
    assert folder.verify(place) == {}
    (place / "log.txt").unlink()
    assert folder.verify(place) == {"log.txt": "it is missing"}


@pytest.mark.parametrize("name", ["../../outside.txt", "/etc/passwd", ".lock", "UP.txt", "a b.txt"])
def test_a_manifest_names_only_files_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / folder.MANIFEST).write_bytes(folder._manifest({name: "0" * 64}))
    with pytest.raises(BrokenFile, match="not as it was written"):
        folder.read_manifest(tmp_path)


def test_someones_own_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"has a file 'log\.txt' that is of no run"):
        folder.commit(tmp_path, FIRST)
    assert (tmp_path / "log.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.txt"]


def test_what_is_no_part_of_the_run_is_left_alone(tmp_path: Path) -> None:
    place = written(tmp_path / "run")
    (place / "report.html").write_text("page")
    folder.commit(place, SECOND, DROPPED)
    assert folder.strangers(place) == ["report.html"]
    assert folder.verify(place) == {}


def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    place = written(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:

        def refused(path: Any, flags: int, *args: Any, **named: Any) -> int:
            if flags & os.O_WRONLY or flags & os.O_RDWR:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return opened(path, flags, *args, **named)

        opened = os.open
        patch.setattr(os, "open", refused)
        with pytest.raises(PermissionError):
            folder.commit(place, SECOND, DROPPED)
        with pytest.raises(PermissionError), folder.lock(place):
            pass
    assert contents(place) == FIRST

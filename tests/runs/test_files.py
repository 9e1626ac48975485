"""Arrays in files: any file that was not written by us is one clear error."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from dvisr.runs import BrokenFile, files


def test_what_is_written_is_read(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "one": np.array(3), "none": np.zeros((0, 4))}
    files.save(tmp_path / "f.safetensors", arrays, {"x": [1, None, "y"]})
    found, meta = files.load(tmp_path / "f.safetensors")
    assert meta == {"x": [1, None, "y"]}
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def mended(arrays: dict[str, np.ndarray], text: str) -> bytes:
    """A file whose digest is right, whatever it says."""
    held = {"dvisr": text, "sha256": files._digest(arrays, text)}
    content: bytes = safetensors.numpy.save(arrays, metadata=held)
    return content


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, "[1]", "null", "nothing", "\ud800", ""]
)
def test_a_text_that_is_none_of_ours(text: str) -> None:
    content = mended({"a": np.zeros(2)}, text.encode(errors="replace").decode())
    with pytest.raises(BrokenFile):
        files.from_bytes(content, Path("f"))


def test_mutated_files() -> None:
    """A thousand, of which some are still files: those read as what they say."""
    rng = random.Random(0)
    content = files.to_bytes({"a": np.arange(20.0), "b": np.arange(5)}, {"x": 1})
    whole = hashlib.sha256(content).hexdigest()
    for _ in range(1000):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 8))):
            place = rng.randrange(len(changed))
            kind = rng.randrange(4)
            if kind == 0:
                changed[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                changed[place] = rng.randrange(256)
            elif kind == 2:
                del changed[place : place + rng.randrange(1, 30)]
            else:
                changed[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        try:
            arrays, meta = files.from_bytes(bytes(changed), Path("f"))
        except BrokenFile:
            continue
        # Space in the header may become other space; what was said has not changed.
        assert hashlib.sha256(changed).hexdigest() == whole or (
            json.dumps(meta) == '{"x": 1}' and arrays["a"].tobytes() == np.arange(20.0).tobytes()
        )


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with files.whole(pipe) as place:
        place.write_text("answer")
    reader.join(10.0)
    assert read == ["answer"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link_and_a_failure_leaves_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "file.txt", tmp_path / "link.txt"
    file.write_text("before")
    link.symlink_to(file)
    with files.whole(link) as place:
        place.write_text("after")
    assert link.is_symlink()
    assert file.read_text() == "after"

    def broken_off() -> None:
        with files.whole(file) as place:
            place.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken_off()
    assert file.read_text() == "after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.txt", "link.txt"]


def test_what_can_not_be_written_is_told_by_the_name_that_was_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "none" / "there.txt"
    with pytest.raises(FileNotFoundError) as told, files.whole(place) as temporary:
        temporary.write_text("x")
    assert told.value.filename == str(place)

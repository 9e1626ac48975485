"""Compiled code is dropped when any source changes, and is kept where there is a place for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import llvmlite
import numba
import pytest

from dvisr.library import code_cache

# Two modules of compiled code, one of which calls into the other, and what the package's code cache
# does for them: the package is small, so that its functions are compiled within a second.
CALLEE = """
from little.library.compiling import compiled

@compiled
def change(x):
    return x + 1.0
"""
CALLER = """
from little.callee import change
from little.library.compiling import compiled

@compiled
def twice(x):
    return change(change(x))
"""
RUN = """
import sys, time
from little.caller import twice
if len(sys.argv) > 1:  # all processes begin together
    time.sleep(max(0.0, float(sys.argv[1]) - time.time()))
print(twice(1.0), twice(1), len(twice.stats.cache_hits), twice.stats.cache_path)
"""


def write(folder: Path) -> Path:
    package = folder / "little"
    (package / "library").mkdir(parents=True)
    for init in (package, package / "library"):
        (init / "__init__.py").write_text("")
    for name in ("compiling.py", "code_cache.py"):
        text = (Path(code_cache.__file__).parent / name).read_text()
        (package / "library" / name).write_text(text.replace("dvisr.library", "little.library"))
    (package / "callee.py").write_text(CALLEE)
    (package / "caller.py").write_text(CALLER)
    return package


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    known = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-B", "-c", RUN, *arguments],
        env={**known, "PYTHONPATH": str(folder), **environment},
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str]) -> tuple[float, int, str]:
    """What was computed, how many signatures were loaded, and from where."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    by_float, by_int, hits, path = out.split()
    assert by_float == by_int
    return float(by_float), int(hits), path


def run(folder: Path, **environment: str) -> tuple[float, int, str]:
    return finish(start(folder, **environment))


@pytest.mark.slow
def test_a_changed_callee_in_another_file_is_compiled_anew(tmp_path: Path) -> None:
    package = write(tmp_path)
    cache = tmp_path / "cache"
    value, hits, path = run(tmp_path, DVISR_CACHE_DIR=str(cache))
    assert (value, hits) == (3.0, 0)
    assert Path(path).parent == cache
    assert run(tmp_path, DVISR_CACHE_DIR=str(cache)) == (3.0, 2, path)
    caller = package / "caller.py"
    before = caller.stat()
    (package / "callee.py").write_text(CALLEE.replace("x + 1.0", "x * 5.0"))
    value, hits, other = run(tmp_path, DVISR_CACHE_DIR=str(cache))
    assert (value, hits) == (25.0, 0)
    assert other != path
    assert caller.stat().st_mtime == before.st_mtime
    # The code of the old sources is still there.
    (package / "callee.py").write_text(CALLEE)
    assert run(tmp_path, DVISR_CACHE_DIR=str(cache)) == (3.0, 2, path)


def test_the_users_cache_folder_is_the_default(tmp_path: Path) -> None:
    write(tmp_path)
    given = run(tmp_path, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "given"))
    default = run(tmp_path, HOME=str(tmp_path))
    if sys.platform == "linux":
        assert Path(given[2]).parent == tmp_path / "given" / "dvisr"
        assert Path(default[2]).parent == tmp_path / ".cache" / "dvisr"
    assert not list((tmp_path / "little").rglob("*.nb?"))


def test_a_home_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A file where the folder should be: not even root can write into that."""
    write(tmp_path)
    (tmp_path / "home").write_text("")
    (tmp_path / "temporary").mkdir()
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    value, hits, path = run(tmp_path, **places)
    assert (value, hits) == (3.0, 0)
    assert (tmp_path / "temporary") in Path(path).parents
    assert run(tmp_path, **places) == (3.0, 2, path)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="of POSIX")
def test_a_temporary_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "home").write_text("")
    shared = tmp_path / "temporary" / f"dvisr-{os.getuid()}"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    assert run(tmp_path, **places) == (3.0, 0, "None")
    assert list(shared.iterdir()) == []


@pytest.mark.slow
def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    cache = {"DVISR_CACHE_DIR": str(tmp_path / "cache")}
    together = str(time.time() + 5.0)
    for process in [start(tmp_path, together, **cache) for _ in range(3)]:
        assert finish(process)[0] == 3.0
    assert run(tmp_path, **cache)[:2] == (3.0, 2)
    assert not list((tmp_path / "cache").rglob("*.tmp*"))


def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    write(tmp_path)
    cache = {"DVISR_CACHE_DIR": str(tmp_path / "cache")}
    _, _, path = run(tmp_path, **cache)
    for place, file in enumerate(sorted(Path(path).iterdir())):
        file.write_bytes(b"" if place % 2 else b"damaged")
    assert run(tmp_path, **cache) == (3.0, 0, path)
    assert run(tmp_path, **cache) == (3.0, 2, path)


def test_sources_that_changed_since_the_start_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    source = package / "source.py"
    source.write_text("import numba")
    monkeypatch.setattr(code_cache, "PACKAGE", package)
    monkeypatch.setenv("DVISR_CACHE_DIR", str(tmp_path / "cache"))
    find = code_cache.code_folder.__wrapped__
    os.utime(source, (0.0, 0.0))
    folder = find()
    assert folder is not None
    assert folder.is_dir()
    assert find() == folder
    os.utime(source, (time.time() + 1.0,) * 2)
    assert find() is None


def test_the_folders_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(code_cache, "PACKAGE", package)
    cache = tmp_path / "cache"
    monkeypatch.setenv("DVISR_CACHE_DIR", str(cache))
    other = cache / "notes"
    other.mkdir(parents=True)
    find = code_cache.code_folder.__wrapped__
    made = []
    for number in range(8):
        (package / "source.py").write_text(f"import numba\nnumber = {number}")
        os.utime(package / "source.py", (0.0, 0.0))
        folder = find()
        assert folder is not None
        made.append(folder)
        for place, folder in enumerate(made):
            if folder.exists():
                os.utime(folder, (100.0 + place,) * 2)
        os.utime(made[0], (200.0,) * 2)  # in use all along
    assert set(cache.iterdir()) == {other, made[0], *made[-4:]}


def test_what_is_in_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    one, two = package / "one.py", package / "two.py"
    monkeypatch.setattr(code_cache, "PACKAGE", package)
    one.write_text("ab")
    two.write_text("c")
    digests = [code_cache._digest([one, two])]
    one.write_text("a")
    two.write_text("bc")  # the same bytes, divided otherwise
    digests.append(code_cache._digest([one, two]))
    digests.append(code_cache._digest([one]))
    monkeypatch.setattr(numba, "__version__", "0.0")
    digests.append(code_cache._digest([one]))
    monkeypatch.setattr(llvmlite, "__version__", "0.0")
    digests.append(code_cache._digest([one]))
    assert len(set(digests)) == len(digests)

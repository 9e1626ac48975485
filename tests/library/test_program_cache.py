"""Programs that JAX compiles, kept between processes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import pytest
from jax._src import compilation_cache

from dvisr.library import program_cache
from dvisr.library.code_cache import private_folder
from dvisr.library.program_cache import Programs, kept_programs

cache_of_jax: Any = compilation_cache

CODE = """
import json, sys, warnings
warnings.simplefilter("error")
import jax, jax.numpy as jnp
from dvisr.library import program_cache
from dvisr.library.code_cache import private_folder
program_cache._SHORTEST = 0.0
told = []
jax.monitoring.register_event_listener(lambda name, **more: told.append(name))
settings = dict(jax.config.values)
with program_cache.kept_programs():
    found = jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.arange(5.0))
told.append(None)  # from here on nothing may be kept
jax.jit(lambda x: jnp.tanh(x) * 3)(jnp.arange(7.0))
assert settings == dict(jax.config.values)
hits = told.count("/jax/compilation_cache/cache_hits")
misses = told[: told.index(None)].count("/jax/compilation_cache/cache_misses")
after = told[told.index(None) :].count("/jax/compilation_cache/cache_misses")
print(json.dumps([float(found), hits, misses, after]))
"""


def run(cache: Path, **environment: str) -> list[float]:
    """The value, programs that were found, programs that were added inside, and after."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True,
        env={**os.environ, "DVISR_CACHE_DIR": str(cache), **environment},
    )  # fmt: skip
    found: list[float] = json.loads(done.stdout)
    return found


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "programs").glob("*.program"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    cache = tmp_path_factory.mktemp("cache")
    return cache, run(cache)


def test_a_second_process_compiles_nothing(filled: tuple[Path, list[float]]) -> None:
    cache, (value, hits, misses, after) = filled
    assert (hits, after) == (0, 0)
    assert misses == len(kept(cache)) > 0
    assert run(cache) == [value, misses, 0, 0]


def test_the_folder_is_the_users_alone(filled: tuple[Path, list[float]]) -> None:
    assert stat.S_IMODE((filled[0] / "programs").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["cut off", "changed", "empty"])
def test_what_is_damaged_is_compiled_again(
    filled: tuple[Path, list[float]], damage: str, tmp_path: Path
) -> None:
    _, (value, _, misses, _) = filled
    cache = tmp_path / "cache"
    run(cache)
    for path in kept(cache):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        bad = {"cut off": bytes(content[:-9]), "changed": bytes(content), "empty": b""}
        path.write_bytes(bad[damage])
    assert run(cache) == [value, 0, misses, 0]
    assert run(cache) == [value, misses, 0, 0]


def test_a_folder_that_jax_was_given_is_left_to_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    _, hits, _, _ = run(tmp_path / "cache", JAX_COMPILATION_CACHE_DIR=str(own))
    assert hits == 0
    assert not (tmp_path / "cache").exists()


def test_nothing_is_kept_where_jax_is_told_so(tmp_path: Path) -> None:
    assert run(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")[1:] == [0, 0, 0]
    assert kept(tmp_path) == []


def test_where_no_folder_can_be_written_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program_cache, "private_folder", lambda name: None)
    with kept_programs():
        assert cache_of_jax._cache is None


def test_a_folder_that_others_may_write_to_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DVISR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "cache" / "programs").mkdir(parents=True)
    (tmp_path / "cache" / "programs").chmod(0o777)
    folder = private_folder("programs")
    assert folder is not None
    assert tmp_path / "cache" not in folder.parents


def test_other_threads_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DVISR_CACHE_DIR", str(tmp_path))
    found: list[Any] = []
    with kept_programs():
        programs: Any = cache_of_jax._cache
        assert isinstance(programs, Programs)
        programs.put("key", b"program")

        def other() -> None:
            programs.put("another", b"program")
            found.append(programs.get("key"))
            with kept_programs():
                found.append(programs.get("key"))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        found.append(cache_of_jax._cache is programs)  # the thread that left last gives it back
        assert programs.get("another") is None
    assert found == [None, b"program", True]
    assert cache_of_jax._cache is None
    assert jax.config.values["jax_compilation_cache_dir"] is None


def test_the_room_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DVISR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program_cache, "_MOST_BYTES", 10_000)
    with kept_programs():
        programs: Any = cache_of_jax._cache
        assert isinstance(programs, Programs)
        for number in range(8):
            programs.put(f"{number}", bytes(2_000))
            for path in kept(tmp_path):  # files of one tick of the clock have no order
                status = path.stat()
                os.utime(path, (status.st_atime - 10, status.st_mtime - 10))
            assert programs.get("0") is not None  # used again and again: it stays
        has = [programs.get(f"{number}") is not None for number in range(8)]
    assert has == [True, False, False, False, False, True, True, True]
    assert sum(path.stat().st_size for path in kept(tmp_path)) <= 10_000

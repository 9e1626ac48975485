"""`dvisr resume` and `dvisr verify`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dvisr.runs import folder
from tests.cli.running import dvisr
from tests.cli.test_start import imported

SMALL = ["--target", "y", "--operators", "+,*,sin", "--max-tokens", "7", "--tree-prior",
         "size-balanced", "--num-samples", "16"]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table, and a run of one step."""
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    x = np.linspace(0.5, 3.0, 12)
    y = 1.5 * x + 0.3 + 0.05 * rng.standard_normal(12)
    rows = "\n".join(f"{a},{b}" for a, b in zip(x, y, strict=True))
    (place / "t.csv").write_text(f"x,y\n{rows}\n")
    done = dvisr("fit", str(place / "t.csv"), *SMALL, "--num-steps", "1", "--out", str(place / "r"))
    assert done.returncode == 0, done.stderr
    assert f"dvisr resume {place / 'r'}" in done.stdout
    return place / "t.csv", place / "r"


def test_more_steps_after_the_table_has_moved(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, run = made
    shutil.copytree(run, tmp_path / "r")
    whole = dvisr("fit", str(table), *SMALL, "--num-steps", "2", "--json")
    moved = table.rename(table.with_name("moved.csv"))
    try:
        done = dvisr("resume", str(tmp_path / "r"), "--num-steps", "2", "--json")
    finally:
        moved.rename(table)
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout), json.loads(whole.stdout)
    assert one.pop("seconds") > 0.0
    assert two.pop("seconds") > 0.0
    assert one == two
    again = dvisr("resume", str(tmp_path / "r"))  # nothing is left to do
    assert again.returncode == 0
    assert "verdict:" in again.stdout
    fewer = dvisr("resume", str(tmp_path / "r"), "--num-steps", "1")
    assert fewer.returncode == 2
    assert "has made 2 steps already" in fewer.stderr


def test_verify_names_the_file(made: tuple[Path, Path], tmp_path: Path) -> None:
    run = shutil.copytree(made[1], tmp_path / "r")
    done = dvisr("verify", str(run))
    assert done.returncode == 0
    assert "all 6 files are as they were written" in done.stdout
    for name in [*folder.read_manifest(run), folder.MANIFEST]:
        path = run / name
        content = path.read_bytes()
        flipped = bytearray(content)
        flipped[len(flipped) // 2] ^= 4
        path.write_bytes(flipped)
        done = dvisr("verify", str(run))
        assert done.returncode == 1
        assert done.stdout.startswith(f"{name}: ")
        assert done.stdout.count("\n") == 1
        path.write_bytes(content)


@pytest.mark.parametrize("command", ["resume", "verify"])
def test_what_is_no_run(command: str, tmp_path: Path) -> None:
    status, modules, said = imported(
        command, str(tmp_path / "none"), names=("jax", "numba", "sklearn")
    )
    assert (status, modules) == (2, [])
    assert "there is no folder" in said
    done = dvisr(command, str(tmp_path))
    assert done.returncode == 2
    assert "there is no run in" in done.stderr


def test_a_run_that_is_being_written_is_left_alone(made: tuple[Path, Path]) -> None:
    table, run = made
    with folder.lock(run):
        for arguments in (
            ["resume", str(run), "--num-steps", "3"],
            ["fit", str(table), *SMALL, "--num-steps", "1", "--out", str(run)],
        ):
            done = dvisr(*arguments)
            assert done.returncode == 2
            assert "another program is writing the run" in done.stderr
            assert done.stderr.count("\n") == 1
    assert folder.verify(run) == {}


def test_the_search_goes_on_though_it_can_not_be_kept(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full while the search is made, and has room again at its end."""
    commit = folder.commit

    def full(place: Path, changed: dict[str, bytes], *rest: list[str]) -> None:
        if any(name.startswith("search-") for name in changed):
            raise OSError(28, os.strerror(28))
        commit(place, changed, *rest)

    monkeypatch.setattr(folder, "commit", full)
    run = tmp_path / "r"
    done = dvisr("fit", str(made[0]), *SMALL, "--num-steps", "1", "--out", str(run))
    assert done.returncode == 0, done.stderr
    assert "could not be kept: No space left" in (run / "log.txt").read_text()
    assert folder.verify(run) == {}

"""`dvisr reproduce` as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image

from dvisr import runs
from tests.signals import heed_interrupts

pytestmark = pytest.mark.slow

# The processes share what they compile: the programs are the same, and most of the time.
CACHE = tempfile.mkdtemp()
ENVIRONMENT = {
    **os.environ,
    "JAX_COMPILATION_CACHE_DIR": CACHE,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
}
COMMAND = [sys.executable, "-c", "from dvisr.cli import main; main()", "reproduce"]


def reproduce(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("simple") / "deep" / "er"
    done = reproduce("simple", "--runs", "2", "--out", str(out), "--json")
    return out, json.loads(done.stdout)


def test_json(simple: tuple[Path, dict[str, Any]]) -> None:
    _, found = simple
    assert found["passed"] is True
    assert found["scaling"] == []
    names = [one["name"] for one in found["experiments"]]
    assert names == ["simple/quadratic", "simple/linear", "simple/constant"]
    for one in found["experiments"]:
        assert set(one) == {"name", "runs", "log_evidence", "expressions", "kl", "seconds"}
        assert one["runs"] == len(one["kl"]) == 2
        for row in one["expressions"]:
            assert set(row) == {"expression", "paper", "exact", "q_median", "q_iqr"}
            numbers = [row["exact"], row["q_median"], *row["q_iqr"]]
            assert [round(number, 8) for number in numbers] == [row["paper"]] * 4


def test_figures_and_page(simple: tuple[Path, dict[str, Any]]) -> None:
    out, _ = simple
    laws = ("quadratic", "linear", "constant")
    stems = {f"{what}-simple-{law}" for what in ("elbo", "kl") for law in laws} | {"sampling-trace"}
    assert {path.stem for path in (out / "figures").iterdir()} == stems
    page = (out / "index.html").read_text()
    for stem in stems:
        assert image.imread(out / "figures" / f"{stem}.png").std() > 0.01  # not blank
        assert (out / "figures" / f"{stem}.svg").read_text().count("<path") > 5
        assert f"figures/{stem}.png" in page
    assert "0.36091529" in page
    assert "Samples per epoch" in page
    assert list((out / "unfinished").iterdir()) == []


def test_run_again_it_is_all_there(simple: tuple[Path, dict[str, Any]]) -> None:
    out, before = simple
    again = json.loads(reproduce("simple", "--runs", "2", "--out", str(out), "--json").stdout)
    assert again == before  # the seconds too: nothing was run
    done = reproduce("scaling", "--sizes", "1", "--out", str(out), "--json")
    # A part of the experiments does not replace the page about the others.
    page = (out / "index.html").read_text()
    assert "0.36091529" in page
    assert "-10.2749738653" in page
    assert json.loads(done.stdout)["passed"]
    # Other settings are another run, and it says so.
    other = reproduce("scaling", "--sizes", "1", "--out", str(out), "--json", "--seed", "4")
    assert "scaling/1: run again, since the result in" in other.stderr


def test_a_result_that_falls_short_fails(
    simple: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(simple[0], out)
    path = out / "results" / "simple-linear.safetensors"
    arrays, meta = runs.load(path)
    meta["kl"] = [0.0, 0.0365]
    runs.save(path, arrays, meta)
    done = reproduce("simple", "--runs", "2", "--out", str(out), code=1)
    assert "FAIL: run 1 did not converge: KL 0.036" in done.stdout
    assert "2 of 3 experiments pass" in done.stdout
    meta["kl"] = [0.0, None]  # a run that diverged
    meta["rows"][0]["q"] = [None, None]
    runs.save(path, arrays, meta)
    found = json.loads(
        reproduce("simple", "--runs", "2", "--out", str(out), "--json", code=1).stdout
    )
    assert found["experiments"][1]["kl"] == [0.0, None]
    assert found["experiments"][1]["expressions"][0]["q_median"] is None
    path.write_bytes(b"broken")
    again = reproduce("simple", "--runs", "2", "--out", str(out))
    assert "simple/linear: run again, since" in again.stderr


def test_without_out_nothing_is_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "scaling", "--sizes", "1", "--recipe", "paper-ewma"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "-10.2749738653" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_interrupted_it_goes_on(tmp_path: Path) -> None:
    arguments = ["constants", "--runs", "1", "--out", str(tmp_path), "--json"]
    heed_interrupts()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    unfinished = tmp_path / "unfinished" / "constants-linear.safetensors"
    finished = tmp_path / "results" / "constants-quadratic.safetensors"
    deadline = time.monotonic() + 240
    # A checkpoint is there every few seconds, and when training ends: then it is measured.
    while not (finished.exists() and unfinished.exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "1 of 3 experiments are finished; the same command goes on" in errors
    assert "Traceback" not in errors
    partial = json.loads(output)
    assert [one["name"] for one in partial["experiments"]] == ["constants/quadratic"]
    assert partial["passed"] is False
    assert unfinished.exists()
    _, meta = runs.load(unfinished)
    assert meta["settings"]["experiment"] == "constants/linear"
    done = json.loads(reproduce(*arguments).stdout)
    assert done["passed"]
    assert done["experiments"][0] == partial["experiments"][0]
    assert not unfinished.exists()
    # What was interrupted is bit for bit what an uninterrupted run gives.
    whole = json.loads(reproduce("constants", "--runs", "1", "--json").stdout)
    for one, other in zip(done["experiments"], whole["experiments"], strict=True):
        assert one["expressions"] == other["expressions"]
        assert one["kl"] == other["kl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["everything"], "'everything'"),
        (["scaling", "--sizes", "3-1"], "the smaller first"),
        (["scaling", "--sizes", "0-4"], "from 1 to 25"),
        (["scaling", "--sizes", "a"], "write 1-12 or 7"),
        (["simple", "--sizes", "3"], "for the scaling experiments"),
        (["simple", "--runs", "0"], "x>=1"),
        (["simple", "--recipe", "papper"], "paper"),
        (["simple", "--out", "/proc/nowhere"], "choose another folder"),
    ],
)
def test_wrong_requests(arguments: list[str], message: str) -> None:
    done = reproduce(*arguments, code=2)
    assert message in done.stderr
    assert done.stderr.startswith("dvisr: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    done = reproduce("simple", "--out", str(tmp_path / "out"), code=2)
    assert "can't write to" in done.stderr
    assert (tmp_path / "out").read_text() == "mine"
    assert os.listdir(tmp_path) == ["out"]


def test_another_budget_is_another_result(tmp_path: Path) -> None:
    """It is run, kept and shown as what it is, and does not pass for the paper's."""
    arguments = ("scaling", "--sizes", "2", "--recipe", "paper", "--out", str(tmp_path), "--json")
    reproduce(*arguments, "--steps", "2", "--samples", "8", code=1)
    page = (tmp_path / "index.html").read_text()
    assert "num_samples=8" in page
    assert "Samples per epoch" not in page
    again = reproduce(*arguments, "--steps", "2", "--samples", "8", code=1)
    assert "finished before" in again.stderr
    other = reproduce(*arguments, "--steps", "3", "--samples", "8", code=1)
    assert "run again" in other.stderr


def test_a_budget_too_small_for_the_recipe_is_refused(tmp_path: Path) -> None:
    done = reproduce("constants", "--recipe", "default", "--samples", "8", code=2)
    assert "at least 24 samples" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_recipe_cannot_do_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    out = tmp_path / "all"
    done = reproduce("all", "--recipe", "replay", "--out", str(out), code=2)
    assert "without constants" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()

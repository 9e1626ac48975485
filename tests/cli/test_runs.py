"""`dvisr resume` and `dvisr verify`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from dvisr import DVISRRegressor, load
from dvisr.cli.answer import as_object
from dvisr.cli.report import NAME
from dvisr.runs import folder
from tests.cli.running import dvisr
from tests.cli.test_start import imported
from tests.fitting.problems import LINE, X, searching

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")


def fitted(num_steps: int, place: Path | None = None) -> DVISRRegressor:
    return DVISRRegressor(
        operators=("+", "*", "sin"), max_tokens=7, max_constants=2, tree_prior="size-balanced",
        num_steps=num_steps, random_state=0, run_dir=place, settings=searching(),
    ).fit(X[:, None], LINE)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one step."""
    place = tmp_path_factory.mktemp("runs") / "r"
    fitted(1, place)
    return place


def test_more_steps(run: Path, tmp_path: Path) -> None:
    place = str(shutil.copytree(run, tmp_path / "r"))
    done = dvisr("resume", place, "--num-steps", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("seconds") > 0.0
    assert found == json.loads(json.dumps(as_object(fitted(2), 10)))
    again = dvisr("resume", place)  # nothing is left to do
    assert again.returncode == 0
    assert "verdict:" in again.stdout
    fewer = dvisr("resume", place, "--num-steps", "1")
    assert fewer.returncode == 2
    assert "has made 2 steps already" in fewer.stderr


def test_a_fit_says_how_to_go_on_and_needs_its_table_no_more(tmp_path: Path) -> None:
    table, place = tmp_path / "t.csv", str(tmp_path / "r")
    table.write_text("x,y\n1,2\n2,4.1\n3,5.9\n4,8.05\n")
    small = ["--target", "y", "--operators", "+,*", "--max-tokens", "3", "--out", place]
    done = dvisr("fit", str(table), *small)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"saved in {place}" in lines
    offered = [text.split()[:3] for text in lines[lines.index(f"saved in {place}") + 1 :]]
    commands = ("report", "predict", "resume", "export")
    assert offered == [["dvisr", command, place] for command in commands]
    assert f"writes {place}/report.html" in done.stdout
    table.unlink()
    again = dvisr("resume", place, "--num-steps", "7")
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout


def test_verify_names_the_file(run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "r")
    done = dvisr("verify", str(run))
    assert done.returncode == 0
    assert "all 7 files are as they were written" in done.stdout
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


def test_a_run_that_is_being_written_is_left_alone(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,2\n2,4.1\n3,5.9\n")
    with folder.lock(run):
        for arguments in (
            ["resume", str(run), "--num-steps", "3"],
            ["fit", str(table), "--target", "y", "--out", str(run)],
        ):
            done = dvisr(*arguments)
            assert done.returncode == 2
            assert "another program is writing the run" in done.stderr
            assert done.stderr.count("\n") == 1
    assert folder.verify(run) == {}


def test_the_search_goes_on_though_it_can_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full while the search is made, and has room again at its end."""
    commit = folder.commit

    def full(place: Path, changed: dict[str, bytes], *rest: list[str]) -> None:
        if any(name.startswith("search-") for name in changed):
            raise OSError(28, os.strerror(28))
        commit(place, changed, *rest)

    monkeypatch.setattr(folder, "commit", full)
    fitted(1, tmp_path)
    assert "could not be kept: No space left" in (tmp_path / "log.txt").read_text()
    assert folder.verify(tmp_path) == {}
    assert load(tmp_path).n_iter_ == 1


def test_what_a_fit_replaces_is_told_in_a_line(run: Path, tmp_path: Path) -> None:
    table, place = tmp_path / "t.csv", shutil.copytree(run, tmp_path / "r")
    table.write_text("x,y\n1,2\n2,4.1\n3,5.9\n4,8.05\n")
    small = ["--target", "y", "--operators", "+,*", "--max-tokens", "3", "--out", str(place)]
    done = dvisr("fit", str(table), *small)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"dvisr: the fit that was in {place} is replaced"]


def test_a_run_without_its_manifest(run: Path, tmp_path: Path) -> None:
    place = shutil.copytree(run, tmp_path / "r")
    (place / folder.MANIFEST).unlink()
    done = dvisr("export", str(place))
    assert done.returncode == 2
    assert f"{place} has no {folder.MANIFEST}" in done.stderr


def test_the_report_has_one_name() -> None:
    assert NAME == folder.REPORT

"""`dvisr report`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.running import dvisr


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    x = np.linspace(0.5, 2.0, 12)
    y = 2.0 * x + 0.1 * np.random.default_rng(0).standard_normal(12)
    pd.DataFrame({"speed <b>": x, "force": y}).to_csv(folder / "data.csv", index=False)
    done = dvisr(
        "fit", str(folder / "data.csv"), "--target", "force", "--operators", "+,*",
        "--max-tokens", "3", "--out", str(folder / "run"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_a_saved_fit_has_a_report(saved: Path, tmp_path: Path) -> None:
    done = dvisr("report", str(saved), "-o", str(tmp_path / "a.html"))
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "force as a function of speed &lt;b&gt;" in page
    assert "--max-tokens 3 --out" in page  # the command


def test_by_default_it_stands_beside_the_model(saved: Path) -> None:
    done = dvisr("report", str(saved / "model.safetensors"), "--top", "1")
    assert done.returncode == 0, done.stderr
    assert (saved / "report.html").stat().st_size < 3_000_000


def test_wrong_requests_are_one_line(saved: Path, tmp_path: Path) -> None:
    for arguments, told in (
        ((str(tmp_path / "none"),), "there is no folder"),
        ((str(saved), "-o", str(tmp_path)), "is a folder: give the name of a file"),
    ):
        done = dvisr("report", *arguments)
        assert done.returncode == 2
        assert told in done.stderr
        assert done.stderr.count("\n") == 1

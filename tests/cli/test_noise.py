"""`--noise student` and the like for fit, compare and exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.running import dvisr
from tests.estimator.test_noise import BARS, X, Y, log_likelihood

OPTIONS = {
    "fit": ["--operators", "+", "--no-constants", "--max-tokens", "1"],
    "exact": ["--operators", "+", "--max-tokens", "1", "--constraints", "none"],
    "compare": ["--expression", "x"],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("noise") / "t.csv"
    pd.DataFrame({"x": X[:, 0], "y": Y, "e": BARS}).to_csv(path, index=False)
    return str(path)


def evidence(command: str, table: str, *more: str) -> float:
    done = dvisr(
        command, table, "--target", "y", "--features", "x", *OPTIONS[command], *more, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return float((found["expressions"][0] if command == "compare" else found)["log_evidence"])


@pytest.mark.parametrize("command", OPTIONS)
@pytest.mark.parametrize("noise", ["student", "student:3,0.2", "relative", "relative:0.1"])
def test_noise_by_its_name(command: str, noise: str, table: str) -> None:
    expected = log_likelihood(noise, Y, X[:, 0])
    assert evidence(command, table, "--noise", noise) == pytest.approx(expected, abs=1e-6)
    expected = log_likelihood(noise, Y, X[:, 0], BARS)
    found = evidence(command, table, "--noise", noise, "--err", "e")
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit", "noise model: Student t with 3 degrees of freedom"),
        ("compare", "Noise: Student t with 3 degrees of freedom"),
        ("exact", "noise student:3"),
    ],
)
def test_the_noise_is_named(command: str, said: str, table: str) -> None:
    done = dvisr(
        command, table, "--target", "y", "--features", "x", *OPTIONS[command], "--noise",
        "student:3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert said in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", OPTIONS)
@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("studnet", "did you mean 'student'?"),
        ("loud", "noise must be a number above 0, infer, student"),
        ("student:none", "noise must be a number above 0, infer, student"),
        ("student:1,2,3", "too many numbers"),
        ("relative:-1", "the scale of the noise must be above 0, not -1.0"),
        ("-1", "noise must be a number above 0"),
    ],
)
def test_words_that_are_no_noise(command: str, noise: str, message: str, table: str) -> None:
    done = dvisr(command, table, "--target", "y", *OPTIONS[command], "--noise", noise)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", OPTIONS)
def test_relative_noise_of_a_target_that_is_not_positive(command: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"x": X[:, 0], "y": np.where(np.arange(14) == 3, 0.0, Y)}).to_csv(
        path, index=False
    )
    done = dvisr(command, str(path), "--target", "y", *OPTIONS[command], "--noise", "relative")
    assert done.returncode == 2
    assert "relative noise is for a positive target, but y is 0 in one row" in done.stderr
    assert done.stderr.count("\n") == 1

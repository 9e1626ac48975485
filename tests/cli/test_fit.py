"""`dvisr fit`, `dvisr compare` and `dvisr demo`, run as a user runs them."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from dvisr import load
from dvisr.cli import cli
from dvisr.cli.console import print_lines
from dvisr.cli.fit import _next
from dvisr.estimator.table import TableRegressor
from dvisr.expression import mathml
from tests.cli.running import dvisr, in_a_process
from tests.examples import ROOT, examples_of
from tests.signals import heed_interrupts


@pytest.fixture
def line(tmp_path: Path) -> str:
    """y = 2.37 x + 1.3 with a little noise, and an error bar for every row."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, 2.0, 12)
    frame = pd.DataFrame({"x": x, "y": 2.37 * x + 1.3 + 0.05 * rng.standard_normal(12), "e": 0.05})
    frame.to_csv(tmp_path / "line.csv", index=False)
    return str(tmp_path / "line.csv")


SMALL = ["--target", "y", "--features", "x", "--operators", "+,*", "--max-tokens", "5"]


def test_fit_prints_one_json_object(line: str, tmp_path: Path) -> None:
    done = in_a_process("fit", line, *SMALL, "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    first = found["functions"][0]
    assert first["expression"] == "x * c + c"
    assert first["probability"] > 0.9
    slope, offset = first["constants"]
    assert abs(slope["mean"] - 2.37) < 4.0 * slope["std"]
    assert abs(offset["mean"] - 1.3) < 4.0 * offset["std"]
    assert 0.02 < found["noise_std"]["mean"] < 0.1
    assert found["diagnostics"]["verdict"] == "ok"
    assert found["diagnostics"]["exact"] is True
    assert (found["interrupted"], found["num_steps"]) == (False, 0)
    wanted = {
        "functions", "expressions", "log_evidence", "log_evidence_stderr", "elbo", "noise_std",
        "diagnostics", "num_steps", "interrupted", "seconds",
    }  # fmt: skip
    assert wanted <= set(found)
    assert {"expression", "probability", "num_trees", "complexity", "constants"} <= set(first)

    from dvisr import load

    x = np.linspace(0.0, 1.0, 5)[:, None]
    again = load(tmp_path / "run")
    assert np.allclose(again.predict(pd.DataFrame({"x": x[:, 0]})), 2.37 * x[:, 0] + 1.3, atol=0.1)


def test_fit_prints_a_table_and_the_verdict(line: str) -> None:
    done = dvisr("fit", line, *SMALL, "--err", "e")
    assert done.returncode == 0, done.stderr
    for text in ("likeliest first", "verdict: ok", "log evidence", "prior of constants: either"):
        assert text in done.stdout


def test_the_first_page_shows_the_screen_as_it_is(line: str, tmp_path: Path) -> None:
    """The lines of a fit, by how they begin; of how many trees is told in several ways."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    (shown,) = [one.shown for one in examples_of(page) if one.typed.startswith("fit ")]
    assert shown is not None
    printed = dvisr("fit", line, *SMALL, "--top", "1", "--out", str(tmp_path / "run")).stdout

    def beginnings(text: str) -> list[list[str]]:
        lines = text[text.index("verdict:") :].splitlines()
        return [one.split()[:2] for one in lines if " trees " not in one and len(one.split()) > 1]

    def plain(found: list[list[str]]) -> list[list[str]]:
        return [[re.sub(r"[-\d.]+", "0", word) for word in words] for words in found]

    assert plain(beginnings(shown)) == plain(beginnings(printed))


def test_constants_that_are_not_listed_are_told_of() -> None:
    """Only of the likely functions are they listed."""
    told = "constants of the other functions: --json, or the report"
    for top, is_told in (("1", False), ("6", True)):
        table = str(ROOT / "examples" / "cooling.csv")
        done = dvisr("fit", table, "--target", "warmth", "--num-steps", "1", "--top", top)
        assert done.returncode == 0, done.stderr
        assert (told in done.stdout.splitlines()) is is_told, done.stdout


def test_error_bars_are_believed_unless_noise_is_asked_for(line: str) -> None:
    given = json.loads(dvisr("fit", line, *SMALL, "--err", "e", "--json").stdout)
    assert given["noise_std"] == {"mean": 1.0, "std": 0.0}
    arguments = ["fit", line, *SMALL, "--err", "e", "--noise", "infer", "--json"]
    inferred = json.loads(dvisr(*arguments).stdout)
    assert inferred["noise_std"]["std"] > 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "z"], "there is no column 'z'"),
        (["--target", "y", "--constant-prior", "decade"], "did you mean 'decades'"),
        (["--target", "Y"], "there is no column 'Y': did you mean 'y'?"),
        (["--target", "y", "--max-tokens", "0"], "'--max-tokens': 0 is not in the range 1<=x<=200"),
        (["--target", "y", "--max-constants", "-1"], "'--max-constants': -1 is not in the range"),
        (["--target", "y", "--num-steps", "0"], "'--num-steps': 0 is not in the range x>=1"),
        (["--target", "y", "--num-samples", "1"], "'--num-samples': 1 is not in the range x>=2"),
        (["--target", "y", "--max-time", "-1"], "'--max-time': -1.0 is not in the range x>0"),
        (["--target", "y", "--seed", "-1"], "'--seed': -1 is not in the range 0<=x"),
        ([], "Missing option '--target': dvisr fit --help says what it is"),
        (
            ["--target", "y", "--niterations", "9"],
            "No such option '--niterations': use --num-steps",
        ),
        (["--target", "y", "--maxsize", "9"], "No such option '--maxsize': use --max-tokens"),
        (["--target", "y", "--random-state", "9"], "use --seed, see dvisr fit --help"),
        (["--targt", "y"], "Did you mean '--target'"),
        (["--target", "y", "---"], "No such option '---'"),
        (["--target", "y", "--,"], "No such option '--,'"),
        (["--target", "y", "--recipe", "papr"], "did you mean 'paper'"),
        (["--target", "y", "--noise", "loud"], "noise must be a number above 0, infer, student"),
    ],
)
def test_mistakes_end_with_one_line_and_status_2(
    line: str, arguments: list[str], message: str
) -> None:
    done = dvisr("fit", line, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_compare_weighs_formulas(line: str) -> None:
    done = dvisr(
        "compare", line, "--target", "y", "--features", "x", "--expression", "c * x + c",
        "--expression", "c * x", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["expression"] for row in found["expressions"]] == ["c * x + c", "c * x"]
    assert found["expressions"][0]["probability"] > 0.999
    assert [one["constant"] for one in found["expressions"][0]["constants"]] == ["c0", "c1"]
    assert found["verdict"] == "ok"
    wrong = dvisr("compare", line, "--target", "y", "--expression", "c * q(x)")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


@pytest.mark.slow
def test_the_demo_ends_with_keplers_law_and_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = dvisr("demo")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["dvisr-demo"]
    report = tmp_path / "dvisr-demo" / "report.html"
    assert report.as_uri() in done.stdout
    law = load(tmp_path / "dvisr-demo").expression(0)
    assert str(law) in ("sqrt(a) * a", "a * sqrt(a)")
    assert mathml(law, left="period") in report.read_text("utf-8")
    assert dvisr("verify", "dvisr-demo").returncode == 0
    rows = [text for text in done.stdout.splitlines() if text.startswith("│ 1 │")]
    assert rows[0].split("│")[2].strip() in ("sqrt(a) * a", "a * sqrt(a)")
    assert "verdict:" in done.stdout
    assert "with 90 % probability" in done.stdout


@pytest.mark.parametrize(("stopped_by", "code"), [("signal", 130), ("time", 0)])
def test_a_limit_of_its_own_is_no_interruption(
    line: str, monkeypatch: pytest.MonkeyPatch, stopped_by: str, code: int
) -> None:
    """And Ctrl-C is one, with a limit or without."""
    fit = TableRegressor.fit_table

    def cut_short(model: TableRegressor, *given: Any, **named: Any) -> TableRegressor:
        fit(model, *given, **named)
        model.interrupted_ = True
        model.diagnostics_["stopped_by"] = stopped_by
        return model

    monkeypatch.setattr(TableRegressor, "fit_table", cut_short)
    # Not by `main`, which ends the process at once after an interruption.
    status = cli.main(["fit", line, *SMALL, "--max-time", "60"], standalone_mode=False)
    assert (status or 0) == code


def test_a_fit_that_was_stopped_can_go_on() -> None:
    """As it was asked for; of one that came to its end more must be asked for."""
    stopped, done = (_next(Path("my run"), was_stopped) for was_stopped in (True, False))
    assert "dvisr resume 'my run'" in [text.strip().split("  ")[0] for text in stopped]
    assert "dvisr resume 'my run' --num-steps N" in [text.strip().split("  ")[0] for text in done]


def test_what_does_not_fit_on_a_line_is_further_in() -> None:
    written = io.StringIO()
    long = "    spread: " + "a word and another one " * 8
    print_lines(Console(file=written, width=60), ["verdict: ok", long])
    first, second, *others = written.getvalue().splitlines()
    assert first == "verdict: ok"
    assert second.startswith("    spread: a word")
    assert len(others) > 2
    assert all(text.startswith("      ") and text[6] != " " for text in others)
    assert max(map(len, written.getvalue().splitlines())) <= 60
    assert " ".join(written.getvalue().split()) == " ".join(["verdict: ok", *long.split()])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_search_and_the_answer_follows(
    line: str, tmp_path: Path, kind: signal.Signals, code: int
) -> None:
    """Once it has said that it is stopping; and what it found is saved."""
    heed_interrupts()
    out = tmp_path / "run"
    process = subprocess.Popen(
        [
            sys.executable, "-c", "from dvisr.cli import main; main()", "fit", line,
            "--target", "y", "--features", "x", "--num-steps", "100000", "--out", str(out),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    time.sleep(20.0)
    process.send_signal(kind)
    shown, told = process.communicate(timeout=60)
    assert process.returncode == code, told
    assert "dvisr: stopping; what was found so far follows" in told
    assert "Traceback" not in told
    assert "likeliest first" in shown
    assert "this is what was found by then" in shown
    assert (out / "model.safetensors").is_file()

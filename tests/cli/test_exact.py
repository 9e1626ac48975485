"""What a user types, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.running import dvisr, in_a_process
from tests.signals import heed_interrupts

QUADRATIC = "x0,y\n" + "".join(f"{i / 10},{(i / 10) ** 2}\n" for i in range(11))


@pytest.fixture
def quadratic(tmp_path: Path) -> str:
    path = tmp_path / "quadratic.csv"
    path.write_text(QUADRATIC)
    return str(path)


def test_json_is_one_object_and_nothing_else(quadratic: str) -> None:
    done = in_a_process("exact", quadratic, "--target", "y", "--max-tokens", "3", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["log_evidence"] == pytest.approx(-10.698649771749983, abs=1e-10)
    assert (found["num_trees"], found["num_allowed"], found["num_functions"]) == (5, 4, 4)
    rows = [(row["expression"], round(row["probability"], 8)) for row in found["posterior"]]
    assert rows == [
        ("x0 * x0", 0.36091529),
        ("sin(x0)", 0.31404061),
        ("x0", 0.30551329),
        ("x0 + x0", 0.01953081),
    ]
    assert set(found["posterior"][0]) == {"expression", "probability", "log_joint"}
    assert [row["num_trees"] for row in found["functions"]] == [1, 1, 1, 1]


def test_the_readable_table(quadratic: str) -> None:
    done = dvisr("exact", quadratic, "--target", "y", "--max-tokens", "3")
    assert done.returncode == 0
    for text in ("x0 * x0", "0.36091529", "log evidence -10.69864977", "5 trees, 4 allowed"):
        assert text in done.stdout


def test_every_option_reaches_the_oracle(tmp_path: Path) -> None:
    from dvisr import exact_posterior

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0.5, 1.5, (6, 3)), columns=["a", "b", "unused"])
    frame["y"], frame["e"] = frame["a"] * 2.0, 0.3
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = dvisr(
        "exact", str(tmp_path / "t.csv"), "--target", "y", "--features", "b,a", "--err", "e",
        "--operators", "+,*,2", "--max-tokens", "4", "--constants", "--constraints",
        "default,max-constants=1", "--noise", "infer", "--tree-prior", "size-balanced",
        "--constant-prior-mean", "0.5", "--constant-prior-std", "3", "--top", "7", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = exact_posterior(
        frame[["b", "a"]], frame["y"], y_err=frame["e"], operators=["+", "*", "2"], max_tokens=4,
        constants=True, constraints="default,max-constants=1", noise="infer",
        tree_prior="size-balanced", constant_prior_mean=0.5, constant_prior_std=3.0,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["log_evidence"] == pytest.approx(expected.log_evidence, abs=1e-12)
    assert found["num_functions"] is None
    assert [row["expression"] for row in found["posterior"]] == list(
        expected.table(7)["expression"]
    )
    again = dvisr("exact", str(tmp_path / "t.csv"), "--target", "y", "--features", "a",
                  "--likelihood-std", "0.5", "--max-tokens", "3", "--json")  # fmt: skip
    same = dvisr("exact", str(tmp_path / "t.csv"), "--target", "y", "--features", "a",
                 "--noise", "0.5", "--max-tokens", "3", "--json")  # fmt: skip
    assert again.returncode == 0
    assert again.stdout == same.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "z"], "there is no column 'z'"),
        ([], "Missing option '--target'"),
        (["--target", "y", "--features", "x1"], "no column 'x1': there is x0, y"),
        (["--target", "y", "--features", "y"], "can't be a feature too"),
        (["--target", "y", "--err", "q"], "there is no column 'q'"),
        (["--target", "y", "--operators", "+,add"], "did you mean '+'"),
        (["--target", "y", "--operators", ""], None),
        (["--target", "y", "--max-tokens", "0"], "max_tokens must be between 1 and 200"),
        (["--target", "y", "--max-tokens", "many"], "not a valid integer"),
        (["--target", "y", "--noise", "0"], "noise must be a number above 0"),
        (["--target", "y", "--noise", "loud"], "noise must be a number above 0, infer, student"),
        (["--target", "y", "--constraints", "papr"], "did you mean 'paper'"),
        (
            ["--target", "y", "--constraints", "min-tokens=9", "--max-tokens", "3"],
            "no expression of",
        ),
        (["--target", "y", "--tree-prior", "flat"], "is no tree prior"),
        (["--target", "y", "--constants", "--constant-prior-std", "-1"], "must be above 0"),
        (["--target", "y", "--top", "0"], "--top"),
        (["--target", "y", "--max-tokens", "60"], "lower max_tokens to"),
        (["--target", "y", "--max-tokens", "20", "--constants"], "lower max_tokens"),
        (["--targt", "y"], "Did you mean '--target'"),
    ],
)
def test_mistakes_end_with_one_line_and_status_2(
    quadratic: str, arguments: list[str], message: str | None
) -> None:
    done = dvisr("exact", quadratic, *arguments)
    if message is None:
        assert done.returncode == 0  # no operators: the variables alone
        return
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("dvisr: ")


FILES = {
    "missing.csv": (None, "there is no file"),
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "is empty"),
    "header.csv": (b"x0,y\n", "a header but no rows"),
    "numbers.csv": (b"1,2\n3,4\n", "holds numbers: add a row of column names"),
    "twice.csv": (b"x0,x0,y\n1,2,3\n", "two columns of twice.csv are called 'x0'"),
    "unnamed.csv": (b"x0,,y\n1,2,3\n", "column 2 of unnamed.csv has no name"),
    "latin.csv": (b"x\xe9,y\n1,2\n", "is not UTF-8"),
    "binary.csv": (b"\x00\x01\x02,\x00\n", "NUL bytes"),
    "text.csv": (b"x0,y\n1,2\nabc,3\n", "column 'x0' holds text"),
    "gap.csv": (b"x0,y\n1,2\n,3\n", "column 'x0' has a missing value in row 2"),
    "gap_y.csv": (b"x0,y\n1,\n2,3\n", "column 'y' has a missing value in row 1"),
    "infinite.csv": (b"x0,y\n1,2\ninf,3\n", "column 'x0' has an infinite value in row 2"),
    "ragged.csv": (b"x0,y\n1,2\n3,4,5\n", "as a table: row 2 has 3 fields and the header 2"),
    "dates.csv": (b"x0,y\n2020-01-01,2\n", "column 'x0' holds text"),
    "shifted.csv": (b"x0,y\n1,0.5,2\n2,0.7,4\n", "more fields than the 2 names"),
    "n" * 300: (None, "there is no file"),
    "alone.csv": (b"y\n1\n2\n", "no column beside 'y'"),
    "fake.parquet": (b"not parquet", "can't be read as Parquet"),
    "folder": ("dir", "is not a file"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(tmp_path: Path, name: str) -> None:
    content, message = FILES[name]
    path = tmp_path / name
    if content == "dir":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    done = dvisr("exact", str(path), "--target", "y")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "x0,y\n0.5,0.25\n1.5,2.25\n",
        "x0;y\n0.5;0.25\n1.5;2.25\n",
        "x0\ty\n0.5\t0.25\n1.5\t2.25\n",
        "x0|y\n0.5|0.25\n1.5|2.25\n",
        "x0 y\n0.5 0.25\n1.5 2.25\n",
        "\ufeffx0,y\r\n0.5,0.25\r\n1.5,2.25\r\n",
        '"x0", "y"\n0.5, 0.25\n1.5, 2.25\n',
        "x0;y\n0,5;0,25\n1,5;2,25\n",
        "\n\nx0,y\n0.5,0.25\n1.5,2.25\n",
        "# measured by JB\n# in May\nx0,y\n0.5,0.25\n1.5,2.25\n",
        ",x0,y\n0,0.5,0.25\n1,1.5,2.25\n",
    ],
)
def test_tables_of_any_delimiter(tmp_path: Path, text: str) -> None:
    from dvisr.data import read_table

    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    table = read_table(path)
    assert list(table.columns) == ["x0", "y"]
    np.testing.assert_array_equal(table.to_numpy(dtype=float), [[0.5, 0.25], [1.5, 2.25]])


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x0": np.arange(11) / 10, "y": (np.arange(11) / 10) ** 2}).to_parquet(path)
    done = dvisr("exact", str(path), "--target", "y", "--max-tokens", "3", "--json")
    assert json.loads(done.stdout)["log_evidence"] == pytest.approx(-10.698649771749983, abs=1e-10)


def test_names_are_escaped_not_interpreted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = ["[red]", "<script>", "=cmd()"]
    pd.DataFrame(np.arange(8.0).reshape(2, 4) + 1, columns=[*names, "y"]).to_csv(path, index=False)
    done = dvisr("exact", str(path), "--target", "y", "--max-tokens", "1")
    assert done.returncode == 0
    for name in names:
        assert f"`{name}`" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["exact", "--help"], ["--version"]])
def test_help(arguments: list[str]) -> None:
    done = dvisr(*arguments)
    assert done.returncode == 0
    assert done.stdout


def test_unknown_command() -> None:
    done = dvisr("fitt")
    assert done.returncode == 2
    assert "No such command 'fitt'" in done.stderr


def test_progress_goes_to_standard_error_and_interrupting_ends_with_130(quadratic: str) -> None:
    heed_interrupts()
    process = subprocess.Popen(
        [
            sys.executable, "-c", "from dvisr.cli import main; main()", "exact", quadratic,
            "--target", "y", "--max-tokens", "25", "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"},
    )  # fmt: skip
    assert process.stderr is not None
    told = b""
    while b"summing over expressions" not in told and process.poll() is None:
        told += os.read(process.stderr.fileno(), 4096)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == b""
    assert b"summing over expressions" in told
    assert b"Traceback" not in told + err
    assert err.rstrip().endswith(b"dvisr: interrupted")


@pytest.mark.slow
def test_nothing_is_written(quadratic: str, tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    in_a_process("exact", quadratic, "--target", "y", "--max-tokens", "3", cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_very_long_whole_numbers(tmp_path: Path) -> None:
    from dvisr.data import read_table

    path = tmp_path / "t.csv"
    path.write_text("x,y\n123456789012345678901234567890,1\n2,3\n")
    assert float(read_table(path)["x"].iloc[0]) == 123456789012345678901234567890.0


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_failure(quadratic: str) -> None:
    command = f"'{sys.executable}' -c 'from dvisr.cli import main; main()' exact '{quadratic}'"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} --target y --max-tokens 12 | head -1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("option", [["--noise", "1e-300"], ["--constant-prior-std", "1e160"]])
def test_extreme_settings_warn_of_nothing(quadratic: str, option: list[str]) -> None:
    done = in_a_process(
        "exact", quadratic, "--target", "y", "--constants", "--max-tokens", "3", *option
    )
    assert "Warning" not in done.stderr
    assert done.returncode in (0, 2)

"""Tables however they come: pipes, gzip, Excel, a header behind a #."""

from __future__ import annotations

import datetime
import gzip
import io
import os
import subprocess
import sys
import threading
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

from dvisr import data
from dvisr.data import read_table
from tests.cli.running import dvisr

TEXT = "x0,y\n0.5,0.25\n1.5,2.25\n"


def check(table: pd.DataFrame) -> None:
    assert list(table.columns) == ["x0", "y"]
    np.testing.assert_array_equal(table.to_numpy(dtype=float), [[0.5, 0.25], [1.5, 2.25]])


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Any:
    def pipe(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return pipe


def parquet() -> bytes:
    file = io.BytesIO()
    pd.DataFrame({"x0": [0.5, 1.5], "y": [0.25, 2.25]}).to_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [TEXT.encode(), gzip.compress(TEXT.encode()), parquet(), gzip.compress(parquet())],
    ids=["csv", "csv.gz", "parquet", "parquet.gz"],
)
def test_standard_input_and_files_by_what_they_hold(
    content: bytes, tmp_path: Path, piped: Any
) -> None:
    piped(content)
    check(read_table("-"))
    path = tmp_path / "any name"
    path.write_bytes(content)
    check(read_table(path))


def test_a_pipe_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(TEXT,))
    writer.start()
    check(read_table(path))
    writer.join()


def test_a_table_through_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    command = f"'{sys.executable}' -c 'from dvisr.cli import main; main()' exact - --target y"
    done = subprocess.run(
        ["bash", "-c", f"{command} --max-tokens 1 < '{path}'"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "log evidence" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "#x0,y\n0.5,0.25\n1.5,2.25\n",
        "# x0 y\n0.5 0.25\n1.5 2.25\n",
        "# measured in May, by JB\n#\n# x0;y\n0.5;0.25\n1.5;2.25\n",
        "#x0\ty\n0.5\t0.25\n1.5\t2.25\n",
        "# a note, and another\nx0,y\n0.5,0.25\n1.5,2.25\n",
        "# 1, 2\nx0,y\n0.5,0.25\n1.5,2.25\n",
    ],
)
def test_names_behind_a_hash(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    check(read_table(path))


@pytest.mark.parametrize("text", ["# x0\n0.5,0.25\n", "# 1,2\n0.5,0.25\n", "# a,b,c\n1,2\n"])
def test_a_note_that_is_no_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="holds numbers: add a row of column names"):
        read_table(path)


@pytest.mark.parametrize(
    "address",
    ["https://example.org/t.csv", "http://a/b", "ftp://a/b.csv", "s3://a/b", "file:///t.csv"],
)
@pytest.mark.parametrize("command", ["fit", "exact", "compare"])
def test_addresses_are_refused(command: str, address: str) -> None:
    more = ["--expression", "x"] if command == "compare" else []
    done = dvisr(command, address, "--target", "y", *more)
    assert done.returncode == 2
    assert f"'{address}' is an address, and only files are read: download it first" in done.stderr
    assert done.stderr.count("\n") == 1


BAD = {
    "t.csv.gz": (gzip.compress(TEXT.encode())[:-9], "t.csv.gz can't be unpacked"),
    "u.gz": (b"\x1f\x8b" + b"nonsense", "u.gz can't be unpacked"),
    "old.xls": (b"\xd0\xcf\x11\xe0" + b"\0" * 100, "is an old Excel file: save it as .xlsx"),
}


@pytest.mark.parametrize("name", BAD)
def test_broken_files(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    done = dvisr("exact", str(tmp_path / name), "--target", "y")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_too_much_is_refused_packed_or_not(
    tmp_path: Path, piped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MAX_BYTES", 1000)
    path = tmp_path / "t.csv"
    path.write_bytes(b"x" * 1001)
    with pytest.raises(ValueError, match="is larger than"):
        read_table(path)
    path.write_bytes(gzip.compress(b"x" * 1001))
    with pytest.raises(ValueError, match=r"what is in t\.csv is larger than"):
        read_table(path)
    piped(b"x" * 1001)
    with pytest.raises(ValueError, match="standard input is larger than"):
        read_table("-")


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    with pytest.raises(ValueError, match="nothing on standard input: pipe a table"):
        read_table("-")


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "nothing that is one")
    return file.getvalue()


def test_excel_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(zipped())
    with pytest.raises(ValueError, match=r"needs the package openpyxl.*save the sheet as CSV"):
        read_table(tmp_path / "t.xlsx")


def sheet(path: Path, rows: list[list[Any]]) -> Path:
    """As a spreadsheet program writes it: the cells of the first of two sheets."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes").append(["nothing of this is read"])
    book.save(path)
    return path


ROWS: list[list[Any]] = [[0.5, 0.25], [1.5, 2.25]]


@pytest.mark.parametrize(
    "rows",
    [
        [["x0", "y"], *ROWS],
        [[" x0", "y "], *ROWS],
        [[None, None], [], ["x0", "y"], *ROWS],  # rows that are empty, above
        [["x0", "y"], ROWS[0], [None, None], ROWS[1], [None, None]],  # between and below
        [[None, "x0", "y"], *([None, *row] for row in ROWS)],  # a column that is empty
    ],
    ids=["plain", "spaces", "empty first rows", "empty rows", "empty column"],
)
def test_excel_sheets(tmp_path: Path, rows: list[list[Any]]) -> None:
    path = sheet(tmp_path / "t.xlsx", rows)
    check(read_table(path))
    packed = tmp_path / "t.xlsx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    check(read_table(packed))


def test_names_of_columns_in_excel_are_what_the_cells_say(tmp_path: Path) -> None:
    path = sheet(tmp_path / "t.xlsx", [["NA", 2020, "None"], [0.5, 1, 2], [1.5, 2.5, 3]])
    table = read_table(path)
    assert list(table.columns) == ["NA", "2020", "None"]
    assert table["2020"].tolist() == [1.0, 2.5]
    assert all(kind.kind in "if" for kind in table.dtypes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["x0", "y"]], "t.xlsx has a header but no rows"),
        ([], "the first sheet of t.xlsx is empty"),
        ([["x0", None], *ROWS], "column 2 of t.xlsx has no name"),
        ([["y", "y"], *ROWS], "two columns of t.xlsx are called 'y'"),
        ([[1, 2.5], *ROWS], "holds numbers: add a row of column names"),
        ([["x0", "y"], ["low", 0.25], ["high", 2.25]], "column 'x0'"),
        ([["x0", "y"], [0.5, "n/a?"], [1.5, 2.25]], "column 'y'"),
        ([["x0", "y"], [0.5, None], [1.5, 2.25]], "column 'y'"),
        ([["x0", "y"], [datetime.date(2020, 1, 1), 0.25], [1.5, 2.25]], "column 'x0'"),
        ([["x0", "y"], ["=A3/2", 0.25], [1.5, 2.25]], "column 'x0'"),  # never worked out
    ],
)
def test_excel_sheets_that_are_no_table_of_numbers(
    tmp_path: Path, rows: list[list[Any]], message: str
) -> None:
    done = dvisr("exact", str(sheet(tmp_path / "t.xlsx", rows)), "--target", "y")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_excel_files_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"x0": [0.5, 1.5], "y": [0.25, 2.25]}).to_excel(path, index=False)
    check(read_table(path))
    path.write_bytes(zipped())
    with pytest.raises(ValueError, match=r"can't be read as \.xlsx"):
        read_table(path)

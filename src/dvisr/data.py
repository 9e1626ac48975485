"""Tables from files into a `Dataset`, with a sentence that helps for what can be wrong in them."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from dvisr.types import Dataset, as_numbers

MAX_BYTES = 2_000_000_000
_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"  # what such files begin with
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_DELIMITERS = ",;\t|"
_INDEX = "\0index"  # no column of a file can be called that

# Semi-major axis (astronomical units) and sidereal period (years of 365.25 days), J2000: JPL's
# approximate elements of the planets and NASA's planetary fact sheets.
PLANETS = pd.DataFrame(
    {
        "planet": [
            "Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune",
        ],
        "a": [0.387098, 0.723332, 1.0, 1.523662, 5.203363, 9.537070, 19.191264, 30.068963],
        "period": [
            0.240847, 0.615197, 1.000017, 1.880848, 11.862615, 29.447498, 84.016846, 164.79132,
        ],
    }
)  # fmt: skip


def cooling_table() -> pd.DataFrame:
    """Made by a formula: warmth = 62 exp(-0.11 t), with Gaussian noise of 0.5."""
    t = np.linspace(0.0, 23.0, 24)
    noise = np.random.default_rng(0).normal(scale=0.5, size=len(t))
    return pd.DataFrame({"t": t, "warmth": 62.0 * np.exp(-0.11 * t) + noise})


def read_table(path: str | Path) -> pd.DataFrame:
    """A table with a header: CSV in UTF-8, its delimiter found by itself, Parquet or .xlsx, any of
    them also compressed by gzip. `-` is standard input."""
    content, name = _content(str(path))
    if content.startswith(_GZIP):
        content = _unpacked(content, name)
    if content.startswith(_PARQUET) or Path(name).suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(content, name)
    if content.startswith(_ZIP) or Path(name).suffix.lower() == ".xlsx":
        return _read_excel(content, name)
    if content.startswith(_OLD_EXCEL):
        raise ValueError(f"{name} is an old Excel file: save it as .xlsx or as CSV in UTF-8")
    return _read_csv(content, name)


def _content(path: str) -> tuple[bytes, str]:
    """What is in a file, and how to call it."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        raise ValueError(
            f"{path[:100]!r} is an address, and only files are read: download it first"
        )
    if path == "-":
        if sys.stdin.isatty():
            raise ValueError("there is nothing on standard input: pipe a table into the command")
        return _limited(sys.stdin.buffer, "standard input"), "standard input"
    place = Path(path)
    try:
        exists, is_folder = place.exists(), place.is_dir()
    except OSError:  # a name too long to be one
        exists, is_folder = False, False
    if not exists:
        raise ValueError(f"there is no file {path[:100]!r}: check the path")
    if is_folder:
        raise ValueError(f"{path!r} is not a file: give a CSV, Parquet or .xlsx file")
    try:
        with place.open("rb") as file:  # a file, or a pipe such as <(command)
            return _limited(file, repr(path)), place.name
    except OSError as error:
        raise ValueError(f"{place.name} can't be read: {error.strerror}") from None


def _limited(file: IO[bytes] | gzip.GzipFile, name: str) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{name} is larger than {MAX_BYTES / 1e9:.0f} GB")
    return content


def _unpacked(content: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return _limited(file, f"what is in {name}")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name} can't be unpacked ({_first_line(error)}): copy it anew") from None


def _read_parquet(content: bytes, name: str) -> pd.DataFrame:
    import pyarrow

    try:
        return pd.read_parquet(io.BytesIO(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{name} can't be read as Parquet: {_first_line(error)}") from None


def _read_excel(content: bytes, name: str) -> pd.DataFrame:
    """The first sheet: its first row that is not empty has the names. Rows and columns that are
    empty throughout are left out."""
    try:
        # As the cells are: a column may be called NA, or 2020.
        sheet = pd.read_excel(
            io.BytesIO(content), header=None, dtype=object, keep_default_na=False, na_values=[""]
        )
    except ImportError:
        raise ValueError(
            f"reading {name} needs the package openpyxl, which is not installed: install it, or "
            f"save the sheet as CSV in UTF-8"
        ) from None
    except Exception as error:  # a broken file fails in many ways
        raise ValueError(f"{name} can't be read as .xlsx: {_first_line(error)}") from None
    sheet = sheet.dropna(how="all").dropna(how="all", axis=1)
    if len(sheet) == 0:
        raise ValueError(f"the first sheet of {name} is empty: it needs a header and rows")
    header = ["" if pd.isna(cell) else str(cell).strip() for cell in sheet.iloc[0]]
    _check_header(header, name)
    if len(sheet) == 1:
        raise ValueError(f"{name} has a header but no rows: add some")
    table: pd.DataFrame = sheet.iloc[1:].set_axis(header, axis=1).reset_index(drop=True)
    return table.infer_objects()


def _read_csv(content: bytes, name: str) -> pd.DataFrame:
    text = _decoded(content, name)
    delimiter = _delimiter(text)
    header = [column.strip() for column in next(_rows(text, delimiter))]
    if len(header) > 2 and header[0] == "":
        header[0] = _INDEX  # row numbers, as pandas writes them
    _check_header(header, name)
    try:
        table = _parsed(text, delimiter, header, ".")
        if delimiter != "," and _num_numeric(table) < len(header):
            # 1,5 for 1.5, as spreadsheets write it in much of the world.
            with_commas = _parsed(text, delimiter, header, ",")
            if _num_numeric(with_commas) > _num_numeric(table):
                table = with_commas
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(f"{name} can't be read as a table: {_fault(error)}") from None
    table = table.drop(columns=[_INDEX], errors="ignore")
    if len(table) == 0:
        raise ValueError(f"{name} has a header but no rows: add some")
    return table


def _decoded(content: bytes, name: str) -> str:
    """The text, from its header on."""
    try:
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text (byte {error.start}): save it as CSV in UTF-8"
        ) from None
    if not text.strip():
        raise ValueError(f"{name} is empty: it needs a header and rows of numbers")
    if "\0" in text:
        raise ValueError(f"{name} holds NUL bytes, so it is no CSV: save it as CSV in UTF-8")
    notes = re.match(r"(\s*#[^\n]*(\n|\Z)|\s*\n)*", text)  # above the header
    rest = text[notes.end() :] if notes else text
    if not rest:
        raise ValueError(f"{name} holds nothing but comments: it needs a header and rows")
    return _commented_header(notes.group() if notes else "", rest) + rest


def _commented_header(notes: str, rest: str) -> str:
    """The last note as a line of names, if that is what it is, as in `#x,y`: where the first row
    below it holds numbers, and as many fields as it."""
    written = [line.strip().lstrip("#").strip() for line in notes.splitlines() if line.strip()]
    if not written:
        return ""
    candidate = written[-1] + "\n"
    first_rows = _rows(candidate + rest, _delimiter(candidate + rest))
    header, first = next(first_rows), next(first_rows, [])
    is_header = len(header) == len(first) > 1 and not any(_is_number(name) for name in header)
    return candidate if is_header and any(_is_number(field) for field in first) else ""


def _parsed(text: str, delimiter: str, header: list[str], decimal: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        # Rows longer than the header must not be cut or shifted in silence.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                decimal=decimal,
                header=0,
                names=header,
                index_col=False,
                skipinitialspace=True,
                dtype_backend="numpy_nullable",
            )
        except pd.errors.ParserWarning:
            message = (
                f"rows have more fields than the {len(header)} names of the header: name every "
                f"column, and put fields that hold the delimiter in quotes"
            )
            raise ValueError(message) from None
    for name in table.columns:
        # Whole numbers too long for a machine integer arrive as text.
        numbers = pd.to_numeric(table[name], errors="coerce")
        if table[name].dtype == "string" and bool((numbers.notna() | table[name].isna()).all()):
            table[name] = numbers
    return table


def _num_numeric(table: pd.DataFrame) -> int:
    return len(table.select_dtypes(["number", "boolean"]).columns)


def _delimiter(text: str) -> str:
    """The one that splits the first rows into equally many columns, the most if several do."""
    best, most = ",", 1
    for delimiter in _DELIMITERS:
        widths = {
            len(row) for _, row in zip(range(20), _rows(text, delimiter), strict=False) if row
        }
        if len(widths) == 1 and max(widths) > most:
            best, most = delimiter, max(widths)
    if most == 1:
        header = text.split("\n", 1)[0]
        best = max(_DELIMITERS, key=header.count)
        if header.count(best) == 0:
            return r"\s+" if len(header.split()) > 1 and '"' not in header else ","
    return best


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    if delimiter == r"\s+":
        yield from (line.split() for line in text.splitlines())
        return
    try:
        yield from csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    except csv.Error as error:
        raise ValueError(f"the table can't be read: {error}") from None


def _check_header(header: list[str], file: str) -> None:
    if all(_is_number(name) for name in header):
        raise ValueError(f"the first row of {file} holds numbers: add a row of column names")
    if "" in header:
        raise ValueError(f"column {header.index('') + 1} of {file} has no name: name it")
    for name in header:
        if header.count(name) > 1:
            raise ValueError(f"two columns of {file} are called {name!r}: rename one")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fault(error: Exception) -> str:
    """In our words where pandas has found a row that is too long."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if found is None:
        return _first_line(error)
    named, line, seen = map(int, found.groups())
    return (
        f"row {line - 1} has {seen} fields and the header {named}: mend that row, or put fields "
        f"that hold the delimiter in quotes"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def dataset_from_table(
    table: pd.DataFrame,
    target: str,
    *,
    features: Sequence[str] | None = None,
    err: str | None = None,
) -> Dataset:
    """Pick the columns; without `features`, all that are neither target nor error bar."""
    names = [str(name) for name in table.columns]
    table = table.set_axis(names, axis=1)
    check_columns(names, [target, *([] if err is None else [err]), *(features or [])])
    is_chosen = features is not None
    if features is None:
        features = [name for name in names if name not in (target, err)]
        if not features:
            raise ValueError(f"there is no column beside {target!r} to explain it by: add one")
    if target in features:
        raise ValueError(f"the target {target!r} can't be a feature too: leave it out")
    if err is not None and err == target:
        raise ValueError("the target can't be its own error bar: name another column")
    bars = None if err is None else as_numbers(table[err], f"column {err!r}")
    y = as_numbers(table[target], f"column {target!r}")
    try:
        return Dataset.create(table[list(features)], y, bars, list(features))
    except ValueError as error:
        if is_chosen or "column " not in str(error):
            raise
        raise ValueError(f"{error}, or choose other columns with --features a,b") from None


def check_columns(names: Sequence[str], wanted: Sequence[str]) -> None:
    """A `ValueError` that names the first of the wanted columns that is not there."""
    for name in wanted:
        if name not in names:
            same = [other for other in names if other.strip().lower() == name.strip().lower()]
            close = same or difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(names[:20])}"
            raise ValueError(f"there is no column {name!r}: {hint}")

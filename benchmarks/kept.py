"""What a fit leaves behind: how large a saved fit is, and how large and how quick its report.

    python -m benchmarks.kept sizes            a fit of 40 rows; into docs/kept.json
    python -m benchmarks.kept memory FILE      of `python -m benchmarks.memory long --out FILE`
    python -m benchmarks.kept show             the sentences of docs/runs.md and docs/report.md

Seconds are those of one process that others may disturb: the seconds of the processor stand beside
them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
FOUND = DOCS / "kept.json"
PAGES = (DOCS / "runs.md", DOCS / "report.md")
ROWS, COLUMNS = 40, 2
COMMAND = "from dvisr.cli import main; main()"
_MEGABYTE = 1e6
_TIMES = 5  # that a command is run: the quickest was disturbed least


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (ROWS, COLUMNS))
    clean = 2.5 * X[:, 0] * np.exp(-0.7 * X[:, 1]) + 0.3
    return X, clean + 0.05 * rng.standard_normal(ROWS)


def timed(work: Callable[[], Any]) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "processor": round(time.process_time() - used, 2),
    }


def sizes() -> dict[str, Any]:
    """Megabytes by file of a fit that is kept while it is made, and of its report."""
    import dvisr

    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="dvisr-kept-") as name:
        run, report = Path(name) / "run", Path(name) / "report.html"
        dvisr.DVISRRegressor(random_state=0, run_dir=run).fit(*table())
        files = {path.name: path.stat().st_size for path in sorted(run.iterdir())}
        model = dvisr.load(run)
        first, again = (timed(lambda: model.report(report)) for _ in range(2))
        command = [sys.executable, "-c", COMMAND, "report", str(run), "--out", str(report)]
        whole = [
            timed(lambda: subprocess.run(command, check=True, capture_output=True))["seconds"]
            for _ in range(_TIMES)
        ]
        return {
            "rows": ROWS,
            "columns": COLUMNS,
            "files": files,
            "report_bytes": report.stat().st_size,
            "report_first": first,
            "report_again": again,
            "report_command_seconds": min(whole),
            "cores": os.cpu_count(),
            "load": round(load, 1),
        }


def with_found(text: str, held: dict[str, Any]) -> str:
    """The text with each sentence between its marks."""
    made = {
        "size": size_sentence(held.get("sizes")),
        "report": report_sentence(held.get("sizes")),
        "memory": memory_sentence(held.get("memory")),
    }
    for name, sentence in made.items():
        start, end = f"<!-- kept: {name} -->\n", "<!-- end of kept -->"
        before, mark, after = text.partition(start)
        if mark:
            text = before + mark + sentence + end + after.partition(end)[2]
    return text


def size_sentence(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    files = row["files"]
    search = sum(size for name, size in files.items() if name.startswith("search-"))
    parts = [sum(files.values()), files["model.safetensors"], search]
    whole, answer, rest = (f"{size / _MEGABYTE:.1f} MB" for size in parts)
    return (
        f"A fit of {row['rows']} rows and {row['columns']} columns takes {whole}: {answer} for the "
        f"answer, {rest} for the search, which only `resume` needs "
        f"(`python -m benchmarks.kept sizes`).\n"
    )


def report_sentence(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    first, again = row["report_first"], row["report_again"]
    return (
        f"The report of a fit of {row['rows']} rows and {row['columns']} columns has "
        f"{row['report_bytes'] / _MEGABYTE:.1f} MB and takes {first['seconds']:.1f} seconds, "
        f"{again['seconds']:.1f} a second time in the same process "
        f"(`python -m benchmarks.kept sizes`); the whole command, most of which is Python's start "
        f"and imports, {row['report_command_seconds']:.1f}, the quickest of {_TIMES}. "
        f"({row['cores']} cores, with a load of {row['load']:g} before it began.)\n"
    )


def memory_sentence(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    less = ""
    if row["max_forms"] < row["usual_max_forms"]:
        less = (
            f", with room for {row['max_forms']:,} functions in the place of "
            f"{row['usual_max_forms']:,}, so that it was filled as in an hour"
        )
    search = row["growth_of_the_search_after_its_first_sixth"]
    whole = row["growth_with_what_comes_after_it"]
    return (
        f"A search of {row['seconds']:g} seconds ({row['num_steps']:,} steps{less}) grew by "
        f"{search:.1%} after its first sixth. Weighing and the network's lessons, in its last "
        f"seconds, need more for a moment: {row['peak_megabytes']:,.0f} MB in all, {whole:.1%} "
        f"more than after that sixth "
        f"(`python -m benchmarks.memory long --seconds {row['seconds']:g}`).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("sizes", "memory", "show"):
        commands.add_parser(name)
    commands.choices["memory"].add_argument("file", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # verdicts do not matter here
    held = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    if asked.command == "sizes":
        held["sizes"] = sizes()
    elif asked.command == "memory":
        found = json.loads(asked.file.read_text())
        held["memory"] = {name: value for name, value in found.items() if name != "samples"}
    else:
        for page in PAGES:
            page.write_text(with_found(page.read_text("utf-8"), held), "utf-8")
        return
    FOUND.write_text(json.dumps(held, indent=1) + "\n")
    print(json.dumps(held[asked.command], indent=1))


if __name__ == "__main__":
    main()

"""How much memory a process holds: through one long fit, and through many fits of other shapes.

    python -m benchmarks.memory long --seconds 3600
    python -m benchmarks.memory tables --tables 33

`long` searches until its time is up and reads the resident memory of its own process every few
seconds; growth is from the end of the first sixth (in a short run from the first step, if that is
later) to the largest value after it, once of the search alone and once with the weighing and the
lessons of the network at its end. The visited set is
bounded (`max_forms`), and an hour is long enough to fill it; a shorter run takes a bound that is
smaller in proportion, so that it fills it too, and the result says so.

`tables` fits tables of other numbers of rows and columns one after the other and reads the memory
after each. Both read /proc, so they need Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HOUR = 3600.0
_MEGABYTE = 1e6
_TABLE_SECONDS = 5.0


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE


def in_use() -> float:
    """The same without what the allocator holds though nothing uses it."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident()


class Sampler:
    """Reads the memory in a thread of its own, with what `also` says then."""

    def __init__(self, every: float, also: Callable[[], dict[str, Any]]) -> None:
        self._every, self._also = every, also
        self._is_over = threading.Event()
        self._began = time.perf_counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[dict[str, Any]] = []

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            seconds = time.perf_counter() - self._began
            sample = {"seconds": round(seconds, 1), "megabytes": round(resident(), 1)}
            self.samples.append(sample | self._also())

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def growth(samples: list[dict[str, Any]], total: float) -> float:
    """To the most that there is later, as a share: from the end of the first sixth, or from the
    first step, should that come later. NaN if there is nothing before it or after."""
    steps = [one["seconds"] for one in samples if one["step"] > 0]
    since = max(total / 6, min(steps, default=total))
    early = [one["megabytes"] for one in samples if one["seconds"] <= since]
    late = [one["megabytes"] for one in samples if one["seconds"] > since]
    if not (early and late):
        return float("nan")
    share: float = max(late) / early[-1] - 1.0
    return share


def table(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 3.0, (rows, columns))
    clean = 2.0 * np.exp(-0.5 * x[:, 0]) * np.cos(2.0 * x[:, -1]) + 0.7 * x.sum(axis=1)
    return x, clean + 0.1 * clean.std() * rng.standard_normal(rows)


def long_fit(seconds: float, max_forms: int | None, every: float) -> dict[str, Any]:
    from dvisr import DVISRRegressor
    from dvisr.fitting.progress import Status
    from dvisr.settings import FitSettings
    from dvisr.types import Dataset

    settings = FitSettings()
    if max_forms is None:
        max_forms = int(settings.search.max_forms * min(1.0, seconds / HOUR))
    search = dataclasses.replace(settings.search, max_forms=max_forms)
    told: list[Status] = [Status()]

    def note(status: Status) -> None:
        told[0] = status

    def standing() -> dict[str, Any]:
        status = told[0]
        names = [phase.name for phase in status.phases]
        return {"step": status.num_steps, "functions": status.num_functions, "phases": names}

    x, y = table(30, 2)
    model = DVISRRegressor(
        random_state=0,
        num_steps=10**6,
        max_time=seconds,
        settings=dataclasses.replace(settings, search=search),
    )
    with Sampler(every, standing) as sampler:
        model.fit_table(Dataset.create(x, y), note)
    num_steps = model.n_iter_
    searching = [one for one in sampler.samples if one["step"] < num_steps]
    return {
        "seconds": seconds,
        "max_forms": max_forms,
        "usual_max_forms": settings.search.max_forms,
        "num_steps": num_steps,
        "growth_of_the_search_after_its_first_sixth": growth(searching, seconds),
        "growth_with_what_comes_after_it": growth(sampler.samples, seconds),
        "peak_megabytes": max(one["megabytes"] for one in sampler.samples),
        "samples": sampler.samples,
    }


def many_tables(count: int, seconds: float) -> dict[str, Any]:
    from dvisr import DVISRRegressor

    found = []
    for number in range(count):
        rows, columns, tokens = 20 + 7 * number, 1 + number % 5, 9 + number % 7
        x, y = table(rows, columns, number)
        model = DVISRRegressor(random_state=0, max_time=seconds, max_tokens=tokens).fit(x, y)
        del model
        gc.collect()
        shape = {"rows": rows, "columns": columns, "max_tokens": tokens}
        found.append({"table": number + 1, **shape, "megabytes": round(resident(), 1)})
        print(json.dumps(found[-1]), flush=True)
    return {"max_time": seconds, "tables": found, "in_use_megabytes": round(in_use(), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, seconds in (("long", HOUR), ("tables", _TABLE_SECONDS)):
        own = commands.add_parser(name)
        own.add_argument("--seconds", type=float, default=seconds, help="of a fit")
        own.add_argument("--out", type=Path, help="a JSON file")
    commands.choices["long"].add_argument("--max-forms", type=int)
    commands.choices["long"].add_argument("--every", type=float, default=5.0)
    commands.choices["tables"].add_argument("--tables", type=int, default=33)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # verdicts do not matter here
    if asked.command == "long":
        result = long_fit(asked.seconds, asked.max_forms, asked.every)
        shown = {name: value for name, value in result.items() if name != "samples"}
        print(json.dumps(shown, indent=2))
    else:
        result = many_tables(asked.tables, asked.seconds)
        print(f"in use: {result['in_use_megabytes']} MB")
    if asked.out is not None:
        asked.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

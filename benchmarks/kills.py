"""Whole fits that are killed at random moments and resumed until they are done.

    python -m benchmarks.kills --kills 300

A small fit is kept in a folder after every step. Its process is killed by SIGKILL at a random
moment of the time that an uninterrupted fit takes, and the fit is resumed, until it is done. After
each kill every file of the run must be as it was written; in the end the answer must be, to the
last bit, that of the fit that was not killed. The processes are forks of one that has imported the
package and has loaded its compiled code, but has no threads yet: so most kills come while a fit is
at work or is being saved, not while Python starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dvisr import DVISRRegressor, load
from dvisr.estimator import recording
from dvisr.runs import folder
from dvisr.settings import FitSettings, SearchSettings, WeighingSettings

NUM_STEPS = 30
_LONGEST = 600.0  # seconds that a fit may take


def new_model(place: Path | None) -> DVISRRegressor:
    search = SearchSettings(
        num_samples=16, max_enumerated=0, likeliest_trees=3, network="plain", hidden_size=8,
        final_updates=10, num_fresh=64, fresh_rounds=1, table_functions=200, table_contexts=50,
        matched_at_start=50, matched_trees=4, matched_a_step=20,
        power_pairs=500, power_pairs_a_step=100, powers_at_start=20, powers_a_step=10,
    )  # fmt: skip
    weighing = WeighingSettings(rounds=(500, 2000), num_starts=8, num_draws=300)
    return DVISRRegressor(
        operators=("+", "*", "sin"), max_tokens=7, max_constants=2, tree_prior="size-balanced",
        num_steps=NUM_STEPS, random_state=5, n_jobs=1, run_dir=place,
        settings=FitSettings(search=search, weighing=weighing),
    )  # fmt: skip


def table() -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-1.0, 2.0, 14)
    return x[:, None], 1.5 * x + 0.7 + np.random.default_rng(0).normal(0.0, 0.1, 14)


def fit_or_resume(place: Path) -> None:
    recording.EVERY = 0.0  # a snapshot after every step
    if folder.is_run(place):
        DVISRRegressor.resume(place, n_jobs=1)
    else:
        new_model(place).fit(*table())


def forked(place: Path) -> int:
    """The number of a process that fits there, or goes on with what is there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads: there are none
        number = os.fork()
    if number:
        return number
    status = 1
    try:
        warnings.simplefilter("ignore")
        fit_or_resume(place)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(process: int) -> int | None:
    """What it ended with, as a signal's number below 0; None while it runs."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def waited(process: int, seconds: float) -> int | None:
    """What it ended with, should it end within that time."""
    until = time.monotonic() + seconds
    while (code := ended(process)) is None and time.monotonic() < until:
        time.sleep(0.001)
    return code


def kill(process: int) -> int:
    os.kill(process, signal.SIGKILL)
    code = waited(process, _LONGEST)
    assert code is not None
    return code


def answer(place: Path) -> dict[str, Any]:
    """All that a fit found, but for how long it took."""
    made = load(place)
    draws = made._posterior.draws
    return {
        "functions": made.functions_.to_json(double_precision=15),
        "trees": made.posterior_.to_json(double_precision=15),
        "evidence": made.log_evidence_.hex(),
        "draws": (draws.tree.tobytes(), draws.constants.tobytes(), draws.noise_factor.tobytes()),
        "history": made.history_.drop(columns="seconds").to_json(double_precision=15),
        "diagnostics": repr(made.diagnostics_),
    }


def differences(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    return [name for name in one if one[name] != two[name]]


def check(place: Path) -> None:
    wrong = folder.verify(place) if folder.is_run(place) else {}
    if wrong:
        raise SystemExit(f"after a kill {place} has files that are not as written: {wrong}")


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def run(num_kills: int, seed: int, root: Path) -> dict[str, Any]:
    rng = random.Random(seed)
    for name in ("first", "whole"):  # the first one compiles what the others find compiled
        began = time.monotonic()
        if waited(forked(root / name), _LONGEST) != 0:
            raise SystemExit("the fit that is not killed failed")
    length = time.monotonic() - began
    whole = answer(root / "whole")
    found = {"kills": 0, "before_the_first_save": 0, "in_a_save": 0, "fits_done": 0}
    number = 0
    while found["kills"] < num_kills or found["fits_done"] == 0:
        place = root / str(number)
        process = forked(place)
        patience = rng.uniform(0.0, length) if found["kills"] < num_kills else _LONGEST
        code = waited(process, patience)
        if code is None:
            code = kill(process)
        if code == -signal.SIGKILL:
            found["kills"] += 1
            found["before_the_first_save"] += not folder.is_run(place)
            found["in_a_save"] += any(place.glob(".*.new"))
            check(place)
            continue
        if code != 0:
            raise SystemExit(f"the fit in {place} ended with {code}")
        check(place)
        if apart := differences(whole, answer(place)):
            raise SystemExit(f"{place} differs from the fit that was not killed: {apart}")
        found["fits_done"] += 1
        number += 1
    return {**found, "seconds_of_a_whole_fit": round(length, 1)}


def warm_up() -> None:
    """Load the compiled code. A thread would not survive a fork, so there may be none."""
    from dvisr.marginal import Engine
    from dvisr.problem import make_problem
    from dvisr.types import Dataset

    problem = make_problem(
        Dataset.create(*table()), operators=("+", "*", "sin"), constants=True, max_tokens=7,
        max_constants=2, constraints="default", tree_prior="size-balanced",
        constant_prior="decades", noise="infer",
    )  # fmt: skip
    tree = np.full((1, 7), -1, dtype=np.int8)
    tree[0, 0] = problem.grammar.library.constant_id
    Engine.of(problem, num_threads=1).fit(tree)
    assert threading.active_count() == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--keep", type=Path, help="a folder to keep the runs in")
    asked = parser.parse_args()
    warm_up()
    with _place(asked.keep) as root:
        print(json.dumps(run(asked.kills, asked.seed, root)))


if __name__ == "__main__":
    main()

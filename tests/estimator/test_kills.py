"""Whole fits, killed at random and resumed until they are done. It takes minutes, and is run on
request: DVISR_KILLS=300 pytest tests/estimator/test_kills.py"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dvisr import DVISRRegressor, load
from dvisr.runs import folder
from tests.fitting.problems import searching

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("DVISR_KILLS" not in os.environ, reason="set DVISR_KILLS to a number"),
    pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning"),
]

FIT = """
import sys, warnings
from pathlib import Path
from dvisr.estimator import DVISRRegressor, recording
from dvisr.runs import folder
from tests.estimator.test_kills import new_model
from tests.fitting.problems import LINE, X
warnings.simplefilter("ignore")
recording.EVERY = 0.0
place = Path(sys.argv[1])
print("ready", flush=True)
if folder.is_run(place):
    DVISRRegressor.resume(place)
else:
    new_model(place).fit(X[:, None], LINE)
"""


def new_model(place: Path | None) -> DVISRRegressor:
    return DVISRRegressor(
        operators=("+", "*", "sin"), max_tokens=7, max_constants=2, tree_prior="size-balanced",
        num_steps=8, random_state=5, run_dir=place, settings=searching(),
    )  # fmt: skip


def test_killed_at_random_and_resumed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FIT, str(tmp_path / "whole")], check=True)
    whole = load(tmp_path / "whole")
    rng = random.Random(0)
    num_kills, num_runs, most = 0, 0, int(os.environ["DVISR_KILLS"])
    is_done = False
    while num_kills < most or not is_done:
        place = tmp_path / str(num_runs)
        process = subprocess.Popen(
            [sys.executable, "-c", FIT, str(place)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.0, 8.0))
        if num_kills < most and process.poll() is None:  # the last one comes to its end
            process.send_signal(signal.SIGKILL)
            num_kills += 1
        process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
        if folder.is_run(place):
            assert folder.verify(place) == {}
        is_done = process.returncode == 0
        if is_done:
            done = load(place)
            assert done.functions_.equals(whole.functions_)
            assert done.diagnostics_ == whole.diagnostics_
            num_runs += 1

"""Files of a run that were made to harm: digests are right, what they say is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dvisr import DVISRRegressor, load
from dvisr.estimator import recording, saving
from dvisr.fitting.snapshots import Snapshot
from dvisr.runs import files, folder, packing
from tests.fitting.problems import LINE, X, searching

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")

SNAPSHOT = "search-000001.safetensors"
Arrays = dict[str, np.ndarray]
Values = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "run"
    DVISRRegressor(
        operators=("+", "*"), max_tokens=5, max_constants=2, constant_prior="normal:0,10",
        tree_prior="size-balanced", num_steps=1, random_state=0, run_dir=place,
        settings=searching(),
    ).fit(X[:, None], LINE)  # fmt: skip
    return place


def changed(run: Path, tmp_path: Path, name: str, change: Callable[[Arrays, Values], Any]) -> Path:
    """A copy of the run with one file changed, and its digests mended."""
    content = {other: folder.read(run, other) for other in folder.read_manifest(run)}
    arrays, values = files.from_bytes(content[name], run / name)
    is_snapshot = name == SNAPSHOT
    if is_snapshot:
        arrays = packing.unpacked(arrays, values.pop("arrays"))
    arrays = {key: array.copy() for key, array in arrays.items()}
    change(arrays, values)
    content[name] = files.to_bytes(arrays, values)
    if is_snapshot:
        content[name] = recording.snapshot_file(Snapshot(arrays, values))
    folder.commit(tmp_path, content)
    assert folder.verify(tmp_path) == {}
    return tmp_path


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def put(values: Any, *path: Any) -> None:
    *way, last, value = path
    for part in way:
        values = values[part]
    values[last] = value


ANSWERS: dict[str, tuple[Callable[[Arrays, Values], Any], str]] = {
    "probability": (lambda a, v: put(v, "functions", 0, 1, 7.0), "a probability of 7.0"),
    "tree probability": (lambda a, v: put(a, "trees.probability", 0, 7.0), "a probability of 7.0"),
    "negative": (lambda a, v: put(v, "functions", 0, 1, -0.5), "a probability of -0.5"),
    "token": (lambda a, v: put(v, "functions", 0, 0, [99]), "a token that is none"),
    "unfinished": (lambda a, v: put(v, "functions", 0, 0, [0]), "lacks 2 operand"),
    "place": (lambda a, v: put(v, "functions", 0, 5, 10_000), "is no place from 0"),
    "tree place": (lambda a, v: put(v, "tree_weighed", 0, -2), "is no place from 0"),
    "draw": (lambda a, v: put(a, "draws.tree", 0, 10_000), "a formula that is not there"),
    "no draws": (lambda a, v: put(a, "draws.tree", a["draws.tree"][:0]), "draws do not fit"),
    "noise": (lambda a, v: put(v, "scale", -1.0), "the noise has no size"),
    "nested": (lambda a, v: put(v, "diagnostics", "deep", nested(900)), "not as it was written"),
    "columns": (lambda a, v: put(v, "inclusion", {"z": 0.5}), "columns that it has"),
    "missing": (lambda a, v: v.pop("verdict"), "verdict"),
    "weights": (lambda a, v: put(a, "logs.0", a["logs.0"] + 1), "sum to 2.7"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_none(run: Path, tmp_path: Path, name: str) -> None:
    change, message = ANSWERS[name]
    changed(run, tmp_path, saving.FILE, change)
    with pytest.raises(ValueError, match=message) as told:
        load(tmp_path)
    assert "\n" not in str(told.value)
    assert str(tmp_path / saving.FILE) in str(told.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[parameters]", '[parameters]\nrun_dir = "/etc"', "no parameter 'run_dir'"),
        ("[parameters]", "[parameters]\nn_jobs = 100", "no parameter 'n_jobs'"),
        ("max_tokens = 5", "max_tokens = -5", "max_tokens"),
        ('operators = ["+", "*"]', 'operators = ["+", "import os"]', "import os"),
        ("seed = 0", "seed = -1", "its seed is -1"),
        ("format = 6", "format = 3", "another version"),
        ('fingerprint = "', 'fingerprint = "00', "its columns are others"),
        ("num_starts = 8", "num_starts = 8\nunknown = 1", "no setting 'unknown'"),
        ("format = 6", "format = ", "can't be read"),
    ],
)
def test_settings_that_are_none(
    run: Path, tmp_path: Path, before: str, after: str, message: str
) -> None:
    content = {name: folder.read(run, name) for name in folder.read_manifest(run)}
    text = content[saving.RUN].decode()
    assert before in text
    content[saving.RUN] = text.replace(before, after, 1).encode()
    folder.commit(tmp_path, content)
    with pytest.raises(ValueError, match=message) as told:
        load(tmp_path)
    assert "\n" not in str(told.value)


SEARCHES: dict[str, tuple[Callable[[Arrays, Values], Any], str]] = {
    "token": (lambda a, v: put(a, "visited.trees", 0, 0, 100), "none of this grammar"),
    "form": (lambda a, v: put(a, "visited.tree_form", 0, 10**6), "out of range"),
    "likeliest": (lambda a, v: put(a, "visited.form_likeliest", 0, -1), "out of range"),
    "number": (lambda a, v: put(a, "visited.tree_log_prior", 0, np.nan), "no numbers"),
    "twice": (lambda a, v: put(a, "visited.trees", 1, a["visited.trees"][0]), "twice|not theirs"),
    "heat": (lambda a, v: put(v, "heat", [0.0, 1.0]), "is not from 1"),
    "random": (lambda a, v: put(v, "random", "state", "-1"), "out of range"),
    "kind": (lambda a, v: put(v, "random", "kind", "MT19937"), "of another kind"),
    "seed": (lambda a, v: put(v, "seed", 5), "another search"),
    "history": (lambda a, v: put(v, "history", 0, "step", 9), "history of step 1"),
    "missing": (lambda a, v: a.pop("matched.0"), "matched.0"),
    "none": (lambda a, v: put(v, "history", 3), "no snapshot"),
    "weights": (lambda a, v: a.pop("network.num_drawn"), "num_drawn"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_snapshot_that_is_none(run: Path, tmp_path: Path, name: str) -> None:
    change, message = SEARCHES[name]

    changed(run, tmp_path, SNAPSHOT, change)
    folder.commit(tmp_path, {}, [saving.FILE])
    with pytest.raises(ValueError, match=message) as told:
        DVISRRegressor.resume(tmp_path)
    assert "\n" not in str(told.value)


def test_a_thousand_changed_answers(run: Path) -> None:
    """Each loads, or is one clear error."""
    rng = random.Random(0)
    begun = saving.read_beginning(run)
    arrays, values = files.from_bytes(folder.read(run, saving.FILE), run / saving.FILE)
    content = files.to_bytes(arrays, values)
    told = []
    for _ in range(1000):
        own, said = files.from_bytes(content, run / saving.FILE)
        _mutate(rng, own, said)
        try:
            model = saving.answered(begun, own, said, run / saving.FILE)
        except ValueError as error:
            told.append(str(error))
        else:
            assert model.functions_["probability"].between(0.0, 1.001).all()
    assert len(told) > 300
    assert not any("\n" in sentence for sentence in told)


def _mutate(rng: random.Random, arrays: Arrays, values: Values) -> None:
    """One array, or one value somewhere, becomes another."""
    odd = [None, -1, 7, 1e300, "x", [], {}, [1], {"number": "nan"}, True, {"number": "x"}]
    if rng.random() < 0.4:
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        kind = rng.randrange(3)
        if kind == 0:
            del arrays[name]
        elif kind == 1:
            arrays[name] = array[: len(array) // 2]
        else:
            arrays[name] = np.full_like(array, rng.choice([-1, 7, 100]))
        return
    at: Any = values
    while True:
        key = rng.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        at[key] = rng.choice(odd)
        return

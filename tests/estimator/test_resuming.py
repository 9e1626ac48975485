"""A fit that was broken off and resumed is the fit that was not, to the last bit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dvisr import DVISRRegressor, load
from dvisr.estimator import recording, saving
from dvisr.fitting import data_network
from dvisr.fitting.fitters import SearchFitter
from dvisr.fitting.progress import Status
from dvisr.runs import folder
from dvisr.types import Dataset
from tests.fitting.problems import LINE, X, searching

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")


class BrokenOff(BaseException):
    """As if the program had been killed there."""


def model(place: Path | None, steps: int | None, **changes: Any) -> DVISRRegressor:
    search = {"extra_steps": 4, "steps_at_once": 2, **changes}
    return DVISRRegressor(
        operators=("+", "*", "sin"), max_tokens=7, max_constants=2, constant_prior="normal:0,10",
        tree_prior="size-balanced", num_steps=steps, random_state=3, run_dir=place,
        settings=searching(**search),
    )  # fmt: skip


def fitted(place: Path | None, steps: int | None, **changes: Any) -> DVISRRegressor:
    return model(place, steps, **changes).fit(X[:, None], LINE)


def broken_off(
    monkeypatch: pytest.MonkeyPatch, place: Path, after: int, steps: int | None, **changes: Any
) -> None:
    """Keeps every step, and ends after so many."""
    monkeypatch.setattr(recording, "EVERY", 0.0)
    keep = recording.Recorder.after_step

    def ending(self: recording.Recorder, snapshot: Any) -> None:
        keep(self, snapshot)
        if snapshot.num_steps == after:
            raise BrokenOff

    with monkeypatch.context() as patch:
        patch.setattr(recording.Recorder, "after_step", ending)
        with pytest.raises(BrokenOff):
            fitted(place, steps, **changes)


def same(one: DVISRRegressor, two: DVISRRegressor) -> None:
    """Seconds aside, all that was found, and all that it was found from."""
    assert one.history_.drop(columns="seconds").equals(two.history_.drop(columns="seconds"))
    assert one.functions_.equals(two.functions_)
    assert one.posterior_.equals(two.posterior_)
    assert one.diagnostics_ == two.diagnostics_
    for name in ("tree", "constants", "noise_factor"):
        ours, theirs = (getattr(m._posterior.draws, name) for m in (one, two))
        assert ours.tobytes() == theirs.tobytes()
    ours, theirs = (_visited_by(m).state() for m in (one, two))
    for name, array in ours.items():
        assert array.tobytes() == theirs[name].tobytes(), name


_VISITED: dict[int, Any] = {}  # trees, by the outcomes, which the models hold on to


@pytest.fixture(autouse=True)
def _visited_trees_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = SearchFitter.fit

    def kept(self: SearchFitter, *args: Any, **named: Any) -> Any:
        outcome = fit(self, *args, **named)
        _VISITED[id(outcome)] = None if self.search is None else self.search.visited
        return outcome

    _VISITED.clear()
    monkeypatch.setattr(SearchFitter, "fit", kept)


def _visited_by(model: DVISRRegressor) -> Any:
    return _VISITED[id(model._outcome)]


@pytest.mark.parametrize("network", ["plain", "pretrained"])
@pytest.mark.parametrize("after", [1, 3])
def test_broken_off_and_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, network: str, after: int
) -> None:
    whole = fitted(None, 4, network=network)
    broken_off(monkeypatch, tmp_path, after, 4, network=network)
    same(DVISRRegressor.resume(tmp_path), whole)
    assert load(tmp_path).functions_["expression"].equals(whole.functions_["expression"])
    assert folder.verify(tmp_path) == {}


def test_broken_off_where_the_search_decides_how_long_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the midst of the first steps, between two lots, and in the midst of the next."""
    changes = {"num_steps": 2}
    monkeypatch.setattr(SearchFitter, "_is_settled", lambda *_: False)
    whole = fitted(None, None, **changes)
    assert whole.n_iter_ == 6
    for after in (1, 2, 3, 4):
        place = tmp_path / str(after)
        broken_off(monkeypatch, place, after, None, **changes)
        same(DVISRRegressor.resume(place), whole)


def test_broken_off_before_it_could_have_settled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changes = {"num_steps": 3, "fewest_steps": 2, "network": "pretrained", "still": -1.0}
    whole = fitted(None, None, **changes)
    assert whole.n_iter_ >= 3
    for after in (1, 2):
        place = tmp_path / str(after)
        broken_off(monkeypatch, place, after, None, **changes)
        same(DVISRRegressor.resume(place), whole)


@pytest.mark.parametrize("network", ["plain", "pretrained"])
def test_a_finished_run_gets_more_steps(tmp_path: Path, network: str) -> None:
    fitted(tmp_path, 2, network=network)
    same(DVISRRegressor.resume(tmp_path, num_steps=4), fitted(None, 4, network=network))
    assert load(tmp_path).num_steps == 4
    with pytest.raises(ValueError, match="has made 4 steps already"):
        DVISRRegressor.resume(tmp_path, num_steps=3)


def test_a_finished_run_has_its_answer(tmp_path: Path) -> None:
    whole = fitted(tmp_path, 2)
    before = (tmp_path / saving.FILE).read_bytes()
    again = DVISRRegressor.resume(tmp_path)
    assert again.functions_["probability"].equals(whole.functions_["probability"])
    assert (tmp_path / saving.FILE).read_bytes() == before


def test_before_the_first_snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ending(*_: Any, **__: Any) -> None:
        raise BrokenOff

    with monkeypatch.context() as patch:
        patch.setattr(SearchFitter, "fit", ending)
        with pytest.raises(BrokenOff):
            fitted(tmp_path, 2)
    with pytest.raises(ValueError, match="go on with dvisr resume"):
        load(tmp_path)
    same(DVISRRegressor.resume(tmp_path), fitted(None, 2))


def test_a_snapshot_that_is_damaged_leaves_the_one_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken_off(monkeypatch, tmp_path, 3, 4)
    kept = recording.snapshots(tmp_path)
    assert kept == ["search-000003.safetensors", "search-000002.safetensors"]
    path = tmp_path / kept[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert list(folder.verify(tmp_path)) == [kept[0]]
    with pytest.warns(UserWarning, match=f"going on from step 2: .*{kept[0]} is not as it was"):
        again = DVISRRegressor.resume(tmp_path)
    same(again, fitted(None, 4))
    assert f"{kept[0]} is not as it was written" in (tmp_path / "log.txt").read_text()


def test_what_time_cut_short_is_made_again(tmp_path: Path) -> None:
    """A step that was not made in full is no step of a search that was not interrupted."""
    made = model(tmp_path, 4)
    stop = {"now": False}

    def late(status: Status) -> None:
        stop["now"] = status.num_steps >= 2

    run = SearchFitter.fit

    def stopped(self: SearchFitter, *args: Any, **named: Any) -> Any:
        calls = iter(range(10**9))
        named["should_stop"] = lambda: stop["now"] and next(calls) > 3  # in the midst of a step
        return run(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchFitter, "fit", stopped)
        data = Dataset.create(X[:, None], LINE)
        made.fit_table(data, late, has_names=False)
    assert made.interrupted_
    assert made.n_iter_ == 3
    assert recording.snapshots(tmp_path) == ["search-000002.safetensors"]
    again = DVISRRegressor.resume(tmp_path)
    assert not again.interrupted_
    same(again, fitted(None, 4))


def test_what_went_on_from_another_fit_is_not_resumed(tmp_path: Path) -> None:
    made = model(tmp_path, 1)
    made.warm_start = True
    made.fit(X[:, None], LINE).fit(X[:, None], LINE)
    assert made.n_iter_ == 2
    assert recording.snapshots(tmp_path) == []
    with pytest.raises(ValueError, match="can't be resumed"):
        DVISRRegressor.resume(tmp_path)
    assert load(tmp_path).n_iter_ == 2


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_a_run_of_which_all_snapshots_are_damaged_is_not_begun_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken_off(monkeypatch, tmp_path, 1, 3)
    (only,) = recording.snapshots(tmp_path)
    flip(tmp_path / only)
    before = (tmp_path / folder.MANIFEST).read_bytes()
    with pytest.raises(ValueError, match=f"{only} is not as it was written"):
        DVISRRegressor.resume(tmp_path)
    assert (tmp_path / folder.MANIFEST).read_bytes() == before


def test_a_fit_in_the_place_of_another_says_so_and_takes_its_report(tmp_path: Path) -> None:
    fitted(tmp_path, 1)
    report = tmp_path / folder.REPORT
    report.write_text("of the first fit")
    with pytest.warns(UserWarning, match="the fit that was in .* is replaced"):
        again = fitted(tmp_path, 2)
    assert not report.exists()
    assert load(tmp_path).functions_.equals(again.functions_)


def test_a_run_that_was_broken_off_is_not_replaced_without_a_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken_off(monkeypatch, tmp_path, 1, 2)
    with pytest.warns(UserWarning, match="the run that was broken off and that was in .* is repl"):
        fitted(tmp_path, 1)
    assert load(tmp_path).n_iter_ == 1


def test_the_files_of_a_run(tmp_path: Path) -> None:
    made = fitted(tmp_path, 2)
    assert sorted(folder.read_manifest(tmp_path)) == [
        "data.safetensors", "history.csv", "log.txt", "model.safetensors", "network.safetensors",
        "run.toml", "search-000002.safetensors",
    ]  # fmt: skip
    described = tomllib.loads((tmp_path / "run.toml").read_text())
    assert described["seed"] == 3
    assert described["columns"] == ["x0"]
    assert described["parameters"]["operators"] == ["+", "*", "sin"]
    assert described["versions"]["numpy"] == np.__version__
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 3
    assert "finished after step 2" in (tmp_path / "log.txt").read_text()
    assert made.run_dir == tmp_path


def test_the_network_must_be_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken_off(monkeypatch, tmp_path, 1, 2, network="pretrained")
    monkeypatch.setattr(data_network, "digest_of", lambda _: "00" * 32)
    with pytest.raises(ValueError, match="weights are not those that the run began with"):
        DVISRRegressor.resume(tmp_path)


def test_a_training_that_was_broken_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The published method: between two of its chunks."""

    def made(place: Path | None) -> DVISRRegressor:
        return DVISRRegressor(
            operators=("+", "*"), max_tokens=3, noise=1.0, recipe="paper", num_steps=7,
            num_samples=20, random_state=1, run_dir=place, constant_prior="normal:0,10",
            tree_prior="uniform",
        ).fit(X[:, None], LINE)  # fmt: skip

    whole = made(None)
    monkeypatch.setattr(recording, "EVERY", 0.0)
    keep = recording.Recorder.after_step

    def ending(self: recording.Recorder, snapshot: Any) -> None:
        keep(self, snapshot)
        raise BrokenOff

    with monkeypatch.context() as patch:
        patch.setattr(recording.Recorder, "after_step", ending)
        with pytest.raises(BrokenOff):
            made(tmp_path)
    assert recording.snapshots(tmp_path) == ["search-000001.safetensors"]
    again = DVISRRegressor.resume(tmp_path)
    assert again.history_.equals(whole.history_)
    assert again.functions_.equals(whole.functions_)
    assert again.diagnostics_ == whole.diagnostics_

"""A fit kept on disk while it is made, so that little is lost when it is broken off."""

from __future__ import annotations

import datetime
import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

import dvisr
from dvisr.estimator import saving
from dvisr.fitting.fitters import AbstractFitter, SearchFitter
from dvisr.fitting.keeping import AbstractKeeper
from dvisr.fitting.snapshots import Snapshot
from dvisr.problem import Problem
from dvisr.runs import BrokenFile, files, folder, packing

if TYPE_CHECKING:
    from dvisr.estimator.table import TableRegressor

LOG = "log.txt"
NETWORK = "network.safetensors"
EVERY = 20.0  # seconds between two snapshots
_KEPT = 2  # snapshots
_SNAPSHOT = re.compile(r"search-[0-9]{6}\.safetensors")


class Recorder(AbstractKeeper):
    """Writes one run; see `recording`. That the search can't be kept is no reason to end it: it is
    told in the log, and once the answer is there, by the error of saving that.

    Parameters
    ----------
    place : Path
    log : str
        Of the run so far.
    kept : Snapshot, optional
        Where the search goes on from.
    faults : sequence of str, optional
        For the log: what is wrong with snapshots that came after it.
    """

    def __init__(
        self, place: Path, log: str = "", kept: Snapshot | None = None, faults: Sequence[str] = ()
    ) -> None:
        self._place, self._log, self._kept = place, log, kept
        for sentence in faults:
            self._note(sentence)
        self._latest: Snapshot | None = None
        self._written = time.monotonic()

    def kept(self) -> Snapshot | None:
        return self._kept

    def begin(
        self, model: TableRegressor, problem: Problem, seed: int, *, can_be_resumed: bool
    ) -> None:
        """A new run, in the place of what the folder had of an old one, its report included."""
        before = folder.read_manifest(self._place) if folder.is_run(self._place) else {}
        if before and can_be_resumed:  # else it goes on from that one
            what = "fit" if saving.FILE in before else "run that was broken off and"
            warnings.warn(
                f"the {what} that was in {self._place} is replaced", UserWarning, stacklevel=4
            )
            (self._place / folder.REPORT).unlink(missing_ok=True)
        self._note(f"begun with dvisr {dvisr.__version__}, seed {seed}")
        content = saving.beginning(model, problem, seed, can_be_resumed=can_be_resumed)
        self._commit(content, [name for name in before if name not in content])

    def resume(self, model: TableRegressor, problem: Problem, seed: int) -> None:
        """The same run, with what may be asked for anew."""
        made = 0 if self._kept is None else self._kept.num_steps
        self._note(f"resumed with dvisr {dvisr.__version__} after step {made}")
        self._commit(saving.beginning(model, problem, seed, can_be_resumed=True))

    def after_step(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if time.monotonic() - self._written >= EVERY:
            self._keep_latest()

    def after_search(self) -> None:
        self._keep_latest()

    def finish(self, model: TableRegressor, fitter: AbstractFitter) -> None:
        how = "interrupted" if model.interrupted_ else "finished"
        self._note(
            f"{how} after step {model.n_iter_}: log evidence {model.log_evidence_:.4f}, verdict "
            f"{model.verdict_.word}"
        )
        content = saving.answer_files(model) | _network_file(fitter)
        self._commit(content, snapshots(self._place)[1:])  # with the answer there, one will do

    def _keep_latest(self) -> None:
        snapshot, self._latest = self._latest, None
        if snapshot is None:
            return
        history = snapshot.values["history"]
        step = snapshot.num_steps
        told = {name: _short(value) for name, value in history[-1].items() if name != "step"}
        self._note(f"step {step}: {', '.join(f'{name} {value}' for name, value in told.items())}")
        name = f"search-{snapshot.num_steps:06}.safetensors"
        content = {
            name: snapshot_file(snapshot),
            saving.HISTORY: pd.DataFrame(history).to_csv(index=False).encode(),
        }
        older = [other for other in snapshots(self._place) if other != name]
        try:
            self._commit(content, older[_KEPT - 1 :])
        except OSError as error:
            self._note(f"step {step} could not be kept: {error.strerror or error}")
        self._written = time.monotonic()

    def _note(self, sentence: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._log += f"{now} {sentence}\n"

    def _commit(self, content: dict[str, bytes], dropped: list[str] | None = None) -> None:
        own = {**content, LOG: self._log.encode()}
        folder.commit(self._place, own, [name for name in dropped or [] if name not in own])


def _network_file(fitter: AbstractFitter) -> dict[str, bytes]:
    """What the network of a search has learnt on these data, and from what it began."""
    search = fitter.search if isinstance(fitter, SearchFitter) else None
    if search is None or search.network is None or not search.network.is_ready():
        return {}
    network = search.network
    about = {"network": network.name, "from": search.settings.search.network}
    return {NETWORK: files.to_bytes(network.learnt(), about)}


def _short(value: object) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def snapshots(place: Path) -> list[str]:
    """The names of a run's snapshots, the latest first."""
    found = [name for name in folder.read_manifest(place) if _SNAPSHOT.fullmatch(name)]
    return sorted(found, reverse=True)


def snapshot_file(snapshot: Snapshot) -> bytes:
    arrays, kinds = packing.packed(snapshot.arrays)
    return files.to_bytes(arrays, {**snapshot.values, "arrays": kinds})


def latest_snapshot(place: Path) -> tuple[Snapshot | None, list[str]]:
    """The latest that is as it was written, None where none was kept, and a sentence for each later
    one that is not. A `BrokenFile` where all are damaged."""
    faults: list[str] = []
    for name in snapshots(place):
        try:
            return _snapshot(place, name), faults
        except BrokenFile as error:
            faults.append(str(error))
    if faults:
        raise BrokenFile(faults[0])
    return None, []


def _snapshot(place: Path, name: str) -> Snapshot:
    arrays, values = files.from_bytes(folder.read(place, name), place / name)
    history = values.get("history")
    if not history or not isinstance(history, list):
        raise BrokenFile(f"{place / name} is no snapshot of a search: fit again")
    try:
        arrays = packing.unpacked(arrays, values.pop("arrays", None))
    except ValueError as error:
        raise BrokenFile(f"{place / name} is no snapshot ({error}): fit again") from None
    return Snapshot(arrays, values)
